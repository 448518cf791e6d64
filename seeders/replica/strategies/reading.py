"""How the strategies `search` and `online` read a provider."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from loader import resources
from loader.operations import hidden_values
from loader.operations.export import ExportOptions, export_steps, trial_plan
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from seeders.replica.partial import Partial
from seeders.replica.strategies import SeedOptions

TAKES = frozenset({"allow_hidden", "jobs", "pieces", "page"})


def reading(
    options: SeedOptions, suffix: str, output: Path, partial: Partial | None = None
) -> ExportOptions:
    """The provider's entries below its base (default: the consumer's suffix), into `output`."""
    assert options.connection is not None
    first, *others = (
        partial.provider(one) if partial else dataclasses.replace(one, base=one.base or suffix)
        for one in (options.connection, *options.replicas)
    )
    return ExportOptions(
        first,
        output,
        jobs=options.jobs or resources.connections(),
        pieces=options.pieces,
        page=options.page,
        narrowing=partial.narrowing() if partial else None,
        # The preflight has looked at what the provider hides; an export that is kept tells others of it.
        looked=options.keep_export is None,
        replicas=tuple(others),
    )


def export(options: SeedOptions, asked: ExportOptions, run: Run) -> None:
    """The steps of an export."""
    asked.output.mkdir(exist_ok=True)
    export_steps(asked, run)
    if not options.allow_hidden:
        hidden_values.require_whole(asked.output)


def estimate(asked: ExportOptions, progress: Progress) -> Facts:
    """How the provider would be read, which must be within its limits."""
    with progress.step("plan") as meter:
        cut = trial_plan(asked, meter)
    counted = cut["expected"]
    entries = counted if counted is not None else "the provider does not tell"
    return {"entries": entries, "read_as": cut["how"]}
