"""Options of a synthetic tree, wherever one is made from a template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from loader import defaults, resources, standard, units
from loader.cli import recording
from loader.cli.options import refuse_given, stack
from loader.cli.report import show_facts, show_json
from loader.errors import UsageProblem
from loader.operations.generate import SHARD_ENTRIES, GenerateOptions, to_directory, to_stream
from loader.progress import Progress
from loader.sources import dit
from loader.sources.dit import Range, Template, TreeSpec
from loader.sources.location import STDIN, Kind, ldif_inputs, locate
from loader.sources.synthetic import Synthetic

_TREE = (
    click.option(
        "-n",
        "--entries",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of entries of the kind whose count the template leaves open.",
    ),
    click.option(
        "--seed",
        type=int,
        default=1,
        show_default=True,
        help="Random seed; a different seed makes different entries.",
    ),
    click.option(
        "--define",
        "defines",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a `define` of a makeldif template; may be repeated.",
    ),
    click.option(
        "--operational",
        is_flag=True,
        help="Add operational attributes (entryUUID, entryCSN, names, times), so that builds are reproducible.",
    ),
)
# What a tree follows from, wherever one is made; a verb may have a suffix of its own.
tree_options = stack(*_TREE)
tree_suffix_option = click.option(
    "--suffix",
    "tree_suffix",
    metavar="DN",
    help="Suffix of the tree (default: that of the template).",
)
from_option = click.option(
    "--from",
    "template",
    metavar="TEMPLATE",
    help="Use a template of `ditseed generate`, by name or path, instead of LDIF.",
)
OF_TREE = ("entries", "seed", "defines", "operational")


def source_of(
    options: dict[str, Any], inputs: Sequence[str], suffix: str | None
) -> tuple[tuple[Path, ...], Synthetic | None]:
    """Take the options of a tree out of a command's arguments. LDIF, or the tree in its place."""
    name = options.pop("template")
    if name is None:
        if not inputs:
            raise UsageProblem(reason="nothing to load: give LDIF files, or --from TEMPLATE -n N")
        no_tree(options)
        return ldif_inputs(inputs), None
    if inputs:
        reason = f"give either --from {name} or LDIF files ({inputs[0]}), not both"
        raise UsageProblem(reason=reason)
    return (), Synthetic(recipe_of(name, options, suffix))


def recipe_of(name: str, options: dict[str, Any], suffix: str | None) -> TreeSpec:
    """What the options of a tree say, taken out of a command's arguments. Raises NoSuchTemplate, UsageProblem."""
    found = locate(name, Kind.TEMPLATE)
    given = {one: options.pop(one) for one in OF_TREE}
    defines = dict(map(_define, given.pop("defines")))
    return TreeSpec(found.path, found.lists, suffix=suffix, defines=defines, **given)


def generate(
    recipe: TreeSpec,
    output: str,
    progress: Progress,
    as_json: bool,
    jobs: int | None,
    compress: str | None,
    restart: bool,
    piece: str | None = None,
    shard_entries: int = SHARD_ENTRIES,
) -> None:
    """Make the tree, or the piece of it that --range asks for, and report it."""
    streamed = output == STDIN
    if streamed:
        standard.reserve_output()
    template = recipe.compiled()
    packing = compress or ("none" if streamed else defaults.COMPRESS)
    part, threads = _range_of(template, piece), jobs or resources.processors()
    asked = GenerateOptions(recipe, template, part, threads, packing, shard_entries)
    if streamed:
        plain = packing == "none"
        to = standard.output("LDIF" if plain else "packed LDIF", readable=plain)
        to_stream(asked, to, progress)
        return
    done = to_directory(asked, Path(output), progress, restart)
    made = done.manifest
    recording.note({"output": output, **done.report})
    if as_json:
        show_json(done.report)
        return
    show_facts(
        {
            "entries": units.number(made.entries),
            "checksum": made.content_checksum,
            "shards": len(made.shards),
            "bytes on disk": units.size(sum(one.bytes for one in made.shards)),
            "finished": made.finished,
            "directory": output,
        }
    )


def _range_of(template: Template, piece: str | None) -> Range:
    """The entries that --range asks for, all without it. Raises UsageProblem."""
    if piece is None:
        return dit.whole(template)
    first, _, end = piece.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise UsageProblem(
            reason=f"--range {piece}: write A:B with A less than B, entries A to B-1 counted from 0"
        )
    if int(end) > template.entries:
        raise UsageProblem(
            reason=f"--range {piece}: ends after the {units.number(template.entries)} entries"
        )
    return Range(int(first), int(end))


def _define(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageProblem(reason=f"--define {text}: write NAME=VALUE")
    return name, value


def no_tree(options: dict[str, Any]) -> None:
    """Take them out where there is no template. Raises UsageProblem for any that is given."""
    refuse_given([*OF_TREE, "tree_suffix"], "--from TEMPLATE")
    for name in OF_TREE:
        del options[name]
