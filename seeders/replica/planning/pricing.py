"""The price of a strategy: its steps with their seconds, the disk, the load on the provider, and the catching up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from loader import syncrepl
from loader.config import Config
from loader.server.sync import SyncAnswer
from seeders.replica import cost
from seeders.replica.planning import predicting, windows
from seeders.replica.planning.plan import PlannedStep, StrategyPlan
from seeders.replica.planning.predicting import CATCH_UP, Known
from seeders.replica.strategies import Strategy
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.search import Search
from seeders.replica.strategies.stopped import StoppedConsumer

MARGIN = 600.0  # seconds from the end of a seeding until slapd is started


def priced(row: StrategyPlan, strategy: Strategy, known: Known) -> StrategyPlan:
    return _windowed(_priced(row, strategy, known), strategy, known)


def _priced(row: StrategyPlan, strategy: Strategy, known: Known) -> StrategyPlan:
    steps = tuple(_steps(strategy, known))
    whole = predicting.is_complete(steps, row.strategy)
    return dataclasses.replace(
        row,
        steps=steps,
        catch_up=known.sends,
        only_changes=known.only_changes,
        loses_deletions=bool(known.foreseen.get("lost", False)),
        seconds=_sum(steps) if whole else None,
        disk=predicting.disk_of(known),
        load=predicting.load_of(known),
    )


def _sum(steps: Sequence[PlannedStep]) -> float:
    return round(sum(one.seconds for one in steps), 3)


def _steps(strategy: Strategy, known: Known) -> Iterator[PlannedStep]:
    selecting = isinstance(strategy, StoppedConsumer) and strategy.partial is not None
    if isinstance(strategy, Search):
        yield from predicting.search(known, strategy.streams, selecting)
    elif isinstance(strategy, Clone):
        yield from predicting.clone(known)
    elif isinstance(strategy, StoppedConsumer):
        yield from predicting.ldif(known, selecting)
    else:
        yield from predicting.online(known, from_provider=not strategy.options.source)
    yield from known.catch_up


def _windowed(row: StrategyPlan, strategy: Strategy, known: Known) -> StrategyPlan:
    """With what the provider sends if it has forgotten the seed's contextCSN by the time slapd is started."""
    connection = strategy.options.connection
    if connection is None or row.seconds is None or not row.only_changes:
        return row
    base = connection.base or known.seen["suffix"]
    window = windows.of(connection, base, _log_base(strategy, connection.uri))
    why = window.too_short(row.seconds + MARGIN) if window else None
    if why is None or known.entries is None:
        return row
    config = _config(strategy)
    price = cost.of(SyncAnswer.PRESENT, known.entries, bool(config and cost.logs_sync(config)))
    steps = (
        *(one for one in row.steps if one.name != CATCH_UP),
        PlannedStep(CATCH_UP, round(price.seconds, 1), why),
    )
    return dataclasses.replace(
        row, steps=steps, only_changes=False, catch_up=why, seconds=_sum(steps)
    )


def _log_base(strategy: Strategy, uri: str | None) -> str | None:
    if not isinstance(strategy, StoppedConsumer):
        return None
    found = syncrepl.of_database(strategy.place.config, strategy.place.database, uri)
    return found.log_base if found else None


def _config(strategy: Strategy) -> Config | None:
    return strategy.place.config if isinstance(strategy, StoppedConsumer) else None
