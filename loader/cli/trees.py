"""Options of a synthetic tree, wherever one is made from a template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from loader.cli.options import refuse_given, stack
from loader.errors import UsageProblem
from loader.sources.dit import TreeSpec
from loader.sources.synthetic import Synthetic, find

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
_OF_TREE = ("entries", "seed", "defines", "operational")


def tree_of(
    options: dict[str, Any], inputs: Sequence[Path], suffix: str | None
) -> Synthetic | None:
    """Take the options of a tree out of a command's arguments; None where LDIF is given."""
    name = options.pop("template")
    if name is None:
        if not inputs:
            raise UsageProblem(reason="nothing to load: give LDIF files, or --from TEMPLATE -n N")
        no_tree(options)
        return None
    if inputs:
        reason = f"give either --from {name} or LDIF files ({inputs[0]}), not both"
        raise UsageProblem(reason=reason)
    return Synthetic(recipe_of(name, options, suffix))


def recipe_of(name: str, options: dict[str, Any], suffix: str | None) -> TreeSpec:
    """What the options of a tree say, taken out of a command's arguments. Raises NoSuchTemplate, UsageProblem."""
    path, lists = find(name)
    given = {one: options.pop(one) for one in _OF_TREE}
    defines = dict(map(_define, given.pop("defines")))
    return TreeSpec(path=path, lists=lists, suffix=suffix, defines=defines, **given)


def _define(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageProblem(reason=f"--define {text}: write NAME=VALUE")
    return name, value


def no_tree(options: dict[str, Any]) -> None:
    """Take them out where there is no template. Raises UsageProblem for any that is given."""
    refuse_given([*_OF_TREE, "tree_suffix"], "--from TEMPLATE")
    for name in _OF_TREE:
        del options[name]
