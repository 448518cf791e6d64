"""What a run backs up: one database, or all of a configuration at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader import dn
from loader.config import Config, Database
from loader.errors import NoSuchPath, NoSuchSuffix, UsageProblem
from loader.mdb.one_moment import Log
from loader.server import configuration


@dataclass(frozen=True)
class Origin:
    """A database. `config`: cn=config as LDIF, credentials included."""

    directory: Path
    suffix: str | None
    config: bytes | None


@dataclass(frozen=True)
class Origins:
    """Data first, then the accesslogs. logs: which are whose."""

    databases: tuple[Origin, ...]
    logs: tuple[Log, ...] = ()


def of_directory(directory: Path, suffix: str | None) -> Origins:
    return Origins((Origin(directory, suffix, None),))


def of_configuration(path: Path, suffix: str | None) -> Origins:
    """One database. Raises NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath."""
    config, text = configuration.read_with_text(path)
    return Origins((_origin(config.database(suffix), path, text),))


def all_of(path: Path) -> Origins:
    """Every mdb database. Raises NoSuchSuffix, NoSuchPath, UsageProblem."""
    config, text = configuration.read_with_text(path)
    if not config.mdb_databases:
        raise NoSuchSuffix(config=path, suffix="(any)", known="none")
    logs = tuple(_logs(config))
    is_log = {one.log for one in logs}
    found = [_origin(one, path, text) for one in config.mdb_databases]
    _require_apart(found)
    found.sort(key=lambda one: one.directory in is_log)
    return Origins(tuple(found), logs)


def _origin(database: Database, path: Path, config: bytes) -> Origin:
    return Origin(directory_of(database, path), database.suffix, config)


def directory_of(database: Database, path: Path) -> Path:
    """Raises NoSuchPath."""
    if database.directory is None:
        raise NoSuchPath(path=f"{path}: the directory of {database.suffix}")
    return database.directory


def _logs(config: Config) -> list[Log]:
    """Those that are kept in an mdb database."""
    by_suffix = {dn.key(name): one for one in config.mdb_databases for name in one.suffixes}
    return [
        Log(log.directory, database.directory, database.suffix)
        for database, name in config.logs
        if (log := by_suffix.get(dn.key(name))) is not None
        and database in config.mdb_databases
        and log.directory is not None
        and database.directory is not None
    ]


def _require_apart(found: list[Origin]) -> None:
    """Two databases in one directory are none: slapd itself warns of it."""
    for one in found:
        same = [other for other in found if other.directory == one.directory]
        if len(same) > 1:
            raise UsageProblem(
                reason=f"{one.directory} is the directory of {same[0].suffix} and of {same[1].suffix}"
            )
