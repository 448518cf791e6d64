"""Source: a back-mdb database as LDIF, read by slapcat, which works beside a running slapd too."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from loader import dn
from loader.child import Child
from loader.config import Config, Database
from loader.errors import NoSuchPath, NotLmdb
from loader.server import configuration, tools
from loader.storage.files import Owner, require_readable

DATA, LOCK = "data.mdb", "lock.mdb"


@dataclass(frozen=True)
class Mdb:
    """The entries below `base` in the mdb database of a configuration (None: all of the only one).

    `directory`: a database that lies elsewhere (a clone, a backup) and is read with that configuration's schema.
    """

    config_path: Path
    base: str | None = None
    directory: Path | None = None

    @property
    def label(self) -> str:
        return str(self.directory or self.config_path)


@contextmanager
def running(asked: Mdb) -> Iterator[Child]:
    """slapcat at work; read its stdout, then call `check`."""
    found = configuration.read(asked.config_path)
    database = _database(found, asked)
    directory = asked.directory or database.directory
    _require_data(directory)
    assert directory is not None
    with _config(found, database, directory) as arguments, _lock_kept(directory):
        where = [
            *arguments,
            "-b",
            database.suffix,
            *_below(asked.base, database),
            "-o",
            "ldif-wrap=no",
        ]
        with Child(tools.server_tool("slapcat", *where), stdout=subprocess.PIPE) as child:
            yield child


def _database(found: Config, asked: Mdb) -> Database:
    """The one that holds the base; without one, that of the directory, or the only one."""
    for database in found.databases:
        if asked.base is None and _is_at(database, asked.directory):
            return database
        for suffix in database.suffixes:
            if asked.base is not None and dn.within(asked.base, suffix):
                return found.database(suffix)
    return found.database(asked.base)


def _below(base: str | None, database: Database) -> list[str]:
    """By URI: slapcat 2.5.13 crashes on -s, whatever the base."""
    if base is None or dn.key(base) in map(dn.key, database.suffixes):
        return []
    return ["-H", f"ldap:///{quote(base, safe='=,')}??sub"]


def _is_at(database: Database, directory: Path | None) -> bool:
    if directory is None or database.directory is None:
        return False
    return database.directory.absolute() == directory.absolute()


def _require_data(directory: Path | None) -> None:
    """slapcat would make an empty database where there is none."""
    if directory is None:
        raise NoSuchPath(path="the database's directory")
    require_readable(directory)
    if not (directory / DATA).exists():
        raise NotLmdb(path=directory, reason=f"it holds no {DATA}")
    require_readable(directory / DATA)


@contextmanager
def _config(found: Config, database: Database, directory: Path) -> Iterator[list[str]]:
    """slapcat's arguments for the configuration, or for a private copy that points to `directory`."""
    if _is_at(database, directory):
        yield ["-F" if found.is_directory else "-f", str(found.path)]
        return
    place = {"olcDbDirectory": [str(directory.absolute()).encode()]}
    with (
        tempfile.TemporaryDirectory(
            prefix="ditseed-config-", dir=configuration.scratch()
        ) as scratch,
        configuration.private_copy(found, database, place, Path(scratch)) as copy,
    ):
        yield ["-F", str(copy)]


@contextmanager
def _lock_kept(directory: Path) -> Iterator[None]:
    """A lock.mdb that slapcat makes belongs to us, and slapd's own user could not open it: give it away."""
    lock = directory / LOCK
    before = lock.exists()
    try:
        yield
    finally:
        if not before and lock.exists():
            Owner.of(directory / DATA).give(lock)
