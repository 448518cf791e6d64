"""One ditseed at a time on a run directory or a backup repository."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.errors import Locked, NotPermitted
from loader.storage import files, held


def locking_process(path: Path) -> int | None:
    """Process ID of the ditseed that holds `path`, None when nobody does. Nothing is locked by asking (/proc/locks)."""
    try:
        status = path.stat()
        pid = files.read(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    device, inode = status.st_dev, f":{status.st_ino}"
    file = f"{os.major(device):02x}:{os.minor(device):02x}{inode}"
    holders = []
    for line in Path("/proc/locks").read_text().splitlines():
        # NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE ... The device of some file systems is another there.
        # The process ID is that of our own namespace, and the file may have that of a container.
        words = line.split()
        if words[1:4:2] not in (["FLOCK", "WRITE"], ["FLOCK", "READ"]):
            continue
        if words[5] == file or (words[4] == pid and words[5].endswith(inode)):
            holders.append(words[4])
    return int(pid if pid in holders else holders[0]) if holders else None


@contextmanager
def exclusive(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold `path` (a lock file, made when absent). The kernel drops the lock with the process. Raises Locked, unless it
    is to `wait`."""
    yield from _held(path, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold it as others may at the same time; waits for whoever has it `exclusive`."""
    yield from _held(path, fcntl.LOCK_SH)


def _held(path: Path, how: int) -> Iterator[None]:
    try:
        with held.opened(path.parent) as place:
            descriptor = place.found_or_made(path.name)
    except PermissionError as error:
        raise NotPermitted(action="lock", path=path, owner="root, as a rule") from error
    try:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Locked(path=path, pid=holder) from None
        with held.named(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
