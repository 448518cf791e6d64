"""Options that several commands of `ditseed backup` have, and what goes together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from loader import units
from loader.cli.options import stack
from loader.declared import Function
from loader.errors import UsageProblem
from loader.operations.backup.prune import Policy

_PERIODS = ("daily", "weekly", "monthly", "yearly")

every_option = click.option(
    "--all-databases",
    "every",
    is_flag=True,
    help="All mdb databases of the configuration, accesslogs included, as they were at one moment.",
)


def _keep(name: str, said: str) -> Callable[[Function], Function]:
    return click.option(f"--keep-{name}", type=click.IntRange(0), default=0, metavar="N", help=said)


keep_options = stack(
    _keep("last", "Keep the last N backups."),
    *(
        _keep(name, f"Keep the last backup of each of the last N {unit} that have one.")
        for name, unit in zip(_PERIODS, ("days", "weeks", "months", "years"), strict=True)
    ),
    click.option("--keep-within", metavar="TIME", help="Keep all backups younger than that: 30d."),
)


def policy_of(given: dict[str, Any]) -> Policy:
    """Of the values of `keep_options`."""
    within = given.pop("keep_within")
    counts = {name: given.pop(f"keep_{name}") for name in ("last", *_PERIODS)}
    return Policy(**counts, within=units.parse_duration(within) if within else 0.0)


def require_alone(every: bool, *others: tuple[str, object]) -> None:
    for name, value in others:
        if every and value is not None:
            raise UsageProblem(reason=f"--all-databases and {name} exclude each other")


def one_of(*given: tuple[str, object]) -> None:
    names = " or ".join(name for name, _ in given)
    if sum(value is not None for _, value in given) != 1:
        raise UsageProblem(reason=f"give one of {names}")
