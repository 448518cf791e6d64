"""Temporary directories, also those of runs that were killed: copies of configurations hold passwords.

Each is locked as long as its process lives, and the kernel drops the lock with the process: the next ditseed removes
what nobody holds any more.
"""

from __future__ import annotations

import fcntl
import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loader import interruption
from loader.errors import DirectoryUnsafe
from loader.storage import files, held

PREFIX = "ditseed-held-"  # only what bears it has a lock


@contextmanager
def directory(kind: str, place: str | Path | None = None) -> Iterator[Path]:
    """A private one below `place` (default: $TMPDIR or /tmp), which may be given to another account, whole."""
    top = Path(place or tempfile.gettempdir())
    sweep(top)
    with interruption.deferred() as undoing:
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
