"""Backups that ditseed made before pieces: one stream of zstd, or none, with one SHA-256."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from loader import units
from loader.errors import BackupDamaged
from loader.operations.backup.manifest import Backup
from loader.progress import Meter
from loader.storage import files, holes

_PIECE = 1 << 20


def unpack(stored: Path, backup: Backup, out: BinaryIO, meter: Meter) -> None:
    """Write the database to `out`, holes where it has zeros. No more is written than the manifest says: a small file
    can unpack to any size. Raises BackupDamaged."""
    data, size, most = hashlib.sha256(), 0, backup.data_bytes
    try:
        with files.reading(stored) as file:
            reader = io.BufferedReader(_reader(file, backup.compression), _PIECE)
            while piece := reader.read(min(_PIECE, most + 1 - size)):
                size += len(piece)
                if size > most:
                    break
                data.update(piece)
                holes.write(out, piece)
                meter.add(size=len(piece))
    except zstandard.ZstdError as error:
        raise BackupDamaged(path=stored, reason=f"cannot be unpacked: {error}") from error
    holes.finish(out)
    if size != most:
        wanted = units.number(most)
        found = f"more than {wanted}" if size > most else units.number(size)
        raise BackupDamaged(path=stored, reason=f"holds {found} bytes, the manifest says {wanted}")
    if data.hexdigest() != backup.data_sha256:
        raise BackupDamaged(path=stored, reason="its sha256 is not the one in the manifest")


def verify(stored: Path, backup: Backup, meter: Meter) -> None:
    """Of what is stored. Raises BackupDamaged."""
    digest = hashlib.sha256()
    with files.reading(stored) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            meter.add(size=len(piece))
    if digest.hexdigest() != backup.file_sha256:
        raise BackupDamaged(path=stored, reason="its sha256 is not the one in the manifest")


def _reader(file: BinaryIO, compression: str) -> io.RawIOBase:
    if compression == "none":
        return io.FileIO(file.fileno(), closefd=False)
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return cast(io.RawIOBase, reader)
