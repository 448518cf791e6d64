"""Backups that share pages: which pages of which packs an incremental backup consists of.

pieces.json tells of the packs, and of the pieces that the data is put together from; pages.map, compressed, holds both
meta pages and then the runs of each piece. The checksum of a piece is XXH3, since the map and each frame of a pack,
which are all that it is made of, have a SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import zstandard

from loader.errors import BackupDamaged
from loader.mdb.pages import Segment, Shape
from loader.operations.backup import manifest
from loader.operations.backup.manifest import FORMAT, LARGEST_PIECE, Backup
from loader.storage import files
from loader.typed import Count, Digest32, Digest64, Unfit

_LARGEST_PAGE = 65536


@dataclass(frozen=True)
class PackUse:
    """A pack: its number in the runs, its name, the length of its file in bytes, how many pages it holds and how many
    of them are used, those that others are stored beside among them."""

    number: Count
    sha256: Digest64
    stored: Count
    pages: Count
    used: Count


@dataclass(frozen=True)
class PagePiece:
    """So many bytes of the data, and of its runs; pages that were new; XXH3 of the data."""

    data: Count
    runs: Count
    fresh: Count
    xxh3: Digest32


@dataclass(frozen=True)
class PageList:
    """`own`: the number of the pack that was made for it. map_bytes, map_sha256: of pages.map."""

    page_size: Count
    transaction: Count | None
    own: Count
    packs: tuple[PackUse, ...]
    pieces: tuple[PagePiece, ...]
    map_bytes: Count
    map_sha256: Digest64
    format: int = FORMAT

    @property
    def shape(self) -> Shape:
        return Shape(self.page_size, self.transaction)

    @property
    def head_bytes(self) -> int:
        return 2 * self.page_size

    @property
    def data_bytes(self) -> int:
        return self.head_bytes + sum(piece.data for piece in self.pieces)

    @property
    def stored_bytes(self) -> int:
        """What was stored for it: its map, and its own pack."""
        return self.map_bytes + sum(use.stored for use in self.packs if use.number == self.own)

    @property
    def full_bytes(self) -> int:
        """What it would take by itself, about: as much for each page as the largest pack does, for small ones hold
        differences."""
        largest = max(self.packs, key=lambda use: use.stored, default=None)
        pages = (self.data_bytes - self.head_bytes) // self.page_size
        return self.map_bytes + (pages * largest.stored // largest.pages if largest else 0)

    def text(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


@dataclass(frozen=True)
class PageMap:
    """What pages.map holds."""

    head: bytes
    segments: tuple[Segment, ...]


def read(directory: Path, backup: Backup) -> PageList:
    """Raises BackupDamaged."""
    return manifest.read_list(directory, backup, PageList, _require_sense)


def _require_sense(found: PageList, backup: Backup) -> None:
    if len(found.pieces) != backup.pieces or found.data_bytes != backup.data_bytes:
        raise Unfit("its pieces do not make up the data that the manifest tells of")
    size = found.page_size
    if not 512 <= size <= _LARGEST_PAGE or size != backup.page_size:
        raise Unfit("its pages have another size than the manifest says")
    if any(piece.data > LARGEST_PIECE or piece.data % size for piece in found.pieces):
        raise Unfit("one of its pieces has another size than any that ditseed writes")
    if any(not 0 < use.used <= use.pages < 2**32 or use.number >= 2**32 for use in found.packs):
        raise Unfit("what it says of its packs makes no sense")
    if found.own >= 2**32 or any(piece.fresh >= 2**32 for piece in found.pieces):
        raise Unfit("what it says of its packs makes no sense")


def pack_map(head: bytes, runs: list[bytes]) -> bytes:
    content = head + b"".join(runs)
    return zstandard.ZstdCompressor(level=9, write_checksum=True).compress(content)


def read_map(directory: Path, found: PageList) -> PageMap:
    """Raises BackupDamaged."""
    path = directory / manifest.MAP
    manifest.require_stored(path)
    try:
        with files.explained(path):
            stored = files.read(path)
        if hashlib.sha256(stored).hexdigest() != found.map_sha256:
            raise Unfit("its sha256 is not the one in the list of pieces")
        wanted = found.head_bytes + sum(piece.runs for piece in found.pieces)
        if zstandard.get_frame_parameters(stored).content_size != wanted:
            raise Unfit("holds another number of bytes than the list of pieces says")
        content = zstandard.ZstdDecompressor().decompress(stored)
    except (Unfit, zstandard.ZstdError) as error:
        raise BackupDamaged(path=path, reason=error) from error
    return PageMap(content[: found.head_bytes], tuple(_segments(found, content)))


def _segments(found: PageList, content: bytes) -> Iterator[Segment]:
    start, before = found.head_bytes, 0
    for piece in found.pieces:
        runs = content[start : start + piece.runs]
        yield Segment(runs, piece.data // found.page_size, found.own, before)
        start, before = start + piece.runs, before + piece.fresh
