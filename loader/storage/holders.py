"""Is an LMDB environment open in some process?

liblmdb keeps a shared fcntl lock on the first byte of lock.mdb for as long as an environment is open
(mdb.c, mdb_env_share_locks), so asking the kernel for a conflicting lock names a holder. Nothing is locked by asking.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from loader.errors import NotPermitted, TargetInUse
from loader.storage import held
from loader.storage.files import owner_name

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid


def holder(directory: Path) -> int | None:
    """Process ID of one that has the environment open (0: one in another PID namespace); None when nobody has."""
    lock = directory / "lock.mdb"
    try:
        with held.opened(directory) as place:
            descriptor = place.open(lock.name, os.O_RDWR)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise NotPermitted(action="ask for locks on", path=lock, owner=owner_name(lock)) from None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def require_unused(directory: Path) -> None:
    """Raise TargetInUse while a process has the environment open."""
    pid = holder(directory)
    if pid is not None:
        raise TargetInUse(path=directory, process=f" ({_name(pid)}, process {pid})" if pid else "")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process"
