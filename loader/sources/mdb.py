"""Source: back-mdb databases, read from their pages by the native core, beside a running slapd too.

A configuration only tells where a database lies; nothing of it is needed to read one. The door to the part of
loader._native that reads databases.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, dn, ldif
from loader._native import Counters, Dump, Exported, Tree
from loader.config import Config, Database
from loader.errors import LoaderError, MdbDamaged, NoEntry, NoSuchPath, NotLmdb
from loader.mdb import snapshot
from loader.mdb.environment import entry_count
from loader.progress import Meter
from loader.server import configuration
from loader.sources import records
from loader.sources.records import Entries
from loader.storage.files import require_readable

__all__ = ["Exported"]

DATA = "data.mdb"
PREFIX = "mdb:"  # before a directory, where anything else could be meant


@dataclass(frozen=True)
class Part:
    """A database directory, and the entry below which it is read (None: all of it)."""

    directory: Path
    base: str | None = None


@dataclass(frozen=True)
class Mdb:
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


def is_database(path: Path) -> bool:
    return (path / DATA).exists()


def export(part: Part, output: Path, compress: bool, jobs: int, meter: Meter) -> Exported:
    """Shards in the empty directory `output`, in the order of their names: parents first."""
    meter.total = None if part.base else entry_count(part.directory)
    with _reading(part, meter, jobs) as (dump, counters):
        return dump.export(output, counters, compress=compress)


def digest(asked: Mdb, tree: Tree, meter: Meter) -> None:
    """Add all of it to `tree`."""
    for part in asked.parts():
        with _reading(part, meter) as (dump, counters):
            dump.digest(tree, counters)


def find(asked: Mdb, names: Sequence[str]) -> Entries:
    """The entries of these DNs, as far as they are there."""
    found: Entries = {}
    for part in asked.parts():
        with _reading(part, Meter("find")) as (dump, counters):
            found.update(records.find(io.BytesIO(dump.pick(names, counters)), names))
    return found


@contextmanager
def _reading(part: Part, meter: Meter, jobs: int | None = None) -> Iterator[tuple[Dump, Counters]]:
    """A snapshot of it, held as long as the body runs; the core's errors made ours."""
    require_database(part.directory)
    path = part.directory / DATA
    with snapshot.held(part.directory) as held:
        counters = Counters()
        dump = Dump(held.path, txn=held.txn, base=part.base, jobs=jobs or os.cpu_count() or 2)
        with meter.counting(counters):
            try:
                yield dump, counters
            except _native.NativeError as error:
                raise _ours(error, path, part.base) from error


def _ours(error: _native.NativeError, path: Path, base: str | None) -> LoaderError:
    if error.code == "build.damaged":
        return MdbDamaged(path=path, reason=str(error).removeprefix(f"{path}: "))
    if error.code == "mdb.no_such_base":
        return NoEntry(path=path, dn=base)
    return ldif.ours(error, str(path))


def _database(found: Config, base: str | None) -> Database:
    """The one that holds the base; without one, the only one."""
    for database in found.databases:
        for suffix in database.suffixes:
            if base is not None and dn.within(base, suffix):
                return found.database(suffix)
    return found.database(base)


def _below(base: str | None, database: Database) -> str | None:
    """None where the base is the suffix: all that is stored, whatever the spelling."""
    suffixes = {dn.key(suffix) for suffix in database.suffixes}
    return None if base is None or dn.key(base) in suffixes else base


def _subordinate(found: Config, database: Database, base: str | None) -> Iterator[Part]:
    """Databases glued to this one (slapd.conf(5), subordinate), as far as they are below the base."""
    top = base if base is not None else database.suffix
    for other in found.mdb_databases:
        glued = found.values(other.entry_dn, "olcSubordinate")
        is_below = any(dn.within(suffix, top) for suffix in other.suffixes)
        if glued and is_below and other.entry_dn != database.entry_dn:
            yield Part(_directory(other))


def _directory(database: Database) -> Path:
    if database.directory is None:
        raise NoSuchPath(path="the database's directory")
    return database.directory


def require_database(directory: Path) -> None:
    """Raises NoSuchPath, NotPermitted, NotLmdb, MdbDamaged."""
    require_readable(directory)
    if not is_database(directory):
        raise NotLmdb(path=directory, reason=f"it holds no {DATA}")
    require_readable(directory / DATA)
    snapshot.require_format(directory)
