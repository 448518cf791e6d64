"""What the prices of all strategies follow from: measured when the first one asks for it, and said once."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loader import units
from loader.errors import LoaderError, NotProven
from loader.mdb import contents
from loader.operations.build import native
from loader.operations.export import ExportOptions, trial_plan
from loader.operations.publish import TargetDatabase
from loader.operations.room import require_room
from loader.progress import Progress
from loader.run.log import Facts
from loader.server import configuration, questions
from loader.server.session import session
from loader.storage import temporary
from seeders.replica import preflight
from seeders.replica.planning import measuring, predicting
from seeders.replica.planning import plan as plans
from seeders.replica.planning.measuring import Building, Reading
from seeders.replica.planning.plan import SeedPlan, StrategyPlan
from seeders.replica.planning.predicting import Known
from seeders.replica.seed import STRATEGIES
from seeders.replica.strategies import SeedOptions, Strategy
from seeders.replica.strategies import stopped as reading_options
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.stopped import Ldif, Search, StoppedConsumer


@dataclass
class Measured:
    """What strategies have in common is measured once."""

    given: int | None = None  # entries of what --from names, for a provider that does not tell
    reading: Reading | None = None
    building: Building | None = None
    of_ldif: Building | None = None
    said: dict[str, None] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.said)


def measure(strategy: Strategy, known: Known, measured: Measured, progress: Progress) -> Known:
    """`known`, with what is measured for a strategy. Raises LoaderError where a seeding would."""
    asked = strategy.options
    if asked.source and strategy.reads_ldif:
        building = _of_ldif(strategy, measured, progress)
        entries = building.forecast.entries if building else measuring.entries_of(asked.source)
        return dataclasses.replace(known, building=building, entries=entries)
    if isinstance(strategy, Clone):
        with progress.step("copy") as meter:
            copying = measuring.copy(strategy.source, strategy.place, meter)
        measured.said[f"copying: {units.size(copying.rate)}/s, fsync included"] = None
        entries = contents.entry_count(strategy.source)
        built = measured.building
        return dataclasses.replace(known, copying=copying, building=built, entries=entries)
    return _of_provider(strategy, known, measured, progress)


def _of_ldif(strategy: Strategy, measured: Measured, progress: Progress) -> Building | None:
    if measured.of_ldif is None and isinstance(strategy, StoppedConsumer):
        try:
            place = strategy.place
            measured.of_ldif = measuring.build_of_ldif(place, strategy.options.source, progress)
            _say_building(measured, measured.of_ldif)
        except NotProven as error:
            measured.said[f"building: not measured, since only slapadd builds it: {error}"] = None
    return measured.of_ldif


def _of_provider(strategy: Strategy, known: Known, measured: Measured, progress: Progress) -> Known:
    entries = _count(strategy, known)
    entries = measured.given if entries is None else entries
    if measured.reading is None or measured.building is None:
        _read(strategy, known, entries, measured, progress)
    reading = measured.reading
    if reading and reading.whole:
        entries = reading.entries
    if entries is None:
        said = "entries: the provider does not tell how many, so most seconds are not known"
        measured.said[said] = None
    return dataclasses.replace(known, entries=entries, reading=reading, building=measured.building)


def _count(strategy: Strategy, known: Known) -> int | None:
    counted = known.planned.get("entries")
    if isinstance(counted, int):
        return counted
    connection = strategy.options.connection
    assert connection is not None
    with session(connection) as server:
        base = connection.base or known.seen["suffix"]
        return questions.entries(server, server.context_of(base), sampled=True)


def _read(strategy: Strategy, known: Known, entries: int | None, measured: Measured, progress: Progress) -> None:
    """The short export, and the build of a sample of it."""
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        asked = _reading(strategy, known.seen["suffix"], scratch)
        with progress.step("read") as meter:
            reading, paths = measuring.read(asked, trial_plan(asked, meter), scratch, meter)
        measured.reading = reading
        measured.said[
            f"reading: {units.number(reading.entries)} entries in {units.duration(reading.seconds)} over "
            f"{reading.connections} connections, {units.number(round(reading.rate))} entries/s, "
            f"{units.size(reading.rate * reading.entry)}/s of LDIF"
        ] = None
        total = reading.entries if reading.whole else entries
        if not isinstance(strategy, StoppedConsumer) or total is None:
            return
        try:
            how = (strategy.place, reading, paths, total, progress)
            measured.building = measuring.build_of_reading(*how)
            _say_building(measured, measured.building)
        except NotProven as error:
            measured.said[f"building: not measured, since only slapadd builds it: {error}"] = None


def _reading(strategy: Strategy, suffix: str, scratch: Path) -> ExportOptions:
    if isinstance(strategy, Search):
        return strategy.reading(scratch)
    return reading_options.reading(strategy.options, suffix, scratch)


def _say_building(measured: Measured, building: Building) -> None:
    found = building.forecast
    measured.said[
        f"building: {units.number(found.sampled)} entries ({found.how}); all of them are "
        f"{units.size(found.bytes)} in {units.duration(found.seconds)}"
    ] = None


# --- making ----------------------------------------------------------------------------------------------------------
#
# Making the plan: each strategy is asked what a seeding would ask it, by the same checks; then it is priced.
#
# A strategy is refused here if and only if `replica seed` would refuse it before the reading, or would end without
# room: the sample that is built tells of schema, space and maxsize what a seeding finds out only when it is there.


@dataclass(frozen=True)
class PlanOptions:
    """What `replica seed` would be given. `asked`: with everything but the strategy and the source."""

    asked: SeedOptions
    ldif: tuple[Path, ...] = ()
    databases: tuple[Path, ...] = ()


def make(options: PlanOptions, progress: Progress) -> SeedPlan:
    """Changes nothing. Raises what reading the consumer's configuration raises."""
    asked, measured = options.asked, Measured(given=_given(options))
    config = configuration.read(asked.config_path) if asked.config_path else None
    suffix = config.database(asked.suffix).suffix if config else asked.suffix or ""
    rows = tuple(_row(name, options, measured, progress) for name in STRATEGIES)
    chosen, why = predicting.pick(rows)
    return SeedPlan(
        suffix=suffix,
        provider=asked.connection.uri if asked.connection else None,
        provider_uuid=_uuid(asked, suffix),
        configuration=plans.fingerprint(config) if config else "0" * 64,
        made=units.moment(time.time()),
        entries=_entries(rows, measured),
        measured=measured.lines,
        strategies=rows,
        chosen=chosen,
        why=why,
    )


def _given(options: PlanOptions) -> int | None:
    """What is wrong with the files, the strategies tell."""
    try:
        for database in options.databases:
            return contents.entry_count(database)
        return measuring.entries_of(options.ldif) if options.ldif else None
    except LoaderError:
        return None


def _uuid(asked: SeedOptions, suffix: str) -> str:
    try:
        return plans.uuid_of(asked.connection, suffix) if asked.connection else ""
    except LoaderError:
        return ""


def _entries(rows: Sequence[StrategyPlan], measured: Measured) -> int | None:
    built = measured.building or measured.of_ldif
    return built.forecast.entries if built and any(one.feasible for one in rows) else None


def _row(name: str, options: PlanOptions, measured: Measured, progress: Progress) -> StrategyPlan:
    source = _source(name, options)
    told = tuple(str(path.absolute()) for path in source)
    row = StrategyPlan(name, source=told)  # type: ignore[arg-type]
    asked = dataclasses.replace(options.asked, strategy=name, source=source)
    with _warnings() as notes:
        try:
            return dataclasses.replace(_judged(row, asked, measured, progress), notes=tuple(notes))
        except LoaderError as error:
            return dataclasses.replace(row, refused=error.code, reason=str(error), advice=error.advice() or "")


def _source(name: str, options: PlanOptions) -> tuple[Path, ...]:
    if name == "clone":
        return options.databases
    with_provider = options.asked.connection is not None
    return options.ldif if name == "ldif" or (name == "online" and not with_provider) else ()


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What the checks warn of stands in the plan, once, and not on the terminal for each strategy."""
    found: list[str] = []
    keeper = _Keeper(found)
    logger = logging.getLogger("seeders.replica")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(keeper)
    try:
        yield found
    finally:
        logger.removeHandler(keeper)
        logger.propagate = before


class _Keeper(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(record.getMessage())


def _judged(row: StrategyPlan, asked: SeedOptions, measured: Measured, progress: Progress) -> StrategyPlan:
    """Raises LoaderError where a seeding would."""
    began = time.monotonic()
    strategy = STRATEGIES[asked.strategy](asked)
    seen = preflight.preflight(strategy, dry_run=True)
    checked = time.monotonic()
    planned: Facts = {}
    if isinstance(strategy, Ldif):  # of which the sample says more than its own plan
        strategy.require_context_csn(progress)
    else:
        planned = strategy.plan(seen["suffix"], progress)
    times = (round(checked - began, 3), round(time.monotonic() - checked, 3))
    known = Known(seen, planned, *times, entries=None)
    known = measure(strategy, known, measured, progress)
    _require_room(strategy, known)
    return predicting.priced(row, strategy, known)


def _require_room(strategy: Strategy, known: Known) -> None:
    """Raises NoSpace, MaxsizeTooSmall."""
    if not isinstance(strategy, StoppedConsumer) or known.building is None or known.copying:
        return
    place: TargetDatabase = strategy.place
    needed = known.building.forecast.bytes
    require_room(native.limits_of(strategy.building(), place), lambda: needed)
