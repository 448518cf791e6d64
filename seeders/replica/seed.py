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
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import backmdb, dn, plain, syncrepl, units
from loader.errors import (
    ConfigUnreadable,
    LimitTooLow,
    LoaderError,
    NotProven,
    SchemaMissing,
    ServerRefused,
    UsageProblem,
)
from loader.operations import live, sizing
from loader.operations.build import native
from loader.operations.export import of_server
from loader.operations.sizing import require_room
from loader.overlays import COMPUTED
from loader.progress import Meter, Progress
from loader.run.log import Report
from loader.run.steps import open_run
from loader.server import configuration, questions
from loader.server.options import EVERYTHING, Connection, line
from loader.server.questions import TreeSample
from loader.server.session import Entries, Session, session
from loader.sinks.mdb import Schema, schema_of
from loader.sources import sampling
from loader.sources.location import is_stream
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files
from seeders.replica import catchup, prepare
from seeders.replica.catchup import Preflight
from seeders.replica.online import Online
from seeders.replica.options import STRATEGY_NAMES, SeedOptions
from seeders.replica.strategies import Clone, Ldif, Search, Strategy, context_csns_of_ldif

STRATEGIES: dict[str, type[Strategy]] = dict(zip(STRATEGY_NAMES, (Search, Ldif, Clone, Online), strict=True))
OPTIONAL = {name for strategy in STRATEGIES.values() for name in strategy.takes}  # options only some strategies accept

_SAMPLE = 500  # entries to compare with the consumer's schema: the first that the provider sends
_BUILT = SampleSize(5000, 0.0)
_UNSEEN = 8192.0  # bytes that the largest entry is assumed to have at least, because the first entries may be small
_COUNTING = 60  # seconds; time limit for each search for a sample of the provider's entries
_SECONDS = 10  # seconds; time limit for the searches for object classes, which an index on objectClass makes fast
_NAMED = 10  # schema names listed in an error message before "and N more"
_COMPUTED = {name.lower() for name in COMPUTED}

log = logging.getLogger(__name__)


def options_of(name: str, options: SeedOptions) -> SeedOptions:
    """Returns the options for strategy `name`. Resets those that it does not accept, because a profile may set them."""
    rejected = OPTIONAL - STRATEGIES[name].takes
    defaults = {field.name: field.default for field in dataclasses.fields(options) if field.name in rejected}
    return SeedOptions(**{**vars(options), **defaults, "strategy": name})


def seed(options: SeedOptions, progress: Progress, timeouts: Mapping[str, float], restart: bool = False) -> Report:
    """Runs or resumes the seeding; does nothing if it has finished. Returns the facts for the report."""
    strategy = STRATEGIES[options.strategy](options)
    run_dir, anew = strategy.run_dir, strategy.begins_anew(restart)
    with open_run(run_dir, strategy.verb, strategy.identity, progress, timeouts, anew) as run:
        strategy.begin(run, anew)
        checked = run.do("preflight", lambda meter: preflight(strategy), Preflight)
        facts = {"catch_up": checked.catch_up or None, "prepared": checked.prepared}
        present = {name: fact for name, fact in facts.items() if fact is not None}
        return {**strategy.run(run), **run.done_before(), **present, "run_dir": str(run_dir)}


def preflight(strategy: Strategy, dry_run: bool = False) -> Preflight:
    """Checks the consumer, the LDIF and the provider, and returns the facts of the report. Prepares the provider after
    these checks if --prepare-provider is given, but not in a dry run."""
    options, (config, database), partial = strategy.options, strategy.consumer(), strategy.partial
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
        log.warning("%s: no provider was given (-H)", catchup.UNKNOWN)
        return Preflight(database.suffix)
    # The consumer's suffix may be only a part of the provider's tree.
    base = partial.syncrepl.searchbase if partial else provider.base or database.suffix
    syncing = syncrepl.of_database(config, database, provider.uri)
    log_base = syncing.log_base if syncing else None  # the accesslog from which the consumer's syncrepl takes changes
    (csns, entries), prepared = _require_whole(strategy, database.overlays, base), None
    if options.admin and not dry_run:
        prepared = prepare.prepare(*options.admin, base, log_base)
        csns, entries = _require_whole(strategy, database.overlays, base)
    claimed = context_csns_of_ldif(options.source) if strategy.reads_ldif and options.source else csns
    is_part = partial is not None
    forecast, sends = catchup.forecast(provider, base, claimed, config, log_base, is_part, entries)
    return Preflight(database.suffix, provider.uri, prepared, csns, forecast, sends)


class _ProviderEntries(Struct, frozen=True):
    """Entries of a provider. `first`: the first that it sends. `total`: the number of all entries; None if unknown.
    `even`: entries from all over the tree, which are read if the server does not report `total`."""

    first: Entries
    total: int | None
    even: TreeSample | None = None


def _sample_of(connection: Connection, base: str, given_up: threading.Event) -> _ProviderEntries:
    with session(connection, given_up) as provider:
        # Servers other than OpenLDAP compute some operational attributes. These are not loaded, so none are requested.
        attributes = EVERYTHING if questions.is_openldap(provider) else (*EVERYTHING[:1], "entryUUID")
        first, whole = provider.first(base, _SAMPLE, attributes)
        if whole:
            return _ProviderEntries(first, len(first))
        of_suffix = dn.key(provider.context_of(base)) == dn.key(base)  # cn=Monitor counts the entries of a whole suffix
        if of_suffix and (total := provider.entry_count(base)) is not None:
            return _ProviderEntries(first, total)
        even = questions.sample_of_tree(provider, base, attributes, _COUNTING)
        return _ProviderEntries(first, even.total if even else None, even)


def _require_whole(strategy: Strategy, overlays: Sequence[str], base: str) -> tuple[list[str], int | None]:
    """Checks that each provider has the base and shows all entries that the strategy searches for, and that the
    consumer has schema and space for them. Returns the lowest contextCSN of all providers, and the number of entries
    (None if unknown). `overlays`: the overlays of the consumer's database."""
    options, csns, total = strategy.options, [], None
    may_store = strategy.partial.narrowing().may_store if strategy.partial else None
    given_up = threading.Event()
    for connection in (options.connection, *options.replicas):
        assert connection is not None
        with session(connection) as provider, ThreadPoolExecutor(1) as pool:
            provider.read(base, ["1.1"])
            csns.append(strategy.context_csns(provider, base))
            sample = None
            if isinstance(strategy, Search) and strategy.partial is None:
                sample = pool.submit(_sample_of, connection, base, given_up)
            try:  # the provider evaluates all entries for both checks, so both run at the same time
                if not options.source and not options.allow_hidden:
                    live.require_all_visible(provider, base, may_store, own=overlays)
            except LoaderError:
                given_up.set()
                raise
            if isinstance(strategy, Search) and sample:
                total = sample.result().total
                _require_storable(strategy, provider, base, sample.result())
    return live.lowest(csns), total


def _require_storable(strategy: Search, provider: Session, base: str, sample: _ProviderEntries) -> None:
    """Raises SchemaMissing if the consumer's schema lacks a name that the provider's entries use, MaxsizeTooSmall or
    NoSpace if its maxsize or its disk is too small. Logs a warning if the schema cannot be compared."""
    place, total, even = strategy.place, sample.total, sample.even
    entries = [entry for _, entry in (*sample.first, *(even.entries if even else ()))]
    try:
        rules = backmdb.settings(place.config, place.database).attribute_options
        schema = schema_of(place.config, place.database, rules)
    except (NotProven, ConfigUnreadable) as error:
        log.warning("schema: not compared with the provider's before the reading: %s", error)
    else:
        names = dict.fromkeys(name for entry in entries for name in entry if name not in _COMPUTED)
        unknown = [*schema.unknown(list(names)), *unknown_classes(provider, base, schema)]
        if unknown:
            raise SchemaMissing(config=place.config.where, names=units.listed(unknown, _NAMED))

    sizes = [sum(len(name) + len(value) + 3 for name, values in entry.items() for value in values) for entry in entries]
    largest = max(_UNSEEN, sizing.LARGEST * sum(sizes) / max(1, len(sizes)))

    def forecast(take: Callable[[Path], Sample]) -> float:
        """Returns the bytes of the database, predicted from a sample; 0 if only slapadd can build it."""
        try:
            target = native.target_of(strategy.building(), place)
        except NotProven:
            return 0
        with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
            return sizing.forecast(take(scratch), target, Meter("build"), timed=0.0).bytes

    def rough(scratch: Path) -> Sample:
        assert even
        lines: list[str] = []
        for name, entry in even.entries:
            lines.append(line("dn", name.encode("utf-8", "surrogateescape")))
            lines += [line(attribute, value) for attribute, values in entry.items() for value in values]
            lines.append("")
        files.write_durably(path := scratch / "sample.ldif", "\n".join([*lines, ""]).encode(), 0o600)
        return sampling.of_part([path], even.total, _BUILT, "a range of entryUUIDs", is_counted=False)

    def full(scratch: Path) -> Sample:
        return of_server(replace(provider.connection, base=base), _BUILT, scratch, Meter("sample"))

    predictions = [lambda: math.inf if total is None else total * largest, lambda: forecast(full)]
    if even:
        predictions.insert(1, lambda: sizing.ROUGHLY * forecast(rough))
    require_room(native.limits_of(strategy.building(), place), *predictions)


def unknown_classes(provider: Session, base: str, schema: Schema) -> list[str]:
    """Returns classes in use that `schema` lacks. If a search hits a limit, warns and returns those found before."""
    classes = {name.lower() for kind, _, names, *_ in schema.facts() if kind == "class" for name in names}
    lacking = [name for name in questions.object_classes(provider) if name.lower() not in classes]
    classes_in_use: list[str] = []
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
            return classes_in_use
        # The filter also matches an entry with a subclass of a class. Its objectClass may not list the class itself.
        values = {value.lower() for _, entry in first for value in entry.get("objectclass", ())}
        matches = [name for name in lacking if name.lower().encode() in values]
        classes_in_use += matches
        lacking = [name for name in lacking if name not in matches] if matches else []
    return classes_in_use
