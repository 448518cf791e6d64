"""Options of every verb that makes entries of a template, and the recipe they say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from loader.errors import UsageProblem
from loader.sources.dit import Recipe
from seeders.synthetic import templates

_OPTIONS = (
    click.option(
        "-n",
        "entries",
        type=click.IntRange(min=1),
        metavar="N",
        help="Entries of the kind that has no count in the template.",
    ),
    click.option(
        "--seed", type=int, default=1, show_default=True, help="Another seed, other entries."
    ),
    click.option(
        "--suffix",
        metavar="DN",
        help="The tree's suffix (default: the template's, mostly dc=example,dc=com).",
    ),
    click.option(
        "--define",
        "defines",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a define of a makeldif template. May be repeated.",
    ),
    click.option(
        "--operational",
        is_flag=True,
        help="Add entryUUID, entryCSN, names and times, so that builds repeat exactly.",
    ),
)


def recipe_options(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def recipe_of(
    name: str,
    *,
    entries: int | None,
    seed: int,
    suffix: str | None,
    defines: Iterable[str],
    operational: bool,
) -> Recipe:
    """What the options say, of a template by its name or path. Raises NoSuchTemplate, UsageProblem."""
    return Recipe(
        path=templates.find(name),
        lists=(templates.LISTS,),
        seed=seed,
        suffix=suffix,
        entries=entries,
        defines=dict(map(_define, defines)),
        operational=operational,
    )


def _define(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageProblem(reason=f"--define {text}: write NAME=VALUE")
    return name, value
