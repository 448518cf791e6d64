"""The databases that a configuration has for the entries below a base: it only tells where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loader import dn, glue
from loader.config import Config, Database
from loader.errors import NoSuchPath
from loader.server import configuration
from loader.sources.mdb import Part, is_database


@dataclass(frozen=True)
class ConfiguredDatabase:
    """The entries below `base` of a database directory; or of the mdb database that a configuration has for them
    (None: all of the only one), those of glued subordinate databases too, as slapcat has it.
    """

    place: Path
    base: str | None = None

    @property
    def label(self) -> str:
        return str(self.place)

    def parts(self) -> list[Part]:
        """Raises NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath, NotLmdb."""
        if is_database(self.place):
            return [Part(self.place, self.base)]
        found = configuration.read(self.place)
        database = _database(found, self.base)
        own = [Part(_directory(database), _below(self.base, database))]
        return [*own, *_subordinate(found, database, self.base)]


def _database(found: Config, base: str | None) -> Database:
    """The one that holds the base; without one, the only one."""
    for database in found.databases:
        for suffix in database.suffixes:
            if base is not None and dn.is_below(base, suffix):
                return found.database(suffix)
    return found.database(base)


def _below(base: str | None, database: Database) -> str | None:
    """None where the base is the suffix: all that is stored, whatever the spelling."""
    suffixes = {dn.key(suffix) for suffix in database.suffixes}
    return None if base is None or dn.key(base) in suffixes else base


def _subordinate(found: Config, database: Database, base: str | None) -> Iterator[Part]:
    """Databases glued to this one (slapd.conf(5), subordinate), as far as they are below the base."""
    top = base if base is not None else database.suffix
    for other in glue.subordinates(found, database):
        if other.backend == "mdb" and dn.is_below(other.suffix, top):
            yield Part(_directory(other))


def _directory(database: Database) -> Path:
    if database.directory is None:
        raise NoSuchPath(path="the database's directory")
    return database.directory
