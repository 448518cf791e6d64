"""Backups that share pages with others: put together again, and compared with their checksums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from loader.mdb.pages import Stored
from loader.operations.backup import manifest, packs, page_list
from loader.operations.backup.manifest import Backup
from loader.operations.backup.parallel import in_order
from loader.progress import Meter


def unpack(directory: Path, backup: Backup, out: BinaryIO, meter: Meter) -> None:
    """Write the database to `out`, holes where it has zeros. Raises BackupDamaged."""
    listed = page_list.read(directory, backup)
    found = page_list.read_map(directory, listed)
    there = packs.opened(directory.parent, listed.packs, listed.shape)
    sums = [piece.sha256 for piece in listed.pieces]
    stored = Stored(found.head, found.segments, sums)
    there.restore(stored, out, directory / manifest.MAP, meter)


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
