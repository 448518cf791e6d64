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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from msgspec import Struct

from loader import backmdb, plain, syncrepl, units
from loader.errors import ConfigUnreadable, LimitTooLow, NotProven, SchemaMissing, ServerRefused, UsageProblem
from loader.operations import live
from loader.overlays import COMPUTED
from loader.progress import Progress
from loader.run.log import Report
from loader.run.steps import open_run
from loader.server import questions
from loader.server.session import Attributes, Session, session
from loader.sinks.mdb import Schema, schema_of
from loader.sources.location import is_stream
from loader.storage import files
from seeders.replica import catchup, prepare, room
from seeders.replica.catchup import Preflight
from seeders.replica.online import Online
from seeders.replica.options import STRATEGY_NAMES, SeedOptions
from seeders.replica.strategies import Clone, Ldif, Search, Strategy, context_csns_of_ldif

STRATEGIES: dict[str, type[Strategy]] = dict(zip(STRATEGY_NAMES, (Search, Ldif, Clone, Online), strict=True))
OPTIONAL = {name for strategy in STRATEGIES.values() for name in strategy.takes}  # options only some strategies accept

_SECONDS = 10  # time limit for the provider's search for object classes; immediate with an index on objectClass
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
    found, prepared = _require_whole(strategy, database.overlays, base), None
    if options.admin and not dry_run:
        prepared = prepare.prepare(*options.admin, base, log_base)
        found = _require_whole(strategy, database.overlays, base)
    claimed = context_csns_of_ldif(options.source) if strategy.reads_ldif and options.source else found.csns
    is_part = partial is not None
    forecast, sends = catchup.forecast(provider, base, claimed, config, log_base, is_part, found.total)
    return Preflight(database.suffix, provider.uri, prepared, found.csns, forecast, sends, found.is_judged)


class _Found(Struct, frozen=True):
    """`csns`: the lowest contextCSN of all providers. `total`: the number of entries, None if unknown. `is_judged`:
    whether the consumer has room for them, if it needs any, is known."""

    csns: list[str]
    total: int | None
    is_judged: bool


def _require_whole(strategy: Strategy, overlays: Sequence[str], base: str) -> _Found:
    """Raises an error if a provider lacks the base, if it hides entries that the strategy searches for, or if the
    consumer lacks schema or space for them. `overlays`: the overlays of the consumer's database."""
    options, csns, total, is_judged = strategy.options, [], None, True
    may_store = strategy.partial.narrowing().may_store if strategy.partial else None
    for connection in (options.connection, *options.replicas):
        assert connection is not None
        given_up = threading.Event()
        with session(connection) as provider, ThreadPoolExecutor(1) as pool, ExitStack() as ending:
            ending.callback(given_up.set)  # otherwise the pool would wait for the sample even after an error
            provider.read(base, ["1.1"])
            csns.append(strategy.context_csns(provider, base))
            sampled = None
            if isinstance(strategy, Search) and strategy.partial is None:
                sampled = pool.submit(room.sample, connection, base, given_up)
            # The provider evaluates all entries for this check, too, so both run at the same time.
            if not options.source and not options.allow_hidden:
                live.require_all_visible(provider, base, may_store, own=overlays)
            if isinstance(strategy, Search) and sampled:
                found = sampled.result()
                _require_known(strategy, provider, base, found.attributes)
                is_judged &= room.require_room(found, strategy.building(), strategy.place, strategy.streams)
                total = found.total
    return _Found(live.lowest(csns), total, is_judged)


def _require_known(strategy: Search, provider: Session, base: str, entries: Sequence[Attributes]) -> None:
    """Raises SchemaMissing if the consumer's schema lacks a name that the provider's entries use. Logs a warning if it
    cannot be compared. `entries`: a sample of them."""
    place = strategy.place
    try:
        rules = backmdb.settings(place.config, place.database).attribute_options
        schema = schema_of(place.config, place.database, rules)
    except (NotProven, ConfigUnreadable) as error:
        log.warning("schema: not compared with the provider's before the reading: %s", error)
        return
    used = dict.fromkeys(name for entry in entries for name in entry if name not in _COMPUTED)
    unknown = [*schema.unknown(list(used)), *unknown_classes(provider, base, schema)]
    if unknown:
        raise SchemaMissing(config=place.config.where, names=units.listed(unknown, _NAMED))


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
