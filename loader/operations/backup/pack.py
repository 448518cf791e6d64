"""A stream of database pages into a file of the repository and back, with checksums on both sides."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

from loader import resources, units
from loader.mdb.stream_progress import Passing
from loader.progress import Meter
from loader.storage import files, holes

PIECE = 1 << 20
LEVEL = 3


class Counted(io.RawIOBase):
    """A file that knows the length and sha256 of what was written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: bytes) -> int:  # type: ignore[override]
        self._digest.update(piece)
        self.size += len(piece)
        self._file.write(piece)
        return len(piece)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


@dataclass(frozen=True)
class Packed:
    """What went in (data) and what lies on the disk (file)."""

    data_bytes: int
    data_sha256: str
    file_bytes: int
    file_sha256: str


def pack(
    source: IO[bytes], target: Path, compression: str, level: int, meter: Meter, passing: Passing
) -> Packed:
    """Write what `source` gives to `target` (mode 0600), compressed by other threads than this one."""
    data = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=PIECE) as file:
        counted = Counted(file)
        with _writer(counted, compression, level) as writer:
            while piece := source.read(PIECE):
                passing.feed(piece)
                data.update(piece)
                writer.write(piece)
                meter.add(size=len(piece))
                meter.note = f"{units.size(passing.size)}, {units.size(counted.size)} stored"
    return Packed(passing.size, data.hexdigest(), counted.size, counted.sha256)


def _writer(
    counted: Counted, compression: str, level: int
) -> io.RawIOBase | zstandard.ZstdCompressionWriter:
    if compression == "none":
        return counted
    threads = max(1, resources.processors() // 2)  # the other half is slapd's
    compressor = zstandard.ZstdCompressor(level=level, threads=threads, write_checksum=True)
    return compressor.stream_writer(cast(BinaryIO, counted), closefd=False)


def unpack(
    source: Path, target: Path, compression: str, most: int, meter: Meter
) -> tuple[int, str]:
    """Write the database in `source` to `target` (mode 0600), holes where it has zeros; its length and sha256.

    Raises zstandard.ZstdError where the file is damaged; one that was cut gives fewer bytes. No more than `most` bytes
    are written, and one more is counted where there are more: a small file can unpack to any size.
    """
    data, size = hashlib.sha256(), 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with files.reading(source) as file, os.fdopen(descriptor, "wb") as out:
        reader = io.BufferedReader(_reader(file, compression), PIECE)
        while piece := reader.read(min(PIECE, most + 1 - size)):
            if size + len(piece) > most:
                return most + 1, ""
            data.update(piece)
            holes.write(out, piece)
            size += len(piece)
            meter.add(size=len(piece))
            meter.note = units.size(size)
        holes.finish(out)
    return size, data.hexdigest()


def _reader(file: BinaryIO, compression: str) -> io.RawIOBase:
    if compression == "none":
        return io.FileIO(file.fileno(), closefd=False)
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return cast(io.RawIOBase, reader)
