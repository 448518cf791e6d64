"""The facts of a finished run, for its report page and its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from loader import log
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError
from loader.ldif import Rejected
from loader.operations import monitoring
from loader.progress import DONE_BEFORE, Recorder, StepRecord

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(frozen=True)
class RunReport:
    """A finished run. `facts`: the report as in --json; empty if the run failed. `planned`: planned seconds by step."""

    verb: str
    recorder: Recorder
    seconds: float
    status: int
    error: LoaderError | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> list[StepRecord]:
        return self.recorder.steps

    @property
    def seconds_by_step(self) -> dict[str, float]:
        """Seconds by step, without steps that an earlier run finished; steps of the same name are added up."""
        seconds: dict[str, float] = {}
        for step in self.steps:
            if step.state != DONE_BEFORE:
                seconds[step.name] = seconds.get(step.name, 0.0) + step.seconds
        return seconds

    @property
    def is_done(self) -> bool:
        """Whether the run finished, with or without rejects."""
        return self.error is None and self.status in (EXIT_OK, EXIT_DIFFERENT)

    @property
    def entries(self) -> int:
        """Number of entries as in --json; for a failed run, the number that its last step had counted."""
        counted = self.steps[-1].entries if self.steps else 0
        entries = self.facts.get("entries", self.facts.get("read"))
        return entries if self.is_done and isinstance(entries, int) else counted

    @property
    def bytes(self) -> int:
        """Bytes of the step that read or wrote the most."""
        return max((step.bytes for step in self.steps), default=0)

    @property
    def rejected(self) -> int | None:
        """Number of rejected entries, also from an error that ended the run because of rejects; None if not counted."""
        of_error = self.error.facts.get("rejected") if self.error else 0
        count = self.facts.get("rejected", of_error)
        return count if isinstance(count, int) else None

    @property
    def rejections(self) -> list[Rejected]:
        """The first rejected entries, with passwords redacted."""
        rejections = self.facts.get("rejections")
        return [
            (path, line, log.redact(str(dn)), log.redact(str(reason)))
            for path, line, dn, reason in (rejections if isinstance(rejections, list) else ())
        ]


def families(run: RunReport) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    began = run.recorder.began
    counted = "Entries of the report; of a run that failed, those that its last step had counted."
    rejects = "Entries that were rejected; none of a run that failed before they were counted."
    gauges: tuple[tuple[str, str, float | None], ...] = (
        ("success", "1 if the run was done, with rejects or without; else 0.", run.is_done),
        ("exit_status", "As docs/errors.md lists them.", run.status),
        ("start_timestamp_seconds", "When the run began, as Unix time.", began),
        ("end_timestamp_seconds", "When the run ended, as Unix time.", began + run.seconds),
        ("duration_seconds", "Seconds from the beginning to the end.", run.seconds),
        ("entries", counted, run.entries),
        ("bytes", "Bytes of the step that read or wrote the most.", run.bytes),
        ("rejects", rejects, run.rejected),
    )
    for name, text, value in gauges:
        family = GaugeMetricFamily(f"ditseed_run_{name}", text, labels=["verb"])
        if value is not None:
            family.add_metric([run.verb], float(value))
        yield family
    text = "Seconds that a step took in this run; steps that run beside each other are added up."
    steps = GaugeMetricFamily("ditseed_run_step_seconds", text, labels=["verb", "step"])
    for step, seconds in run.seconds_by_step.items():
        steps.add_metric([run.verb, step], seconds)
    yield steps


def write(run: RunReport, path: Path) -> None:
    """Writes the metrics file atomically."""
    monitoring.write(families(run), path)
