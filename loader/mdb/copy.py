"""A consistent copy of an environment, live or stopped: as it stands, compacting, or sharing its blocks.

liblmdb holds a reader's slot (snapshot.py), and the native core reads the pages. While the slot is held no page
of its snapshot is written to: LMDB writes changed pages to other places (mdb_page_touch) and takes freed ones again
only when no reader can want them (mdb_find_oldest). So pages may be read at leisure, in any order, or be shared with
the copy by the file system at any moment; only the two meta pages go on to change, and those are made from the one that
was in force when the slot was taken. That holds with MDB_NOSYNC and MDB_WRITEMAP too: all is read through the page
cache, or past it after the system has written what is dirty there. While it lasts the writer cannot use freed pages
again, so copy to a near and quick place.
lock.mdb is never copied.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loader import units
from loader.errors import (
    NoReflink,
    NoSpace,
)
from loader.mdb import copying, meta
from loader.mdb.copying import Seen
from loader.mdb.snapshot import CopyableSnapshot, image
from loader.progress import Meter

PARTIAL = meta.DATA + ".partial"
JOURNAL = PARTIAL + ".have"  # how much of a stream has come (passage.py)


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
    """A finished copy, not yet in its place. seen: what was noted of its pages, for a check that need not read them;
    sound: that check was made on the way."""

    path: Path
    facts: meta.MetaPage
    source: Sizes
    target: Sizes
    shared: bool = False  # its blocks are the source's
    seen: Seen | None = None
    sound: bool = False


@dataclass(frozen=True)
class CopyMode:
    """compact: only what is in use, in the order of keys. reflink: blocks shared with the source, and else nothing.
    noting: what is copied is looked at, so that it need not be read again to be checked."""

    compact: bool = False
    reflink: Literal["never", "try", "must"] = "never"
    noting: bool = False


def hot_copy(source: Path, target: Path, meter: Meter, how: CopyMode = CopyMode()) -> Copied:
    """Copy the environment in directory `source` to `target`/data.mdb.partial (mode 0600), which the caller publishes.

    What an earlier run left there is overwritten; on any error nothing is left. Raises NoSpace, NotPermitted,
    NotLmdb, MdbProtected, MdbDamaged, NoReflink.
    """
    partial = target / PARTIAL
    (target / JOURNAL).unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
    needed = 0 if how.reflink == "must" else require_space(source, target)
    try:
        with image(source) as held:
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            seen = _noting(held, how)
            shared = _write(held, partial, meter, how, seen)
    except NoSpace:  # somebody else has filled the disk meanwhile
        error = _no_space(target, needed)
        partial.unlink(missing_ok=True)
        raise error from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return Copied(
        partial,
        meta.read_meta(partial),
        Sizes.of(meta.data_file(source)),
        Sizes.of(partial),
        shared,
        None if shared else seen,
        how.compact,
    )


def _noting(held: CopyableSnapshot, how: CopyMode) -> Seen | None:
    if how.compact or not how.noting:
        return None
    return copying.noting(held.path, held.page)


def compact_copy(source: Path, made: Path, place: Path, meter: Meter) -> None:
    """Write the environment in directory `source` to `made`, a file in directory `place`, compacted."""
    try:
        with image(source) as held:
            copying.compact(held.path, made, held.page, meter)
    except NoSpace:  # somebody else has filled the disk meanwhile
        raise _no_space(place, meta.read_meta(source).used) from None


def _write(
    held: CopyableSnapshot, partial: Path, meter: Meter, how: CopyMode, seen: Seen | None
) -> bool:
    if how.reflink != "never" and not how.compact:
        if _share(held, partial):
            return True
        if how.reflink == "must":
            raise NoReflink(path=held.path, target=partial.parent)
    if how.compact:
        copying.compact(held.path, partial, held.page, meter)
    else:
        copying.plain(held.path, partial, held.head, held.facts.used, seen, meter)
    return False


_CANNOT_SHARE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS)
_SHARE = 0x40049409  # FICLONE, linux/fs.h


def _share(held: CopyableSnapshot, partial: Path) -> bool:
    """Whether the file system could give the copy the blocks of the source."""
    with held.path.open("rb") as source, partial.open("r+b", buffering=0) as copy:
        try:
            fcntl.ioctl(copy, _SHARE, source.fileno())
        except OSError as error:
            if error.errno in _CANNOT_SHARE:
                return False
            raise
        size = os.fstat(copy.fileno()).st_size
        os.ftruncate(copy.fileno(), min(size, held.facts.used))
        copy.write(held.head)
        os.fsync(copy.fileno())
    return True


def require_space(source: Path, target: Path) -> int:
    """Bytes in use, without holes. Raises NoSpace unless they fit into `target`."""
    needed = min(meta.read_meta(source).used, Sizes.of(meta.data_file(source)).allocated)
    if shutil.disk_usage(target).free < needed:
        raise _no_space(target, needed)
    return needed


def _no_space(target: Path, needed: int) -> NoSpace:
    free = shutil.disk_usage(target).free
    return NoSpace(path=target, lack=f"{units.size(needed)} needed, {units.size(free)} free")
