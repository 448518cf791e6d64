"""Looking at a run from outside, while it goes on or after it was stopped; nothing is locked or changed by it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader.run import live
from loader.run.catalogue import DoneStep, Facts, recorded
from loader.run.live import Live
from loader.run.lock import locking_process


@dataclass(frozen=True)
class RunStatus:
    """A run as it stands. `process`: of the ditseed that works at it, None when none does. `heard`: Unix time of the
    last sign of life. `read`: entries of the finished pieces of the step `read`. `live`: what it did last."""

    directory: Path
    verb: str
    options: Facts
    steps: list[DoneStep]
    read: int
    process: int | None
    heard: float
    live: Live

    @property
    def under_way(self) -> str | None:
        """The step that was begun and is not finished."""
        step = self.live.step
        return None if step is None or self.found(step) is not None else step

    def found(self, step: str) -> Facts | None:
        """What a finished step found."""
        return next((one.facts for one in self.steps if one.name == step), None)


def status_of(directory: Path) -> RunStatus | None:
    """None where no run is. Raises CatalogueDamaged, CatalogueVersion."""
    with recorded(directory) as catalogue:
        about = catalogue.about() if catalogue else None
        if catalogue is None or about is None:
            return None
        return RunStatus(
            directory,
            *about,
            catalogue.steps(),
            sum(one["entries"] for one in catalogue.partitions("read").values()),
            locking_process(directory / "lock"),
            _heard(directory),
            live.read(directory),
        )


def _heard(directory: Path) -> float:
    """When a file below it was last written."""
    latest = directory.stat().st_mtime
    for path in directory.rglob("*"):
        try:
            latest = max(latest, path.lstat().st_mtime)
        except FileNotFoundError:
            continue  # moved on meanwhile
    return latest
