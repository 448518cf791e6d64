"""Options that several verbs share, and what may be asked of those that are given."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from loader import log, units
from loader.cli.written import Moment, Repository, Size
from loader.defaults import ENGINES, LEVELS
from loader.errors import UsageProblem
from loader.progress import Progress
from loader.storage import temporary

Function = TypeVar("Function", bound=Callable[..., Any])
RECORDER = "ditseed.recorder"  # in the context of a command: what records the steps of its run


def negated(context: click.Context, option: click.Parameter, value: bool) -> bool:
    """Of a flag --no-SOMETHING whose parameter is SOMETHING."""
    return not value


def stack(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one."""

    def apply(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


_CONFIG: dict[str, Any] = {
    "type": click.Path(path_type=Path, readable=False),
    "help": "The server's slapd.d directory or slapd.conf.",
}
config_option = click.option("--config", "config_path", required=True, **_CONFIG)
optional_config_option = click.option("--config", "config_path", **_CONFIG)
suffix_option = click.option(
    "-b", "--suffix", metavar="SUFFIX", help="Suffix of the database (default: the only one)."
)


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


target_option = click.option(
    "--target",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Write into DIR instead of the configured directory; the configuration is not changed.",
)
space_option = click.option(
    "--no-space-check",
    "check_space",
    is_flag=True,
    callback=negated,
    help="Go on where the file system seems to have too little room for the new database.",
)
placing_options = stack(
    click.option(
        "--replace", is_flag=True, help="Replace an existing database once the new one is checked."
    ),
    click.option(
        "--maxsize",
        type=Size(auto=True),
        help="Set maxsize, in a slapd.d too; for a slapd.conf the line to change is printed. `auto` "
        "computes it.",
    ),
)


def verify_option(
    levels: Sequence[str], default: str | None, said: str, **more: Any
) -> Callable[[Function], Function]:
    """--verify with some of the levels of loader.defaults.LADDER."""
    return click.option(
        "--verify",
        type=click.Choice(levels),
        default=default,
        show_default=default is not None,
        help=said,
        **more,
    )


def verify_new_option(*more: str) -> Callable[[Function], Function]:
    """Of what a build makes; `more`: levels above those of a copy."""
    return verify_option(
        [*LEVELS, *more], "quick", "How thoroughly to check the new database, as `ditseed verify`."
    )


verify_copy_option = verify_option(
    LEVELS,
    None,
    "How thoroughly to check the copy before it is put into place, as `ditseed verify` (default: pages up to 16 GiB, "
    "else quick).",
)


def jobs_option(said: str, default: int | None = None) -> Callable[[Function], Function]:
    """-j, of whatever works in parallel."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1),
        default=default,
        show_default=default is not None,
        help=said,
    )


def limit_option(default: int, said: str, least: int = 0) -> Callable[[Function], Function]:
    """--limit: how much of what was found is named."""
    return click.option(
        "--limit", type=click.IntRange(least), default=default, show_default=True, help=said
    )


def max_rejects_option(what: str) -> Callable[[Function], Function]:
    """--max-rejects and --rejects; `what` stops or fails."""
    return stack(
        click.option(
            "--max-rejects",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help=f"Maximum number of rejected entries before {what}.",
        ),
        click.option(
            "--rejects",
            type=click.Path(path_type=Path, readable=False),
            metavar="FILE",
            help="File for rejected entries, as LDIF (default: in the run directory).",
        ),
    )


def max_rate_option(least: int, said: str) -> Callable[[Function], Function]:
    """--max-rate; 0 without it."""
    return click.option(
        "--max-rate",
        type=click.IntRange(least),
        callback=lambda context, option, value: value or 0,
        metavar="N",
        help=f"At most N entries per second, over all connections{said}.",
    )


def scratch_option(said: str) -> Callable[[Function], Function]:
    return click.option(
        "--tmp",
        "scratch",
        type=click.Path(path_type=Path, readable=False),
        metavar="DIR",
        callback=_lasting,
        help=said,
    )


def _lasting(context: click.Context, parameter: click.Parameter, place: Path | None) -> Path | None:
    """Raises DirectoryUnsafe. The verb itself reports a directory that does not exist or cannot be used."""
    with suppress(OSError):
        if place is not None and place.is_dir():
            temporary.lasting(place)
    return place


def metrics_option(said: str) -> Callable[[Function], Function]:
    """--metrics of what a monitoring system asks again and again; recording.py has that of a run."""
    return click.option(
        "--metrics",
        "metrics_file",
        type=click.Path(path_type=Path, readable=False),
        metavar="FILE",
        help=said,
    )


kept_meanwhile_option = scratch_option(
    "Directory that holds the files of a repository on another host meanwhile (default: $TMPDIR or /tmp)."
)


def run_dir_option(where: str = "in the database directory") -> Callable[[Function], Function]:
    return click.option(
        "--run-dir",
        type=click.Path(path_type=Path, readable=False),
        metavar="DIR",
        help=f"Directory for the state of the run (default: {where}).",
    )


engine_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="Program that writes the database: native is ditseed itself.",
)
threads_option = jobs_option("Number of threads (default: one per processor).")
memory_option = click.option(
    "--memory",
    type=Size(),
    help="Memory for sorting (default: a quarter of the available memory).",
)
native_options = stack(
    memory_option,
    scratch_option("Directory for temporary files (default: beside the database)."),
    threads_option,
    max_rejects_option("the build fails"),
    click.option(
        "--no-value-check",
        "check_values",
        is_flag=True,
        callback=negated,
        help="Accept values that violate their syntax, as slapadd does by default.",
    ),
    click.option(
        "--allow-file-urls",
        "file_urls",
        is_flag=True,
        help="Allow `attribute:< file:///path` and `include: file:///path` to read files of this host.",
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
progress_option = click.option(
    "--progress",
    "progress_mode",
    type=click.Choice(["auto", "terminal", "plain", "json", "none"]),
    default="auto",
    help="How to show progress on stderr.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Run all checks and show the plan; change nothing."
)
consumer_suffix_option = click.option(
    "--suffix",
    metavar="SUFFIX",
    help="Suffix of the consumer's database (default: -b, else its only database).",
)
restart_option = click.option(
    "--restart", is_flag=True, help="Discard an earlier run, finished or not, and start over."
)
timeout_option = click.option(
    "--timeout",
    "timeouts",
    multiple=True,
    metavar="[STEP=]SECONDS",
    help="Time after which a step without progress fails (default: derived from its measured rate).",
)


def refuse_given(names: Iterable[str], only: str) -> None:
    """Raise UsageProblem for any of these that stands on the command line: they are for `only`."""
    spelled = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    for name in names:
        if is_given(name):
            raise UsageProblem(reason=f"{spelled[name]} is only for {only}")


def is_given(name: str) -> bool:
    """Does that parameter of the running command stand on its command line? (A profile serves many verbs.)"""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def keep_strongest(
    given: dict[str, Any], deciding: Sequence[str], following: Sequence[str] = ()
) -> None:
    """Of options that exclude each other, keep those from one place: command line before variables before the profile.
    Those in `following` go with them."""
    context = click.get_current_context()
    names = [name for name in (*deciding, *following) if given.get(name)]
    places = {name: context.get_parameter_source(name) or ParameterSource.DEFAULT for name in names}
    first = min((places[name] for name in deciding if name in places), default=None)
    for name, place in places.items():
        if first is not None and place > first:
            given[name] = () if isinstance(given[name], tuple) else None


def progress_of(mode: str) -> Progress:
    """Recorded, where a report of the run is wanted."""
    recorder = click.get_current_context().meta.get(RECORDER)
    return Progress("none" if mode == "auto" and log.verbosity() < 0 else mode, recorder=recorder)


def timeouts_of(texts: tuple[str, ...], steps: tuple[str, ...]) -> dict[str, float]:
    """("read=600", "90") -> {"read": 600.0, "*": 90.0}; `steps` are those there are."""
    found: dict[str, float] = {}
    for text in texts:
        step, equals, value = text.rpartition("=")
        if equals and step not in steps:
            raise UsageProblem(reason=f"--timeout {text}: the steps are {', '.join(steps)}")
        seconds = units.parse_duration(value)
        if seconds <= 0:
            raise UsageProblem(reason=f"--timeout {text}: must be more than 0 seconds")
        found[step if equals else "*"] = seconds
    return found
