"""A plan for its operator."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from loader import units
from loader.cli.report import show, show_facts, show_table
from seeders.replica.planning.plan import SeedPlan, StrategyPlan

_UNKNOWN = "not known"


def tell(plan: SeedPlan) -> None:
    chosen = plan.choice
    show_facts(dict(_head(plan)))
    show("")
    headings = ("strategy", "feasible", "time", "disk", "provider sends", "then, to catch up")
    show_table(headings, [_row(one) for one in plan.strategies])
    for one in plan.strategies:
        show("", *_refused(one)) if not one.feasible else None
    if chosen is not None:
        _tell_steps(chosen)
        for note in chosen.notes:
            show("", *note.split("\n"))


def _head(plan: SeedPlan) -> Iterator[tuple[str, object]]:
    yield "take", f"--strategy {plan.chosen}" if plan.chosen else "none"
    yield "why", plan.why
    yield "suffix", plan.suffix
    if plan.entries is not None:
        yield "entries", units.number(plan.entries)
    for line in plan.measured:
        what, _, found = line.partition(": ")
        yield what, found


def _row(one: StrategyPlan) -> tuple[str, ...]:
    if not one.feasible:
        return (one.strategy, f"no: {one.refused}", "", "", "", "")
    seconds = _UNKNOWN if one.seconds is None else units.duration(one.seconds)
    disk = _UNKNOWN if one.disk is None else units.size(one.disk)
    load = one.load
    sent = (
        f"{units.size(load.bytes)} over {load.connections} connections, "
        f"{units.number(round(load.entries_per_second))} entries/s"
        if load
        else "nothing"
    )
    return (one.strategy, "yes", seconds, disk, sent, _catch_up(one))


def _catch_up(one: StrategyPlan) -> str:
    if one.loses_deletions:
        return "NO deletions"
    return "what changed" if one.only_changes else one.catch_up.partition(":")[0]


def _refused(one: StrategyPlan) -> Iterator[str]:
    yield f"{one.strategy} cannot be taken: {one.reason}"
    if one.advice:
        yield f"  {one.advice}"


def _tell_steps(chosen: StrategyPlan) -> None:
    show("")
    rows = [
        (one.name, units.duration(one.seconds), units.duration(one.timeout), one.why)
        for one in chosen.steps
    ]
    show_table(("step", "planned", "timeout", "because"), rows, f"steps of {chosen.strategy}")


def command(plan: SeedPlan, path: object) -> str:
    """What carries it out; the options of the connection and --config as they were given for the plan."""
    return shlex.join(["ditseed", "replica", "seed", "--plan", str(path)]) + " ..."
