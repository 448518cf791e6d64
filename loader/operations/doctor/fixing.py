"""What --fix does: it clears the slots of dead readers, and puts back what killed runs have left set on servers that
answer.

Everything else stays a command that is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from loader import units
from loader.errors import LoaderError
from loader.mdb import readers
from loader.operations.add import nosync, shadow
from loader.operations.doctor.facts import Database, Facts, Lease
from loader.run import lease
from loader.server.options import Connection

_GIVE_BACK: dict[str, Callable[[Connection], None]] = {
    nosync.KIND: nosync.release_open_leases,
    shadow.KIND: shadow.give_back_standing,
}


def fix(facts: Facts, access: Connection) -> Iterator[str]:
    """What was done, or why not."""
    for database in facts.databases:
        if any(not one.is_alive for one in database.readers):
            yield _cleared(database)
    for one in facts.leases:
        if one.kind in _GIVE_BACK and _stands(one):
            yield f"{one.kind} of {one.database} at {one.target}: {_put_back(one, access)}"


def _cleared(database: Database) -> str:
    try:
        count = readers.clear(Path(database.directory))
    except LoaderError as error:
        return f"{database.suffix}: slots of dead readers could not be cleared ({error})"
    return f"{database.suffix}: slots of dead readers cleared: {units.number(count)}"


def _put_back(one: Lease, access: Connection) -> str:
    """By the account that was given for that server, or as root by ldapi."""
    if access.uri == one.target:
        connection = access
    elif one.target.startswith("ldapi:"):
        connection = Connection(uri=one.target, mechanism="EXTERNAL")
    else:
        return f"left: give -H {one.target} and an account, or the command that is printed"
    try:
        _GIVE_BACK[one.kind](connection)
    except LoaderError as error:
        return f"left ({error})"
    return "left" if _stands(one) else "put back"


def _stands(one: Lease) -> bool:
    known = (one.kind, one.target, one.database)
    return any((each.kind, each.target, each.database) == known for each in lease.left())
