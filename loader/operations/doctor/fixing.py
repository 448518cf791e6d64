"""What --fix does: it clears the slots of dead readers, and puts back what killed runs have left set on servers that
answer.

Everything else stays a command that is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loader import units
from loader.errors import LoaderError
from loader.mdb import readers
from loader.operations.add import left
from loader.operations.doctor.facts import Database, Facts
from loader.run import lease
from loader.server.options import Connection


def fix(facts: Facts, access: Connection) -> Iterator[str]:
    """What was done, or why not."""
    for database in facts.databases:
        if any(not one.is_alive for one in database.readers):
            yield _cleared(database)
    for one in lease.left():
        if one.kind in left.GIVE_BACK and left.is_left(one.kind, one.target, one.database):
            yield f"{one.kind} of {one.database} at {one.target}: {left.put_back(one, access)}"


def _cleared(database: Database) -> str:
    try:
        count = readers.clear(Path(database.directory))
    except LoaderError as error:
        return f"{database.suffix}: slots of dead readers could not be cleared ({error})"
    return f"{database.suffix}: slots of dead readers cleared: {units.number(count)}"
