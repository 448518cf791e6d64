"""nosync for the time of a load: switched on through cn=config, and off again whatever happens.

A lease is written down first (loader/run/lease.py). What a killed run left on is switched off by the next start of
`ditseed add`, or of `ditseed tune sync`, against that server.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from loader.config import Database
from loader.errors import LeaseStands, LoaderError, UsageProblem
from loader.operations import leases
from loader.operations.add.leases import sharing
from loader.operations.tune import syncing
from loader.operations.tune.target import opened
from loader.run import lease
from loader.run.lease import Lease
from loader.server.options import Connection
from loader.server.session import Session, session

KIND = "nosync"
log = logging.getLogger(__name__)

# What makes a commit: it comes and goes.
_MARKER = "ditseed-sync"
_UNDO = ("ditseed", "tune", "sync")


@contextmanager
def nosync_on(connection: Connection) -> Iterator[None]:
    """The body runs with nosync on; afterwards all that was committed is on the server's disk.

    A server that has nosync on already keeps it. Raises ConfigHidden, LeaseStands.
    """
    one, database = _lease(connection)
    if database.nosync and not lease.stands(one):
        log.warning("%s has nosync on already, and keeps it", database.suffix)
        yield
        return
    with sharing(
        one,
        lambda: _switch_on(connection, database.suffix),
        lambda: _give_back(connection, one),
    ):
        yield


def lend(connection: Connection, seconds: float) -> None:
    """nosync on for so long, or until the next boot. Then the next start of ditseed on this host switches it off.

    Raises ConfigHidden, ConfigNotEditable, UsageProblem if it is on already for good.
    """
    one, database = _lease(connection)
    if database.nosync and not lease.stands(one):
        raise UsageProblem(reason=f"{database.suffix} has nosync on already, and no lease of it")
    lease.until(one, seconds, lambda: _switch_on(connection, database.suffix))


def _lease(connection: Connection) -> tuple[Lease, Database]:
    with opened(connection) as target:
        database, place = target.config.database(connection.base), target.place
        undo = [*_UNDO, *place, "-b", database.suffix, "--nosync", "off", "--apply"]
        mark = leases.mark(target.config, database)
        target_uri = target.config.uri or ""
    return Lease(KIND, target_uri, database.suffix, shlex.join(undo), mark=mark), database


def release_open_leases(connection: Connection) -> None:
    """Switch off what a killed run left on. Where no lease stands, no server is asked anything."""
    if not lease.any_open():
        return
    with session(connection) as server:
        uri, known = server.uri, leases.of_server(server)
    for one in lease.open_leases(known, KIND):
        if one.target != uri and not _is_on(connection, one.database):
            continue  # of a server with a copy of this one's configuration, for all that can be seen
        log.warning("%s: nosync of %s was left on by a run of %s", uri, one.database, one.taken)
        with lease.taken(one) as given_back:
            _give_back(connection, one)
            given_back()


def _is_on(connection: Connection, suffix: str) -> bool:
    with opened(connection) as target:
        return target.config.database(suffix).nosync


def _switch_on(connection: Connection, suffix: str) -> None:
    with opened(connection) as target:
        syncing.change_nosync(target, suffix, True, apply=True)


def _give_back(connection: Connection, one: Lease) -> None:
    suffix = one.database
    try:
        with opened(connection) as target:
            syncing.change_nosync(target, suffix, False, apply=True)
        with session(connection) as server:
            sync(server, suffix)
    except LoaderError as error:
        raise LeaseStands(what=KIND, suffix=suffix, reason=error, undo=one.undo) from error


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
