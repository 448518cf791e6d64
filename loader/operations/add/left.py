"""What killed runs have left set on servers that answer, put back: by root's socket, or the account that is given."""

from __future__ import annotations

from collections.abc import Callable

from loader.errors import LoaderError
from loader.operations.add import shadow, sync_leases
from loader.operations.tune import syncing
from loader.run import lease
from loader.run.lease import Lease
from loader.server.options import Connection

GIVE_BACK: dict[str, Callable[[Connection], None]] = {
    **dict.fromkeys(syncing.SETTINGS, sync_leases.release),
    shadow.KIND: shadow.give_back_standing,
}


def put_back(one: Lease, access: Connection) -> str:
    """What came of it. By the account that was given for that server, or as root by ldapi."""
    if access.uri == one.target:
        connection = access
    elif is_local(one):
        connection = Connection(uri=one.target, mechanism="EXTERNAL")
    else:
        return f"left: give -H {one.target} and an account, or the command that is printed"
    try:
        GIVE_BACK[one.kind](connection)
    except LoaderError as error:
        return f"left ({error})"
    return "left" if is_left(one.kind, one.target, one.database) else "put back"


def is_local(one: Lease) -> bool:
    return one.target.lower().startswith("ldapi:")


def is_left(kind: str, target: str, database: str) -> bool:
    known = (kind, target, database)
    return any((each.kind, each.target, each.database) == known for each in lease.left())
