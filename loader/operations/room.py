"""Does a database fit: into its map, and onto its disk? One answer for all verbs, given before the work begins.

`look` measures a map that slapd uses, `require_room` compares a prediction with maxsize and with the file system, and
`choose_maxsize` says which maxsize a new database gets. What only writes files asks `files.require_space`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loader import units
from loader.config import Database
from loader.defaults import MAXSIZE_FACTOR
from loader.errors import MaxsizeTooSmall
from loader.mdb import meta
from loader.mdb.meta import MetaPage
from loader.operations.tune import require_stopped
from loader.storage import files, holders

if TYPE_CHECKING:
    from loader.mdb.readers import Slot
    from loader.operations.publish import TargetDatabase

GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What bounds a new database. `maxsize`: bytes; None if it is chosen once the size is known. `directory`: its file
    system must hold the database; None leaves the disk out."""

    suffix: str
    maxsize: int | None
    directory: Path | None


def require_room(limits: Limits, predict: Callable[[], int], at_most: float = math.inf) -> None:
    """Raises MaxsizeTooSmall or NoSpace if a database of `predict()` bytes does not fit. A prediction takes seconds, so
    none is made if even `at_most` bytes fit."""
    maxsize, directory = limits.maxsize, limits.directory
    free = math.inf if directory is None else files.free_bytes(directory)
    if at_most <= min(free, math.inf if maxsize is None else maxsize):
        return
    needed = predict()
    if maxsize is not None:
        require_map(limits.suffix, maxsize, needed)
    if directory is not None:
        files.require_space(directory, needed)


def require_map(suffix: str, maxsize: int, needed: int) -> None:
    """Raises MaxsizeTooSmall if `maxsize` bytes cannot hold `needed`."""
    if needed > maxsize:
        raise MaxsizeTooSmall(maxsize=units.size(maxsize), suffix=suffix, needed=units.size(needed))


def recommended_size(used: int) -> int:
    """A maxsize with room for copy-on-write, growth and long readers: whole GiB, at least one."""
    return max(1, -(-round(used * MAXSIZE_FACTOR) // GIB)) * GIB


def choose_maxsize(place: TargetDatabase, needed: int, wanted: int | str | None, changing: bool = True) -> int:
    """The map size of a new database. `wanted`: None keeps the configured one, "auto" computes it. Raises
    MaxsizeTooSmall, and ServerRunning if a slapd.d must change (`changing`) while a slapd runs on it."""
    database = place.database
    chosen = database.maxsize if wanted is None else wanted
    size = max(database.maxsize, recommended_size(needed)) if isinstance(chosen, str) else chosen
    require_map(database.suffix, size, needed)
    if changing and place.config.is_directory and size != database.maxsize:
        require_stopped(place.config)
    return size


class Reader(msgspec.Struct, frozen=True):
    """A process that has a snapshot of the database. `lag`: transactions that have ended since."""

    pid: int
    process: str
    lag: int
    is_alive: bool


class Room(msgspec.Struct, frozen=True):
    """What MDB_MAP_FULL depends on, in bytes. `maxsize`: as configured, but at least `used`, for LMDB maps no less than
    that. `used`: up to the last page ever used. `reusable`: free pages among them that the next transactions may use;
    `held`: those that they may not, for the oldest reader may want them. `disk_free`: on the file system, with the
    holes of the file. `growth`: bytes a second, now; None where no reader lags, for then pages are used again."""

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
    """Raises LoaderError, also if a process that writes to the data file does not use the lock.mdb beside it."""
    from loader.mdb import readers  # a build, which looks at no map in use, does without

    directory = database.directory
    assert directory is not None
    holders.require_heeded(directory)
    slots = readers.slots(directory)
    facts, freed = readers.free_list(directory)
    oldest = min((slot.txnid for slot in slots if slot.txnid is not None), default=facts.txnid + 1)
    reusable = sum(count for txnid, count in freed.items() if txnid < oldest)
    seen = tuple(_readers(slots, facts))
    growth = readers.measure_growth(directory) if any(reader.lag for reader in seen) else None
    beyond = files.allocated_bytes(meta.data_file(directory)) - facts.used  # blocks that the file has already
    room = Room(
        maxsize=max(database.maxsize, facts.used),
        used=facts.used,
        reusable=reusable * facts.page_size,
        held=(sum(freed.values()) - reusable) * facts.page_size,
        disk_free=files.free_bytes(directory) + max(0, beyond),
        growth=growth.rate if growth else None,
    )
    return room, seen


def _readers(slots: tuple[Slot, ...], facts: MetaPage) -> Iterator[Reader]:
    for slot in slots:
        if slot.txnid is not None or not slot.is_alive:
            name = holders.command_name(slot.pid) if slot.is_alive else ""
            lag = 0 if slot.txnid is None else max(0, facts.txnid - slot.txnid)
            yield Reader(slot.pid, name, lag, slot.is_alive)
