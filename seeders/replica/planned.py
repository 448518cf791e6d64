"""The seconds that a plan gave each step, noted in the run that carries it out, for `replica status`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from loader.run.log import Catalogue, recorded

_NOTE = (
    "planned"  # a step of the catalogue that is never run; its partitions are the steps of the plan
)


def note(catalogue: Catalogue, seconds: Mapping[str, float]) -> None:
    for name, planned in seconds.items():
        catalogue.finish_partition(_NOTE, name, {"seconds": planned})


def of(run_dir: Path) -> dict[str, float]:
    """Seconds by step; none of a run without a plan."""
    with recorded(run_dir) as catalogue:
        found = catalogue.partitions(_NOTE) if catalogue else {}
    return {name: float(facts["seconds"]) for name, facts in found.items()}


def left(planned: Mapping[str, float], done: Collection[str]) -> float:
    """Seconds of the steps that are not done."""
    return sum(seconds for name, seconds in planned.items() if name not in done)
