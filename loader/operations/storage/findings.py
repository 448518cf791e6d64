"""What a rule of `storage check` looks at (a Situation), and what it finds (a Finding)."""

from __future__ import annotations

from enum import Enum

import msgspec

from loader.operations.storage.commands import PAGE
from loader.storage.survey import Facts, Unseen


class Severity(str, Enum):
    """From the least to the worst."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Finding(msgspec.Struct, frozen=True):
    """`rule`: its name, for programs. `mend`: commands, or lines of a file; `source`: who says so."""

    severity: Severity
    rule: str
    subject: str
    what: str
    why: str = ""
    mend: tuple[str, ...] = ()
    source: str = ""


class Database(msgspec.Struct, frozen=True):
    """A data.mdb. Bytes: `apparent` as ls shows it, `allocated` as du does, `used` up to the last page ever used."""

    path: str
    apparent: int
    allocated: int
    used: int
    map_size: int | None
    page_size: int


class Configured(msgspec.Struct, frozen=True):
    """What slapd's configuration says of the database. `maxsize` in bytes."""

    config: str
    suffix: str
    maxsize: int
    nosync: bool
    env_flags: tuple[str, ...]

    @property
    def reads_ahead(self) -> bool:
        return "nordahead" not in (flag.lower() for flag in self.env_flags)


class Situation(msgspec.Struct, frozen=True):
    """`memory`: bytes that this host has for it. `database`: None if the directory holds none."""

    facts: Facts
    memory: int
    database: Database | None = None
    unseen: tuple[Unseen, ...] = ()
    configured: Configured | None = None

    @property
    def map_size(self) -> int | None:
        """As configured, for slapd goes by that; else as the data file names it."""
        if self.configured is not None:
            return self.configured.maxsize
        return self.database.map_size if self.database else None

    @property
    def page(self) -> int:
        return self.database.page_size if self.database else PAGE

    @property
    def exceeds_memory(self) -> bool:
        return self.database is not None and self.database.used > self.memory
