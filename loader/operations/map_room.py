"""Room in the map of a database: unused pages, and free ones that can be used again given who reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from loader.config import Database
from loader.mdb import meta, readers
from loader.mdb.meta import MetaPage
from loader.mdb.readers import Slot
from loader.storage import files, holders


class Reader(msgspec.Struct, frozen=True):
    """A process that has a snapshot of the database. `lag`: transactions that have ended since."""

    pid: int
    process: str
    lag: int
    is_alive: bool


class Room(msgspec.Struct, frozen=True):
    """What MDB_MAP_FULL depends on, in bytes. `maxsize`: as configured, but at least `used`, for LMDB maps no less than
    that. `used`: up to the last page ever used. `reusable`: free pages among them
    that the next transactions may use; `held`: those that they may not, for the oldest reader may want them.
    `disk_free`: on the file system, with the holes of the file. `growth`: bytes a second, now;
    None where no reader lags, for then pages are used again."""

    maxsize: int
    used: int
    reusable: int
    held: int
    disk_free: int
    growth: float | None

    @property
    def unused(self) -> int:
        """Of the map, as far as the disk has room for it."""
        return max(0, min(self.maxsize - self.used, self.disk_free))

    @property
    def available(self) -> int:
        return self.unused + self.reusable


def look(database: Database) -> tuple[Room, tuple[Reader, ...]]:
    """Raises LoaderError, also where whoever writes to the data file does not use the lock.mdb that is there."""
    directory = database.directory
    assert directory is not None
    holders.require_heeded(directory)
    slots = readers.slots(directory)
    facts, freed = readers.free_list(directory)
    oldest = min((one.txnid for one in slots if one.txnid is not None), default=facts.txnid + 1)
    reusable = sum(count for txnid, count in freed.items() if txnid < oldest)
    seen = tuple(_readers(slots, facts))
    moving = readers.measure_growth(directory) if any(one.lag for one in seen) else None
    room = Room(
        maxsize=max(database.maxsize, facts.used),
        used=facts.used,
        reusable=reusable * facts.page_size,
        held=(sum(freed.values()) - reusable) * facts.page_size,
        disk_free=_disk_free(directory, facts),
        growth=moving.rate if moving else None,
    )
    return room, seen


def _disk_free(directory: Path, facts: MetaPage) -> int:
    """With what the file has in blocks already beyond its last page."""
    allocated = files.allocated_bytes(meta.data_file(directory))
    return files.free_bytes(directory) + max(0, allocated - facts.used)


def _readers(slots: tuple[Slot, ...], facts: MetaPage) -> Iterator[Reader]:
    for one in slots:
        if one.txnid is not None or not one.is_alive:
            name = holders.command_name(one.pid) if one.is_alive else ""
            lag = 0 if one.txnid is None else max(0, facts.txnid - one.txnid)
            yield Reader(one.pid, name, lag, one.is_alive)
