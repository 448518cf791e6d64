"""The first step of every seeding. Checks, before any entry is read, that the strategy can fill the consumer and that
the provider has the suffix and shows all of it, and predicts what the provider will send to the consumer afterwards.

With --prepare-provider, the step sets a lasting session log and makes the write with which the log begins, before it
reads the contextCSN; probes of the provider prove that this was enough. A lease records the previous session log. The
end of the seeding cannot restore it, because the consumer's first refresh needs the new log: `ditseed replica release`
restores it after that refresh."""

from __future__ import annotations

import logging
import math
import shlex
import time
from functools import partial

from msgspec.structs import replace

from loader import backmdb, dn, plain, syncrepl, units
from loader.errors import (
    ConfigHidden,
    ConfigUnreadable,
    LeaseStands,
    LimitTooLow,
    LoaderError,
    NotProven,
    ProviderNotPrepared,
    SchemaMissing,
    ServerRefused,
    UsageProblem,
)
from loader.operations import leases, live, sizing
from loader.operations.build import native
from loader.operations.made_with import SchemaFacts
from loader.operations.server_sample import of_server
from loader.operations.sizing import require_room
from loader.overlays import COMPUTED
from loader.progress import Meter
from loader.run import lease
from loader.run.lease import Lease
from loader.run.log import killpoint
from loader.server import configuration, questions, sync
from loader.server.options import EVERYTHING, Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer
from loader.sinks.mdb import schema_of
from loader.sources.location import is_stream
from loader.sources.sampling import SampleSize
from loader.storage import files
from seeders.replica import catchup
from seeders.replica.catchup import Preflight, Syncprov
from seeders.replica.strategies import Consumer, Search, Strategy, context_csns_of_ldif

KIND = "sessionlog"  # kind of the lease
# Maximum writes: to bring the server ID into contextCSN, to begin the log, to prove it; one spare for other writers.
_WRITES = 4
_SAMPLE = 500  # first entries of the provider that are checked against the consumer's schema
_BUILT = SampleSize(5000, 0.0)
_UNSEEN = 8192.0  # assumed minimum of the largest entry in bytes, because the sampled first entries may be small
_SECONDS = 10  # time limit for the provider's search for object classes; immediate with an index on objectClass
_NAMED = 10  # schema names listed in an error message before "and N more"
_COMPUTED = {name.lower() for name in COMPUTED}

log = logging.getLogger(__name__)


def preflight(strategy: Strategy, dry_run: bool = False) -> Preflight:
    """Runs the checks, and returns their facts. Prepares the provider (--prepare-provider) only after the consumer, the
    LDIF and the provider have been checked, and not in a dry run."""
    options, consumer = strategy.options, strategy.consumer()
    config, database = consumer.config, consumer.database
    if backmdb.has_subentry(config, database):
        reason = (
            f"{config.where}: with sync_use_subentry the consumer does not look for contextCSN in the suffix entry, "
            "and would fetch every entry again; remove sync_use_subentry (olcSyncUseSubentry) from the database of "
            f"{database.suffix} first"
        )
        raise UsageProblem(reason=reason)
    for path in options.source:
        if not is_stream(path):
            files.require_readable(path)
        if strategy.reads_ldif and not options.allow_hidden:
            live.require_whole(path)
    provider = options.connection
    if provider is None:
        log.warning("%s: it was not asked (-H)", catchup.UNKNOWN)
        return Preflight(database.suffix)
    # The consumer's suffix may be only a part of the provider's tree.
    base = consumer.partial.syncrepl.searchbase if consumer.partial else provider.base or database.suffix
    syncing = syncrepl.of_database(config, database, provider.uri)
    log_base = syncing.log_base if syncing else None  # the accesslog from which the consumer's syncrepl takes changes
    csns = _context_csns(strategy, consumer, base)
    prepared = None
    if options.admin and not dry_run:
        prepared = prepare(*options.admin, base, log_base)
        csns = _context_csns(strategy, consumer, base)
    claimed = context_csns_of_ldif(options.source) if strategy.reads_ldif and options.source else csns
    forecast, says = catchup.forecast(provider, base, claimed, config, log_base, consumer.partial is not None)
    return Preflight(database.suffix, provider.uri, prepared, csns, forecast, says)


def _context_csns(strategy: Strategy, consumer: Consumer, base: str) -> list[str]:
    """Returns the lowest contextCSN of all providers. Raises an error if a provider lacks the base, if it hides
    anything below and the strategy searches it, or if the consumer lacks schema or room for its entries."""
    options, csns = strategy.options, []
    wants = consumer.partial.narrowing().wants if consumer.partial else None
    for connection in (options.connection, *options.replicas):
        assert connection is not None
        with session(connection) as provider:
            provider.read(base, ["1.1"])
            csns.append(strategy.context_csns(provider, base))
            # Hidden entries are checked first: sampling sizes reads entries that the account may be unable to see.
            if not options.source and not options.allow_hidden:
                live.require_all_visible(provider, base, wants, own=consumer.database.overlays)
            if isinstance(strategy, Search) and strategy.partial is None:
                _require_fitting(strategy, provider, base)
    return live.lowest(csns)


def _require_fitting(strategy: Search, provider: Session, base: str) -> None:
    """Checks that the consumer's schema knows the provider's entries, and that its map and its disk have room for them;
    logs checks that cannot be made. Raises SchemaMissing, MaxsizeTooSmall, NoSpace."""
    place = strategy.place
    # A server other than OpenLDAP is asked for user attributes only: the attributes it computes are not loaded.
    attributes = EVERYTHING if questions.is_openldap(provider) else EVERYTHING[:1]
    first, whole = provider.first(base, _SAMPLE, attributes)
    entries = [entry for _, entry in first]
    try:
        rules = backmdb.settings(place.config, place.database).attribute_options
        schema = schema_of(place.config, place.database, rules)
    except (NotProven, ConfigUnreadable) as error:
        log.warning("schema: not compared with the provider's before the reading: %s", error)
    else:
        used = dict.fromkeys(name for entry in entries for name in entry if name not in _COMPUTED)
        unknown = [*schema.unknown(list(used)), *unknown_classes(provider, base, SchemaFacts.of(schema))]
        if unknown:
            raise SchemaMissing(config=place.config.where, names=units.listed(unknown, _NAMED))

    count = len(entries)
    if not whole:  # the provider's count may be unavailable, or be that of a larger tree than `base`
        of_suffix = dn.key(provider.context_of(base)) == dn.key(base)
        count = questions.entries(provider, base, sampled=True) or 0 if of_suffix else 0
    sizes = [sum(len(name) + len(value) + 3 for name, values in entry.items() for value in values) for entry in entries]
    largest = max(_UNSEEN, sizing.LARGEST * sum(sizes) / max(1, len(sizes)))

    def needed() -> int:
        """Returns the bytes of the database, predicted from a sample; 0 if only slapadd can build it."""
        try:
            target = native.target_of(strategy.building(), place)
        except NotProven:
            return 0
        with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
            sample = of_server(replace(provider.connection, base=base), _BUILT, scratch, Meter("sample"))
            return sizing.forecast(sample, target, Meter("build"), timed=0.0).bytes

    at_most = count * largest if count else math.inf
    require_room(native.limits_of(strategy.building(), place), lambda: at_most, needed)


def unknown_classes(provider: Session, base: str, schema: SchemaFacts) -> list[str]:
    """Returns classes in use that the consumer does not know; incomplete, with a warning, if a search hits a limit."""
    lacking = [name for name in questions.object_classes(provider) if name.lower() not in schema.classes]
    used: list[str] = []
    end = time.monotonic() + _SECONDS
    while lacking:
        where = "".join(f"(objectClass={name})" for name in lacking)
        seconds = math.ceil(end - time.monotonic())
        try:
            first, _ = provider.first(base, 1, ["objectClass"], f"(|{where})", seconds) if seconds > 0 else ([], True)
        except (LimitTooLow, ServerRefused) as error:
            log.warning(
                "schema: the consumer does not know %s; %s did not say whether any entry has them (%s), so only the "
                "reading will tell. An index on objectClass lets it answer at once",
                plain.printable(units.listed(lacking, _NAMED)),
                provider.uri,
                error.facts["reason"],
            )
            return used
        # The filter also matches entries that only inherit a class; objectClass then does not list that class.
        values = {value.lower() for _, entry in first for value in entry.get("objectclass", ())}
        met = [name for name in lacking if name.lower().encode() in values]
        if not met:
            return used
        used += met
        lacking = [name for name in lacking if name not in met]
    return used


# --prepare-provider.


def prepare(config: Connection, data: Connection, base: str, log_base: str | None) -> list[str]:
    """Prepares the database that holds `base`. Returns the actions taken, in words. `config` may change cn=config,
    `data` may write to the tree. `log_base`: the accesslog that the consumer's syncrepl reads. Raises ConfigHidden,
    ConfigRefused, ServerRefused, ProviderNotPrepared."""
    done = []
    with session(config) as server:
        suffix = server.context_of(base)
        syncprov, claimed = catchup.syncprov_of(server, suffix), server.context_csns(suffix)
        expected = catchup.expected_answer(server, suffix, claimed, syncprov, log_base)
        if expected.only_changes and expected.sure:
            return [f"{server.uri} is ready"]
        if not syncprov or not syncprov.logs:
            done.append(_set_log(config, server, suffix))
    with session(data) as writer, session(config) as server:
        syncprov = catchup.syncprov_of(server, suffix)
        # Writes until a probe with the contextCSN from before the last write is answered with changes only.
        for count in range(1, _WRITES + 1):
            claimed = writer.context_csns(suffix)
            sync.touch(writer, suffix)
            expected = catchup.expected_answer(server, suffix, claimed, syncprov, log_base)
            if expected.only_changes and expected.answer is SyncAnswer.CHANGES:
                return [*done, f"writes to {suffix} that change nothing: {count}"]
    raise ProviderNotPrepared(uri=server.uri, suffix=suffix, answer=expected.says(), why=expected.why)


def _set_log(admin: Connection, server: Session, suffix: str) -> str:
    syncprov = _visible_syncprov(server, suffix)
    size = catchup.log_size(questions.entries(server, suffix, sampled=True))
    config = configuration.read_online(server)
    # An existing lease records the session log from before the first seeding, so it is kept.
    if not any(old.database == suffix for old in lease.abandoned(leases.identity(config), KIND)):
        mark = leases.mark(config, config.database(suffix))
        undo = shlex.join(["ditseed", "replica", "release", *admin.options(), "-b", suffix])
        lease.record(Lease(KIND, server.uri, suffix, undo, before=str(syncprov.session_log or ""), mark=mark))
    killpoint(f"{KIND}.written-down")
    configuration.modify(server, syncprov.entry_dn, [syncprov.resized(size)])
    killpoint(f"{KIND}.taken")
    return f"{catchup.SESSION_LOG} of {suffix} set to {size:,} at {server.uri}"


def _visible_syncprov(server: Session, suffix: str) -> Syncprov:
    syncprov = catchup.syncprov_of(server, suffix)
    if syncprov is None:
        raise ConfigHidden(uri=server.uri, who=server.connection.who, reason=f"no syncprov of {suffix} is shown")
    return syncprov


def release(connection: Connection, suffix: str | None) -> list[str]:
    """Restores the session logs from before --prepare-provider. Returns a line for each. Raises LeaseStands if a log
    cannot be restored."""
    with session(connection) as server:

        def restore(left: Lease) -> None:
            try:
                syncprov = _visible_syncprov(server, left.database)
                change = syncprov.resized(int(left.before or 0))
                if change.before != change.after:
                    configuration.modify(server, syncprov.entry_dn, [change])
            except LoaderError as error:
                facts = {"what": catchup.SESSION_LOG, "suffix": left.database, "undo": left.undo}
                raise LeaseStands(**facts, reason=error) from error

        chosen = [left for left in lease.abandoned(leases.of_server(server), KIND) if suffix in (None, left.database)]
        for left in chosen:
            lease.end(left, partial(restore, left))
    return [f"{left.database}: {left.before or 'no session log'}" for left in chosen]


def forget(uri: str, suffix: str | None) -> list[str]:
    """Drops the leases of a server that is gone for good, without contacting it. Returns a line for each lease."""
    chosen = [left for left in lease.abandoned() if left.target == uri and suffix in (None, left.database)]
    for left in chosen:
        lease.end(left)
    return [f"{left.kind} of {left.database}: forgotten, not put back" for left in chosen]


def standing(uri: str) -> list[str]:
    """Returns reminders of session logs that a seeding set and nobody has restored. Includes all servers, because the
    server at `uri` may have been named by another URI."""
    return [
        f"the session log of {left.database} was set by --prepare-provider at {left.taken}"
        f"{'' if left.target == uri else f' at {left.target}'}; keep it, as any restart of a consumer needs it, or put "
        f"back what was before: {left.undo} (with --forget if that server is gone for good)"
        for left in lease.abandoned()
        if left.kind == KIND
    ]
