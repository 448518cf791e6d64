"""What a bench has measured."""

from __future__ import annotations

from pathlib import Path

import msgspec

from loader.storage.asking import Unseen


class Load(msgspec.Struct, frozen=True):
    """`seconds`: until all is on the disk. Bytes: `apparent`, as ls tells; `allocated`, as du does."""

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

    @property
    def rate(self) -> float:
        """Searches per second."""
        return self.searches / self.seconds


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
    """How much is done in each directory. 0 `sync_entries`, `searches` or `fio_size` (bytes): not at all."""

    entries: int
    sync_entries: int
    searches: int
    seed: int
    fio_size: int


class Targets(msgspec.Struct, frozen=True):
    """What is measured: directories, file systems that are made for it (their kinds, and bytes of each), and the
    `backends` of another OpenLDAP in the directory `root`. `tmp`: where the file systems are; None: $TMPDIR or /tmp."""

    directories: tuple[Path, ...] = ()
    kinds: tuple[str, ...] = ()
    volume_size: int = 1 << 30
    root: Path | None = None
    backends: tuple[str, ...] = ()
    tmp: Path | None = None


class Report(msgspec.Struct, frozen=True):
    """`began`: seconds since the epoch."""

    began: float
    host: str
    wishes: Wishes
    rows: tuple[Row, ...]
