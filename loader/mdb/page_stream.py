"""The pages of a snapshot as a stream, for what keeps them in another form than a data file.

It is compacted on the way, so the meta pages are known last and come apart from the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from loader.mdb import copying, meta
from loader.mdb.copying import PageBlock, PageBlocks
from loader.mdb.snapshot import CopyableSnapshot
from loader.piped import beside
from loader.progress import Meter


class PageStream:
    """Read it once, to its end; then `head` is there. entries: None where the list of tables takes more than a page
    (over 50 indexes)."""

    def __init__(self, taken: PageBlocks, made: Future[bytes], held: CopyableSnapshot) -> None:
        self._taken, self._made = taken, made
        self.facts = held.facts
        self.head_bytes = 2 * held.facts.page_size
        self.entries = meta.entries_in(held.path, held.facts)
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
        return copying.compact_in_pieces(held.path, pieces, held.page, meter)

    with beside(make, pieces.close, "compact") as made:
        yield PageStream(pieces, made, held)
