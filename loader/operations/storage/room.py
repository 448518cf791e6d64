"""Space: of the volume against the database, of maxsize against the volume, of what is used against maxsize."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from loader import units
from loader.operations.storage import layout
from loader.operations.storage.findings import Database, Finding, Severity, Situation
from loader.storage.filesystems import EXT
from loader.storage.survey import Facts

_SOURCE = "the vendors' rule for directories: twice the database at least, three times if possible"
_TIGHT = 0.9


def findings(situation: Situation) -> Iterator[Finding]:
    facts, database = situation.facts, situation.database
    if database is None:
        told = f"{units.size(facts.space.free)} of {units.size(facts.space.size)} free"
        yield Finding(Severity.OK, "space", facts.mount.target, told)
        return
    yield _volume(facts, database)
    if situation.map_size:
        yield _map(facts, database, situation.map_size)
        yield from _filling(database, situation.map_size)


def _taken(database: Database) -> int:
    return max(database.allocated, database.used)


def _volume(facts: Facts, database: Database) -> Finding:
    size, taken = facts.space.size, _taken(database)
    told = f"{units.size(size)}, {units.size(facts.space.free)} free; the database takes {units.size(taken)}"
    if size >= 3 * taken and facts.space.free >= taken:
        return Finding(Severity.OK, "space", facts.mount.target, told)
    scarce = size < 2 * taken or facts.space.free < taken
    return Finding(
        Severity.WARNING if scarce else Severity.NOTE,
        "space",
        facts.mount.target,
        told,
        "A build, a restore or a copy is made beside the database and needs as much again; the database itself grows "
        "while a long read, such as a backup, keeps old pages in use.",
        _enlarge(facts, 3 * taken - size if size < 3 * taken else taken - facts.space.free),
        _SOURCE,
    )


def _map(facts: Facts, database: Database, map_size: int) -> Finding:
    reachable = database.allocated + facts.space.free
    told = f"map size {units.size(map_size)}"
    if map_size <= reachable:
        return Finding(Severity.OK, "maxsize", database.path, f"{told} fits on the volume")
    lowered = max(reachable * 9 // 10 >> 20, 1)
    return Finding(
        Severity.WARNING,
        "maxsize",
        database.path,
        f"{told}, but data.mdb can grow to {units.size(reachable)} only",
        "The volume is full before the map is. slapd then fails with an error of the disk instead of MDB_MAP_FULL, and "
        "with writemap (slapadd -q uses it) the process is killed by SIGBUS.",
        (
            *_enlarge(facts, map_size - reachable),
            f"ditseed tune maxsize -H ldapi:/// -Y EXTERNAL --maxsize {lowered}M --apply",
        ),
        "lmdb.h, mdb_env_set_mapsize",
    )


def _filling(database: Database, map_size: int) -> Iterator[Finding]:
    if database.used >= _TIGHT * map_size:
        yield Finding(
            Severity.WARNING,
            "maxsize.used",
            database.path,
            f"{100 * database.used / map_size:.0f} % of the map are in use",
            "At 100 % slapd refuses every write (MDB_MAP_FULL). Address space costs nothing.",
            ("ditseed tune maxsize -H ldapi:/// -Y EXTERNAL --maxsize auto --apply",),
            "slapd-mdb(5), maxsize",
        )


def _enlarge(facts: Facts, lack: int) -> tuple[str, ...]:
    """5 % more than is lacking, for what the file system keeps for itself."""
    volume, mount = facts.volume, facts.mount
    if volume is None or volume.pool is not None or facts.top is None:
        return ()
    if volume.path != facts.top.path:
        return ()
    lack += lack // 20
    if mount.kind in (*EXT, "xfs"):
        return layout.enlarging(facts.volumes, volume, lack, "-r ")
    if mount.kind == "btrfs":
        grow = f"btrfs filesystem resize max {quote(mount.target)}"
        return (*layout.enlarging(facts.volumes, volume, lack), grow)
    return ()
