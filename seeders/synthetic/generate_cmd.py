"""`ditseed generate`: a synthetic tree from a template, as LDIF."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click
import zstandard

from loader import units
from loader.cli.options import json_option, progress_of, progress_option, restart_option
from loader.cli.report import show_facts, show_json
from loader.errors import UsageProblem
from loader.progress import Progress
from seeders.synthetic import template
from seeders.synthetic.blocks import Range
from seeders.synthetic.entries import Maker, Recipe, check_suffix
from seeders.synthetic.generate import SHARD_ENTRIES, GenerateOptions, to_directory, to_stream

DEFAULT_SUFFIX = "dc=example,dc=com"

_recipe_options = (
    click.option(
        "--seed", type=int, default=1, show_default=True, help="Another seed, other entries."
    ),
    click.option(
        "--suffix",
        default=DEFAULT_SUFFIX,
        show_default=True,
        metavar="DN",
        help="The tree's suffix.",
    ),
    click.option(
        "--operational",
        is_flag=True,
        help="Add entryUUID, entryCSN, names and times, so that builds repeat exactly.",
    ),
)


def recipe_options(function: Any) -> Any:
    for option in reversed(_recipe_options):
        function = option(function)
    return function


class Generate(click.Group):
    """`generate TEMPLATE` is `generate tree TEMPLATE`: what is no subcommand is a template."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["tree", *(args or ["--help"])]
        return super().parse_args(ctx, args)


@click.group(cls=Generate, name="generate")
def command() -> None:
    """Make a synthetic tree from a template."""


@command.command("tree")
@click.argument("template_name", metavar="TEMPLATE")
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many entries (containers come on top).",
)
@click.option(
    "--range",
    "piece",
    metavar="A:B",
    help="Only entries A to B-1, counted from 0; pieces join to the whole.",
)
@click.option(
    "-o",
    "output",
    default="-",
    metavar="DIR|-",
    help="Shards and a manifest, or plain LDIF to stdout (-).",
)
@click.option(
    "--compress",
    type=click.Choice(["zstd", "none"]),
    help="Default: zstd for a directory, none for stdout.",
)
@click.option(
    "--jobs", "-j", type=click.IntRange(min=1), default=1, show_default=True, help="Processes."
)
@click.option(
    "--shard-entries",
    type=click.IntRange(min=1),
    default=SHARD_ENTRIES,
    show_default=True,
    help="Entries a file.",
)
@recipe_options
@restart_option
@json_option
@progress_option
def tree(
    template_name: str,
    output: str,
    as_json: bool,
    progress_mode: str,
    restart: bool,
    **options: Any,
) -> None:
    """Make a synthetic tree from TEMPLATE: `people`, or the path of a template file of your own.

    Each value follows from the seed, the entry's number and the attribute alone: the same command
    makes the same bytes, on any number of processes, and pieces made on several machines join to
    the whole.

    \b
    Examples:
      ditseed generate people -n 30000000 -o /srv/tree --jobs 4     compressed shards and a manifest
      ditseed generate people -n 1000 | ldapadd -H ldap://test ...   plain LDIF into a pipe
      ditseed generate people -n 4000 --range 1000:2000 -o piece-2   the second of four pieces
      ditseed generate show people 17                                look at entry 17
      ditseed generate templates                                     what is shipped
    """
    progress = progress_of(progress_mode)
    chosen = _options(template_name, stdout=output == "-", **options)
    if output == "-":
        _to_stdout(chosen, progress)
        return
    made = to_directory(chosen, Path(output), progress, restart)
    if as_json:
        show_json(dataclasses.asdict(made))
        return
    facts = {
        "entries": units.number(made.entries),
        "checksum": made.content_checksum,
        "shards": len(made.shards),
    }
    show_facts(
        {
            **facts,
            "bytes on disk": units.size(sum(one.bytes for one in made.shards)),
            "directory": output,
        }
    )


@command.command("show")
@click.argument("template_name", metavar="TEMPLATE")
@click.argument("number", type=click.IntRange(min=0))
@recipe_options
def show(template_name: str, number: int, seed: int, suffix: str, operational: bool) -> None:
    """Print entry NUMBER of TEMPLATE, as `generate` would make it.

    \b
    Example:
      ditseed generate show people 17000000
    """
    check_suffix(suffix)
    maker = Maker(Recipe(template.load(template_name), seed, suffix, operational))
    sys.stdout.buffer.write(maker.entry(number))
    sys.stdout.buffer.flush()


@command.command("templates")
@json_option
def templates(as_json: bool) -> None:
    """List the templates that come with ditseed.

    \b
    Example:
      ditseed generate templates
    """
    found = {name: template.load(name).description for name in template.shipped()}
    show_json(found) if as_json else show_facts(found)


def _options(
    template_name: str,
    *,
    stdout: bool,
    count: int | None,
    piece: str | None,
    seed: int,
    suffix: str,
    operational: bool,
    compress: str | None,
    jobs: int,
    shard_entries: int,
) -> GenerateOptions:
    check_suffix(suffix)
    recipe = Recipe(template.load(template_name), seed, suffix, operational)
    compress = compress or ("none" if stdout else "zstd")
    return GenerateOptions(recipe, range_of(count, piece), jobs, compress, shard_entries)


def range_of(count: int | None, piece: str | None) -> Range:
    """The entries that -n and --range ask for. Raises UsageProblem."""
    if piece is None:
        if count is None:
            raise UsageProblem(reason="say how many entries: -n N, or --range A:B")
        return Range(0, count)
    first, _, end = piece.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise UsageProblem(
            reason=f"--range {piece}: write A:B with A less than B, entries A to B-1 counted from 0"
        )
    if count is not None and int(end) > count:
        raise UsageProblem(
            reason=f"--range {piece}: ends after the {units.number(count)} entries of -n"
        )
    return Range(int(first), int(end))


def _to_stdout(options: GenerateOptions, progress: Progress) -> None:
    out: BinaryIO = sys.stdout.buffer
    if options.compress == "none":
        to_stream(options, out, progress)
        return
    with zstandard.ZstdCompressor(level=3).stream_writer(out, closefd=False) as packed:
        to_stream(options, packed, progress)
