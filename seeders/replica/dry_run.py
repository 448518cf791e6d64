"""`replica seed --dry-run`: makes the checks of a seeding for the named strategy, or for each, measures what its steps
depend on, and prices them.

A strategy is refused here if `replica seed` would refuse it before the reading, or would run out of room: the sample
that is built shows what a seeding finds out about schema, space and maxsize only when the entries are there."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loader import units
from loader.errors import LoaderError, NotProven
from loader.mdb import contents
from loader.operations.build import native
from loader.operations.export import trial_plan
from loader.operations.room import require_room
from loader.progress import Progress
from loader.run.log import Facts
from loader.server import configuration, questions
from loader.server.session import session
from loader.sources.location import Kind, is_stream, locate
from loader.storage import temporary
from seeders.replica import measuring, predicting, preflight
from seeders.replica import plan as plans
from seeders.replica.measuring import Building, Reading
from seeders.replica.plan import SeedPlan, StrategyName, StrategyPlan
from seeders.replica.predicting import Findings
from seeders.replica.seed import STRATEGIES, options_of
from seeders.replica.strategies import SeedOptions, Strategy, stopped
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.stopped import Ldif, Search, StoppedConsumer


def dry_run(options: SeedOptions, progress: Progress) -> tuple[SeedPlan, Facts]:
    """The plan, and what the checks of the chosen strategy found. Changes nothing; tries all strategies if `options`
    names none. Raises LoaderError if the configuration cannot be read, or if a seeding by the named strategy would end
    with it."""
    trial = _Trial(options, progress)
    config = configuration.read(options.config_path) if options.config_path else None
    suffix = config.database(options.suffix).suffix if config else options.suffix or ""
    rows = tuple(trial.judged(name) for name in STRATEGIES) if not options.strategy else (trial.only(),)
    chosen, why = predicting.pick(rows) if not options.strategy else (rows[0].strategy, "it is the one that was named")
    facts = trial.facts.get(chosen or "", {})
    plan = SeedPlan(
        suffix=facts.get("suffix", suffix),
        provider=options.connection.uri if options.connection else None,
        provider_uuid=_uuid(options, suffix),
        configuration=plans.fingerprint(config),
        made=units.moment(time.time()),
        entries=trial.entries if any(row.feasible for row in rows) else None,
        measured=trial.measured,
        strategies=rows,
        chosen=chosen,
        why=why,
    )
    if not isinstance(facts.get("entries"), int) and plan.entries is not None:
        facts = {**facts, "entries": plan.entries}
    return plan, {"suffix": suffix, **facts, "dry_run": "nothing was changed"}


def _uuid(options: SeedOptions, suffix: str) -> str:
    with suppress(LoaderError):
        return plans.base_uuid(options.connection, suffix) if options.connection else ""
    return ""


class _Trial:
    """What several strategies have in common is measured once. `facts`: by strategy, what its checks found."""

    def __init__(self, options: SeedOptions, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.measured: dict[str, str] = {}
        self.facts: dict[str, Facts] = {}
        self._reading: Reading | None = None
        self._building: Building | None = None
        self._of_ldif: Building | None = None
        self._databases, self._ldif = ((), ()) if options.strategy else _by_kind(options.source)

    @property
    def entries(self) -> int | None:
        built = self._building or self._of_ldif
        return built.forecast.entries if built else None

    def only(self) -> StrategyPlan:
        name: StrategyName = self.options.strategy  # type: ignore[assignment]
        return self._priced(self._row(name, self.options.source), self.options)

    def judged(self, name: str) -> StrategyPlan:
        """The strategy with its price, or with the error that refuses it."""
        if name == "clone":
            source = self._databases
        else:
            source = self._ldif if name == "ldif" or (name == "online" and self.options.connection is None) else ()
        row = self._row(name, source)
        options = options_of(name, dataclasses.replace(self.options, source=source))
        with _warnings() as notes:
            try:
                return dataclasses.replace(self._priced(row, options), notes=tuple(notes))
            except LoaderError as error:
                return dataclasses.replace(row, refused=error.code, reason=str(error), advice=error.advice() or "")

    def _row(self, name: str, source: tuple[Path, ...]) -> StrategyPlan:
        return StrategyPlan(name, source=tuple(str(path.absolute()) for path in source))  # type: ignore[arg-type]

    def _priced(self, row: StrategyPlan, options: SeedOptions) -> StrategyPlan:
        began = time.monotonic()
        strategy = STRATEGIES[row.strategy](options)
        seen = preflight.preflight(strategy, dry_run=True)
        checked = time.monotonic()
        planned: Facts = {}
        if isinstance(strategy, Ldif) and not self.options.strategy:  # the sample tells enough to compare strategies
            strategy.require_context_csn(self.progress)
        else:
            planned = strategy.plan(seen["suffix"], self.progress)
        self.facts[row.strategy] = {**seen, **planned}
        found = Findings(seen, planned, round(checked - began, 3), round(time.monotonic() - checked, 3))
        found = self._measured(strategy, found)
        if isinstance(strategy, StoppedConsumer) and found.building and not found.copying:
            needed = found.building.forecast.bytes
            require_room(native.limits_of(strategy.building(), strategy.place), lambda: needed)
        return predicting.priced(row, strategy, found)

    def _measured(self, strategy: Strategy, found: Findings) -> Findings:
        source = strategy.options.source
        if isinstance(strategy, Clone):
            with self.progress.step("copy") as meter:
                copying = measuring.copy(strategy.source, strategy.place, meter)
            self.measured["copying"] = f"{units.size(copying.rate)}/s, fsync included"
            entries: int | None = contents.entry_count(strategy.source)
            return dataclasses.replace(found, copying=copying, building=self._building, entries=entries)
        if source and strategy.reads_ldif:
            building = self._built_of_ldif(strategy)
            entries = building.forecast.entries if building else measuring.entries_of(source)
            return dataclasses.replace(found, building=building, entries=entries)
        entries = self._count(strategy, found)
        if self._reading is None or self._building is None:
            self._read(strategy, found.seen["suffix"], entries)
        if self._reading and self._reading.whole:
            entries = self._reading.entries
        if entries is None:
            self.measured["entries"] = "the provider does not tell how many, so most seconds are not known"
        return dataclasses.replace(found, entries=entries, reading=self._reading, building=self._building)

    def _built_of_ldif(self, strategy: Strategy) -> Building | None:
        source = strategy.options.source
        if self._of_ldif is None and isinstance(strategy, StoppedConsumer) and not any(map(is_stream, source)):
            place = strategy.place
            self._of_ldif = self._built(strategy, lambda: measuring.build_of_ldif(place, source, self.progress))
        return self._of_ldif

    def _count(self, strategy: Strategy, found: Findings) -> int | None:
        """Entries of the provider, or of what --from names if the provider does not tell."""
        planned = found.planned.get("entries")
        if isinstance(planned, int):
            return planned
        connection = strategy.options.connection
        assert connection is not None
        with session(connection) as server:
            base = connection.base or found.seen["suffix"]
            entries = questions.entries(server, server.context_of(base), sampled=True)
        if entries is None:
            with suppress(LoaderError):
                entries = next((contents.entry_count(one) for one in self._databases), None)
                return measuring.entries_of(self._ldif) if entries is None and self._ldif else entries
        return entries

    def _read(self, strategy: Strategy, suffix: str, entries: int | None) -> None:
        """A short export, and the build of a sample of it."""
        with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
            if isinstance(strategy, Search):
                export = strategy.reading(scratch)
            else:
                export = stopped.reading(strategy.options, suffix, scratch)
            with self.progress.step("read") as meter:
                reading, paths = measuring.read(export, trial_plan(export, meter), scratch, meter)
            self._reading = reading
            self.measured["reading"] = (
                f"{units.number(reading.entries)} entries in {units.duration(reading.seconds)} over "
                f"{reading.connections} connections, {units.number(round(reading.rate))} entries/s, "
                f"{units.size(reading.rate * reading.entry)}/s of LDIF"
            )
            total = reading.entries if reading.whole else entries
            if isinstance(strategy, StoppedConsumer) and total:
                place = strategy.place
                self._building = self._built(
                    strategy, lambda: measuring.build_of_reading(place, reading, paths, total, self.progress)
                )

    def _built(self, strategy: StoppedConsumer, build: Callable[[], Building]) -> Building | None:
        if not strategy.is_plain:
            self.measured["building"] = (
                "not measured: a sample tells nothing of a partial replica, of several databases or of the empty suffix"
            )
            return None
        try:
            building = build()
        except NotProven as error:
            self.measured["building"] = f"not measured, since only slapadd builds it: {error}"
            return None
        forecast = building.forecast
        self.measured["building"] = (
            f"{units.number(forecast.sampled)} entries ({forecast.how}); all of them are "
            f"{units.size(forecast.bytes)} in {units.duration(forecast.seconds)}"
        )
        return building


def _by_kind(source: tuple[Path, ...]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Database directories, and LDIF."""
    located = [locate(str(path), Kind.LDIF, Kind.DATABASE) for path in source]
    databases, ldif = (
        tuple(path for one in located if one.kind is kind for path in one.paths) for kind in (Kind.DATABASE, Kind.LDIF)
    )
    return databases, ldif


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collects what the checks warn of: with several strategies it is printed once, below the table."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("seeders.replica")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
