"""Indexes of a copy that its configuration would have made otherwise: made again, in a private place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader import indexes, units
from loader.errors import MapFull, ToolFailed
from loader.mdb import index_tables, meta
from loader.operations.publish import TargetDatabase
from loader.progress import Meter
from loader.server import tools

ROOM = 4  # times the file, for slapindex; LMDB does not make the file larger for it


def rebuild(
    place: TargetDatabase, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter
) -> None:
    """In `directory`, which nobody else uses; what the tables held is taken out first, because slapindex only adds.
    Not synced. Raises MapFull, ToolFailed."""
    if not attributes:
        return
    index_tables.empty(directory, [name.partition(";")[0] for name in attributes])
    room = max(place.database.maxsize, ROOM * meta.read_meta(directory).used)
    settings: dict[str, Sequence[bytes]] = {
        "olcDbDirectory": [str(directory).encode()],
        "olcDbMaxSize": [str(room).encode()],
        "olcDbEnvFlags": [],  # writemap makes the file as long as its map
    }
    meter.note = f"slapindex {' '.join(attributes)}"
    if lines := only(place.database.indexes, attributes):
        settings["olcDbIndex"] = lines
    with place.private_configuration(scratch, settings) as copy:
        command = ("-q", "-F", str(copy), "-b", place.database.suffix)
        try:
            tools.run("slapindex", *command)
        except ToolFailed as error:
            if "MDB_MAP_FULL" in str(error):
                raise MapFull(path=directory, map_size=units.size(room)) from error
            raise


def only(lines: Sequence[str], attributes: Sequence[str]) -> list[bytes]:
    """The configured indexes of these attributes, in place of arguments of slapindex: given several, it sorts them by
    address unless the first is the one of the lowest address, and then makes only part of them. Empty, for all, where
    one is configured by another name."""
    wanted, configured = {name.lower() for name in attributes}, indexes.parse(lines)
    if not wanted <= configured.keys():
        return []
    return [str(one).encode() for key, one in configured.items() if key in wanted]
