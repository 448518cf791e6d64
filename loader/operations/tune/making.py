"""Making new indexes in a database that no slapd has open, before its configuration speaks of them.

The core makes their tables again in one transaction, with the kinds that were configured before and those that will
be: whichever configuration stands after a kill, slapd finds by it what it should.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from loader import indexes
from loader.config import Config, Database
from loader.errors import NotProven
from loader.mdb.meta import DATA
from loader.operations import indexing
from loader.operations.tune import slapindex
from loader.operations.tune.plan import Plan
from loader.operations.verify import given_to_core
from loader.progress import Progress
from loader.storage import held

WORKSHOP = ".ditseed-index"  # in the database directory, for what does not fit into memory


def make(config: Config, plan: Plan, progress: Progress) -> Sequence[str]:
    """Notes on how they were made. Raises MapFull, NoSpace, MdbDamaged, ToolFailed."""
    directory = plan.database.directory
    if directory is None or not (directory / DATA).exists():
        return ()  # slapd makes the indexes of an empty database as it fills
    try:
        _by_core(config, plan, directory, progress)
        return ()
    except NotProven as error:
        slapindex.make(config, plan, progress)
        return (indexing.by_slapindex_because(error),)


def _by_core(config: Config, plan: Plan, directory: Path, progress: Progress) -> None:
    given = given_to_core(config, _with_both(plan), directory)
    with progress.step("index") as meter, _workshop(directory) as scratch:
        indexing.by_core(given, directory, plan.index, scratch, meter)


def _with_both(plan: Plan) -> Database:
    """The database with its indexes, and with those that it will have."""
    lines = [line for one in plan.changes if one.attribute == "olcDbIndex" for line in one.after]
    present = indexes.parse(plan.database.indexes)
    both = indexes.added(present, map(str, indexes.parse(lines).values()))
    return replace(plan.database, indexes=tuple(map(str, both.values())))


@contextmanager
def _workshop(directory: Path) -> Iterator[Path]:
    """A private directory beside the database, on whose file system there is the room."""
    with held.opened(directory) as place:
        try:
            with held.private(place.path / WORKSHOP) as home:
                yield home.path
        finally:
            with suppress(OSError):
                os.rmdir(WORKSHOP, dir_fd=place.descriptor)
