"""Indexes of a database that no slapd has open, made again: by the core, or by slapindex where that is not proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader import indexes, resources, units
from loader.child import Child
from loader.errors import MapFull, NotProven, ToolFailed
from loader.mdb import edits, meta
from loader.operations.publish import TargetDatabase
from loader.operations.verify import given_to_core
from loader.progress import Meter
from loader.server import tools
from loader.sinks import changing as core
from loader.sinks.changing import IndexTask, Resources
from loader.sinks.mdb import TargetSpec

ROOM = 4  # times the file, for the transaction; LMDB does not make the file larger for it


@dataclass(frozen=True)
class Rebuilt:
    """attributes: whose indexes were made again. notes: by whom, where that was not the core."""

    attributes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def rebuild(place: TargetDatabase, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter) -> Rebuilt:
    """In a copy of the database in `directory`, which nobody else uses. Raises MapFull, NoSpace, ToolFailed."""
    if not attributes:
        return Rebuilt()
    room = max(place.database.maxsize, ROOM * meta.read_meta(directory).used)
    try:
        given = replace(given_to_core(place.config, place.database, directory), map_size=room)
        by_core(given, directory, attributes, scratch, meter)
        return Rebuilt(tuple(attributes))
    except NotProven as error:
        _by_slapindex(place, directory, attributes, room, scratch, meter)
        return Rebuilt(tuple(attributes), (by_slapindex_because(error),))


def by_core(given: TargetSpec, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter) -> None:
    """All of it or nothing; `given.map_size` is how large the file may become. Raises NotProven before it changes
    anything, MapFull, NoSpace, MdbDamaged, TargetInUse."""
    means = Resources(resources.sorting_memory(), resources.processors(), scratch)
    core.rebuild(IndexTask(directory, given, tuple(attributes), means), meter)


def by_slapindex_because(error: NotProven) -> str:
    """A note."""
    return f"slapindex made the indexes, which takes longer: {error.facts['reason']}"


def _by_slapindex(
    place: TargetDatabase, directory: Path, attributes: Sequence[str], room: int, scratch: Path, meter: Meter
) -> None:
    """What the tables held is taken out first, because slapindex only adds. Not synced."""
    edits.empty_indexes(directory, [name.partition(";")[0] for name in attributes])
    settings: dict[str, Sequence[bytes]] = {
        "olcDbDirectory": [str(directory).encode()],
        "olcDbMaxSize": [str(room).encode()],
        "olcDbEnvFlags": [],  # writemap makes the file as long as its map
    }
    meter.note = f"slapindex {' '.join(attributes)}"
    if lines := only(place.database.indexes, attributes):
        settings["olcDbIndex"] = lines
    with place.private_configuration(scratch, settings) as copy:
        command = tools.server_tool("slapindex", "-q", "-F", str(copy), "-b", place.database.suffix)
        run_slapindex(command, directory, room, meter)


def run_slapindex(command: Sequence[str], directory: Path, map_size: int, meter: Meter) -> None:
    """Raises MapFull, ToolFailed."""
    with Child(command) as child, meter.cancelling(child.kill):
        try:
            child.check()
        except ToolFailed as error:
            if "MDB_MAP_FULL" in " ".join(child.words):
                raise MapFull(path=directory, map_size=units.size(map_size)) from error
            raise ToolFailed(**{**error.facts, "tool": "slapindex"}) from error


def only(lines: Sequence[str], attributes: Sequence[str]) -> list[bytes]:
    """The configured indexes of these attributes, in place of arguments of slapindex: given several, it sorts them by
    address unless the first is the one of the lowest address, and then makes only part of them. Empty, for all, where
    one is configured by another name."""
    wanted, configured = {name.lower() for name in attributes}, indexes.parse(lines)
    if not wanted <= configured.keys():
        return []
    return [str(one).encode() for key, one in configured.items() if key in wanted]
