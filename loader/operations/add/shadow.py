"""A running database that takes entries as replication brings them: olcUpdateDN for the time of a load.

slapd lets that account write what else only syncrepl may: entryUUID, entryCSN, contextCSN and the rest stay as they are
given, and everybody else is refused meanwhile ("shadow context"; servers/slapd/add.c and modify.c of OpenLDAP 2.4 to
2.6, be_isupdate).
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from loader.config import Change, Config, Database
from loader.errors import LeaseStands, LoaderError, NotAReplica
from loader.operations import leases
from loader.operations.add.leases import lending
from loader.run import lease
from loader.run.lease import Lease
from loader.server import configuration, configuration_write, shell_commands
from loader.server.options import Connection
from loader.server.session import session

KIND = "updatedn"
_SETTING = "olcUpdateDN"
_OF_REPLICA = ("olcUpdateRef", "olcSyncrepl")
log = logging.getLogger(__name__)


@contextmanager
def update_dn_set(connection: Connection, suffix: str) -> Iterator[None]:
    """The body may write as replication does. Raises ConfigHidden, ConfigRefused, NotAReplica, LeaseStands."""
    with session(connection) as server:
        config = configuration.read_online(server)
        database, uri = config.database(suffix), config.uri or ""
        require_free(config, database)
        mark = leases.mark(config, database)
    one = Lease(KIND, uri, database.suffix, _by_hand(database, uri, _SETTING), mark=mark)
    with lending(
        one, lambda: _switch_on(connection, suffix), lambda: _give_back(connection, suffix, one)
    ):
        yield


def require_free(config: Config, database: Database) -> None:
    """Only a database that is nobody's replica yet can be lent."""
    if database.consumer:
        # slapd does not start with an olcUpdateRef alone.
        set_ = [one for one in _OF_REPLICA if config.values(database.entry_dn, one)]
        undo = _by_hand(database, config.uri or "ldapi:///", *set_)
        raise NotAReplica(where=config.where, suffix=database.suffix, undo=undo)


def give_back_standing(connection: Connection) -> None:
    """Switch off what a killed run left on."""
    if not lease.any_open():
        return
    with session(connection) as server:
        uri, known = server.uri, leases.of_server(server)
    for one in lease.open_leases(known, KIND):
        if one.target != uri and not _is_on(connection, one.database):
            continue  # of a server with a copy of this one's configuration, for all that can be seen
        log.warning("%s: %s of %s was left by a run of %s", uri, _SETTING, one.database, one.taken)
        with lease.taken(one) as given_back:
            _give_back(connection, one.database, one)
            given_back()


def _is_on(connection: Connection, suffix: str) -> bool:
    with session(connection) as server:
        config = configuration.read_online(server)
        return bool(config.values(config.database(suffix).entry_dn, _SETTING))


def _by_hand(database: Database, uri: str, *settings: str) -> str:
    """A command for root of that host."""
    changes = "-\\n".join(f"delete: {one}\\n" for one in settings)
    text = f"dn: {database.entry_dn}\\nchangetype: modify\\n{changes}"
    return f"printf {shlex.quote(text)} | ldapmodify {shell_commands.external(uri)}"


def _switch_on(connection: Connection, suffix: str) -> None:
    with session(connection) as server:
        database = configuration.read_online(server).database(suffix)
        change = Change(_SETTING, (), (server.who_am_i(),))
        configuration_write.modify(server, database.entry_dn, [change])


def _give_back(connection: Connection, suffix: str, one: Lease) -> None:
    try:
        with session(connection) as server:
            config = configuration.read_online(server)
            database = config.database(suffix)
            standing = config.values(database.entry_dn, _SETTING)
            if standing:
                change = Change(_SETTING, standing, ())
                configuration_write.modify(server, database.entry_dn, [change])
    except LoaderError as error:
        raise LeaseStands(what=_SETTING, suffix=suffix, reason=error, undo=one.undo) from error
