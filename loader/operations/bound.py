"""What a finished load left on a running server, and whether that is what is there now: a server may have been made
anew, or got another database, under the same URI."""

from __future__ import annotations

from loader import csn
from loader.run.log import Facts
from loader.server.options import Connection
from loader.server.session import Session, first_value, session

BOUND = "bound"  # among the facts of the step that was done last


def found(connection: Connection, name: str, first: str = "") -> Facts | None:
    """What tells the database that holds the entry `name`, and the entry `first` in it; None when they are not there.

    An entryUUID is "" where the account may not read it; `entries` is None where the monitor does not count.
    """
    with session(connection) as server:
        suffix = server.context_of(name)
        if not all(map(server.exists, filter(None, (suffix, first)))):
            return None
        return {
            "suffix": suffix,
            "first": first,
            "uuids": [_uuid(server, one) for one in (suffix, first) if one],
            "context_csns": server.shown_csns(suffix),
            "entries": server.counted(suffix),
        }


def _uuid(server: Session, name: str) -> str:
    return first_value(server.read(name, ["entryUUID"]), "entryuuid")


def is_there(connection: Connection, facts: Facts) -> bool:
    """Is what `found` told in `facts` still there? Others may have written to it since."""
    before = facts.get(BOUND)
    if before is None:
        return True  # of an input that has no first entry to tell
    now = found(connection, before["suffix"], before["first"])
    if now is None or (now["suffix"], now["uuids"]) != (before["suffix"], before["uuids"]):
        return False
    then, today = csn.by_server(before["context_csns"]), csn.by_server(now["context_csns"])
    if not csn.is_covered_by(then, today):
        return False  # an older state of it, from a backup for instance
    counts = {before["entries"], now["entries"]}
    return not then or then != today or None in counts or len(counts) == 1
