"""`replica seed --prepare-provider` and `--prepare-consumer`, and `replica release`, which undoes --prepare-provider.

Before the preflight reads the contextCSN, --prepare-provider sets a session log on the provider, and makes the writes
with which the log begins. Probes prove that the writes were enough. A lease records the previous session log. The
seeding does not restore it, because the consumer's first refresh needs the new log. After that refresh, the operator
restores it with `ditseed replica release`."""

from __future__ import annotations

import shlex
from functools import partial

from loader import indexes, syncrepl
from loader.config import Config, value_of_word, words_of_value
from loader.errors import ConfigHidden, LoaderError, ProviderNotPrepared, SettingNotRestored, UsageProblem
from loader.operations import leases
from loader.operations.options import IndexChange
from loader.operations.tune import Plan, Target, indexing
from loader.run import lease
from loader.run.log import killpoint
from loader.server import configuration, questions, sync
from loader.server.options import Connection
from loader.server.session import Session, session
from seeders.replica import catchup
from seeders.replica.options import SeedOptions

KIND = "sessionlog"  # kind of the lease
# Maximum writes: one adds the server ID to contextCSN, one begins the log, one lets a probe see it, one is spare.
_WRITES = 4


def prepare(config: Connection, data: Connection, base: str, log_base: str | None) -> list[str]:
    """Prepares the database that contains `base`. Returns what was done, in words. `config`: connection that may change
    cn=config. `data`: connection that may write to the tree. `log_base`: the accesslog that the consumer's syncrepl
    reads. Raises ConfigHidden, ConfigRefused, ServerRefused, ProviderNotPrepared."""
    done = []
    with session(config) as server:
        suffix = server.context_of(base)
        syncprov, claimed = catchup.syncprov_of(server, suffix), server.context_csns(suffix)
        expected = catchup.expected_answer(server, suffix, claimed, syncprov, log_base)
        if expected.only_changes and expected.sure:
            return [f"{server.uri} is ready"]
        if not syncprov or not syncprov.has_log:
            done.append(_set_log(config, server, suffix))
    with session(data) as writer, session(config) as server:
        syncprov = catchup.syncprov_of(server, suffix)
        # The probe has the contextCSN from before the last write. The loop ends when the provider sends only changes.
        for count in range(1, _WRITES + 1):
            claimed = writer.context_csns(suffix)
            sync.touch(writer, suffix)
            expected = catchup.expected_answer(server, suffix, claimed, syncprov, log_base)
            if expected.only_changes and expected.answer is sync.SyncAnswer.CHANGES:
                return [*done, f"writes to {suffix} that change nothing: {count}"]
    raise ProviderNotPrepared(uri=server.uri, suffix=suffix, answer=expected.describe(), why=expected.why)


def prepare_consumer(options: SeedOptions) -> list[str]:
    """Writes into the slapd.d of the stopped consumer the indexes that syncrepl searches by, and a syncrepl that binds
    to the provider as this seeding does. Keeps existing settings. Returns what was done, in words. Raises
    UsageProblem, ConfigRefused, ServerRunning, and the errors of the bind."""
    provider = options.connection
    if options.config_path is None or provider is None or provider.uri is None:
        raise UsageProblem(reason="--prepare-consumer needs --config, and the provider: -H URI")
    config = configuration.read(options.config_path)
    database, done = config.database(options.suffix), []
    lacking = tuple(indexes.lacking_for_sync(indexes.parse(database.indexes)))
    if not config.is_directory and (lacking or not database.consumer):
        raise UsageProblem(reason=f"{config.path}: --prepare-consumer changes a slapd.d only: edit this file")
    value = None if database.consumer else _syncrepl(provider, config, database.suffix)
    if lacking:
        indexing.change_indexes(Target.of_files(config), database.suffix, IndexChange(add=lacking), apply=True)
        done.append(f"index {' and '.join(lacking)} of {database.suffix}")
    if value:
        target = Target.of_files(configuration.read(config.path))
        referral = config.values(database.entry_dn, "olcUpdateRef") or (provider.uri,)
        changes = target.changes(database, {"olcSyncrepl": (value,), "olcUpdateRef": referral})
        database = target.config.database(database.suffix)
        _, publish = target.prepare(Plan(database, changes, lambda now: now.consumer, undo=()))
        assert publish is not None  # None only for a slapd.conf, which is refused above
        publish()
        done.append(f"syncrepl of {database.suffix} from {provider.uri}")
    return done


def _syncrepl(provider: Connection, config: Config, suffix: str) -> str:
    """Returns a value of olcSyncrepl that binds as `provider` does. Tries this bind first, and raises its errors."""
    password = provider.read_secret()
    if provider.mechanism or not provider.bind_dn or password is None:
        raise UsageProblem(reason="--prepare-consumer writes a syncrepl with a simple bind only: give -D and -y")
    with session(provider) as server:
        server.read(suffix, ["1.1"])
    values = [value for each in config.databases for value in config.values(each.entry_dn, "olcSyncrepl")]
    taken = {int(syncrepl.parse(value, config.where).rid) for value in values}
    words = [f"rid={next(rid for rid in range(1, 1000) if rid not in taken):03}", f"provider={provider.uri}"]
    words += [f"searchbase={suffix}", "type=refreshAndPersist", "retry=5 12 60 +", "keepalive=240:10:30"]
    words += ["bindmethod=simple", f"binddn={provider.bind_dn}", f"credentials={password.decode('utf-8', 'replace')}"]
    words += [f"starttls={'critical' if provider.start_tls > 1 else 'yes'}"] if provider.start_tls else []
    value = " ".join(map(value_of_word, words))
    if words_of_value(value) != words or not all(map(str.isprintable, words)):
        raise UsageProblem(reason="the password has characters that no syncrepl in a slapd.d can have")
    return value


def _set_log(admin: Connection, server: Session, suffix: str) -> str:
    syncprov = _visible_syncprov(server, suffix)
    size = catchup.log_size(questions.entries(server, suffix, sampled=True))
    config = configuration.read_online(server)
    # An existing lease is not replaced, because it records the session log from before the first seeding.
    if not any(old.database == suffix for old in lease.abandoned(leases.identity(config), KIND)):
        mark = leases.mark(config, config.database(suffix))
        undo = shlex.join(["ditseed", "replica", "release", *admin.options(), "-b", suffix])
        lease.record(lease.Lease(KIND, server.uri, suffix, undo, before=str(syncprov.session_log or ""), mark=mark))
    killpoint(f"{KIND}.written-down")
    configuration.modify(server, syncprov.entry_dn, [syncprov.resized(size)])
    killpoint(f"{KIND}.taken")
    return f"{catchup.SESSION_LOG} of {suffix} set to {size:,} at {server.uri}"


def _visible_syncprov(server: Session, suffix: str) -> catchup.Syncprov:
    syncprov = catchup.syncprov_of(server, suffix)
    if syncprov is None:
        raise ConfigHidden(uri=server.uri, who=server.connection.who, reason=f"no syncprov of {suffix} is shown")
    return syncprov


def release(connection: Connection, suffix: str | None) -> list[str]:
    """Restores the sizes that session logs had before --prepare-provider. Returns a line for each log. Raises
    SettingNotRestored if a size cannot be restored."""
    with session(connection) as server:

        def restore(old: lease.Lease) -> None:
            try:
                syncprov = _visible_syncprov(server, old.database)
                change = syncprov.resized(int(old.before or 0))
                if change.before != change.after:
                    configuration.modify(server, syncprov.entry_dn, [change])
            except LoaderError as error:
                facts = {"what": catchup.SESSION_LOG, "suffix": old.database, "undo": old.undo}
                raise SettingNotRestored(**facts, reason=error) from error

        abandoned = lease.abandoned(leases.of_server(server), KIND)
        chosen = [old for old in abandoned if suffix in (None, old.database)]
        for old in chosen:
            lease.end(old, partial(restore, old))
    return [f"{old.database}: {old.before or 'no session log'}" for old in chosen]


def forget(uri: str, suffix: str | None) -> list[str]:
    """Deletes the leases of a server that does not exist any more. Returns a line for each lease."""
    chosen = [old for old in lease.abandoned() if old.target == uri and suffix in (None, old.database)]
    for old in chosen:
        lease.end(old)
    return [f"{old.kind} of {old.database}: forgotten, not restored" for old in chosen]


def reminders(uri: str) -> list[str]:
    """Returns a reminder of each session log that a seeding has set and nobody has restored. Includes those recorded
    under other URIs, because a server can have several URIs."""
    return [
        f"the session log of {old.database} was set by --prepare-provider at {old.taken}"
        f"{'' if old.target == uri else f' at {old.target}'}; keep it, because any restart of a consumer needs it, or "
        f"restore what was before: {old.undo} (with --forget if that server is gone for good)"
        for old in lease.abandoned()
        if old.kind == KIND
    ]
