"""nosync, envflags and checkpoint lent for a time: changed through cn=config, and put back whatever happens.

A lease is written down first (loader/run/lease.py). What a killed run left changed, and what a lease that has ended was
for, is put back by the next start of `ditseed add`, or of `ditseed tune sync`, against that server.
"""

from __future__ import annotations

import logging
import shlex

from loader.config import Database
from loader.errors import LeaseStands, LoaderError, ServerRefused, UsageProblem
from loader.operations import leases
from loader.operations.tune import syncing
from loader.operations.tune.target import opened
from loader.run import lease
from loader.run.lease import Lease
from loader.server import running
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.storage.holders import DATA

log = logging.getLogger(__name__)

# What makes a commit: it comes and goes.
_MARKER = "ditseed-sync"
_UNDO = ("ditseed", "tune", "sync")


def lend(connection: Connection, kind: str, value: str, seconds: float, why: str) -> None:
    """Set so for so many seconds, or until the next boot. Then the next start of ditseed on this host puts it back.

    Raises ConfigHidden, ConfigNotEditable, UsageProblem if it is so already for good.
    """
    one, database = lease_of(connection, kind, why)
    if syncing.SETTINGS[kind].of(database) == value and not lease.stands(one):
        raise UsageProblem(
            reason=f"{kind} of {database.suffix} is {value} already, and no lease of it"
        )
    lease.until(one, seconds, lambda: switch(connection, database.suffix, kind, value))


def lease_of(connection: Connection, kind: str, why: str) -> tuple[Lease, Database]:
    """One to take, with the value that is in force now."""
    with opened(connection) as target:
        database, place = target.config.database(connection.base), target.place
        before = syncing.SETTINGS[kind].of(database)
        if kind == syncing.NOSYNC:  # where it is on, others have it
            before = syncing.OFF
        undo = [*_UNDO, *place, "-b", database.suffix, f"--{kind}", before, "--apply"]
        mark, uri = leases.mark(target.config, database), target.config.uri or ""
    return Lease(
        kind, uri, database.suffix, shlex.join(undo), before=before, mark=mark, why=why
    ), database


def release(connection: Connection) -> None:
    """Put back what a killed run left changed. Where no lease stands, no server is asked anything."""
    if not lease.any_open():
        return
    with session(connection) as server:
        uri, known = server.uri, leases.of_server(server)
    for setting in syncing.SETTINGS.values():
        for one in lease.open_leases(known, setting.kind):
            if one.target != uri and _is_back(connection, setting, one):
                continue  # of a server with a copy of this one's configuration, for all that can be seen
            log.warning(
                "%s: %s of %s was left set by a run of %s", uri, one.kind, one.database, one.taken
            )
            with lease.taken(one) as given_back:
                give_back(connection, one)
                given_back()


def _is_back(connection: Connection, setting: syncing.Setting, one: Lease) -> bool:
    with opened(connection) as target:
        return setting.of(target.config.database(one.database)) == syncing.before(one)


def switch(connection: Connection, suffix: str, kind: str, value: str) -> Database:
    with opened(connection) as target:
        syncing.change(target, suffix, kind, value, apply=True)
        return target.config.database(suffix)


def give_back(connection: Connection, one: Lease) -> None:
    """Afterwards all that was committed is on the server's disk. Raises LeaseStands."""
    suffix = one.database
    try:
        database = switch(connection, suffix, one.kind, syncing.before(one))
        if one.kind != syncing.CHECKPOINT:  # with it, commits were synced as ever
            with session(connection) as server:
                flush(server, database)
    except LoaderError as error:
        raise LeaseStands(what=one.kind, suffix=suffix, reason=error, undo=one.undo) from error


def flush(server: Session, database: Database) -> None:
    """Have all that was committed on the server's disk. A consumer, or a database that is read-only, takes no write; on
    this host its file is flushed from outside.

    Raises what `sync` raises.
    """
    try:
        sync(server, database.suffix)
    except ServerRefused:
        pid = server.peer()
        if pid is None or not running.flushed(pid, f"{database.directory}/{DATA}"):
            raise


def sync(server: Session, suffix: str) -> None:
    """Make the server flush everything to its disk. Any commit does, for LMDB syncs the whole file; so one is made.

    A suffix without an entry has nothing to be flushed.
    """
    if not server.exists(suffix):
        return
    dn = f"cn={_MARKER},{suffix}"
    if not server.exists(dn):  # of a run that was killed here
        server.add(dn, {"objectClass": [b"organizationalRole"], "cn": [_MARKER.encode()]})
    server.delete(dn)
