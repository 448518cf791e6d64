"""Indexes that a configuration asks for and a database lacks: made offline by slapindex, in a private environment."""

from __future__ import annotations

from pathlib import Path

from loader import indexes
from loader.mdb import names
from loader.operations.publish import TargetDatabase
from loader.server import tools


def missing(place: TargetDatabase, directory: Path) -> list[str]:
    """Configured indexes that have no table in `directory`."""
    present = {name.lower() for name in names.indexed(directory)}
    wanted = indexes.parse(place.database.indexes).values()
    return [
        index.attribute
        for index in wanted
        if index.key != indexes.DEFAULT and index.key.partition(";")[0] not in present
    ]


def add_missing(place: TargetDatabase, directory: Path, scratch: Path) -> list[str]:
    """Run slapindex for what is missing; which attributes that were."""
    absent = missing(place, directory)
    if absent:
        settings = {"olcDbDirectory": [str(directory).encode()]}
        with place.private_configuration(scratch, settings) as copy:
            tools.run("slapindex", "-q", "-F", str(copy), "-b", place.database.suffix, *absent)
    return absent
