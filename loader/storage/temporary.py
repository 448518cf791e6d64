"""Temporary directories, also those of runs that were killed: copies of configurations hold passwords.

Each is locked as long as its process lives, and the kernel drops the lock with the process: the next ditseed removes
what nobody holds any more.
"""

from __future__ import annotations

import fcntl
import functools
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loader import child
from loader.errors import DirectoryUnsafe
from loader.storage import files, held

PREFIX = "ditseed-held-"  # only what bears it has a lock
_ALL_MAPPED = ["0", "0", str(2**32 - 1)]  # /proc/self/uid_map outside of user namespaces
_UNMAPPED = 65534  # fs.overflowuid


@contextmanager
def directory(kind: str, place: str | Path | None = None) -> Iterator[Path]:
    """A private one below `place` (default: $TMPDIR or /tmp), which may be given to another account, whole.

    Raises DirectoryUnsafe, OSError.
    """
    top = lasting(Path(place or tempfile.gettempdir()))
    sweep(top)
    with child.deferred() as undoing:
        made, lock = _locked(kind, top)
        undoing.append(lambda: files.remove_tree(made))
    try:
        # What is around it stays ours: so a later run knows it for one of ours, whomever the inside was given to.
        inside = made / "inside"
        inside.mkdir(mode=0o700)
        yield inside
    finally:
        files.remove_tree(made)
        os.close(lock)


def lasting(place: Path) -> Path:
    """The real path of a directory in which no other account can rename or replace what ditseed creates.

    Temporary directories are reached by name, since slapd's tools run as another account and cannot use descriptors of
    root's. So for root, nobody else may rename a directory on the way either. Raises DirectoryUnsafe, OSError.
    """
    is_root = os.geteuid() == 0
    trusted = {0, os.geteuid(), *_unmapped()}
    # Ordinary users often have a group of their own, which may write to their directories.
    others = stat.S_IWOTH | (stat.S_IWGRP if is_root else 0)
    with held.opened(place) as opened:
        real = Path(os.readlink(opened.path))
        # Not strict: a link that takes the place of a directory meanwhile adds a step, with its own owner.
        steps = [*zip((*reversed(real.parents), real), held.on_the_way(real), strict=False)]
        for directory, status in steps if is_root else steps[-1:]:
            at = "" if directory == real else f"is below {directory}, which "
            if status.st_uid not in trusted:
                reason = f"{at}belongs to another account (uid {status.st_uid})"
            elif status.st_mode & others and not status.st_mode & stat.S_ISVTX:
                reason = f"{at}can be written to by others (mode {stat.S_IMODE(status.st_mode):04o})"
            else:
                continue
            raise DirectoryUnsafe(path=opened.name, reason=reason)
    return real


def _unmapped() -> set[int]:
    """In a user namespace, such as that of a rootless container, the host's root appears as this account."""
    try:
        mapped = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        return set()
    return set() if mapped == _ALL_MAPPED else {_UNMAPPED}


def _locked(kind: str, top: Path) -> tuple[Path, int]:
    """It has the name by which others know it only once it is locked."""
    new = Path(tempfile.mkdtemp(prefix=".ditseed-", dir=top))
    new.chmod(0o711)
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with suppress(OSError):  # where nothing can be locked, nothing is swept
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    made = top / f"{PREFIX}{kind}-{new.name.removeprefix('.ditseed-')}"
    new.rename(made)
    return made, lock


@functools.cache
def sweep(top: Path | None = None) -> None:
    """Remove what killed runs left there. Once in a process."""
    place = top or Path(os.environ.get("TMPDIR") or "/tmp")  # `gettempdir` tries to write
    for left in place.glob(f"{PREFIX}*"):
        with suppress(OSError, DirectoryUnsafe), held.private(left, make=False) as found:
            fcntl.flock(found.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files.remove_tree(left)
