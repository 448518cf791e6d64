"""Is there room in a running server of this host for what is to be added? Asked before the first entry is sent."""

from __future__ import annotations

import logging
from pathlib import Path

from loader import dn, units
from loader.config import Config, Database
from loader.errors import LoaderError, MaxsizeTooSmall
from loader.operations import map_room
from loader.operations.build import native
from loader.operations.build.options import BuildOptions
from loader.operations.map_room import Reader, Room
from loader.operations.publish import TargetDatabase
from loader.operations.sizing import guard
from loader.progress import Meter
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from loader.sources.ldif_files import LdifFiles

log = logging.getLogger(__name__)
LOOSER = 1.5  # times: slapd leaves pages half full where it inserts, and the core fills them


def require(connection: Connection, given: LdifFiles, first: str | None) -> None:
    """`first`: DN of the first entry. Raises MaxsizeTooSmall. What cannot be asked (a server elsewhere, a configuration
    that is hidden or that the core is not proven for) is not."""
    try:
        found = _local(connection, first)
        if found is None:
            return
        config, database = found
        room, readers = map_room.look(database)
        place = TargetDatabase(config, database, database.directory or Path())
        target = native.target_of(BuildOptions(config.path, suffix=database.suffix), place)
        load = guard.forecast(target, given, room.available, Meter("sample"))
    except (LoaderError, OSError) as error:
        log.info("room in the map was not looked at: %s", error)
        return
    if load is not None:
        _judge(database, room, readers, load.bytes)


def _local(connection: Connection, first: str | None) -> tuple[Config, Database] | None:
    with session(connection) as server:
        if not server.uri.lower().startswith("ldapi:"):
            return None
        config = configuration.read_online(server)
    found = [one for one in config.mdb_databases if first and dn.is_below(first, one.suffix)]
    if not found:
        return None
    return config, max(found, key=lambda one: len(one.suffix))


def _judge(database: Database, room: Room, readers: tuple[Reader, ...], needed: int) -> None:
    if needed > room.available:
        if room.held:
            _tell_reader(database, room, readers)
        whole = room.maxsize - room.available + needed
        raise MaxsizeTooSmall(
            maxsize=units.size(room.maxsize), suffix=database.suffix, needed=units.size(whole)
        )
    if needed * LOOSER > room.available:
        log.warning(
            "%s: the load takes %s or more, and %s of maxsize are available: it may fill the map",
            database.suffix,
            units.size(needed),
            units.size(room.available),
        )


def _tell_reader(database: Database, room: Room, readers: tuple[Reader, ...]) -> None:
    oldest = max(readers, key=lambda one: one.lag)
    log.warning(
        "%s: %s (process %d) keeps %s of free pages from being used again",
        database.suffix,
        oldest.process or "a dead reader",
        oldest.pid,
        units.size(room.held),
    )
