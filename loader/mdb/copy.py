"""Consistent copies of an environment, live or stopped: as it stands, compacted, with shared blocks, through a pipe, or
in packs of pages by their content.

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
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from loader import _native, resources, units
from loader._native import Counters, PageBlock, PageBlocks, Seen
from loader.errors import FULL, BackupDamaged, NoReflink, NoSpace, StreamBroken, StreamRefused, SystemFailed
from loader.ldif import with_counters
from loader.mdb import meta
from loader.mdb.snapshot import CopyableSnapshot, image
from loader.piped import beside
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
    """Copies the environment in `source` to `target`/data.mdb.partial (mode 0600), which the caller publishes.

    The remains of an earlier run there are overwritten; on any error nothing is left. Raises NoSpace, NotPermitted,
    NotLmdb, MdbProtected, MdbDamaged, NoReflink.
    """
    forget(target)
    partial = target / PARTIAL
    needed = 0 if how.reflink == "must" else require_space(source, target)
    seen, shared = None, False
    try:
        with image(source) as held:
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            if how.compact:
                compact(held.path, partial, held.page, meter)
            else:
                seen = noting(held.path, held.page) if how.noting else None
                shared = how.reflink != "never" and _share(held, partial)
                if how.reflink == "must" and not shared:
                    raise NoReflink(path=held.path, target=target)
                if not shared:
                    plain(held.path, partial, held.head, held.facts.used, seen, meter)
    except NoSpace:  # somebody else has filled the disk meanwhile
        error = files.no_space(target, needed, files.free_bytes(target))
        partial.unlink(missing_ok=True)
        raise error from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    facts, sizes = meta.read_meta(partial), Sizes.of(meta.data_file(source))
    return Copied(partial, facts, sizes, Sizes.of(partial), shared, None if shared else seen, how.compact)


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


def send(source: Path, descriptor: int, token: str | None, meter: Meter) -> SendResult:
    """Sends the environment in directory `source`. Raises StreamBroken when nobody listens any more."""
    with image(source) as held, _counted(meter, held.path) as counters:
        return _send(held.path, held.path, held.head, descriptor, token, counters)


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
    """As `send`, of the file `made` by `compacted`: the same bytes whenever it is made of the same snapshot."""
    origin = meta.data_file(source)
    with made.open("rb") as file, _counted(meter, origin) as counters:
        return _send(origin, made, file.read(2 * meta.read_meta(made).page_size), descriptor, token, counters)


def _send(origin: Path, file: Path, head: bytes, descriptor: int, token: str | None, counters: Counters) -> SendResult:
    """Begins with the byte that `token` names if that is of the same copy, or else with the first. `head`: both meta
    pages of the copy. `file` is another one than `origin` if it was compacted."""
    facts = meta.parse(head, str(file))
    try:
        skipped = _native.clone_send(file, descriptor, head, facts.used, token, counters, compacted=file != origin)
    except ValueError as error:
        raise StreamRefused(path=origin, reason=f"{token}: {error}") from error
    return SendResult(facts, skipped, min(facts.used, file.stat().st_size))


def receive(descriptor: int, home: Path, target: Path, meter: Meter) -> Path:
    """Receive for directory `target` into `home`/data.mdb.partial, mode 0600, which the caller publishes.

    Raises StreamBroken or NoSpace with the token that lets the sender go on; what has come stays.
    """
    partial = home / PARTIAL
    try:
        with _counted(meter, partial) as counters:
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
    """Copies a data file as it stands, up to `length` and without its holes. `head`: both meta pages of the copy.
    `seen` gets to know its pages."""
    with _counted(meter, source, target) as counters:
        _native.clone_plain(source, target, head, length, counters, seen=seen)


def noting(source: Path, page: bytes) -> Seen:
    """What `plain` notes of the pages of the snapshot of a meta page, for a check of the copy."""
    with _explained(source, source):
        return Seen(source, page)


def compact(source: Path, target: Path, page: bytes, meter: Meter) -> None:
    """Writes the snapshot that the meta page tells of again, its pages in order. The problems that `verify` finds at
    level pages are found on the way."""
    with _counted(meter, source, target) as counters:
        _native.clone_compact(source, target, page, counters)


@contextmanager
def _counted(meter: Meter, source: Path, target: Path | None = None) -> Iterator[Counters]:
    with with_counters(meter) as counters, _explained(source, target or source):
        yield counters


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
                reason = error.message if error.code == "lmdb.stream" else "nobody receives it any more"
                advice = "Look at the messages of the other side, which give the reason."
                raise StreamBroken(path=target, reason=reason, advice=advice) from error
            if error.code == "lmdb.full":
                raise SystemFailed(path=source, reason=error.message) from error
            raise


# --- pages in packs, by their content --------------------------------------------------------------


class PageStream:
    """A snapshot compacted, in pieces. Read it once, to its end; then `head`, both meta pages, is there: LMDB's meta
    pages tell what is known last. entries: of the snapshot."""

    def __init__(self, blocks: PageBlocks, head: Future[bytes], held: CopyableSnapshot) -> None:
        self._blocks, self._head = blocks, head
        self.facts = held.facts
        self.head_bytes = 2 * held.facts.page_size
        self.entries = held.entries()
        self.head = b""
        self.size = self.head_bytes

    def pieces(self) -> Iterator[PageBlock]:
        """All pages but the two meta pages. Raises MdbDamaged."""
        while (piece := self._blocks.take()) is not None:
            self.size += len(piece)
            yield piece
        self.head = self._head.result()


@contextmanager
def paged(held: CopyableSnapshot, size: int, meter: Meter) -> Iterator[PageStream]:
    """A snapshot in pieces of `size` bytes, a multiple of 64 KiB: without free pages, in the order of keys, and checked
    on the way; `meter` counts what is read. Raises MdbDamaged."""
    blocks = PageBlocks(size)

    def make() -> bytes:
        with _counted(meter, held.path) as counters:
            return _native.compact_in_pieces(held.path, blocks, held.page, counters)

    with beside(make, blocks.close, "compact") as head:
        yield PageStream(blocks, head, held)


@dataclass(frozen=True)
class Segment:
    """Consecutive pages of a backup: runs of pages of packs. own: the number of its own pack, of which so many pages
    came `before`."""

    runs: bytes
    pages: int
    own: int
    before: int


@dataclass(frozen=True)
class PackFile:
    """`name`: for errors. index: the entries of its frames, found to be the right ones."""

    number: int
    path: Path
    name: Path
    index: bytes


@dataclass(frozen=True)
class Sifted:
    """Consecutive pages as runs; the frames of the new ones, how many these are, and their entries for an index; XXH3
    of all, 32 hexadecimal digits."""

    runs: bytes
    frames: bytes
    entries: bytes
    fresh: int
    xxh3: str


@dataclass(frozen=True)
class Shape:
    """Of the pages of one snapshot. transaction: that every page bears, in format 3."""

    page_size: int
    transaction: int | None


@dataclass(frozen=True)
class Stored:
    """A whole backup: both meta pages, then segments, with the XXH3 of each."""

    head: bytes
    segments: Sequence[Segment]
    sums: Sequence[str]


class Packs:
    """The packs that a backup needs."""

    def __init__(self, files: Sequence[PackFile], shape: Shape) -> None:
        given = [(one.number, one.path, one.name, one.index) for one in files]
        with _explained_packs(files[0].name.parent if files else Path()):
            self.native = _native.PagePacks(given, shape.page_size, shape.transaction)

    def restore(self, stored: Stored, out: BinaryIO, place: Path, meter: Meter) -> None:
        """Write it to `out`, an empty file, holes where it has zeros. Raises BackupDamaged, of `place` where no pack is
        to blame; OSError, of `out`."""
        own = stored.segments[0].own if stored.segments else 0
        pieces = [
            (_fields(one), bytes.fromhex(digest)) for one, digest in zip(stored.segments, stored.sums, strict=True)
        ]
        threads, fd = resources.processors(), out.fileno()
        with with_counters(meter) as counters, _explained_packs(place):
            self.native.restore(stored.head, pieces, own, fd, threads, counters)


class Known:
    """The pages of an earlier backup: some 60 bytes of memory for each."""

    def __init__(self, native: _native.KnownPages | None = None) -> None:
        self._native = native or _native.KnownPages(None, (), 0, again=0)

    @classmethod
    def of(cls, packs: Packs, segments: Sequence[Segment], again: int) -> Known:
        """`again`: so many pages at most shall be stored again, of frames that are used least. Raises BackupDamaged."""
        own = segments[0].own if segments else 0
        with _explained_packs(Path()):
            fields = [_fields(one) for one in segments]
            return cls(_native.KnownPages(packs.native, fields, own, again=again))

    def sift(self, data: PageBlock, first: int, own: int, shape: Shape, level: int) -> Sifted:
        """`data`: whole pages, of which the first has the number `first`; new ones are for pack `own`."""
        with _explained_packs(Path()):
            (runs, frames, entries, xxh3), fresh = self._native.sift(
                data, first, own, page_size=shape.page_size, transaction=shape.transaction, level=level
            )
        return Sifted(runs, frames, entries, fresh, xxh3.hex())

    def used(self) -> dict[int, int]:
        """Of each pack, how many pages were found again, or are the base of one that is stored as a difference."""
        return dict(self._native.used())


def _fields(segment: Segment) -> tuple[bytes, int, int]:
    return segment.runs, segment.before, segment.pages


@contextmanager
def _explained_packs(place: Path) -> Iterator[None]:
    try:
        yield
    except _native.NativeError as error:
        if error.code in ("cancelled", "internal"):
            raise
        path = Path(error.path) if error.path is not None else place
        if error.errno is not None and error.path is None:
            raise OSError(error.errno, error.message) from error  # of a file that the caller knows
        if error.errno is not None:
            raise meta.system_error(error.errno, path) from error
        raise BackupDamaged(path=path, reason=error.message) from error
