"""A consistent copy of an environment, live or stopped: as it stands, compacting, sharing its blocks, or through a
pipe.

A reader slot is held (snapshot.py), and the native core reads the pages. No page of the snapshot is written to
meanwhile, so pages may be read at leisure, in any order, or be shared with the copy by the file system at any moment;
only the two meta pages go on to change, and those of the copy are made from the one that was in force when the slot
was taken. That holds with MDB_NOSYNC and MDB_WRITEMAP too: all is read through the page cache, or past it after the
system has written what is dirty there. While it lasts the writer cannot use freed pages again, so copy to a near and
quick place. lock.mdb is never copied.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loader import _native, units
from loader._native import PageBlock, PageBlocks, Seen
from loader.errors import FULL, NoReflink, NoSpace, StreamBroken, StreamRefused, SystemFailed
from loader.ldif import with_counters
from loader.mdb import meta
from loader.mdb.snapshot import CopyableSnapshot, image
from loader.progress import Meter
from loader.storage import files
from loader.storage.held import private

__all__ = ["PageBlock", "PageBlocks", "Seen"]

PARTIAL = meta.DATA + ".partial"
JOURNAL = PARTIAL + ".have"  # how much of a stream has come


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
            is_noted = how.noting and not how.compact
            seen = noting(held.path, held.page) if is_noted else None
            shared = _write(held, partial, meter, how, seen)
    except NoSpace:  # somebody else has filled the disk meanwhile
        error = files.no_space(target, needed, files.free_bytes(target))
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


def _write(held: CopyableSnapshot, partial: Path, meter: Meter, how: CopyMode, seen: Seen | None) -> bool:
    if how.reflink != "never" and not how.compact:
        if _share(held, partial):
            return True
        if how.reflink == "must":
            raise NoReflink(path=held.path, target=partial.parent)
    if how.compact:
        compact(held.path, partial, held.page, meter)
    else:
        plain(held.path, partial, held.head, held.facts.used, seen, meter)
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
    files.require_space(target, needed)
    return needed


# --- through a pipe --------------------------------------------------------------------------------
#
# The stream has a checksum for each block and one over all at its end. Where it breaks, the receiver keeps what came
# and a line that tells how much of which copy that is (a token). Given that, the sender leaves it out if the snapshot
# is still the same, and else sends all.


@dataclass(frozen=True)
class SendResult:
    """A stream that went out whole. skipped: bytes that the receiver had. length: of the file."""

    facts: meta.MetaPage
    skipped: int
    length: int


@dataclass(frozen=True)
class _StreamImage:
    """head: both meta pages of the copy. compacted: it was compacted into `path`. origin: the data file for errors."""

    path: Path
    head: bytes
    facts: meta.MetaPage
    origin: Path
    compacted: bool = False


def send(source: Path, descriptor: int, token: str | None, meter: Meter) -> SendResult:
    """Sends the environment in directory `source`. Raises StreamBroken when nobody listens any more."""
    with image(source) as held:
        what = _StreamImage(held.path, held.head, held.facts, held.path)
        return _send(what, descriptor, token, meter)


@contextmanager
def compacted(source: Path, scratch: Path, meter: Meter) -> Iterator[Path]:
    """A compacted copy in a nameless file in directory `scratch`, under a name that holds while the body runs: in a
    stream meta pages come first, and tell what is known last. Raises NoSpace."""
    require_space(source, scratch)
    with tempfile.TemporaryFile(dir=scratch, prefix="ditseed-clone-") as file:
        made = Path(f"/proc/self/fd/{file.fileno()}")
        try:
            with image(source) as held:
                compact(held.path, made, held.page, meter)
        except NoSpace:  # somebody else has filled the disk meanwhile
            raise files.no_space(scratch, meta.read_meta(source).used, files.free_bytes(scratch)) from None
        yield made


def send_compacted(source: Path, made: Path, descriptor: int, token: str | None, meter: Meter) -> SendResult:
    """As `send`, of what `compacted` has made: the same bytes whenever it is made of the same snapshot."""
    facts = meta.read_meta(made)
    with made.open("rb") as file:
        head = file.read(2 * facts.page_size)
    what = _StreamImage(made, head, facts, meta.data_file(source), compacted=True)
    return _send(what, descriptor, token, meter)


def _send(what: _StreamImage, descriptor: int, token: str | None, meter: Meter) -> SendResult:
    """Begins with the byte that `token` names if that is of the same copy, or else with the first."""
    origin, facts = what.origin, what.facts
    with with_counters(meter) as counters, _explained(origin, origin):
        try:
            skipped = _native.clone_send(
                what.path, descriptor, what.head, facts.used, token, counters, compacted=what.compacted
            )
        except ValueError as error:
            raise StreamRefused(path=origin, reason=f"{token}: {error}") from error
    return SendResult(facts, skipped, min(facts.used, what.path.stat().st_size))


def receive(descriptor: int, home: Path, target: Path, meter: Meter) -> Path:
    """Receive for directory `target` into `home`/data.mdb.partial, mode 0600, which the caller publishes.

    Raises StreamBroken or NoSpace with the token that lets the sender go on; what has come stays.
    """
    partial = home / PARTIAL
    try:
        with with_counters(meter) as counters, _explained(partial, partial):
            _native.clone_receive(descriptor, partial, home / JOURNAL, counters)
    except StreamBroken as error:
        raise StreamBroken(**error.facts | {"advice": advice(home, target)}) from error
    except NoSpace as error:
        known = token(home)
        if known is None:
            raise
        lack = f"{FULL}; what came stays: once there is room, the sender goes on with --skip {known}"
        raise NoSpace(path=partial, lack=lack) from error
    return partial


def token(home: Path) -> str | None:
    """What a stream that broke has left in a workshop, for the sender. Raises DirectoryUnsafe."""
    try:
        with private(home, make=False) as place:
            return files.read(place.path / JOURNAL).decode().strip()
    except FileNotFoundError:
        return None


def forget(home: Path) -> None:
    """What has come is of no use."""
    for name in (JOURNAL, PARTIAL):
        (home / name).unlink(missing_ok=True)


def advice(home: Path, target: Path) -> str:
    """What to do after a stream that broke, for the operator."""
    known = token(home)
    if known is None:
        return "Nothing has come yet: look what the sender says."
    have = units.size(int(known.rpartition("-")[2]))
    sending, receiving = f"ditseed clone SOURCE - --skip {known}", f"ditseed clone - {target}"
    return f"{have} are there. Go on with: {sending} | ... {receiving}"


# --- the core's calls ------------------------------------------------------------------------------


def plain(source: Path, target: Path, head: bytes, length: int, seen: Seen | None, meter: Meter) -> None:
    """Copy a data file as it stands, up to `length` and without its holes; `head`: both meta pages of the copy. `seen`
    gets to know its pages."""
    with with_counters(meter) as counters, _explained(source, target):
        _native.clone_plain(source, target, head, length, counters, seen=seen)


def noting(source: Path, page: bytes) -> Seen:
    """What `plain` notes of the pages of the snapshot of a meta page, for a check of the copy."""
    with _explained(source, source):
        return Seen(source, page)


def compact(source: Path, target: Path, page: bytes, meter: Meter) -> None:
    """Write the snapshot that the meta page tells of again, its pages in order. What `verify` finds out at level pages
    is found out on the way."""
    with with_counters(meter) as counters, _explained(source, target):
        _native.clone_compact(source, target, page, counters)


def compact_in_pieces(source: Path, pieces: PageBlocks, page: bytes, meter: Meter) -> bytes:
    """The same copy to whoever takes the pieces; returns its meta pages, which are not among them. Raises StreamBroken
    when nobody takes them any more."""
    with with_counters(meter) as counters, _explained(source, source):
        return _native.compact_in_pieces(source, pieces, page, counters)


@contextmanager
def _explained(source: Path, target: Path) -> Iterator[None]:
    """The core's errors leave the body as LoaderErrors; with_counters knows that a call was cancelled."""
    with meta.explained(source):
        try:
            yield
        except _native.NativeError as error:
            if error.code == "lmdb.no_space":
                raise NoSpace(path=target, lack=FULL) from error
            if error.code == "lmdb.misuse":
                raise StreamRefused(path=target, reason=error.message) from error
            if error.code == "lmdb.stream" or error.errno == errno.EPIPE:
                ended = "nobody receives it any more"
                reason = error.message if error.code == "lmdb.stream" else ended
                advice = "Look at the messages of the other side, which give the reason."
                raise StreamBroken(path=target, reason=reason, advice=advice) from error
            if error.code == "lmdb.full":
                raise SystemFailed(path=source, reason=error.message) from error
            raise
