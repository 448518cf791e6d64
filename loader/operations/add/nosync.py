"""nosync for the time of a load."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from loader.operations.add import sync_leases
from loader.operations.add.leases import sharing
from loader.operations.tune import syncing
from loader.run import lease
from loader.server.options import Connection

log = logging.getLogger(__name__)


@contextmanager
def nosync_on(connection: Connection) -> Iterator[None]:
    """The body runs with nosync on; afterwards all that was committed is on the server's disk.

    A server that has nosync on already keeps it. Raises ConfigHidden, LeaseStands.
    """
    one, database = sync_leases.lease_of(connection, syncing.NOSYNC, "ditseed add")
    if database.nosync and not lease.stands(one):
        log.warning("%s has nosync on already, and keeps it", database.suffix)
        yield
        return
    with sharing(
        one,
        lambda: sync_leases.switch(connection, database.suffix, syncing.NOSYNC, syncing.ON),
        lambda: sync_leases.give_back(connection, one),
    ):
        yield
