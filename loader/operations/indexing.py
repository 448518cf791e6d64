"""Indexes that a configuration asks for and a database lacks: made offline by slapindex, in a private environment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from loader.mdb import names
from loader.operations.publish import Place
from loader.server import configuration, tools


def indexed_attributes(indexes: Iterable[str]) -> list[str]:
    """Attributes of "cn,sn eq,sub" lines; `default` is none."""
    found = [name.strip() for line in indexes for name in line.split()[0].split(",")]
    return [name for name in dict.fromkeys(found) if name.lower() != "default"]


def missing(place: Place, directory: Path) -> list[str]:
    """Configured indexes that have no table in `directory`."""
    present = {name.lower() for name in names.indexed(directory)}
    wanted = indexed_attributes(place.database.indexes)
    return [name for name in wanted if name.partition(";")[0].lower() not in present]


def add_missing(place: Place, directory: Path, scratch: Path) -> list[str]:
    """Run slapindex for what is missing; which attributes that were."""
    absent = missing(place, directory)
    if absent:
        settings = {"olcDbDirectory": [str(directory).encode()]}
        with configuration.private_copy(place.config, place.database, settings, scratch) as copy:
            tools.run("slapindex", "-q", "-F", str(copy), "-b", place.database.suffix, *absent)
    return absent
