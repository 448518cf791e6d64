"""The input of a rule of `storage check` (a Situation) and its result (a Finding)."""

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
    """`rule`: its name, for programs. `mend`: commands, or lines of a file. `source`: where the reason is given."""

    severity: Severity
    rule: str
    subject: str
    what: str
    why: str = ""
    mend: tuple[str, ...] = ()
    source: str = ""


class Database(msgspec.Struct, frozen=True):
    """A data.mdb. Bytes: `allocated` as du shows them, `used` up to the last page ever used."""

    path: str
    allocated: int
    used: int
    map_size: int | None
    page_size: int


class Configured(msgspec.Struct, frozen=True):
    """Settings of the database in slapd's configuration. `maxsize`: bytes."""

    config: str
    suffix: str
    maxsize: int
    nosync: bool
    env_flags: tuple[str, ...]


class Situation(msgspec.Struct, frozen=True):
    """`memory`: bytes of memory of this host. `database`: None if the directory has no data.mdb."""

    facts: Facts
    memory: int
    database: Database | None = None
    unseen: tuple[Unseen, ...] = ()
    configured: Configured | None = None

    @property
    def map_size(self) -> int | None:
        """The map size of the configuration, which slapd uses; without a configuration, that of the data file."""
        if self.configured is not None:
            return self.configured.maxsize
        return self.database.map_size if self.database else None

    @property
    def page(self) -> int:
        return self.database.page_size if self.database else PAGE

    @property
    def exceeds_memory(self) -> bool:
        return self.database is not None and self.database.used > self.memory
