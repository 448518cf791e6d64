"""`ditseed generate`: a synthetic tree from a template, as LDIF."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from loader import units
from loader.cli.options import (
    json_option,
    progress_of,
    progress_option,
    restart_option,
    threads_option,
)
from loader.cli.report import show_facts, show_json
from loader.cli.trees import generate, recipe_of, tree_options, tree_suffix_option
from loader.errors import UsageProblem
from loader.operations.generate import SHARD_ENTRIES
from loader.sources.dit import TreeSpec
from seeders.synthetic import learn_cmd, templates
from seeders.synthetic.operations_cmd import operations


class Generate(click.Group):
    """`generate TEMPLATE` is `generate tree TEMPLATE`: what is no subcommand is a template."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["tree", *(args or ["--help"])]
        return super().parse_args(ctx, args)


@click.group(cls=Generate, name="generate")
def command() -> None:
    """Make a synthetic tree from a template."""


command.add_command(learn_cmd.command)


@command.command("tree")
@click.argument("template_name", metavar="TEMPLATE")
@click.option(
    "--range",
    "piece",
    metavar="A:B",
    help="Make only entries A to B-1 of the tree, counted from 0; all ranges joined are the whole tree.",
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="DIR|-",
    help="Directory for shards and a manifest; -: plain LDIF to stdout.",
)
@click.option(
    "--compress",
    type=click.Choice(["zstd", "none"]),
    help="How to compress shards (default: zstd for a directory, none for stdout).",
)
@threads_option
@click.option(
    "--shard-entries",
    type=click.IntRange(min=1),
    default=SHARD_ENTRIES,
    show_default=True,
    help="Entries per file.",
)
@tree_options
@tree_suffix_option
@restart_option
@json_option
@progress_option
def tree(
    template_name: str,
    output: str,
    as_json: bool,
    progress_mode: str,
    tree_suffix: str | None,
    **options: Any,
) -> None:
    """Make a synthetic tree from TEMPLATE: `people`, or the path of a template file of your own.

    Each value depends only on the seed, the entry's number and the attribute: the same command makes
    the same bytes with any number of threads, and pieces made on several machines join to the whole
    tree.

    \b
    Examples:
      ditseed generate people -n 30000000 -o /srv/tree               compressed shards and a manifest
      ditseed generate people -n 1000 | ldapadd -H ldap://test ...   plain LDIF into a pipe
      ditseed generate people -n 4000 --range 1000:2000 -o piece-2   the second of four pieces
      ditseed generate show people 17                                look at entry 17
      ditseed generate templates                                     what is shipped
    """
    recipe = recipe_of(template_name, options, tree_suffix)
    generate(recipe, output, progress_of(progress_mode), as_json, **options)


@command.command("show")
@click.argument("template_name", metavar="TEMPLATE")
@click.argument("number", type=click.IntRange(min=0))
@tree_options
@tree_suffix_option
def show(template_name: str, number: int, tree_suffix: str | None, **options: Any) -> None:
    """Print entry NUMBER of TEMPLATE, as `generate` would make it. Entry 0 is the suffix.

    Without -n, the tree is the smallest that contains it: give -n if the template has kinds whose
    number is a share of others.

    \b
    Example:
      ditseed generate show people 17000000
    """
    template = recipe_of(template_name, options, tree_suffix).compiled(otherwise=number + 1)
    if number >= template.entries:
        raise UsageProblem(reason=f"the tree has entries 0 to {units.number(template.entries - 1)}")
    sys.stdout.buffer.write(template.entry(number))
    sys.stdout.buffer.flush()


command.add_command(operations)


@command.command("templates")
@json_option
def list_templates(as_json: bool) -> None:
    """List the templates that come with ditseed.

    \b
    Example:
      ditseed generate templates
    """
    found = {name: _described(path) for name, path in templates.shipped().items()}
    show_json({"templates": found}) if as_json else show_facts(found)


def _described(path: Path) -> str:
    return TreeSpec(path, (templates.LISTS,)).compiled(otherwise=1).description
