"""What a bench has measured."""

from __future__ import annotations

import msgspec

from loader.storage.asking import Unseen


class Load(msgspec.Struct, frozen=True):
    """`seconds`: until all is on the disk. `apparent`: bytes that the files seem to have; `allocated`: that they take."""

    entries: int
    seconds: float
    apparent: int
    allocated: int

    @property
    def rate(self) -> float:
        """Entries per second."""
        return self.entries / self.seconds


class Searched(msgspec.Struct, frozen=True):
    """By one client, one after the other."""

    searches: int
    seconds: float


class Disk(msgspec.Struct, frozen=True):
    """As fio measures it. In bytes per second; in operations per second."""

    write: float
    read: float
    random_reads: float
    fsyncs: float


class Row(msgspec.Struct, frozen=True):
    """A directory, and a database engine in it. `backend`: of slapd. `version`: of OpenLDAP. None: not measured, for a
    reason in `unmeasured`."""

    name: str
    directory: str
    kind: str
    layout: str | None
    backend: str
    version: str
    nosync: Load
    searched: Searched | None
    sync: Load | None
    native: Load | None
    disk: Disk | None
    unmeasured: tuple[Unseen, ...]

    @property
    def times(self) -> float | None:
        """How many times as fast per entry it is without sync."""
        return self.nosync.rate / self.sync.rate if self.sync else None


class Wishes(msgspec.Struct, frozen=True):
    """How much is done in each directory. 0 `sync_entries` or `searches`: not at all."""

    entries: int
    sync_entries: int
    searches: int
    seed: int
    backends: tuple[str, ...] = ("mdb",)
    fio_size: int = 0  # bytes


class Report(msgspec.Struct, frozen=True):
    """`began`: seconds since the epoch."""

    began: float
    host: str
    wishes: Wishes
    rows: tuple[Row, ...]
