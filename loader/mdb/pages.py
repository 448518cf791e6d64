"""The pages of a snapshot for what keeps them in another form than a data file: as a stream, or by their content.

The stream is compacted on the way, so the meta pages are known last and come apart from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from loader import _native, resources
from loader._native import PageBlock, PageBlocks
from loader.errors import BackupDamaged
from loader.ldif import with_counters
from loader.mdb import copy, meta
from loader.mdb.snapshot import CopyableSnapshot
from loader.piped import beside
from loader.progress import Meter


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
        with _explained(files[0].name.parent if files else Path()):
            self.native = _native.PagePacks(given, shape.page_size, shape.transaction)

    def restore(self, stored: Stored, out: BinaryIO, place: Path, meter: Meter) -> None:
        """Write it to `out`, an empty file, holes where it has zeros. Raises BackupDamaged, of `place` where no pack is
        to blame; OSError, of `out`."""
        own = stored.segments[0].own if stored.segments else 0
        pieces = [
            (_fields(one), bytes.fromhex(digest)) for one, digest in zip(stored.segments, stored.sums, strict=True)
        ]
        threads, fd = resources.processors(), out.fileno()
        with with_counters(meter) as counters, _explained(place):
            self.native.restore(stored.head, pieces, own, fd, threads, counters)


class Known:
    """The pages of an earlier backup: some 60 bytes of memory for each."""

    def __init__(self, native: _native.KnownPages | None = None) -> None:
        self._native = native or _native.KnownPages(None, (), 0, again=0)

    @classmethod
    def of(cls, packs: Packs, segments: Sequence[Segment], again: int) -> Known:
        """`again`: so many pages at most shall be stored again, of frames that are used least. Raises BackupDamaged."""
        own = segments[0].own if segments else 0
        with _explained(Path()):
            fields = [_fields(one) for one in segments]
            return cls(_native.KnownPages(packs.native, fields, own, again=again))

    def sift(self, data: PageBlock, first: int, own: int, shape: Shape, level: int) -> Sifted:
        """`data`: whole pages, of which the first has the number `first`; new ones are for pack `own`."""
        with _explained(Path()):
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
def _explained(place: Path) -> Iterator[None]:
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


class PageStream:
    """Read it once, to its end; then `head` is there. entries: of the snapshot."""

    def __init__(self, taken: PageBlocks, made: Future[bytes], held: CopyableSnapshot) -> None:
        self._taken, self._made = taken, made
        self.facts = held.facts
        self.head_bytes = 2 * held.facts.page_size
        self.entries = held.entries()
        self.head = b""
        self.size = self.head_bytes

    def pieces(self) -> Iterator[PageBlock]:
        """All pages but the two meta pages. Raises MdbDamaged."""
        while (piece := self._taken.take()) is not None:
            self.size += len(piece)
            yield piece
        self.head = self._made.result()


@contextmanager
def paged(held: CopyableSnapshot, size: int, meter: Meter) -> Iterator[PageStream]:
    """A snapshot compacted, in pieces of `size` bytes, a multiple of 64 KiB: without free pages, in the order of keys,
    and checked on the way; `meter` counts what is read. Raises MdbDamaged."""
    pieces = PageBlocks(size)

    def make() -> bytes:
        return copy.compact_in_pieces(held.path, pieces, held.page, meter)

    with beside(make, pieces.close, "compact") as made:
        yield PageStream(pieces, made, held)
