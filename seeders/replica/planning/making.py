"""Making the plan: each strategy is asked what a seeding would ask it, by the same checks; then it is priced.

A strategy is refused here if and only if `replica seed` would refuse it before the reading, or would end without room:
the sample that is built tells of schema, space and maxsize what a seeding finds out only when it is there.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.errors import LoaderError
from loader.mdb import contents
from loader.operations.build import native
from loader.operations.publish import TargetDatabase
from loader.progress import Progress
from loader.run.log import Facts
from loader.server import configuration
from seeders.replica import preflight
from seeders.replica.planning import choosing, measuring, pricing
from seeders.replica.planning import plan as plans
from seeders.replica.planning.measured import Measured, measure
from seeders.replica.planning.plan import SeedPlan, StrategyPlan
from seeders.replica.planning.predicting import Known
from seeders.replica.seed import STRATEGIES
from seeders.replica.strategies import SeedOptions, Strategy
from seeders.replica.strategies.ldif import Ldif
from seeders.replica.strategies.stopped import StoppedConsumer


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
    chosen, why = choosing.pick(rows)
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
            return dataclasses.replace(
                row, refused=error.code, reason=str(error), advice=error.advice() or ""
            )


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


def _judged(
    row: StrategyPlan, asked: SeedOptions, measured: Measured, progress: Progress
) -> StrategyPlan:
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
    return pricing.priced(row, strategy, known)


def _require_room(strategy: Strategy, known: Known) -> None:
    """Raises NoSpace, MaxsizeTooSmall."""
    if not isinstance(strategy, StoppedConsumer) or known.building is None or known.copying:
        return
    place: TargetDatabase = strategy.place
    native.limits_of(strategy.building(), place).require(known.building.forecast.bytes)
