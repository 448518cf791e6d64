"""--report and --metrics: what a run did, told in files once it has ended, however it has ended."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import click

from loader.cli import ending, options
from loader.cli.ending import Ending
from loader.cli.options import Run
from loader.common_options import Metrics
from loader.errors import NoSuchPath, UsageProblem
from loader.operations.reports.report import RunReport
from loader.progress import Recorder
from loader.storage import files

_RECORDING = "ditseed.recording"


@dataclass
class _Recording:
    """Of a run that goes on. metrics, report: where they are written."""

    verb: str
    metrics: Path | None = None
    report: Path | None = None
    recorder: Recorder = field(default_factory=Recorder)
    facts: Mapping[str, Any] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)

    def write(self, found: Ending) -> None:
        """The metrics first: they need less."""
        told = RunReport(
            *(self.verb, self.recorder, self.recorder.seconds, found.status, found.error), *(self.facts, self.planned)
        )
        if self.metrics is not None:
            from loader.operations.reports import report as prometheus  # it takes long to import

            with files.explained(self.metrics):
                prometheus.write(told, self.metrics)
        if self.report is not None:
            from loader.operations.reports import page

            with files.explained(self.report):
                page.write(told, shlex.join(["ditseed", *sys.argv[1:]]), self.report)


@dataclass(frozen=True, kw_only=True)
class RecordedRun(Run):
    """A run whose end can be written into files."""

    report_path: Annotated[
        Path | None,
        "--report FILE",
        "Write a page about the run into FILE (HTML) once it has ended: its steps, rates, sizes and rejects.",
    ] = None
    metrics_path: Annotated[
        Metrics, "Write what came of the run into FILE, for Prometheus' node_exporter, also if it fails."
    ] = None

    def begin(self) -> None:
        if self.dry_run:
            options.refuse_given(("report_path", "metrics_path"), "a run, not for --dry-run")
        elif self.report_path or self.metrics_path:
            _begin(self.metrics_path, self.report_path)


def note(facts: Mapping[str, Any], planned: Mapping[str, float] | None = None) -> None:
    """What --json prints of the run, and the seconds that a plan gave its steps, for its report where one is wanted."""
    recording = click.get_current_context().meta.get(_RECORDING)
    if recording is not None:
        recording.facts = facts or recording.facts
        recording.planned = planned or recording.planned


def _begin(metrics: Path | None, report: Path | None) -> None:
    """Metrics tell of a run, too, whose report is refused."""
    context = click.get_current_context()
    recording = _Recording(context.command_path.partition(" ")[2])
    context.meta.update({_RECORDING: recording, options.RECORDER: recording.recorder})
    ending.at_end(recording.write)
    if metrics is not None:
        recording.metrics = _required(metrics, "--metrics")
    if report is not None:
        from loader.operations.reports import page

        page.require()
        recording.report = _required(report, "--report")
        if recording.report == recording.metrics:
            recording.report = None
            raise UsageProblem(reason="--report and --metrics name the same file")


def _required(path: Path, option: str) -> Path:
    """A file can be put there. Raises NoSuchPath, NotPermitted, ReadOnly, UsageProblem."""
    path = path.absolute()
    if not path.parent.is_dir():
        raise NoSuchPath(path=path.parent)
    if path.exists() and not path.is_file():
        raise UsageProblem(reason=f"{option} {path}: something that is not a file is there")
    files.require_writable(path.parent)
    return path
