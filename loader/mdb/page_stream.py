"""The pages of a snapshot as a stream, for what keeps them in another form than a data file.

The meta pages are known last where the snapshot is compacted on the way, so they come apart from the others.
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
from loader.mdb.snapshot import FORMAT, CopyableSnapshot, image
from loader.progress import Meter
from loader.storage import files

_PIPE = 1 << 20  # bytes, as much as Linux gives without privileges


class PageStream:
    """Read it once, to its end; then `head` is there. entries: None where the list of tables takes more than a page
    (over 50 indexes). compacted: without free pages, in the order of keys."""

    def __init__(self, file: BinaryIO, held: CopyableSnapshot, compacted: bool) -> None:
        self._file = file
        self.facts, self.compacted = held.facts, compacted
        self.head_bytes = 2 * held.facts.page_size
        self.entries = meta.entries_in(held.path, held.facts)
        self.head = b"" if compacted else held.head
        self.size = self.head_bytes

    def pieces(self, length: int) -> Iterator[memoryview]:
        """All pages but the two meta pages, `length` bytes at a time."""
        _fill(self._file, memoryview(bytearray(self.head_bytes)))
        kept = b""  # the last bytes read may be the meta pages, where these come last
        while True:
            piece = memoryview(bytearray(len(kept) + length))
            piece[: len(kept)] = kept
            read = _fill(self._file, piece[len(kept) :])
            if not read or (self.size == self.facts.used and not self.compacted):
                break
            there = len(kept) + read
            end = there - self.head_bytes
            if not self.compacted:
                end = min(there, self.facts.used - self.size)
            kept = bytes(piece[end:there]) if self.compacted else b""
            self.size += end
            if end:
                yield piece[:end]
        if self.compacted:
            self.head = kept


def _fill(file: BinaryIO, room: memoryview) -> int:
    """Bytes read: fewer than there is room for at the end only."""
    size = 0
    while size < len(room) and (read := file.readinto(room[size:])):  # type: ignore[attr-defined]
        size += read
    return size


@contextmanager
def paged(source: Path, meter: Meter) -> Iterator[PageStream]:
    """The present snapshot of an environment directory, in use or not; `meter` counts what is read.

    Compacted, and checked on the way, where the core knows the data format. Raises NotLmdb, MdbDamaged, MdbBusy,
    NotPermitted, ReadersFull.
    """
    with image(source) as held:
        if held.facts.format != FORMAT:
            with files.reading(held.path) as file:
                yield PageStream(file, held, compacted=False)
        else:
            with _compacted(held, meter) as file:
                yield PageStream(file, held, compacted=True)


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
