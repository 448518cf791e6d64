"""Options of a run, the report files of a run, and look-ups of where an option's value came from."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import click
from click import Choice
from click.core import ParameterSource

from loader import log, units
from loader.cli import ending
from loader.cli.ending import Ending
from loader.declared import Metrics
from loader.errors import NoSuchPath, UsageProblem
from loader.progress import Progress, Recorder
from loader.storage import files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)

_RECORDING = "ditseed.recording"  # key of the _Recording in a click context's meta
Json = Annotated[bool, "--json", "Print the report as JSON."]
DryRun = Annotated[bool, "Run all checks and show the plan; change nothing."]
Restart = Annotated[bool, "Discard an earlier run, finished or not, and start over."]
ProgressMode = Annotated[
    str,
    "--progress",
    Choice(("auto", "terminal", "plain", "json", "none")),
    {"show_default": False},
    "How to show progress on stderr.",
]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Options of a verb's output."""

    as_json: Json = False
    progress_mode: ProgressMode = "auto"

    @property
    def progress(self) -> Progress:
        return progress_of(self.progress_mode)


@dataclass(frozen=True, kw_only=True)
class Run(Shown):
    """Options of a resumable run with named steps."""

    dry_run: DryRun = False
    timeouts: Annotated[
        tuple[str, ...],
        "--timeout [STEP=]SECONDS",
        "Time after which a step without progress fails (default: derived from its measured rate).",
    ] = ()
    restart: Restart = False

    def timeouts_of(self, steps: Sequence[str]) -> dict[str, float]:
        """("read=600", "90") -> {"read": 600.0, "*": 90.0}. `steps`: names of the verb's steps. Raises UsageProblem."""
        seconds_of: dict[str, float] = {}
        for text in self.timeouts:
            step, equals, value = text.rpartition("=")
            if equals and step not in steps:
                raise UsageProblem(reason=f"--timeout {text}: the steps are {', '.join(steps)}")
            seconds = units.parse_duration(value)
            if seconds <= 0:
                raise UsageProblem(reason=f"--timeout {text}: must be more than 0 seconds")
            seconds_of[step if equals else "*"] = seconds
        return seconds_of


@dataclass(frozen=True, kw_only=True)
class RecordedRun(Run):
    """Options of a run that can write a report and metrics to files when it ends."""

    report_path: Annotated[
        Path | None,
        "--report FILE",
        "Write a page about the run into FILE (HTML) once it has ended: its steps, rates, sizes and rejects.",
    ] = None
    metrics_path: Annotated[
        Metrics, "Write what came of the run into FILE, for Prometheus' node_exporter, also if it fails."
    ] = None

    def begin(self) -> None:
        """Starts recording. The metrics are written at the end even if the report's path is rejected here.

        Raises NoSuchPath, NotPermitted, ReadOnly, UsageProblem, PackageMissing.
        """
        if self.dry_run:
            refuse_given(("report_path", "metrics_path"), "a run, not for --dry-run")
        elif self.report_path or self.metrics_path:
            context = click.get_current_context()
            recording = context.meta[_RECORDING] = _Recording(context.command_path.partition(" ")[2])
            ending.at_end(recording.write)
            if self.metrics_path is not None:
                recording.metrics = _require_file(self.metrics_path, "--metrics")
            if self.report_path is not None:
                from loader.operations.reports import page

                page.require()
                path = _require_file(self.report_path, "--report")
                if path == recording.metrics:
                    raise UsageProblem(reason="--report and --metrics name the same file")
                recording.report = path


@dataclass
class _Recording:
    """The content of a run's files, collected until it ends. `metrics`, `report`: paths of the files."""

    verb: str
    metrics: Path | None = None
    report: Path | None = None
    recorder: Recorder = field(default_factory=Recorder)
    facts: Mapping[str, object] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)

    def write(self, end: Ending) -> None:
        """Writes the files; the metrics come first, because less can go wrong with them."""
        from loader.operations import reports  # few runs are recorded

        seconds = self.recorder.seconds
        report = reports.RunReport(
            *(self.verb, self.recorder, seconds, end.status, end.error, self.facts, self.planned)
        )
        if self.metrics is not None:
            with files.explained(self.metrics):
                reports.write(report, self.metrics)
        if self.report is not None:
            from loader.operations.reports import page

            with files.explained(self.report):
                page.write(report, shlex.join(["ditseed", *sys.argv[1:]]), self.report)


def _require_file(path: Path, option: str) -> Path:
    """Returns the absolute path. Raises an error unless a file can be created or replaced there."""
    path = path.absolute()
    if not path.parent.is_dir():
        raise NoSuchPath(path=path.parent)
    if path.exists() and not path.is_file():
        raise UsageProblem(reason=f"{option} {path}: something that is not a file is there")
    files.require_writable(path.parent)
    return path


def note(facts: Mapping[str, object], planned: Mapping[str, float] | None = None) -> None:
    """Records the facts of --json, and the planned seconds of each step, for the files of a recorded run."""
    recording = click.get_current_context().meta.get(_RECORDING)
    if recording is not None:
        recording.facts = facts or recording.facts
        recording.planned = planned or recording.planned


def progress_of(mode: str) -> Progress:
    recording = click.get_current_context().meta.get(_RECORDING)
    recorder = recording.recorder if recording else None
    return Progress("none" if mode == "auto" and log.verbosity() < 0 else mode, recorder=recorder)


# --- which options were given -----------------------------------------------------------------------


def refuse_given(names: Iterable[str], only: str) -> None:
    """Raises UsageProblem if any of these parameters is on the command line. `only`: what they are for."""
    spelled = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    for name in names:
        if is_given(name):
            raise UsageProblem(reason=f"{spelled[name]} is only for {only}")


def is_given(name: str) -> bool:
    """Returns whether a parameter is on the command line; values from variables and profiles do not count."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def keep_strongest(options: Options, deciding: Sequence[str], following: Sequence[str] = ()) -> Options:
    """Resets options from weaker sources. The strongest source of a `deciding` option wins: command line, then
    variables, then profile. `deciding` and `following` options from weaker sources get their defaults."""
    context = click.get_current_context()
    defaults = {option.name: option.default for option in fields(options)}
    names = [name for name in (*deciding, *following) if getattr(options, name, None)]
    sources = {name: context.get_parameter_source(name) or ParameterSource.DEFAULT for name in names}
    strongest = min((sources[name] for name in deciding if name in sources), default=ParameterSource.DEFAULT)
    return replace(options, **{name: defaults[name] for name, source in sources.items() if source > strongest})
