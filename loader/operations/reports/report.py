"""What both say of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader import log
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError
from loader.operations import monitoring
from loader.progress import DONE_BEFORE, Recorder, StepRecord

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(frozen=True)
class Rejection:
    """path: None for standard input."""

    path: str | None
    line: int | None
    dn: str
    reason: str


@dataclass(frozen=True)
class RunReport:
    """Of a run that has ended. facts: those of --json, none where it failed. planned: seconds that a plan gave each
    step."""

    verb: str
    recorder: Recorder
    seconds: float
    status: int
    error: LoaderError | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> list[StepRecord]:
        return self.recorder.steps

    @property
    def seconds_by_step(self) -> dict[str, float]:
        """Of those that this run did; those of one name are added up."""
        found: dict[str, float] = {}
        for step in self.steps:
            if step.state != DONE_BEFORE:
                found[step.name] = found.get(step.name, 0.0) + step.seconds
        return found

    @property
    def is_done(self) -> bool:
        """With rejects or without."""
        return self.error is None and self.status in (EXIT_OK, EXIT_DIFFERENT)

    @property
    def entries(self) -> int:
        """As --json has them; of a run that failed, those that its last step had counted."""
        if self.is_done:
            for name in ("entries", "read"):
                if name in self.facts:
                    return int(self.facts[name])
        return self.steps[-1].entries if self.steps else 0

    @property
    def bytes(self) -> int:
        """Of the step that read or wrote the most."""
        return max((step.bytes for step in self.steps), default=0)

    @property
    def rejected(self) -> int | None:
        """None where nobody counted them: the error that ended the run names one then, if it was for a reject."""
        of_error = self.error.facts.get("rejected") if self.error else 0
        found = self.facts.get("rejected", of_error)
        return found if isinstance(found, int) else None

    @property
    def rejections(self) -> list[Rejection]:
        """The first ones; passwords blanked."""
        return [
            Rejection(path, line, log.redact(str(dn)), log.redact(str(reason)))
            for path, line, dn, reason in self.facts.get("rejections") or ()
        ]


# --- prometheus ------------------------------------------------------------------------------------------------------
#
# A run, for Prometheus.


_NAME = "ditseed_run"
_GAUGES: Mapping[str, tuple[str, Callable[[RunReport], float | None]]] = {
    "success": ("1 if the run was done, with rejects or without; else 0.", lambda one: one.is_done),
    "exit_status": ("As docs/errors.md lists them.", lambda one: one.status),
    "start_timestamp_seconds": ("When the run began, as Unix time.", lambda one: one.recorder.began),
    "end_timestamp_seconds": ("When the run ended, as Unix time.", lambda one: one.recorder.began + one.seconds),
    "duration_seconds": ("Seconds from the beginning to the end.", lambda one: one.seconds),
    "entries": (
        "Entries of the report; of a run that failed, those that its last step had counted.",
        lambda one: one.entries,
    ),
    "bytes": ("Bytes of the step that read or wrote the most.", lambda one: one.bytes),
    "rejects": (
        "Entries that were rejected; none of a run that failed before they were counted.",
        lambda one: one.rejected,
    ),
}
_OF_STEP = "Seconds that a step took in this run; steps that run beside each other are added up."


def families(report: RunReport) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    for name, (said, value) in _GAUGES.items():
        family = GaugeMetricFamily(f"{_NAME}_{name}", said, labels=["verb"])
        found = value(report)
        if found is not None:
            family.add_metric([report.verb], float(found))
        yield family
    steps = GaugeMetricFamily(f"{_NAME}_step_seconds", _OF_STEP, labels=["verb", "step"])
    for step, seconds in report.seconds_by_step.items():
        steps.add_metric([report.verb, step], seconds)
    yield steps


def write(report: RunReport, path: Path) -> None:
    """Whole or not at all."""
    monitoring.write(families(report), path)
