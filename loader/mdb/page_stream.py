"""The pages of a snapshot as a stream, for what keeps them in another form than a data file.

It is compacted on the way, so the meta pages are known last and come apart from the others.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from loader.errors import LoaderError
from loader.mdb import copying, meta
from loader.mdb.snapshot import CopyableSnapshot
from loader.progress import Meter

_PIPE = 1 << 20  # bytes, as much as Linux gives without privileges


class PageStream:
    """Read it once, to its end; then `head` is there. entries: None where the list of tables takes more than a page
    (over 50 indexes)."""

    def __init__(self, file: BinaryIO, held: CopyableSnapshot) -> None:
        self._file = file
        self.facts = held.facts
        self.head_bytes = 2 * held.facts.page_size
        self.entries = meta.entries_in(held.path, held.facts)
        self.head = b""
        self.size = self.head_bytes

    def pieces(self, length: int) -> Iterator[memoryview]:
        """All pages but the two meta pages, `length` bytes at a time."""
        _fill(self._file, memoryview(bytearray(self.head_bytes)))
        kept = b""  # what was read last: at the end, the meta pages
        while True:
            piece = memoryview(bytearray(len(kept) + length))
            piece[: len(kept)] = kept
            read = _fill(self._file, piece[len(kept) :])
            if not read:
                break
            there = len(kept) + read
            end = max(0, there - self.head_bytes)
            kept = bytes(piece[end:there])
            self.size += end
            if end:
                yield piece[:end]
        self.head = kept


def _fill(file: BinaryIO, room: memoryview) -> int:
    """Bytes read: fewer than there is room for at the end only."""
    size = 0
    while size < len(room) and (read := file.readinto(room[size:])):  # type: ignore[attr-defined]
        size += read
    return size


@contextmanager
def paged(held: CopyableSnapshot, meter: Meter) -> Iterator[PageStream]:
    """A snapshot compacted: without free pages, in the order of keys, and checked on the way; `meter` counts what is
    read. Raises MdbDamaged."""
    with _compacted(held, meter) as file:
        yield PageStream(file, held)


@contextmanager
def _compacted(held: CopyableSnapshot, meter: Meter) -> Iterator[BinaryIO]:
    """A pipe that another thread writes to."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)

    def write() -> None:
        try:
            copying.compact(held.path, Path(f"/proc/self/fd/{writing}"), held.page, meter)
        finally:
            os.close(writing)

    with ThreadPoolExecutor(1, "compact") as pool:
        file = os.fdopen(reading, "rb", buffering=0)
        work = pool.submit(write)
        try:
            yield file
        except BaseException:
            file.close()  # so that the writer ends too
            with suppress(LoaderError):
                work.result()
            raise
        file.close()
        work.result()
