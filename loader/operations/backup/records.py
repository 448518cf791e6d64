"""What was found out about a backup afterwards, beside its manifest: its last verification, and its last drill."""

from __future__ import annotations

import datetime
import logging
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from loader import plain
from loader.errors import NoSuchBackup
from loader.operations.backup import manifest, repository
from loader.operations.backup.manifest import Backup, Seal
from loader.operations.backup.repository import Where
from loader.storage import files
from loader.typed import Count, Csn, Name, Seconds, Unfit

log = logging.getLogger(__name__)
VERIFIED, DRILLED = "verified.json", "drilled.json"
FORMAT = 1


@dataclass(frozen=True)
class Verification:
    """`read` of the `stored` bytes, with those that it shares with others, were compared with their checksums.

    level: of the database that was in it, as for `ditseed verify`; "stored": it was not looked at. problem: what is
    wrong, empty where all is well.
    """

    backup: Name
    made: str
    host: str
    level: str
    read: Count
    stored: Count
    seconds: Seconds
    problem: str = ""
    seal: Seal = ""
    format: int = FORMAT

    @property
    def is_good(self) -> bool:
        return not self.problem

    @property
    def is_whole(self) -> bool:
        return self.is_good and self.read >= self.stored


@dataclass(frozen=True)
class Drill:
    """A slapd that was started on the restored backup. restore_seconds: until it could have been started. lookups:
    entries that were found by their DN and by their entryUUID."""

    backup: Name
    made: str
    host: str
    restore_seconds: Seconds = 0.0
    start_seconds: Seconds = 0.0
    search_seconds: Seconds = 0.0
    entries: Count = 0
    lookups: Count = 0
    context_csns: tuple[Csn, ...] = ()
    problem: str = ""
    seal: Seal = ""
    format: int = FORMAT

    @property
    def is_good(self) -> bool:
        return not self.problem


Record = TypeVar("Record", Verification, Drill)


@dataclass(frozen=True)
class Proofs:
    """Of one backup; None: never done, or the record cannot be read."""

    verification: Verification | None = None
    drill: Drill | None = None

    @property
    def is_proven(self) -> bool:
        """Every byte was read, or a slapd ran on it, and the last time all was well."""
        good = (self.verification is not None and self.verification.is_whole) or (
            self.drill is not None and self.drill.is_good
        )
        return good and not self.is_bad

    @property
    def is_bad(self) -> bool:
        return any(one is not None and not one.is_good for one in (self.verification, self.drill))


def of(repo: Where, backup: Backup) -> Proofs:
    place = repository.path_of(repo) / backup.id
    return Proofs(_read(place / VERIFIED, Verification, backup), _read(place / DRILLED, Drill, backup))


def _read(path: Path, kind: type[Record], backup: Backup) -> Record | None:
    try:
        found: Record = manifest.read_sealed(path, kind, FORMAT)
        if found.backup != backup.id:
            raise Unfit("is of another backup")
        age_of(found)
    except FileNotFoundError:
        return None
    except Unfit as error:
        log.warning("%s does not count: it %s", plain.with_operator_paths(str(path)), error)
        return None
    return found


def age_of(record: Verification | Drill) -> float:
    """Seconds; 0 where a clock was wrong. Raises Unfit."""
    try:
        made = datetime.datetime.fromisoformat(record.made)
        return max(0.0, (repository.now() - made).total_seconds())
    except (ValueError, TypeError) as error:
        raise Unfit(f"is of no time: {error}") from error


def keep(repo: Where, record: Record) -> Record:
    """Write it down, in place of the last one; with its seal. Raises NoSuchBackup, where it was removed meanwhile.

    What was found counts in any case: of a repository that takes no file (full, mounted read-only) is only warned.
    """
    path = repository.path_of(repo)
    made: Record = manifest.sealed(record)
    name = VERIFIED if isinstance(record, Verification) else DRILLED
    try:
        files.write_durably(path / record.backup / name, manifest.text(made), 0o600)
        repository.of(repo).keep(f"{record.backup}/{name}")
    except FileNotFoundError as error:
        raise NoSuchBackup(path=path, name=record.backup) from error
    except OSError as error:
        log.warning(
            "%s: %s cannot be written, so `list`, `check` and `prune` will not know of this result: %s",
            *(plain.with_operator_paths(str(path / record.backup)), name, error.strerror),
        )
    return made


def host() -> str:
    return socket.gethostname()
