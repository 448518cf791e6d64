"""A run, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from loader.operations import textfile
from loader.operations.reports.report import RunReport

_NAME = "ditseed_run"
_GAUGES: Mapping[str, tuple[str, Callable[[RunReport], float | None]]] = {
    "success": ("1 if the run was done, with rejects or without; else 0.", lambda one: one.is_done),
    "exit_status": ("As docs/errors.md lists them.", lambda one: one.status),
    "start_timestamp_seconds": (
        "When the run began, as Unix time.",
        lambda one: one.recorder.began,
    ),
    "end_timestamp_seconds": (
        "When the run ended, as Unix time.",
        lambda one: one.recorder.began + one.seconds,
    ),
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
    textfile.write(families(report), path)
