"""Backups that share pages with others: put together again, and compared with their checksums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from loader.mdb.pages import Stored
from loader.operations.backup import manifest, packs, page_list
from loader.operations.backup.manifest import Backup
from loader.operations.backup.page_list import PackUse
from loader.operations.backup.parallel import in_order
from loader.progress import Meter

# Frames that were found to be as they should, by the SHA-256 of their pack and their number: their bytes.
Compared = dict[tuple[str, int], int]


def unpack(directory: Path, backup: Backup, out: BinaryIO, meter: Meter) -> None:
    """Write the database to `out`, holes where it has zeros. Raises BackupDamaged."""
    listed = page_list.read(directory, backup)
    found = page_list.read_map(directory, listed)
    there = packs.opened(directory.parent, listed.packs, listed.shape)
    sums = [piece.xxh3 for piece in listed.pieces]
    stored = Stored(found.head, found.segments, sums)
    there.restore(stored, out, directory / manifest.MAP, meter)


def verify(
    directory: Path,
    backup: Backup,
    chosen: Callable[[int], bool],
    compared: Compared,
    meter: Meter,
) -> int:
    """Compare all that the backup needs with its checksums, of the frames those that are `chosen`; the bytes that were
    compared, now or for a backup before it. Raises BackupDamaged."""
    listed = page_list.read(directory, backup)
    page_list.read_map(directory, listed)
    there = packs.opened(directory.parent, listed.packs, listed.shape)
    frames = ((use, frame) for use in listed.packs for frame in range(there.frames(use.number)))
    asked = (one for number, one in enumerate(frames) if chosen(number))

    def check(one: tuple[PackUse, int]) -> tuple[PackUse, int]:
        use, frame = one
        key = use.sha256, frame
        if key not in compared:
            compared[key] = there.verify(use.number, frame)
        return use, compared[key]

    found: dict[PackUse, list[int]] = {use: [] for use in listed.packs}
    for use, length in in_order(check, asked):
        found[use].append(length)
        meter.add(size=length)
    # The index of each was compared when it was opened.
    whole = {use for use in found if len(found[use]) == there.frames(use.number)}
    return listed.map_bytes + sum(use.stored if use in whole else sum(found[use]) for use in found)


def require_whole(directory: Path, backup: Backup) -> None:
    """All that it needs is there, and as long as it should be. Raises BackupDamaged, NoSuchPath."""
    listed = page_list.read(directory, backup)
    for use in listed.packs:
        packs.require_length(directory.parent / packs.PAGES / packs.name(use), use)
    page_list.read_map(directory, listed)


def needed_bytes(directory: Path, backup: Backup) -> int:
    """All that is read for a restore. Raises BackupDamaged, NoSuchPath."""
    listed = page_list.read(directory, backup)
    return listed.map_bytes + sum(use.stored for use in listed.packs)


def full_bytes(directory: Path, backup: Backup) -> int:
    """What the backup would take by itself. Raises BackupDamaged, NoSuchPath."""
    return page_list.read(directory, backup).full_bytes
