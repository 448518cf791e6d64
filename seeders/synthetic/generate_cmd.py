"""`ditseed generate`: writes a synthetic tree from a template as LDIF."""

from __future__ import annotations

import sys
from typing import Annotated

import click
from click import IntRange

from loader import units
from loader.cli.options import Json, Shown
from loader.cli.report import show_facts, show_json
from loader.cli.trees import Tree, TreeOutput, TreeSuffix, generate
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.sources.dit import TreeSpec
from seeders.synthetic import learn_cmd, templates
from seeders.synthetic.operations_cmd import operations

TemplateName = Annotated[str, Argument("TEMPLATE")]


class Generate(click.Group):
    """Reads `generate TEMPLATE` as `generate tree TEMPLATE`: a word that is no subcommand is a template."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["tree", *(args or ["--help"])]
        return super().parse_args(ctx, args)


@click.group(cls=Generate, name="generate")
def command() -> None:
    """Make a synthetic tree from a template."""


@declare("tree")
def tree(template_name: TemplateName, to: TreeOutput, tree: Tree, tree_suffix: TreeSuffix, shown: Shown) -> None:
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
    generate(tree.spec(template_name, tree_suffix), to, shown)


@declare("show")
def show(
    template_name: TemplateName,
    number: Annotated[int | None, Argument("[NUMBER]"), IntRange(min=0)],
    tree: Tree,
    tree_suffix: TreeSuffix,
) -> None:
    """Print entry NUMBER of TEMPLATE, as `generate` would make it; without NUMBER, the template.

    Entry 0 is the suffix. A template of makeldif is printed as the TOML that it is converted to.

    Without -n, the tree is the smallest that contains it: give -n if the template has kinds whose
    number is a share of others.

    \b
    Examples:
      ditseed generate show people 17000000
      ditseed generate show example.template > ours.toml
    """
    spec = tree.spec(template_name, tree_suffix)
    if number is None:
        sys.stdout.write(spec.text())
        return
    template = spec.compiled(otherwise=number + 1)
    if number >= template.entries:
        raise UsageProblem(reason=f"the tree has entries 0 to {units.number(template.entries - 1)}")
    sys.stdout.buffer.write(template.entry(number))
    sys.stdout.buffer.flush()


@declare("templates")
def list_templates(as_json: Json) -> None:
    """List the templates that come with ditseed.

    \b
    Example:
      ditseed generate templates
    """
    described = {
        name: TreeSpec(path, (templates.LISTS,)).compiled(otherwise=1).description
        for name, path in templates.shipped().items()
    }
    show_json({"templates": described}) if as_json else show_facts(described)


for subcommand in (learn_cmd.command, tree, show, operations, list_templates):
    command.add_command(subcommand)
