"""Options of the command line itself: what a run shows, and which options were given where."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click
from click import Choice
from click.core import ParameterSource

from loader import common_options as common
from loader import log, units
from loader.declared import Function, Written, decorator
from loader.errors import UsageProblem
from loader.progress import Progress
from loader.storage import remote
from loader.storage.remote import Location

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)

RECORDER = "ditseed.recorder"  # in the context of a command: what records the steps of its run
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
    """What a verb prints."""

    as_json: Json = False
    progress_mode: ProgressMode = "auto"

    @property
    def progress(self) -> Progress:
        return progress_of(self.progress_mode)


@dataclass(frozen=True, kw_only=True)
class Run(Shown):
    """A run of named steps, which can be resumed."""

    dry_run: DryRun = False
    timeouts: Annotated[
        tuple[str, ...],
        "--timeout [STEP=]SECONDS",
        "Time after which a step without progress fails (default: derived from its measured rate).",
    ] = ()
    restart: Restart = False

    def timeouts_of(self, steps: Sequence[str]) -> dict[str, float]:
        """("read=600", "90") -> {"read": 600.0, "*": 90.0}; `steps` are those that the verb has."""
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


def refuse_given(names: Iterable[str], only: str) -> None:
    """Raise UsageProblem for any of these that stands on the command line: they are for `only`."""
    spelled = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    for name in names:
        if is_given(name):
            raise UsageProblem(reason=f"{spelled[name]} is only for {only}")


def is_given(name: str) -> bool:
    """Does that parameter of the running command stand on its command line? (A profile serves many verbs.)"""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def keep_strongest(given: Options, deciding: Sequence[str], following: Sequence[str] = ()) -> Options:
    """Of options that exclude each other, keep those from one place: command line before variables before the profile.
    Those in `following` go with them."""
    context = click.get_current_context()
    known = {one.name: one.default for one in fields(given)}
    names = [name for name in (*deciding, *following) if getattr(given, name, None)]
    places = {name: context.get_parameter_source(name) or ParameterSource.DEFAULT for name in names}
    first = min((places[name] for name in deciding if name in places), default=None)
    weaker = [name for name, place in places.items() if first is not None and place > first]
    return replace(given, **{name: known[name] for name in weaker})


def progress_of(mode: str) -> Progress:
    """Recorded, where a report of the run is wanted."""
    recorder = click.get_current_context().meta.get(RECORDER)
    return Progress("none" if mode == "auto" and log.verbosity() < 0 else mode, recorder=recorder)


# For the verbs of `ditseed backup`, which state their options to click.


class Moment(Written):
    """A time of day on a date, not in the future."""

    name, kind = "time", datetime.datetime

    def parse(self, text: str) -> datetime.datetime:
        found = units.parse_moment(text)
        if found > datetime.datetime.now(datetime.timezone.utc):
            raise UsageProblem(reason=f"{text} is in the future")
        return found


class Repository(click.Path):
    """A directory, or a location on another host."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and remote.is_remote(value):
            return remote.parse(value)
        return value if isinstance(value, Location) else super().convert(value, param, ctx)


def stack(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one."""

    def apply(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


repo_option = click.option(
    "-R",
    "--repo",
    type=Repository(),
    required=True,
    help="Directory that holds the backups; or s3://BUCKET/PREFIX, or sftp://USER@HOST/DIRECTORY.",
)
which_backup = stack(
    click.argument("name", metavar="[ID|latest]", required=False),
    click.option(
        "--as-of",
        type=Moment(),
        metavar="TIME",
        help="Take the newest backup that was made by then: 2026-11-25T03:00, in the time zone of this host, or "
        "2026-11-25T02:00Z.",
    ),
)


def backup_of(name: str | None, as_of: datetime.datetime | None) -> str | datetime.datetime:
    """Of the values of `which_backup`: which one is meant."""
    if name is not None and as_of is None:
        return name
    if name is None and as_of is not None:
        return as_of
    raise UsageProblem(reason="say which backup: its ID, latest, or --as-of TIME")


optional_config_option = decorator("config_path", common.OptionalConfig)
suffix_option = decorator("suffix", common.Suffix)
target_option = decorator("target", common.Target)
verify_copy_option = decorator("verify", common.VerifyCopy)
json_option = decorator("as_json", Json)
progress_option = decorator("progress_mode", Annotated[ProgressMode, {"default": "auto"}])
dry_run_option = decorator("dry_run", DryRun)


def scratch_option(said: str) -> Callable[[Function], Function]:
    return decorator("scratch", Annotated[common.Scratch, said])


def metrics_option(said: str) -> Callable[[Function], Function]:
    """--metrics of what a monitoring system asks again and again; recording.py has that of a run."""
    return decorator("metrics_file", Annotated[common.Metrics, said])


kept_meanwhile_option = scratch_option(
    "Directory that holds the files of a repository on another host meanwhile (default: $TMPDIR or /tmp)."
)


def verify_option(levels: Sequence[str], default: str | None, said: str) -> Callable[[Function], Function]:
    """--verify with some of the levels of loader.defaults.LADDER."""
    return decorator("verify", Annotated[str | None, Choice(levels), said], default)
