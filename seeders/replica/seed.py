"""`replica seed`: fills the database of a new replica by one of the strategies.

The first step of every seeding is `preflight`. Before any entry is read, it checks that the strategy can fill the
consumer, and that the provider has the suffix and shows all of its entries. It also predicts what the provider will
send to the consumer afterwards."""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import backmdb, dn, errors, plain, syncrepl, units
from loader.config import Config, Database
from loader.operations import live, sizing
from loader.operations.build import native
from loader.operations.build.steps import BuildOptions
from loader.operations.export import of_server
from loader.operations.publish import TargetDatabase
from loader.overlays import COMPUTED
from loader.progress import Meter, Progress
from loader.run.log import Report
from loader.run.steps import open_run
from loader.server import configuration, questions, sync
from loader.server.options import EVERYTHING, Connection, line
from loader.server.session import Attributes, Entries, Session, session
from loader.sinks.mdb import Schema, schema_of
from loader.sources import sampling
from loader.sources.location import is_stream
from loader.storage import files
from seeders.replica import catchup, prepare
from seeders.replica.online import Online
from seeders.replica.options import STRATEGY_NAMES, SeedOptions
from seeders.replica.strategies import Clone, Ldif, Search, Strategy, context_csns_of_ldif

STRATEGIES: dict[str, type[Strategy]] = dict(zip(STRATEGY_NAMES, (Search, Ldif, Clone, Online), strict=True))
OPTIONAL = {name for strategy in STRATEGIES.values() for name in strategy.takes}  # options of some strategies only

_APART = 300.0  # seconds that the provider's clock may be ahead
_FIRST = 500  # number of entries that are read first, in the server's order
_BUILT = sampling.SampleSize(5000, 0.0)
_UNSEEN = 8192.0  # bytes; the largest entry is assumed to have at least this size, because the sample may lack it
_SMALL = 1600  # entries; all DNs of a tree of at most this size are read if the provider does not show their number
_LARGE = 5_000_000  # entries; a provider evaluates all entries of a smaller tree within seconds
_SPARSE = 16  # bits of the entryUUID: the sample of a large tree has 1/65,536 of its entries
_SECONDS = 10  # time limit of the search for object classes, which takes no time with an index on objectClass
_NAMED = 10  # schema names listed in an error message before "and N more"
_COMPUTED = {name.lower() for name in COMPUTED}

log = logging.getLogger(__name__)


def options_of(name: str, options: SeedOptions) -> SeedOptions:
    """Returns the options for strategy `name`. Resets options that the strategy does not accept to their defaults,
    because a profile may set them."""
    rejected = OPTIONAL - STRATEGIES[name].takes
    defaults = {field.name: field.default for field in dataclasses.fields(options) if field.name in rejected}
    return SeedOptions(**{**vars(options), **defaults, "strategy": name})


def seed(options: SeedOptions, progress: Progress, timeouts: Mapping[str, float], restart: bool = False) -> Report:
    """Runs or resumes the seeding; does nothing if it has finished. Returns the facts for the report."""
    done = prepare.prepare_consumer(options) if options.prepare_consumer else []
    strategy = STRATEGIES[options.strategy](options)
    run_dir, anew = strategy.run_dir, strategy.begins_anew(restart)
    with open_run(run_dir, strategy.verb, strategy.identity, progress, timeouts, anew) as run:
        strategy.begin(run, anew)
        checked = run.do("preflight", lambda meter: preflight(strategy), catchup.Preflight)
        if isinstance(strategy, Search) and not checked.is_judged:
            reading = strategy.reading(checked.suffix, run.directory)
            strategy.check = judgement(reading.connection, strategy.building(), strategy.place)
        facts = {"catch_up": checked.catch_up or None, "prepared": [*done, *(checked.prepared or [])] or None}
        present = {name: fact for name, fact in facts.items() if fact is not None}
        return {**strategy.run(run), **run.done_before(), **present, "run_dir": str(run_dir)}


def preflight(strategy: Strategy, dry_run: bool = False) -> catchup.Preflight:
    """Checks the consumer, the LDIF and the provider, and returns the facts of the report. Prepares the provider after
    these checks if --prepare-provider is given, but not in a dry run."""
    options, (config, database), replica = strategy.options, strategy.consumer(), strategy.partial
    if backmdb.has_subentry(config, database):
        reason = (
            f"{config.where}: with sync_use_subentry the consumer does not look for contextCSN in the suffix entry, "
            "and would fetch every entry again; remove sync_use_subentry (olcSyncUseSubentry) from the database of "
            f"{database.suffix} first"
        )
        raise errors.UsageProblem(reason=reason)
    for path in options.source:
        with strategy.attempt():
            if not is_stream(path):
                files.require_readable(path)
            if strategy.reads_ldif and not options.allow_hidden:
                live.require_whole(path)
    provider = options.connection
    if provider is None:
        log.warning("%s: no provider was given (-H)", catchup.UNKNOWN)
        return catchup.Preflight(database.suffix)
    # The consumer's suffix may be only a part of the provider's tree.
    base = replica.syncrepl.searchbase if replica else provider.base or database.suffix
    syncing = syncrepl.of_database(config, database, provider.uri)
    log_base = syncing.log_base if syncing else None  # the accesslog from which the consumer's syncrepl takes changes
    csns, total, is_judged = _require_whole(strategy, config, database, base)
    if strategy.errors and not csns:
        return catchup.Preflight(database.suffix, provider.uri)
    prepared = None
    if options.admin and not dry_run:
        prepared = prepare.prepare(*options.admin, base, log_base)
        csns, total, is_judged = _require_whole(strategy, config, database, base)
    claimed = context_csns_of_ldif(options.source) if strategy.reads_ldif and options.source else csns
    forecast, sends = catchup.forecast(provider, base, claimed, config, log_base, replica is not None, total)
    return catchup.Preflight(database.suffix, provider.uri, prepared, csns, forecast, sends, is_judged)


def _require_whole(
    strategy: Strategy, config: Config, database: Database, base: str
) -> tuple[list[str], int | None, bool]:
    """Returns the lowest contextCSN of all providers, the number of entries (None if unknown), and `is_judged` of
    Preflight. Raises an error if a provider lacks the base, if a provider hides entries that the strategy searches for,
    or if the consumer lacks schema or space for the entries. `database`: the consumer's."""
    options, csns, total, is_judged = strategy.options, list[list[str]](), None, True
    may_store = strategy.partial.narrowing().may_store if strategy.partial else None
    for connection in (options.connection, *options.replicas):
        assert connection is not None
        given_up = threading.Event()
        with strategy.attempt(), session(connection) as provider, ThreadPoolExecutor(1) as pool, ExitStack() as ending:
            ending.callback(given_up.set)  # without this, the pool would wait for the sample even after an error
            provider.read(base, ["1.1"])
            with strategy.attempt():
                csns.append(strategy.context_csns(provider, base))
                with suppress(errors.LoaderError):  # the provider may refuse the probe
                    _warn_of_provider(provider, base, csns[-1], config, database)
            pending = None
            if isinstance(strategy, Search) and strategy.partial is None:
                pending = pool.submit(_sample, connection, base, given_up)
            # This check runs while the sample is read, because the provider evaluates all entries for each of the two.
            with strategy.attempt():
                if not options.source and not options.allow_hidden:
                    live.require_all_visible(provider, base, may_store, own=database.overlays)
            if isinstance(strategy, Search) and pending:
                sample = pending.result()
                total = sample.total
                with strategy.attempt():
                    _require_schema(strategy, provider, base, sample.attributes)
                with strategy.attempt():
                    is_judged &= _require_room(sample, strategy.building(), strategy.place, strategy.streams)
    return live.lowest(csns) if csns else [], total, is_judged


def _warn_of_provider(provider: Session, base: str, csns: Sequence[str], config: Config, database: Database) -> None:
    """Warns if the provider's contextCSN shows that its clock is ahead, or if both servers use one server ID."""
    newest, limit = max(csns), time.strftime("%Y%m%d%H%M%S", time.gmtime(time.time() + _APART))
    if newest > limit:
        what = f"the clock of {provider.uri} is ahead of this host's: its contextCSN is {plain.printable(newest)}"
        log.warning(f"{what}. Of two changes, the later one wins.\ntimedatectl set-ntp true  # on both hosts")
    entry, own = config.reader(database.entry_dn), config.reader("cn=config").server_id() or 0
    if entry.flag("olcMultiProvider", False) or entry.flag("olcMirrorMode", False):
        from loader.operations.doctor.rules import SHARED_ID  # imported here because few consumers need it

        if sync.probe(provider, provider.context_of(base), None).server_id == f"{own:03x}":
            what = f"{plain.printable(config.where)}: server ID {own} is also that of {provider.uri}"
            log.warning("\n".join([f"{what}. {SHARED_ID[0]}", SHARED_ID[1]]))


def _require_schema(strategy: Search, provider: Session, base: str, entries: Sequence[Attributes]) -> None:
    """Raises SchemaMissing if the consumer's schema lacks an attribute type of `entries` (a sample), or an object class
    of any entry of the provider. Logs a warning if the consumer's schema cannot be read."""
    place = strategy.place
    try:
        rules = backmdb.settings(place.config, place.database).attribute_options
        schema = schema_of(place.config, place.database, rules)
    except (errors.NotProven, errors.ConfigUnreadable) as error:
        log.warning("schema: cannot be compared with the provider's before the entries are read: %s", error)
        return
    used = dict.fromkeys(name for entry in entries for name in entry if name not in _COMPUTED)
    unknown = [*schema.unknown(list(used)), *unknown_classes(provider, base, schema)]
    if unknown:
        raise errors.SchemaMissing(config=place.config.where, names=units.listed(unknown, _NAMED))


def unknown_classes(provider: Session, base: str, schema: Schema) -> list[str]:
    """Returns the object classes of the provider's entries that `schema` lacks. If a search hits a limit, logs a
    warning and returns the classes that earlier searches have shown."""
    classes = {name.lower() for kind, _, names, *_ in schema.facts() if kind == "class" for name in names}
    lacking = [name for name in questions.object_classes(provider) if name.lower() not in classes]
    classes_in_use: list[str] = []
    end = time.monotonic() + _SECONDS
    while lacking:
        where = "".join(f"(objectClass={name})" for name in lacking)
        seconds = math.ceil(end - time.monotonic())
        try:
            first, _ = provider.first(base, 1, ["objectClass"], f"(|{where})", seconds) if seconds > 0 else ([], True)
        except (errors.LimitTooLow, errors.ServerRefused) as error:
            log.warning(
                "schema: the consumer does not know %s; %s did not say whether any entry has them (%s), so this shows "
                "only while the entries are read. With an index on objectClass, the provider answers at once",
                plain.printable(units.listed(lacking, _NAMED)),
                provider.uri,
                error.facts["reason"],
            )
            return classes_in_use
        # The filter also matches entries that list only a subclass. If there are no others, `matches` is empty.
        values = {value.lower() for _, entry in first for value in entry.get("objectclass", ())}
        matches = [name for name in lacking if name.lower().encode() in values]
        classes_in_use += matches
        lacking = [name for name in lacking if name not in matches] if matches else []
    return classes_in_use


class _ProviderSample(Struct, frozen=True):
    """Entries of a provider. `first`: the first entries, in the server's order. `total`: the number of all entries,
    None if unknown. `even`: entries from all over the tree; empty if the tree is large, or if `first` has all
    entries."""

    connection: Connection
    first: Entries
    total: int | None
    even: questions.TreeSample = questions.TreeSample()

    @property
    def attributes(self) -> list[Attributes]:
        return [entry for _, entry in (*self.first, *self.even.entries)]

    @property
    def is_large(self) -> bool:
        return (self.even.is_cut and (self.total or _LARGE) > _SMALL) or (self.total or 0) > _LARGE


def _sample(connection: Connection, base: str, given_up: threading.Event) -> _ProviderSample:
    """Samples the tree below `base` in a few seconds."""
    connection = replace(connection, base=base)
    with session(connection, given_up) as provider:
        first, whole = provider.first(base, _FIRST, _requested(provider))
        if whole:
            return _ProviderSample(connection, first, len(first))
        is_suffix = dn.key(provider.context_of(base)) == dn.key(base)  # cn=Monitor counts the entries of a whole suffix
        total = provider.entry_count(base) if is_suffix else None
        if total is None:
            names, are_all = provider.first(base, _SMALL, ["1.1"])
            total = len(names) if are_all else None
        sample = _ProviderSample(connection, first, total)
        if sample.is_large:
            return sample
        # After a bulk load, the entryUUIDs of a small tree may all be in the range.
        most = total // 8 if total is not None and total <= _SMALL else None
        even = questions.sample_of_tree(provider, base, _requested(provider), most=most)
        return replace(sample, total=even.total if total is None else total, even=even)


def _requested(provider: Session) -> tuple[str, ...]:
    """Returns the attributes to request. A server other than OpenLDAP is asked for no operational attribute except
    entryUUID, because its computed attributes must not be loaded."""
    return EVERYTHING if questions.is_openldap(provider) else ("*", "entryUUID")


def _require_room(sample: _ProviderSample, building: BuildOptions, place: TargetDatabase, streams: bool) -> bool:
    """Returns True if the tree surely fits into the consumer's map and onto its disk. Otherwise raises MaxsizeTooSmall
    or NoSpace. If the tree is large and the seeding `streams`, returns False instead: `judgement` decides while the
    tree is read, because a sample of a large tree takes too long."""
    attributes, limits = sample.attributes, native.limits_of(building, place)
    sizes = (len(name) + len(value) + 3 for entry in attributes for name, values in entry.items() for value in values)
    largest = max(_UNSEEN, sizing.LARGEST * sum(sizes) / max(1, len(attributes)))
    at_most = math.inf if sample.total is None else sample.total * largest
    if sample.is_large and streams:
        return at_most <= sizing.room_in(limits)
    predictions = _predictions(sample.connection, building, place, sample.even, Meter("sample"))
    sizing.require_room(limits, lambda: at_most, *predictions)
    return True


def judgement(connection: Connection, building: BuildOptions, place: TargetDatabase) -> Callable[[Meter], None]:
    """Returns a function for `stream_build.build` that samples the large tree below the base of the connection. The
    function raises MaxsizeTooSmall or NoSpace if the tree does not fit, and logs other errors."""
    base = connection.base or place.database.suffix

    def judge(meter: Meter) -> None:
        try:
            with session(connection, meter.cancelled) as provider:
                even = questions.sample_of_tree(provider, base, _requested(provider), _SPARSE, seconds=-1)
            predictions = _predictions(connection, building, place, even, meter)
            sizing.require_room(native.limits_of(building, place), *predictions)
        except (errors.MaxsizeTooSmall, errors.NoSpace):
            raise
        except errors.LoaderError as error:
            if not meter.cancelled.is_set():
                log.warning("room: whether all entries fit is not known before they are read: %s", error)

    return judge


def _predictions(
    connection: Connection, building: BuildOptions, place: TargetDatabase, even: questions.TreeSample, meter: Meter
) -> list[Callable[[], float]]:
    """Returns functions that predict the size of the database in bytes (0 if only slapadd can build it): one from
    `even` (if its `total` is known), one from a larger sample, for which the provider evaluates all entries again."""

    def size_of(take: Callable[[Path], sampling.Sample], factor: float = 1.0) -> float:
        try:
            target = native.target_of(building, place)
        except errors.NotProven:
            return 0
        with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
            return factor * sizing.forecast(take(scratch), target, Meter("build"), timed=0.0).bytes

    rough = partial(size_of, partial(_as_sample, even), sizing.ROUGHLY)
    full = partial(size_of, lambda scratch: of_server(connection, _BUILT, scratch, meter))
    return [full] if even.total is None else [rough, full]


def _as_sample(even: questions.TreeSample, scratch: Path) -> sampling.Sample:
    lines: list[str] = []
    for name, entry in even.entries:
        lines.append(line("dn", name.encode("utf-8", "surrogateescape")))
        lines += [line(attribute, value) for attribute, values in entry.items() for value in values]
        lines.append("")
    files.write_durably(path := scratch / "sample.ldif", "\n".join([*lines, ""]).encode(), 0o600)
    return sampling.of_part([path], even.total or 0, _BUILT, "a range of entryUUIDs", is_counted=False)
