"""The commands of ditseed as contexts of click, and their options."""

from __future__ import annotations

import click

from loader.cli import ditseed, manual


def contexts(above: click.Context) -> list[click.Context]:
    return [above, *(one for context in manual.subcommands(above) for one in contexts(context))]


COMMANDS = contexts(click.Context(ditseed, info_name="ditseed"))
LEAVES = [one for one in COMMANDS if not manual.subcommands(one)]  # commands that do something


def options(context: click.Context) -> list[click.Option]:
    """Returns all but the -w that is only there to be refused."""
    return [one for one in context.command.params if isinstance(one, click.Option) and not one.hidden]
