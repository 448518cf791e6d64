"""What every verb takes, before its name or after it: -q, -v, --log-file (how much a run tells, where), --profile."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

import click
from click.core import ParameterSource

from loader import log
from loader.cli import profile
from loader.errors import UsageProblem

_log = logging.getLogger(__name__)


def _tell_more(context: click.Context, option: click.Parameter, value: int) -> None:
    if value:
        _require_one(log.verbosity() >= 0)
        log.setup(log.verbosity() + value)


def _be_quiet(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        _require_one(log.verbosity() <= 0)
        log.setup(-1)


def _require_one(fits: bool) -> None:
    if not fits:
        raise UsageProblem(reason="-q and -v contradict each other: give one of them")


def _keep(context: click.Context, option: click.Parameter, value: Path | None) -> None:
    if value is not None and not context.resilient_parsing and _is_wanted(context, option):
        log.into(os.fdopen(_appending(value), "a", encoding="utf-8", errors="backslashreplace"))
        _log.info("%s begins", context.command_path, extra=log.SHOWN)


def _is_wanted(context: click.Context, option: click.Parameter) -> bool:
    """One of a variable or a profile only where none is on the command line, before the verb."""
    source = context.get_parameter_source(option.name or "")
    return source is ParameterSource.COMMANDLINE or not log.has_file()


def _appending(path: Path) -> int:
    from loader.storage import (
        files,  # most runs keep no log file
        held,
    )

    with files.explained(path), held.opened(path.absolute().parent) as place:
        descriptor = place.found_or_made(path.name, 0o600)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor


def options(profile_variable: str | None = None) -> list[click.Option]:
    """-q and -v before --log-file, so that the file has the level of the run, and --profile, which may name it."""
    return [
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_be_quiet,
            help="Print nothing to stderr but errors.",
        ),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            is_eager=True,
            expose_value=False,
            callback=_tell_more,
            help="Report servers, files, tools and steps on stderr; -vv: everything.",
        ),
        profile.option(profile_variable),
        click.Option(
            ["--log-file"],
            type=click.Path(path_type=Path, readable=False),
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_keep,
            help="Append to FILE what -v reports, with the time of each line (UTC).",
        ),
    ]


def give(command: click.Command) -> click.Command:
    """To a verb, or to each of the verbs below it."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            give(one)
        return command
    taken = {word for one in command.params for word in one.opts}
    command.params += [one for one in options() if not taken.intersection(one.opts)]
    profile.offer(command)
    return command
