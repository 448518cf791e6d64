"""Options that every verb accepts, before or after its name: -q, -v, --log-file and --profile."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import click
from click.core import ParameterSource

from loader import log
from loader.cli import profile
from loader.errors import UsageProblem

_log = logging.getLogger(__name__)


def load(place: str) -> click.Command:
    """Imports the command at `MODULE:NAME`, and adds the options of every verb."""
    module, _, name = place.partition(":")
    command: click.Command = getattr(import_module(module), name)
    return give(command)


class Lazy(click.Group):
    """A group that imports a command's module only when it is called. `places`: command name -> MODULE:NAME."""

    places: Mapping[str, str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(self.places[cmd_name]) if cmd_name in self.places else None


def give(command: click.Command) -> click.Command:
    """Adds the options of every verb to a command, or to each command of a group."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            give(below)
        return command
    names = {word for option in command.params for word in option.opts}
    command.params += [option for option in options() if not names.intersection(option.opts)]
    profile.offer(command)
    return command


def options(profile_variable: str | None = None) -> list[click.Option]:
    """Returns the options of every verb. --log-file is last: -q and -v set its level, and a profile may name it."""
    option = partial(click.Option, is_eager=True, expose_value=False)
    path = click.Path(path_type=Path, readable=False)
    quiet, verbose = "Print nothing to stderr but errors.", "Report servers, files, tools and steps on stderr"
    log_file = "Append to FILE what -v reports, with the time of each line (UTC)."
    return [
        option(["-q", "--quiet"], is_flag=True, callback=_set_verbosity, help=quiet),
        option(["-v", "--verbose"], count=True, callback=_set_verbosity, help=f"{verbose}; -vv: everything."),
        profile.option(profile_variable),
        option(["--log-file"], type=path, metavar="FILE", callback=_open_log, help=log_file),
    ]


def _set_verbosity(context: click.Context, option: click.Parameter, value: int) -> None:
    """Adds the number of -v, or sets -1 for -q; either may come before the verb and after it."""
    if not value:
        return
    step = -1 if option.name == "quiet" else value
    if log.verbosity() * step < 0:
        raise UsageProblem(reason="-q and -v contradict each other: give one of them")
    log.setup(max(-1, log.verbosity() + step))


def _open_log(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Opens the log file. One from a variable or profile is ignored if the command line had one before the verb."""
    explicit = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if path is None or context.resilient_parsing or (log.has_file() and not explicit):
        return
    from loader.storage import files, held  # most runs keep no log file

    with files.explained(path), held.opened(path.absolute().parent) as directory:
        descriptor = directory.found_or_made(path.name, 0o600)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    log.into(os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace"))
    _log.info("%s begins", context.command_path, extra=log.SHOWN)
