"""Changes settings of a running server temporarily, through cn=config.

nosync, envflags and checkpoint are changed for a load, or until a time (`ditseed tune sync --lease`). olcUpdateDN is
changed for a load that writes as replication does: slapd lets the account in olcUpdateDN write entryUUID, entryCSN,
contextCSN and other attributes that otherwise only syncrepl may write, and refuses all other writes ("shadow context";
be_isupdate in servers/slapd/add.c and modify.c of OpenLDAP 2.4 to 2.6).

Each change is a lease, which is recorded before the change (loader/run/lease.py). If a run is killed or a lease
expires, the next start of `ditseed add` or `ditseed tune` against that server restores the setting."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from loader.config import Change, Config, Database
from loader.errors import LoaderError, NotAReplica, ServerRefused, SettingNotRestored, UsageProblem
from loader.operations import leases
from loader.operations.options import OFF, ON
from loader.operations.tune import opened, syncing
from loader.run import lease
from loader.run.lease import Lease
from loader.server import configuration, tools
from loader.server.options import Connection, external
from loader.server.session import Session, session
from loader.storage.holders import DATA

UPDATE_DN = "updatedn"
KINDS = (*syncing.SETTINGS, UPDATE_DN)
_UPDATE_DN = "olcUpdateDN"
log = logging.getLogger(__name__)


@contextmanager
def nosync_on(connection: Connection) -> Iterator[None]:
    """Runs the body with nosync on, then restores nosync and flushes all commits to the server's disk. If nosync was on
    without a lease, changes nothing. Raises ConfigHidden, SettingNotRestored."""
    nosync, database = _sync_lease(connection, syncing.NOSYNC, "ditseed add")
    if database.nosync and nosync.name not in {other.name for other in lease.all_leases()}:
        log.warning("%s has nosync on already, and keeps it", database.suffix)
        yield
        return
    with lease.leased(nosync, partial(_set, connection, nosync, ON), partial(restore, connection, nosync)):
        yield


@contextmanager
def update_dn_set(connection: Connection, suffix: str) -> Iterator[None]:
    """Sets olcUpdateDN, so that the body can write as replication does. Raises ConfigHidden, ConfigRefused,
    NotAReplica, SettingNotRestored."""
    with session(connection) as server:
        config = configuration.read_online(server)
        database, uri, account = config.database(suffix), config.uri or "", server.who_am_i()
        require_free(config, database)
    undo, mark = _by_hand(database, uri, _UPDATE_DN), leases.mark(config, database)
    update_dn = Lease(UPDATE_DN, uri, database.suffix, undo, mark=mark)
    change, back = partial(_set, connection, update_dn, account), partial(restore, connection, update_dn)
    with lease.leased(update_dn, change, back, alone=True):
        yield


def lend(connection: Connection, kind: str, value: str, seconds: float, why: str) -> None:
    """Changes a setting. After `seconds`, or after a boot, the next start of ditseed on this host restores the setting.
    Raises ConfigHidden, ConfigNotEditable, and UsageProblem if the setting has that value already, without a lease."""
    setting, database = _sync_lease(connection, kind, why)
    is_lent = setting.name in {other.name for other in lease.all_leases()}
    if syncing.SETTINGS[kind].of(database) == value and not is_lent:
        raise UsageProblem(reason=f"{kind} of {database.suffix} is {value} already, without a lease")
    lease.lease_for(setting, seconds, lambda: _set(connection, setting, value))


def release(connection: Connection, *kinds: str) -> None:
    """Restores the settings that killed runs have left changed. Contacts no server if no lease is recorded."""
    if not lease.all_leases():
        return
    with session(connection) as server:
        uri, identity = server.uri, leases.of_server(server)
    for kind in kinds or KINDS:
        for lent in lease.abandoned(identity, kind):
            if lent.target != uri:  # the lease may be of another server, which has a copy of this configuration
                with opened(connection) as target:
                    database = target.config.database(lent.database)
                    update_dn = "".join(target.config.values(database.entry_dn, _UPDATE_DN))
                value = update_dn if kind == UPDATE_DN else syncing.SETTINGS[kind].of(database)
                if value == lent.before:
                    continue
            log.warning("%s: %s of %s was left set by a run of %s", uri, _name(kind), lent.database, lent.taken)
            lease.end(lent, partial(restore, connection, lent))


def put_back(lent: Lease, access: Connection) -> str:
    """Restores the setting of a lease, through `access` if it has the lease's URI, else ldapi. Returns the outcome."""
    if access.uri == lent.target:
        connection = access
    elif is_local(lent):
        connection = Connection(uri=lent.target, mechanism="EXTERNAL")
    else:
        return f"left changed: give -H {lent.target} and an account, or run the command that is printed"
    try:
        release(connection, lent.kind)
    except LoaderError as error:
        return f"left changed ({error})"
    return "left changed" if is_abandoned(lent) else "restored"


def is_local(lent: Lease) -> bool:
    return lent.target.lower().startswith("ldapi:")


def is_abandoned(lent: Lease) -> bool:
    """Returns whether the lease is still recorded and no running process owns it."""
    key = (lent.kind, lent.target, lent.database)
    return key in [(other.kind, other.target, other.database) for other in lease.abandoned()]


def restore(connection: Connection, lent: Lease) -> None:
    """Restores the former value, and flushes all commits to the server's disk. Raises SettingNotRestored."""
    try:
        database = _set(connection, lent, lent.before)
        if lent.kind in (syncing.NOSYNC, syncing.ENV_FLAGS):  # with other settings, LMDB syncs every commit itself
            with session(connection) as server:
                flush(server, database)
    except LoaderError as error:
        raise SettingNotRestored(what=_name(lent.kind), suffix=lent.database, reason=error, undo=lent.undo) from error


def require_free(config: Config, database: Database) -> None:
    """Raises NotAReplica if the database is a replica already: a load must not change its olcUpdateDN."""
    if database.consumer:
        # slapd does not start if only olcUpdateRef is set.
        settings = [name for name in ("olcUpdateRef", "olcSyncrepl") if config.values(database.entry_dn, name)]
        undo = _by_hand(database, config.uri or "ldapi:///", *settings)
        raise NotAReplica(where=config.where, suffix=database.suffix, undo=undo)


def flush(server: Session, database: Database) -> None:
    """Flushes all commits to the server's disk: adds and deletes an entry, because LMDB syncs the whole file at each
    commit. If the database refuses this (a consumer, or read-only) and is on this host, syncs its data file directly.
    Does nothing if the suffix has no entry."""
    if not server.exists(database.suffix):
        return
    name = "ditseed-sync"
    marker = f"cn={name},{database.suffix}"
    try:
        if not server.exists(marker):  # a killed run may have left the entry
            server.add(marker, {"objectClass": [b"organizationalRole"], "cn": [name.encode()]})
        server.delete(marker)
    except ServerRefused:
        pid = server.server_pid()
        if pid is None or not tools.flush(pid, f"{database.directory}/{DATA}"):
            raise


def _sync_lease(connection: Connection, kind: str, why: str) -> tuple[Lease, Database]:
    """Returns a new lease, whose `before` is the value to restore, and the database."""
    with opened(connection) as target:
        database, uri = target.config.database(connection.base), target.config.uri or ""
        # If nosync is on, another run has switched it on under a lease, so off is the value to restore.
        before = OFF if kind == syncing.NOSYNC else syncing.SETTINGS[kind].of(database)
        options = (*target.arguments, "-b", database.suffix, f"--{kind}", before, "--apply")
        undo, mark = shlex.join(("ditseed", "tune", "sync", *options)), leases.mark(target.config, database)
    return Lease(kind, uri, database.suffix, undo, before=before, mark=mark, why=why), database


def _set(connection: Connection, lent: Lease, value: str) -> Database:
    if lent.kind != UPDATE_DN:
        with opened(connection) as target:
            syncing.change(target, lent.database, lent.kind, value, apply=True)
            return target.config.database(lent.database)
    with session(connection) as server:
        config = configuration.read_online(server)
        database = config.database(lent.database)
        before, after = config.values(database.entry_dn, _UPDATE_DN), (value,) if value else ()
        if before != after:
            configuration.modify(server, database.entry_dn, [Change(_UPDATE_DN, before, after)])
        return database


def _name(kind: str) -> str:
    return _UPDATE_DN if kind == UPDATE_DN else kind


def _by_hand(database: Database, uri: str, *settings: str) -> str:
    """Returns a command that deletes the settings. root must run it on the server's host."""
    changes = "-\\n".join(f"delete: {name}\\n" for name in settings)
    text = f"dn: {database.entry_dn}\\nchangetype: modify\\n{changes}"
    return f"printf {shlex.quote(text)} | ldapmodify {external(uri)}"
