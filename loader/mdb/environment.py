"""Opens LMDB environments through py-lmdb, in child processes only (isolated.py). No other module uses py-lmdb.

liblmdb maps the file, so a truncated file kills the process. A process must not open an environment twice: fcntl locks
belong to the process, so closing one of the two environments would drop the locks of both."""

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
ID = struct.Struct("=Q")  # an entry ID, as a key and as a value in a table
MANY = 512  # maximum number of named tables in an environment; slapd allows 128 or 256
_LAG = 1.0  # maximum seconds from a writer's write of a meta page to its update of lock.mdb

LOCK_UNUSED = "a process that does not use its lock.mdb wrote to it while ditseed read it"

Environment = Any  # lmdb.Environment: py-lmdb before version 3 has no types
Transaction = Any  # lmdb.Transaction
Handle = Any  # a table, as lmdb.Environment.open_db returns it

_open_inodes: set[tuple[int, int]] = set()


@contextmanager
def opened(env: Path, writable: bool = False) -> Iterator[Environment]:
    """Opens an environment directory, which slapd may be using; or, without a lock, a data file that no other process
    uses. Raises RuntimeError outside of a child process; UsageProblem if this process has the environment open already;
    NotLmdb, MdbDamaged, NotPermitted, MapFull."""
    if not isolated.is_inside():
        raise RuntimeError("only a child process may map a file, because truncation of the file kills it")
    facts = meta.read_meta(env)
    path = meta.data_file(env)
    status = path.stat()
    identity = (status.st_dev, status.st_ino)
    if identity in _open_inodes:
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
        _open_inodes.add(identity)
        try:
            with isolated.afterwards(lambda: _require_lock_used(environment, path), (lmdb.Error, LoaderError)):
                yield environment
        finally:
            environment.close()
            _open_inodes.discard(identity)
            plain.forget(opened_path)


def _require_lock_used(environment: Environment, path: Path) -> None:
    """Raises LockUnused if a writer has ignored lock.mdb: a new transaction takes its ID from lock.mdb, and this ID is
    then lower than the transaction ID in the data file's meta page."""
    txnid = meta.read_meta(path).txnid
    until = time.monotonic() + _LAG
    while True:
        with environment.begin() as transaction:
            if txnid <= int(transaction.id()):
                return
        if time.monotonic() > until:
            raise LockUnused(path=path, reason=LOCK_UNUSED)
        time.sleep(0.001)


@contextmanager
def linked(directory: Path, writable: bool) -> Iterator[Path]:
    """Yields a private directory with links to the checked data.mdb and lock.mdb of `directory`. liblmdb opens the
    files through these links, because it must not follow unchecked names: it creates missing files, and empties a
    lock.mdb that no process has locked. An open environment needs no links. Raises FileUnsafe, NotPermitted."""
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
    """Like `linked`, for a body that changes data.mdb without liblmdb. Locks the environment exclusively, so that other
    processes wait when they open it, and updates lock.mdb at the end. Raises TargetInUse if the environment is open."""
    with linked(directory, writable=True) as links, ExitStack() as stack:
        if (links / LOCK).exists():
            lock = os.open(links / LOCK, os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, lock)
            try:  # the lock that liblmdb gives the first process to open an environment (mdb_env_excl_lock)
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except (BlockingIOError, PermissionError):
                raise TargetInUse(path=directory, process="") from None
        yield links
        # The first process that opens the environment writes the newest transaction ID into lock.mdb, and later
        # processes trust this ID. So this process opens the environment now. Its own fcntl lock does not block it.
        facts = meta.read_meta(links)
        size = max(facts.map_size, facts.used)
        with explained(links, facts):
            lmdb.open(str(links), create=False, map_size=size, max_dbs=MANY, readahead=False).close()


def _prepare_lock(directory: held.Directory, data: Path) -> None:
    """Creates a missing lock.mdb with the owner of data.mdb, because slapd could not open a lock.mdb owned by root."""
    try:
        descriptor = directory.create(LOCK)
    except FileExistsError:
        return
    except PermissionError:
        owner = files.owner_name(data)
        raise NotPermitted(action="make lock.mdb in", path=directory.name, owner=owner) from None
    except OSError:
        return  # on a read-only file system, liblmdb works without lock.mdb
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
