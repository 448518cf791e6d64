"""`storage check`: looks at what is below a path, and has every rule judge it."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from loader import resources
from loader.config import Database as ConfiguredDatabase
from loader.errors import LoaderError, NoSuchPath, UsageProblem
from loader.mdb import meta
from loader.operations.storage.commands import PAGE
from loader.operations.storage.findings import Configured, Database, Finding, Severity, Situation
from loader.operations.storage.rules import RULES
from loader.server import configuration
from loader.storage import files, survey
from loader.storage.volumes import Unseen


class Report(msgspec.Struct, frozen=True):
    """`findings`: the worst first."""

    situation: Situation
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        return all(one.severity.rank < Severity.WARNING.rank for one in self.findings)


def check(path: Path) -> Report:
    """Raises NoSuchPath, NotPermitted, UsageProblem."""
    return _report(situation(path))


def check_configured(config: Path, suffix: str | None) -> Report:
    """The database of a configuration, whose settings count. Raises NoSuchPath, NotPermitted, NoSuchSuffix."""
    return check_database(configuration.read(config).database(suffix), config)


def check_database(database: ConfiguredDatabase, config: Path) -> Report:
    """The same of a configuration that has been read. Raises NoSuchPath, NotPermitted."""
    if database.directory is None:
        raise NoSuchPath(path=f"{config}: the directory of {database.suffix}")
    settings = Configured(str(config), database.suffix, database.maxsize, database.nosync, database.env_flags)
    return _report(replace(situation(database.directory), configured=settings))


def _report(situation: Situation) -> Report:
    return Report(situation, judged(situation))


def judged(situation: Situation) -> tuple[Finding, ...]:
    findings = [finding for rule in RULES for finding in rule(situation)]
    return tuple(sorted(findings, key=lambda finding: -finding.severity.rank))


def situation(path: Path) -> Situation:
    """`path`: a data.mdb, a database directory, or any directory. Raises NoSuchPath, NotPermitted, UsageProblem."""
    file = data_file(path)
    facts = survey.of(file or path)
    if file is None:
        return Situation(facts, resources.memory(), None, facts.unseen)
    database, unseen = _database(file)
    return Situation(facts, resources.memory(), database, (*facts.unseen, *unseen))


def data_file(path: Path) -> Path | None:
    """The data.mdb that `path` is, or holds. Raises NoSuchPath, NotPermitted, UsageProblem."""
    with files.explained(path):
        path.stat()
        if not path.is_dir() and not path.is_file():
            raise UsageProblem(reason=f"{path} is neither a directory nor a regular file")
        file = meta.data_file(path)
        holds = file.is_file() and (path.is_dir() or meta.is_data_file(file))
    return file if holds else None


def _database(file: Path) -> tuple[Database, tuple[Unseen, ...]]:
    """Also of a file that cannot be read, or is damaged: its size matters all the same."""
    apparent, allocated = file.stat().st_size, files.allocated_bytes(file)
    try:
        read = meta.read_meta(file)
    except LoaderError as error:
        unseen = Unseen("map size and pages in use", str(error))
        return Database(str(file), apparent, allocated, allocated, None, PAGE), (unseen,)
    return Database(str(file), apparent, allocated, read.used, read.map_size, read.page_size), ()
