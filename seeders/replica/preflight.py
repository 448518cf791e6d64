"""The first step of every seeding, before any entry is read: can the consumer be filled in this way; does the provider
hold this suffix, and show all of it; what will it send to the consumer afterwards?

With --prepare-provider, it sets a session log that lasts and makes the write with which the log begins, before it asks
for the contextCSN. The provider itself shows that it was enough. What the session log was before is written down in a
lease. It cannot be restored at the end of the seeding, for the consumer's first refresh is what needs it: `ditseed
replica release` does so, after that."""

from __future__ import annotations

import logging
import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from loader import backmdb, dn, plain, syncrepl
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
from loader.operations.room import require_room
from loader.operations.server_sample import of_server
from loader.overlays import COMPUTED
from loader.progress import Meter
from loader.run import lease
from loader.run.lease import Lease
from loader.run.log import killpoint
from loader.server import configuration, questions, sync
from loader.server.options import EVERYTHING, Connection
from loader.server.session import Attributes, Session, session
from loader.server.sync import SyncAnswer
from loader.sinks.mdb import schema_of
from loader.sources.location import is_stream
from loader.sources.sampling import SampleSize
from loader.storage import files, temporary
from seeders.replica import catchup
from seeders.replica.catchup import Preflight
from seeders.replica.strategies import Admin, Consumer, Search, Strategy, context_csns_of_ldif

KIND = "sessionlog"  # of the lease
# The provider's server ID into the contextCSN, the first of the log, one that shows it; one more for other writers.
_WRITES = 4
_SAMPLE = 500  # entries
_BUILT = SampleSize(5000, 0.0)
_UNSEEN = 8192.0  # bytes of an entry in the database: there may be large ones that are not among the first
_SECONDS = 10  # that the provider may look for object classes; by an index on objectClass it takes none
_NAMED = 10
_COMPUTED = {name.lower() for name in COMPUTED}

log = logging.getLogger(__name__)


def preflight(strategy: Strategy, dry_run: bool = False) -> Preflight:
    """With --prepare-provider the provider is prepared, unless this is a dry run, once all other checks have passed."""
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
        catchup.without_provider()
        return Preflight(database.suffix)
    # The consumer may have a part of the provider's tree as its own suffix.
    base = consumer.partial.syncrepl.searchbase if consumer.partial else provider.base or database.suffix
    syncing = syncrepl.of_database(config, database, provider.uri)
    log_base = syncing.log_base if syncing else None  # the accesslog from which the consumer's syncrepl takes changes
    csns = _context_csns(strategy, consumer, base)
    prepared = None
    if options.admin and not dry_run:
        prepared = prepare(options.admin, base, log_base)
        csns = _context_csns(strategy, consumer, base)
    claimed = context_csns_of_ldif(options.source) if strategy.reads_ldif and options.source else csns
    forecast, says = catchup.forecast(provider, base, claimed, config, log_base, consumer.partial is not None)
    return Preflight(database.suffix, provider.uri, prepared, csns, forecast, says)


def _context_csns(strategy: Strategy, consumer: Consumer, base: str) -> list[str]:
    """What every provider covers. Each must have the base and, if it is read by searches, show everything below."""
    options, csns = strategy.options, []
    wants = consumer.partial.narrowing().wants if consumer.partial else None
    for connection in (options.connection, *options.replicas):
        assert connection is not None
        with session(connection) as provider:
            provider.read(base, ["1.1"])
            csns.append(strategy.context_csns(provider, base))
            # What is hidden is asked first: the look at sizes may read entries, which the same account may not.
            if not options.source and not options.allow_hidden:
                own = consumer.database.overlays
                live.require_all_visible(provider, base, wants, own=own)
            if isinstance(strategy, Search) and strategy.partial is None:
                _require_fitting(strategy, provider, base)
    return live.lowest(csns)


# Does the consumer's schema know what the provider's entries use, and is there room in its map and on its disk?


def _require_fitting(strategy: Search, provider: Session, base: str) -> None:
    """What cannot be found out is told in a note. Raises SchemaMissing, MaxsizeTooSmall, NoSpace."""
    # What another server computes is not loaded, whether the consumer knows it or not.
    attributes = EVERYTHING if questions.is_openldap(provider) else EVERYTHING[:1]
    first, whole = provider.first(base, _SAMPLE, attributes)
    entries = [entry for _, entry in first]
    _require_known(provider, base, strategy, entries)
    count = len(entries)
    if not whole:  # the provider may not tell, or tell it of a larger tree
        of_suffix = dn.key(provider.context_of(base)) == dn.key(base)
        count = questions.entries(provider, base, sampled=True) or 0 if of_suffix else 0
    sizes = [sum(len(name) + len(value) + 3 for name, values in entry.items() for value in values) for entry in entries]
    largest = max(_UNSEEN, sizing.LARGEST * sum(sizes) / max(1, len(sizes)))
    limits = native.limits_of(strategy.building(), strategy.place)
    require_room(limits, lambda: _needed(strategy, base), count * largest if count else math.inf)


def _require_known(provider: Session, base: str, strategy: Search, entries: Sequence[Attributes]) -> None:
    config, database = strategy.place.config, strategy.place.database
    try:
        schema = schema_of(config, database, backmdb.settings(config, database).attribute_options)
    except (NotProven, ConfigUnreadable) as error:
        log.warning("schema: not compared with the provider's before the reading: %s", error)
        return
    used = dict.fromkeys(name for entry in entries for name in entry if name not in _COMPUTED)
    unknown = [*schema.unknown(list(used)), *unknown_classes(provider, base, SchemaFacts.of(schema))]
    if unknown:
        raise SchemaMissing(config=config.where, names=_named(unknown))


def _named(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def unknown_classes(provider: Session, base: str, schema: SchemaFacts) -> list[str]:
    """Object classes that the provider knows, the consumer does not, and an entry has, as far as the provider tells."""
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
                plain.printable(_named(lacking)),
                provider.uri,
                error.facts["reason"],
            )
            return used
        # A superior class that an entry only inherits is not among its values.
        values = {value.lower() for _, entry in first for value in entry.get("objectclass", ())}
        met = [name for name in lacking if name.lower().encode() in values]
        if not met:
            return used
        used += met
        lacking = [name for name in lacking if name not in met]
    return used


def _needed(strategy: Search, base: str) -> int:
    """Bytes of the database, as a sample of the provider's entries tells; 0 where only slapadd builds it."""
    assert strategy.options.connection is not None
    try:
        target = native.target_of(strategy.building(), strategy.place)
    except NotProven:
        return 0
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        sample = of_server(replace(strategy.options.connection, base=base), _BUILT, scratch, Meter("sample"))
        return sizing.forecast(sample, target, Meter("build"), timed=0.0).bytes


# --prepare-provider.


def prepare(admin: Admin, base: str, log_base: str | None = None) -> list[str]:
    """Prepares the database that holds `base`; returns what was done. `log_base`: the accesslog that the consumer's
    syncrepl reads. Raises ConfigHidden, ConfigRefused, ServerRefused, ProviderNotPrepared."""
    done = []
    with session(admin.config) as server:
        suffix = server.context_of(base)
        expected = catchup.expected_answer(server, suffix, server.context_csns(suffix), log_base)
        if expected.fits and expected.sure:
            return [f"{server.uri} is ready"]
        if not expected.known or not expected.known.logs:
            done.append(_set_log(admin.config, server, suffix))
    with session(admin.data) as writer, session(admin.config) as server:
        # Until the provider answers the contextCSN of before the last write with changes alone.
        for count in range(1, _WRITES + 1):
            claimed = writer.context_csns(suffix)
            sync.touch(writer, suffix)
            expected = catchup.expected_answer(server, suffix, claimed, log_base)
            if expected.fits and expected.answer is SyncAnswer.CHANGES:
                return [*done, f"writes to {suffix} that change nothing: {count}"]
    raise ProviderNotPrepared(uri=server.uri, suffix=suffix, answer=expected.answer.value, why=expected.why)


def _set_log(admin: Connection, server: Session, suffix: str) -> str:
    known = catchup.syncprov_of(server, suffix)
    if known is None:
        reason = f"no syncprov of {suffix} is shown"
        raise ConfigHidden(uri=server.uri, who=server.connection.who, reason=reason)
    size = catchup.log_size(questions.entries(server, suffix, sampled=True))
    config = configuration.read_online(server)
    # A lease that exists already tells what was before all seedings.
    if not any(one.database == suffix for one in lease.left(leases.identity(config), KIND)):
        mark = leases.mark(config, config.database(suffix))
        undo = shlex.join(["ditseed", "replica", "release", *admin.options(), "-b", suffix])
        lease.note(Lease(KIND, server.uri, suffix, undo, before=str(known.session_log or ""), mark=mark))
    killpoint(f"{KIND}.written-down")
    configuration.modify(server, known.entry_dn, [catchup.change_command(known, size)])
    killpoint(f"{KIND}.taken")
    return f"{catchup.SESSION_LOG} of {suffix} set to {size:,} at {server.uri}"


def release(connection: Connection, suffix: str | None) -> list[str]:
    """Restores the session logs of before --prepare-provider; returns which, and to what. Raises LeaseStands."""
    with session(connection) as server:
        chosen = [one for one in lease.left(leases.of_server(server), KIND) if suffix in (None, one.database)]
        for one in chosen:
            lease.end(one, partial(_restore, server, one))
    return [f"{one.database}: {one.before or 'no session log'}" for one in chosen]


def forget(uri: str, suffix: str | None) -> list[str]:
    """Forgets what runs have left at a server that cannot be reached any more. Nothing is asked or restored."""
    chosen = [one for one in lease.left() if one.target == uri and suffix in (None, one.database)]
    for one in chosen:
        lease.end(one)
    return [f"{one.kind} of {one.database}: forgotten, not put back" for one in chosen]


def _restore(server: Session, one: Lease) -> None:
    try:
        known = catchup.syncprov_of(server, one.database)
        if known is None:
            raise ConfigHidden(uri=server.uri, who=server.connection.who, reason="nothing is shown")
        change = catchup.change_command(known, int(one.before or 0))
        if change.before != change.after:
            configuration.modify(server, known.entry_dn, [change])
    except LoaderError as error:
        raise LeaseStands(what=catchup.SESSION_LOG, suffix=one.database, reason=error, undo=one.undo) from error


def standing(uri: str) -> list[str]:
    """What is to be said of session logs that were set for a seeding and not restored: of any server, since that of
    `uri` may have been given by another URI."""
    return [
        f"the session log of {one.database} was set by --prepare-provider at {one.taken}"
        f"{'' if one.target == uri else f' at {one.target}'}; keep it, as any restart of a consumer needs it, or put "
        f"back what was before: {one.undo} (with --forget if that server is gone for good)"
        for one in lease.left()
        if one.kind == KIND
    ]
