"""What `ditseed compare` can read: a server, a database, or LDIF.

Each is read whole into a digest, and asked again for a few of its entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader import dn, exports, ldif
from loader.errors import NoSuchBase
from loader.ldif import EntryDigests
from loader.progress import Meter
from loader.server import subschema
from loader.server.options import Connection, Search
from loader.server.session import session
from loader.server.wire import reading
from loader.sources import ldap, ldif_files, mdb
from loader.sources.ldif_files import Entries
from loader.sources.location import STDIN, ConfiguredDatabase, Kind, locate

_TAKEN = (Kind.SERVER, Kind.DATABASE, Kind.CONFIGURATION, Kind.LDIF)


@dataclass(frozen=True)
class Server:
    """A running server, below the base of its connection; or what a search finds there, and no more."""

    connection: Connection
    asked: Search | None = None

    @property
    def label(self) -> str:
        """For people and reports; no secrets."""
        return self.connection.uri or "the default server"

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        """Read all of it."""
        searches = [self.asked] if self.asked else self._whole(meter)
        return ldap.with_retries(lambda: self._digest(searches, ignore, meter), meter)

    def _whole(self, meter: Meter) -> list[Search]:
        with session(self.connection, meter.cancelled) as server:
            base = server.base()
            server.read(base, ["1.1"])
            asked = Search(base, attributes=subschema.everything(server))
            return [asked, replace(asked, subentries=True)] if server.offers_subentries(base) else [asked]

    def _digest(self, searches: Sequence[Search], ignore: Sequence[str], meter: Meter) -> EntryDigests:
        with ldif.digesting(ignore, meter) as tree, reading(self.connection, meter) as reader:
            for asked in searches:
                reader.digest(asked, tree)
            return tree

    def find(self, names: Sequence[str]) -> Entries:
        """The entries of these DNs, as far as they are there; keys are `dn.key(DN)`."""
        found: Entries = {}
        with session(self.connection) as server:
            attributes = self.asked.attributes if self.asked else subschema.everything(server)
            for name in names:
                try:
                    entry = server.read(name, attributes)
                except NoSuchBase:
                    continue  # deleted since it was seen
                found[dn.key(name)] = {key: frozenset(values) for key, values in entry.items()}
        return found


@dataclass(frozen=True)
class Database:
    """A back-mdb database, slapd running or not."""

    mdb: ConfiguredDatabase

    @property
    def label(self) -> str:
        return self.mdb.label

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        with ldif.digesting(ignore, meter) as tree:
            for part in self.mdb.parts():
                mdb.digest(part, tree, meter)
            return tree

    def find(self, names: Sequence[str]) -> Entries:
        found: Entries = {}
        for part in self.mdb.parts():
            found.update(ldif_files.find(mdb.find(part, names), names))
        return found


@dataclass(frozen=True)
class Files:
    """LDIF files, or an export."""

    label: str
    given: tuple[Path, ...]

    @property
    def paths(self) -> list[Path]:
        return exports.files_of(self.given)

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        with exports.held(self.given, meter) as paths, ldif.digesting(ignore, meter) as tree:
            for path in paths:
                tree.add_path(str(path))
        exports.require_entries(self.given, tree.entries)
        return tree

    def find(self, names: Sequence[str]) -> Entries:
        found: Entries = {}
        for path in self.paths:
            found.update(ldif_files.find(path, names))
        return found


Comparable = Server | Database | Files


def comparable(text: str, connection: Connection, again: bool = False) -> Comparable:
    """What `text` names. `connection` says how to bind, and has the base or suffix. `again`: entries will be read a
    second time. Raises as `locate`."""
    found = locate(text, *_TAKEN, *(() if again else (Kind.STREAM,)))
    if found.kind is Kind.SERVER:
        return Server(replace(connection, uri=text))
    if found.kind in (Kind.DATABASE, Kind.CONFIGURATION):
        return Database(ConfiguredDatabase(found.path, connection.base))
    paths = (Path("/dev/stdin"),) if text == STDIN else found.paths
    return Files(text, paths)
