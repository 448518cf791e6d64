"""A consistent copy of an environment, live or stopped, made by liblmdb itself in a process apart.

Only pages in use are read, in one read transaction; while it lasts the writer cannot use freed pages again, so copy to
a near and quick place. Never compact: copy(compact=True) of py-lmdb 3.0.0 crashes on slapd's databases.
lock.mdb is never copied.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from loader import units
from loader.child import Child
from loader.errors import LoaderError, NoSpace
from loader.mdb import apart, meta
from loader.mdb.environment import explained, opened
from loader.progress import Meter

PARTIAL = meta.DATA + ".partial"


@dataclass(frozen=True)
class Sizes:
    """Bytes of a file as `ls` shows it, and as the disk holds it."""

    apparent: int
    allocated: int

    @classmethod
    def of(cls, path: Path) -> Sizes:
        status = path.stat()
        return cls(status.st_size, status.st_blocks * 512)


@dataclass(frozen=True)
class Copied:
    """A finished copy, not yet in its place."""

    path: Path
    facts: meta.Facts
    source: Sizes
    target: Sizes


def hot_copy(source: Path, target: Path, meter: Meter) -> Copied:
    """Copy the environment in directory `source` to `target`/data.mdb.partial (mode 0600), which the caller publishes.

    What an earlier run left there is overwritten; on any error nothing is left. Raises NoSpace, NotPermitted,
    NotLmdb, MdbDamaged.
    """
    partial = target / PARTIAL
    partial.unlink(missing_ok=True)
    needed = require_space(source, target)
    try:
        with (
            open(partial, "wb", opener=_private) as file,
            copying(source, file) as child,
            meter.cancelling(child.kill),
        ):
            _watch_growing(child, file, meter, needed)
            apart.finish(child, source)
    except NoSpace:  # somebody else has filled the disk meanwhile
        error = _no_space(target, needed)
        partial.unlink()
        raise error from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    copied = meta.facts(partial)
    return Copied(partial, copied, Sizes.of(meta.data_file(source)), Sizes.of(partial))


def require_space(source: Path, target: Path) -> int:
    """Bytes in use, which the copy will have. Raises NoSpace unless they fit into `target`."""
    needed = meta.facts(source).used
    if shutil.disk_usage(target).free < needed:
        raise _no_space(target, needed)
    return needed


def _no_space(target: Path, needed: int) -> NoSpace:
    free = shutil.disk_usage(target).free
    return NoSpace(path=target, needed=units.size(needed), free=units.size(free))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextmanager
def copying(source: Path, out: IO[bytes] | int = subprocess.PIPE) -> Iterator[Child]:
    """The process that writes the copy to `out`, by default a pipe; then call `apart.finish`."""
    try:
        with Child(apart.command(__name__, source, "copy"), stdout=out) as child:
            yield child
    except BaseException:
        release_readers(source)
        raise


def release_readers(source: Path) -> None:
    """A killed reader keeps its slot, and so its pages, until somebody looks: look."""
    with contextlib.suppress(LoaderError):
        apart.ask(__name__, source, "release", origin=source)


def _watch_growing(child: Child, file: IO[bytes], meter: Meter, total: int) -> None:
    before = 0
    while True:
        ended = child.process.poll() is not None
        now = os.fstat(file.fileno()).st_size
        meter.add(size=now - before)
        meter.note = f"{units.size(now)} of {units.size(total)}"
        before = now
        if ended:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(0.1)


def _work(source: str, what: str) -> dict[str, int] | None:
    """In the process apart."""
    path = Path(source)
    with opened(path) as environment:
        released = int(environment.reader_check())
        if what == "release":
            return {"released": released}
        with explained(path):
            environment.copyfd(1)
    return None


if __name__ == "__main__":
    apart.answering(_work)
