"""The entries of a database as a stream of LDIF, for a backup that any version of OpenLDAP can be restored from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from loader import resources
from loader.piped import piped
from loader.progress import Meter
from loader.sources import mdb, sampling
from loader.sources.mdb import Exported, Part
from loader.sources.sampling import SampleSize

_PART = 256 << 10  # bytes that are read at once
_SAMPLE = SampleSize(5000, 0.0)


class LdifStream:
    """Read it once, to its end; then `entries` is known."""

    head, head_bytes = b"", 0

    def __init__(self, descriptor: int, length: int) -> None:
        self._descriptor, self._length = descriptor, length
        self.size = self.entries = 0

    def pieces(self) -> Iterator[bytes]:
        """So many bytes at a time, wherever that cuts an entry."""
        kept, left = list[bytes](), self._length
        while found := os.read(self._descriptor, min(left, _PART)):
            kept.append(found)
            self.size += len(found)
            left -= len(found)
            if not left:
                yield b"".join(kept)
                kept, left = [], self._length
        if kept:
            yield b"".join(kept)


@contextmanager
def opened(source: Path, length: int, scratch: Path, meter: Meter) -> Iterator[LdifStream]:
    """Of one snapshot of a database directory, in pieces of `length` bytes, parents first; `scratch`: for entries that
    have to wait for theirs."""

    def write(descriptor: int) -> Exported:
        jobs = resources.processors()
        return mdb.stream(Part(source), descriptor, False, jobs, meter, scratch)

    with piped(write, "read") as (descriptor, made):
        stream = LdifStream(descriptor, length)
        yield stream
    stream.entries = made.result().entries


def predicted(source: Path, level: int | None) -> int:
    """Bytes that its entries will come to, by a sample of them. level: of zstd; None: they are not compressed. Raises
    EmptyInput: nothing can be restored from no entries."""
    sample = sampling.of_database(source, _SAMPLE, Meter("sample"))
    text = sample.text
    stored = len(text if level is None else zstandard.ZstdCompressor(level=level).compress(text))
    return stored * sample.total // len(sample.names)
