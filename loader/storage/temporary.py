"""Temporary directories, and removal of those of killed runs: copies of configurations contain passwords.

Each is locked while its process lives, and the kernel drops the lock with the process. The next ditseed removes
directories that are not locked.
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

PREFIX = "ditseed-held-"  # only directories with this prefix are locked
_ALL_MAPPED = ["0", "0", str(2**32 - 1)]  # content of /proc/self/uid_map outside of user namespaces
_UNMAPPED = 65534  # fs.overflowuid


@contextmanager
def directory(kind: str, place: str | Path | None = None) -> Iterator[Path]:
    """Creates a private directory in `place` (default: $TMPDIR or /tmp), which may be given to another account.

    Raises DirectoryUnsafe, OSError.
    """
    top = lasting(Path(place or tempfile.gettempdir()))
    sweep(top)
    made: Path | None = None
    try:  # around the creation, too: a signal may arrive as soon as signals are not deferred any more
        with child.deferred():
            new = Path(tempfile.mkdtemp(prefix=".ditseed-", dir=top))
            new.chmod(0o711)
            lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):  # where locking fails, `sweep` removes nothing
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Only once it is locked, it gets a name that `sweep` recognizes.
            made = top / f"{PREFIX}{kind}-{new.name.removeprefix('.ditseed-')}"
            new.rename(made)
        # The outer directory stays ours, so that a later run recognizes it even if `inside` belongs to another account.
        inside = made / "inside"
        inside.mkdir(mode=0o700)
        yield inside
    finally:
        if made is not None:
            files.remove_tree(made)
            os.close(lock)


def lasting(place: Path) -> Path:
    """The real path of a directory in which no other account can rename or replace what ditseed creates.

    Temporary directories are reached by name, since slapd's tools run as another account and cannot use descriptors of
    root's. So for root, nobody else may rename a directory on the way either. Raises DirectoryUnsafe, OSError.
    """
    is_root = os.geteuid() == 0
    trusted = {0, os.geteuid()}
    with suppress(OSError):
        if Path("/proc/self/uid_map").read_text().split() != _ALL_MAPPED:
            trusted.add(_UNMAPPED)  # the host's root in a user namespace, as in a rootless container
    # Ordinary users often have a group of their own, which may write to their directories.
    others = stat.S_IWOTH | (stat.S_IWGRP if is_root else 0)
    with held.opened(place) as opened:
        real = Path(os.readlink(opened.path))
        # Not strict: a link that replaces a directory meanwhile adds a step, with its own owner.
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


@functools.cache
def sweep(top: Path | None = None) -> None:
    """Removes what killed runs left in `top` (default: $TMPDIR or /tmp), once in a process."""
    place = top or Path(os.environ.get("TMPDIR") or "/tmp")  # `gettempdir` would try to write
    for left in place.glob(f"{PREFIX}*"):
        with suppress(OSError, DirectoryUnsafe), held.private(left, make=False) as found:
            fcntl.flock(found.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files.remove_tree(left)
