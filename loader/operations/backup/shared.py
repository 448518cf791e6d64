"""Backups that share pages with others: put together again, and compared with their checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from loader.errors import BackupDamaged
from loader.mdb.pages import Segment
from loader.operations.backup import manifest, packs, page_list
from loader.operations.backup.manifest import Backup
from loader.operations.backup.page_list import PageList, PageMap
from loader.operations.backup.parallel import in_order, sha256
from loader.progress import Meter
from loader.storage import holes

FIRST_PAGE = 2  # behind both meta pages


def unpack(directory: Path, backup: Backup, out: BinaryIO, meter: Meter) -> None:
    """Write the database to `out`, holes where it has zeros. Raises BackupDamaged."""
    listed = page_list.read(directory, backup)
    found = page_list.read_map(directory, listed)
    path = directory / manifest.MAP
    there = packs.opened(directory.parent, listed.packs, listed.shape)

    def made(one: tuple[int, int, Segment, str]) -> bytes:
        number, first, segment, wanted = one
        data = there.pages(segment, first, path)
        if sha256(data) != wanted:
            reason = f"the sha256 of piece {number} is not the one in its list"
            raise BackupDamaged(path=path, reason=reason)
        return data

    holes.write(out, found.head)
    for data in in_order(made, _asked(listed, found)):
        holes.write(out, data)
        meter.add(size=len(data))
    holes.finish(out)


def _asked(listed: PageList, found: PageMap) -> Iterator[tuple[int, int, Segment, str]]:
    first = FIRST_PAGE
    for number, (segment, piece) in enumerate(zip(found.segments, listed.pieces, strict=True)):
        yield number, first, segment, piece.sha256
        first += segment.pages


def verify(directory: Path, backup: Backup, chosen: Callable[[int], bool], meter: Meter) -> int:
    """Compare all that the backup needs with its checksums, of the frames those that are `chosen`; bytes read. Raises
    BackupDamaged."""
    listed = page_list.read(directory, backup)
    page_list.read_map(directory, listed)
    size = listed.map_bytes
    there = packs.opened(directory.parent, listed.packs, listed.shape)
    frames = (
        (use.number, frame) for use in listed.packs for frame in range(there.frames(use.number))
    )
    asked = (one for number, one in enumerate(frames) if chosen(number))
    for length in in_order(lambda one: there.verify(*one), asked):
        size += length
        meter.add(size=length)
    return size


def require_whole(directory: Path, backup: Backup) -> None:
    """All that it needs is there, and as long as it should be. Raises BackupDamaged, NoSuchPath."""
    listed = page_list.read(directory, backup)
    for use in listed.packs:
        packs.require_length(directory.parent / packs.PAGES / packs.name(use), use)
    page_list.read_map(directory, listed)


def full_bytes(directory: Path, backup: Backup) -> int:
    """What the backup would take by itself. Raises BackupDamaged, NoSuchPath."""
    return page_list.read(directory, backup).full_bytes
