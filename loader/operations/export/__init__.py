"""Export a running server: pieces are read in parallel and arranged into shards that load in order, with a manifest.

Steps: start, plan, read, late, arrange, shards. `export_steps` serves `replica seed` too.
"""

from __future__ import annotations

import dataclasses

from loader import manifest
from loader.manifest import Manifest
from loader.operations.export.options import ExportOptions
from loader.operations.export.planning import notes, plan_of, trial_plan
from loader.operations.export.steps import ExportSteps
from loader.operations.shards import Finished, into, require_output
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.storage import held

__all__ = [
    "STEPS",
    "ExportOptions",
    "ExportSteps",
    "export",
    "export_steps",
    "notes",
    "plan",
    "plan_of",
    "trial_plan",
]

STEPS = ("start", "plan", "read", "late", "arrange", "shards")


def export(
    options: ExportOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False
) -> Finished:
    """Run or resume an export into a directory."""
    with into(options.output, options.identity(), progress, timeouts, restart) as run:
        return Finished(export_steps(options, run), run.told_before())


def plan(options: ExportOptions, progress: Progress) -> Facts:
    """What an export would do, as far as can be told without reading the entries: is the output free, do the servers
    answer, hold the base, and let all of it be read? Writes nothing. Raises as `export` does."""
    require_output(options.output)
    with progress.step("plan") as meter:
        cut = trial_plan(options, meter)
    return {
        "base": cut["base"],
        "entries": cut["expected"] if cut["expected"] is not None else "the server does not tell",
        "read_as": cut["how"],
        "context_csns": cut["context_csns"],
        "notes": cut["hidden"],
        "output": str(options.output),
        "dry_run": "nothing was written",
    }


def export_steps(options: ExportOptions, run: Run) -> Manifest:
    """The named steps of an export, within a run that may have more. The output directory is there."""
    with held.opened(options.output) as output:
        return _export_steps(dataclasses.replace(options, output=output.path), run)


def _export_steps(options: ExportOptions, run: Run) -> Manifest:
    work = ExportSteps(options, run)
    known = work.sink.done_before()
    if known is not None:
        return known
    start = run.do("start", work.start)
    cut = run.do("plan", lambda meter: work.plan(meter, start))
    run.progress.say(f"export: {cut['how']}")
    run.do(
        "read", lambda meter: work.read(meter, plan_of(cut, options.page)), total=cut["expected"]
    )
    late = run.do("late", lambda meter: work.late(meter, start))
    arranged = run.do("arrange", lambda meter: work.arrange(meter, start, late))
    run.do("shards", lambda meter: work.publish(meter, start, cut, arranged))
    return manifest.require(options.output)
