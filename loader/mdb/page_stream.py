"""The pages of a snapshot as a stream, for what keeps them in another form than a data file.

It is compacted on the way, so the meta pages are known last and come apart from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from loader.mdb import copying, meta
from loader.mdb.snapshot import CopyableSnapshot
from loader.piped import piped
from loader.progress import Meter

_PART = 256 << 10  # bytes that are read at once: they are put together from the processor's cache


class PageStream:
    """Read it once, to its end; then `head` is there. entries: None where the list of tables takes more than a page
    (over 50 indexes)."""

    def __init__(self, file: FileIO, held: CopyableSnapshot) -> None:
        self._file = file
        self.facts = held.facts
        self.head_bytes = 2 * held.facts.page_size
        self.entries = meta.entries_in(held.path, held.facts)
        self.head = b""
        self.size = self.head_bytes

    def pieces(self, length: int) -> Iterator[bytes]:
        """All pages but the two meta pages, `length` bytes at a time."""
        skipped = self.head_bytes
        while skipped and (part := self._file.read(skipped)):
            skipped -= len(part)
        parts, there = list[bytes](), 0
        while part := self._file.read(_PART):
            parts.append(part)
            there += len(part)
            if there >= length + self.head_bytes:
                rest = _taken(parts, there - length)
                yield self._counted(parts)
                parts, there = [rest], len(rest)
        self.head = _taken(parts, min(there, self.head_bytes))
        if any(parts):
            yield self._counted(parts)

    def _counted(self, parts: Sequence[bytes]) -> bytes:
        piece = b"".join(parts)
        self.size += len(piece)
        return piece


def _taken(parts: list[bytes], length: int) -> bytes:
    """The last bytes, which are no longer in `parts`."""
    end = b""
    while len(end) < length:
        end = parts.pop() + end
    parts.append(end[: len(end) - length])
    return end[len(end) - length :]


@contextmanager
def paged(held: CopyableSnapshot, meter: Meter) -> Iterator[PageStream]:
    """A snapshot compacted: without free pages, in the order of keys, and checked on the way; `meter` counts what is
    read. Raises MdbDamaged."""

    def write(descriptor: int) -> None:
        copying.compact(held.path, Path(f"/proc/self/fd/{descriptor}"), held.page, meter)

    with (
        piped(write, "compact") as (descriptor, _),
        open(descriptor, "rb", buffering=0, closefd=False) as file,
    ):
        yield PageStream(file, held)
