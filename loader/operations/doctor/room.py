"""maxsize: is there room for what slapd is about to write? "33 % used" says little: what counts is unused pages and
those that can be used again, and a reader keeps the latter from being any."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from loader import units
from loader.operations.doctor.facts import Database, Facts, Room
from loader.operations.storage.findings import Finding, Severity

WARNING, CRITICAL = 0.20, 0.10  # of maxsize, available
_SOON, _VERY_SOON = 900.0, 300.0  # seconds until the map is full
_SOURCE = "slapd-mdb(5), maxsize; lmdb.h, MDB_MAP_FULL"


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        if database.room is not None:
            yield _headroom(facts, database, database.room)


def _headroom(facts: Facts, database: Database, room: Room) -> Finding:
    share = room.available / room.maxsize if room.maxsize else 0.0
    severity, left = Severity.OK, _fills_in(room)
    if database.maxsize < room.used:
        severity = Severity.WARNING
    if share < WARNING or left < _SOON:
        severity = Severity.CRITICAL if share < CRITICAL or left < _VERY_SOON else Severity.WARNING
    return Finding(
        severity,
        "maxsize",
        database.suffix,
        _told(room, share, left) + _exceeded(database, room),
        "slapd refuses every write (MDB_MAP_FULL) once there are neither unused pages nor free ones that it may use "
        "again. "
        "Pages that were freed since the oldest reader began are not among those.",
        () if severity is Severity.OK else tuple(_mend(facts, database, room)),
        _SOURCE,
    )


def _exceeded(database: Database, room: Room) -> str:
    if database.maxsize >= room.used:
        return ""
    return f"; {units.size(database.maxsize)} are configured, less than what is used, which LMDB maps in any case"


def _fills_in(room: Room) -> float:
    """Seconds; only a reader that lags makes a database grow by each transaction."""
    return room.available / room.growth if room.growth else float("inf")


def _told(room: Room, share: float, left: float) -> str:
    told = (
        f"{units.size(room.available)} of maxsize {units.size(room.maxsize)} are available ({100 * share:.0f} %): "
        f"{units.size(room.unused)} unused, {units.size(room.reusable)} free to be used again"
    )
    if room.held:
        told += f"; {units.size(room.held)} more once the oldest reader ends"
    if room.disk_free < room.maxsize - room.used:
        told += f"; the disk has room for {units.size(room.disk_free)} only"
    if left < float("inf"):
        told += f"; full in about {units.duration(left)} at the present rate of writes"
    return told


def _mend(facts: Facts, database: Database, room: Room) -> Iterator[str]:
    if room.held:
        yield "# end the oldest reader (below): it gives back the pages that it keeps"
    if room.disk_free < room.maxsize - room.used:
        yield f"df -h {shlex.quote(database.directory)}  # make room there"
        return
    wished = "auto" if room.maxsize < room.used * 3 else f"{2 * room.maxsize >> 20}M"
    yield from facts.tuned("maxsize", "-b", shlex.quote(database.suffix), "--maxsize", wished)
