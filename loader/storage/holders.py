"""Is an LMDB environment open in some process?

liblmdb keeps a shared fcntl lock on the first byte of lock.mdb for as long as an environment is open
(mdb.c, mdb_env_share_locks), so asking the kernel for a conflicting lock names a holder. Nothing is locked by asking.
A lock.mdb may have been removed, or be another one than slapd has open, while data.mdb is in use all the same: when
nobody holds the lock, /proc is asked who has the data file.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
from pathlib import Path

from loader import naming
from loader.errors import LockUnheeded, NotPermitted, TargetInUse
from loader.storage import held, mapped
from loader.storage.files import owner_name

_log = logging.getLogger(__name__)
DATA, LOCK = "data.mdb", "lock.mdb"
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid


def holder(directory: Path) -> int | None:
    """Process ID of one that has the environment open (0: one in another PID namespace); None when nobody has, as far
    as can be seen."""
    pid = locker(directory)
    return _user(directory)[0] if pid is None else pid


def locker(directory: Path) -> int | None:
    """The same by lock.mdb alone."""
    lock = directory / LOCK
    try:
        with held.opened(directory) as place:
            descriptor = place.open(lock.name)  # asking needs no more, on a read-only mount neither
    except FileNotFoundError:
        return None
    except PermissionError:
        raise NotPermitted(action="ask for locks on", path=lock, owner=owner_name(lock)) from None
    try:
        return lock_holder(descriptor, 0)
    finally:
        os.close(descriptor)


def lock_holder(descriptor: int, byte: int) -> int | None:
    """Process ID of one that has a lock on that byte of an open file (0: in another PID namespace); None when nobody
    has."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def _user(directory: Path) -> tuple[int | None, str | None]:
    """A process that has the data file, and which processes could not be looked at."""
    users = mapped.users(directory / DATA, directory / LOCK)
    return next((user.pid for user in users.found), None), users.unseen


def require_unused(directory: Path) -> None:
    """Raise TargetInUse while a process has the environment open. Warns when a process that could not be looked at may
    have it open, and there is a database to lose."""
    pid, unseen = locker(directory), None
    if pid is None:
        pid, unseen = _user(directory)
    if pid is not None:
        raise TargetInUse(path=directory, process=_told(pid))
    if unseen is not None and (directory / DATA).exists():
        _warn(directory, unseen)


def require_heeded(directory: Path) -> None:
    """Raise LockUnheeded while a process may write to the data file that has another lock.mdb open than the one that is
    there, or none: a reader slot taken now would protect nothing."""
    for user in mapped.users(directory / DATA, directory / LOCK).found:
        if user.writes and not user.also:
            reason = (
                f"it is open in another process{_told(user.pid)} that does not use its lock.mdb"
            )
            raise LockUnheeded(path=directory / DATA, reason=reason)


_warned: set[tuple[str, str]] = set()


def _warn(directory: Path, unseen: str) -> None:
    place = naming.with_operator_paths(str(directory))
    if (place, unseen) not in _warned:
        _warned.add((place, unseen))
        text = "%s: nobody has it open by its lock.mdb; %s could not be looked at"
        _log.warning(text, place, unseen)


def _told(pid: int) -> str:
    return f" ({mapped.command_name(pid) or 'a process'}, process {pid})" if pid else ""
