"""Which of the strategies that can be carried out to take."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loader import units
from seeders.replica.planning.plan import StrategyName, StrategyPlan

NEAR = 60.0  # seconds, and
TWICE = 2.0  # times the fastest: what a strategy may take longer if then only changes are left to be sent


def pick(rows: Sequence[StrategyPlan]) -> tuple[StrategyName | None, str]:
    """The strategy, and why."""
    feasible = [one for one in rows if one.feasible]
    if not feasible:
        return None, "none can be carried out; what each of them lacks stands below"
    whole = [one for one in feasible if not one.loses_deletions] or feasible
    fastest = min(map(_seconds, whole))
    near = [one for one in whole if _seconds(one) <= max(fastest + NEAR, fastest * TWICE)]
    calm = [one for one in near if one.only_changes]
    chosen = min(calm or near, key=_seconds)
    return chosen.strategy, _why(chosen, feasible, fastest, bool(calm))


def _seconds(one: StrategyPlan) -> float:
    return math.inf if one.seconds is None else one.seconds


def _why(chosen: StrategyPlan, feasible: Sequence[StrategyPlan], fastest: float, calm: bool) -> str:
    lossy = [one.strategy for one in feasible if one.loses_deletions]
    if chosen.loses_deletions:
        return "no other can be carried out, but deletions will be lost: prepare the provider first"
    if len(feasible) == 1:
        return "it is the only one that can be carried out"
    others = f" ({', '.join(lossy)} would lose deletions)" if lossy else ""
    if chosen.seconds is None:
        return f"nothing tells how long any of them takes, and it needs the fewest steps{others}"
    if chosen.seconds > fastest and calm:
        return (
            f"another one would end after {units.duration(fastest)}, but the provider would then send more than what "
            f"changed{others}"
        )
    return f"it ends first, after {units.duration(chosen.seconds)} with the catch-up{others}"
