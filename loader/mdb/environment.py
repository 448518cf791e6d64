"""LMDB environments, opened through py-lmdb: only by this module, and only in a child process (isolated.py).

liblmdb maps the file, so a truncated file kills the process. An environment must not be opened twice in one process:
fcntl locks belong to the process, and closing either environment drops the locks of both.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import lmdb

from loader import plain
from loader.errors import (
    FULL,
    LoaderError,
    LockUnused,
    MapFull,
    MdbDamaged,
    NoSpace,
    NotLmdb,
    NotPermitted,
    ReadersFull,
    ReadOnly,
    SystemFailed,
    TargetInUse,
    UsageProblem,
)
from loader.mdb import isolated, meta
from loader.storage import files, held
from loader.storage.files import Owner

LOCK = "lock.mdb"
ID = struct.Struct("=Q")  # an entry ID, as key and as value
MANY = 512  # limit for named tables; slapd allows 128 or 256
_LAG = 1.0  # seconds; a writer updates lock.mdb shortly after the meta page

LOCK_UNUSED = "a process that does not use its lock.mdb wrote to it while ditseed read it"

Environment = Any  # lmdb.Environment, lmdb.Transaction and the handle of a table; py-lmdb before 3 has no types
Transaction = Any
Handle = Any

_open: set[tuple[int, int]] = set()


@contextmanager
def opened(env: Path, writable: bool = False) -> Iterator[Environment]:
    """Opens an environment directory, even under a running slapd; or a private copy (a file), without a lock file.

    The file gets mapped, so this works only in a child process. Raises NotLmdb, MdbDamaged, NotPermitted, MapFull, and
    UsageProblem if the environment is already open in this process."""
    if not isolated.is_inside():
        raise RuntimeError("only a child process may map a file, because truncation of the file kills it")
    facts = meta.read_meta(env)
    path = meta.data_file(env)
    status = path.stat()
    identity = (status.st_dev, status.st_ino)
    if identity in _open:
        raise UsageProblem(reason=f"{path} is already open in this process")
    with explained(path, facts):
        with linked(env, writable) if env.is_dir() else nullcontext(env) as opened_path:
            environment = lmdb.open(
                str(opened_path),
                subdir=env.is_dir(),
                lock=env.is_dir(),
                readonly=not writable,
                create=False,
                map_size=max(facts.map_size, facts.used),
                max_dbs=MANY,
                readahead=False,
            )
        plain.register(opened_path, env)
        _open.add(identity)
        try:
            with isolated.afterwards(lambda: _require_lock_used(environment, path), (lmdb.Error, LoaderError)):
                yield environment
        finally:
            environment.close()
            _open.discard(identity)
            plain.forget(opened_path)


def _require_lock_used(environment: Environment, path: Path) -> None:
    """Raises LockUnused if a writer has not used lock.mdb. A new transaction takes its ID from lock.mdb, so the ID
    then lags behind the meta page of the data file."""
    written = meta.read_meta(path).txnid
    until = time.monotonic() + _LAG
    while True:
        with environment.begin() as transaction:
            if written <= int(transaction.id()):
                return
        if time.monotonic() > until:
            raise LockUnused(path=path, reason=LOCK_UNUSED)
        time.sleep(0.001)


@contextmanager
def linked(directory: Path, writable: bool) -> Iterator[Path]:
    """Yields a private directory with links to the checked data.mdb and lock.mdb of `directory`, for liblmdb to open.

    liblmdb opens both files by name, creates missing ones, and empties a lock.mdb that nobody has locked, so it must
    not follow unchecked names. After opening it no longer needs the directory. Raises FileUnsafe, NotPermitted."""
    with ExitStack() as stack:
        open_dir = stack.enter_context(held.opened(directory))
        private = stack.enter_context(files.temporary_directory("env"))
        plain.register(private, open_dir.name)
        stack.callback(plain.forget, private)
        data = stack.enter_context(open_dir.pinned(meta.DATA, writable))
        (private / meta.DATA).symlink_to(data)
        _prepare_lock(open_dir, data)
        if open_dir.exists(LOCK):
            lock = stack.enter_context(open_dir.pinned(LOCK, written=True))
            (private / LOCK).symlink_to(lock)
        yield private


@contextmanager
def exclusive(directory: Path) -> Iterator[Path]:
    """Like `linked`, for changing data.mdb without liblmdb: locks the environment exclusively, so that other processes
    wait to open it, and updates lock.mdb at the end. Raises TargetInUse if it is open, and what `linked` raises."""
    with linked(directory, writable=True) as links, ExitStack() as stack:
        if (links / LOCK).exists():
            lock = os.open(links / LOCK, os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, lock)
            try:  # the lock that liblmdb gives the first process to open an environment (mdb_env_excl_lock)
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except (BlockingIOError, PermissionError):
                raise TargetInUse(path=directory, process="") from None
        yield links
        # All later processes trust the transaction ID that the first process to open the environment writes into
        # lock.mdb: this process, which the exclusive lock does not hinder (fcntl locks bind only other processes).
        facts = meta.read_meta(links)
        size = max(facts.map_size, facts.used)
        with explained(links, facts):
            lmdb.open(str(links), create=False, map_size=size, max_dbs=MANY, readahead=False).close()


def _prepare_lock(directory: held.Directory, data: Path) -> None:
    """Creates a missing lock.mdb that data.mdb's owner owns: slapd could not open one that root's liblmdb creates."""
    try:
        descriptor = directory.create(LOCK)
    except FileExistsError:
        return
    except PermissionError:
        owner = files.owner_name(data)
        raise NotPermitted(action="make lock.mdb in", path=directory.name, owner=owner) from None
    except OSError:
        return  # read-only file system: liblmdb works without lock.mdb
    with held.closing_descriptor(descriptor):
        Owner.of(data).apply_to(descriptor)


@contextmanager
def explained(path: Path, facts: meta.MetaPage | None = None) -> Iterator[None]:
    """Translates py-lmdb's errors in the body into LoaderErrors."""
    try:
        yield
    except lmdb.MapFullError as error:
        raise MapFull(path=path, map_size=facts.map_size if facts else "") from error
    except lmdb.ReadersFullError as error:
        raise ReadersFull(path=path) from error
    except (lmdb.InvalidError, lmdb.VersionMismatchError) as error:
        reason = str(error)
        if facts is not None and facts.format != 1:
            reason = f"data format {facts.format} (LMDB 1.0, OpenLDAP 2.7) needs the Python package lmdb 3 or later"
        raise NotLmdb(path=path, reason=reason) from error
    except lmdb.Error as error:
        reason = str(error)
        if "Read-only" in reason:
            raise ReadOnly(path=path) from error
        if "Permission denied" in reason:
            raise NotPermitted(action="open", path=path, owner=files.owner_name(path)) from error
        if "No space left" in reason:
            raise NoSpace(path=path, lack=FULL) from error
        if "Input/output error" in reason:
            raise SystemFailed(path=path, reason="Input/output error") from error
        raise MdbDamaged(path=path, reason=f"LMDB reports: {reason}") from error


def table(environment: Environment, name: str) -> Handle | None:
    """Opens a named table with the flags stored in the file. Returns None if there is no such table."""
    try:
        return environment.open_db(name.encode(), create=False)
    except lmdb.NotFoundError:
        return None


def require_table(environment: Environment, name: str) -> Handle:
    """Opens a table that every database of slapd has. Raises NotLmdb if it is missing."""
    handle = table(environment, name)
    if handle is None:
        raise NotLmdb(path=environment.path(), reason=f"it has no table {name}")
    return handle
