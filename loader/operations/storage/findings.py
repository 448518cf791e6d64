"""The input of the rules of `storage check` (a Situation) and their results (Findings)."""

from __future__ import annotations

from enum import Enum

import msgspec

from loader.operations.storage.commands import PAGE
from loader.storage.survey import Facts


class Severity(str, Enum):
    """Members are in ascending order of severity."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Finding(msgspec.Struct, frozen=True):
    """`rule`: name for programs. `mend`: commands, or lines of a file. `source`: the document that supports `why`."""

    severity: Severity
    rule: str
    subject: str
    what: str
    why: str = ""
    mend: tuple[str, ...] = ()
    source: str = ""


class Database(msgspec.Struct, frozen=True):
    """A data.mdb. Sizes are in bytes. `allocated`: on the disk, as in du. `used`: up to the last page ever used."""

    path: str
    allocated: int
    used: int
    map_size: int | None
    page_size: int


class Configured(msgspec.Struct, frozen=True):
    """Settings of the database in slapd's configuration `config`. `maxsize`: bytes."""

    config: str
    suffix: str
    maxsize: int
    nosync: bool
    env_flags: tuple[str, ...]


class Situation(Facts, frozen=True, kw_only=True):
    """`memory`: bytes of memory of this host. `database`: None if the directory has no data.mdb."""

    memory: int
    database: Database | None = None
    configured: Configured | None = None

    @property
    def map_size(self) -> int | None:
        """The configured map size, which slapd uses. Without a configuration: the map size in data.mdb, or None."""
        if self.configured is not None:
            return self.configured.maxsize
        return self.database.map_size if self.database else None

    @property
    def page(self) -> int:
        return self.database.page_size if self.database else PAGE

    @property
    def exceeds_memory(self) -> bool:
        return self.database is not None and self.database.used > self.memory
