"""`ditseed generate`: writes a synthetic tree from a template as LDIF."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from click import Choice, FloatRange, IntRange

from loader import defaults, standard, units
from loader.cli.options import Json, ProgressMode, Shown, progress_of
from loader.cli.report import show_report
from loader.cli.trees import Tree, TreeOutput, TreeSuffix, generate
from loader.declared import Argument, Jobs, Share, declare
from loader.defaults import STDIN
from loader.errors import UsageProblem
from loader.storage import files

TemplateName = Annotated[str, Argument("TEMPLATE")]


class Generate(click.Group):
    """Reads `generate TEMPLATE` as `generate tree TEMPLATE` if TEMPLATE is not the name of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["tree", *(args or ["--help"])]
        return super().parse_args(ctx, args)


@click.group(cls=Generate, name="generate")
def command() -> None:
    """Make a synthetic tree from a template."""


@declare("tree", command)
def tree(template_name: TemplateName, to: TreeOutput, tree: Tree, tree_suffix: TreeSuffix, shown: Shown) -> None:
    """Make a synthetic tree from TEMPLATE: `people`, or the path of a template file of your own.

    Each value depends only on the seed, the entry's number and the attribute: the same command makes
    the same bytes with any number of threads, and pieces made on several machines add up to the whole
    tree.

    \b
    Examples:
      ditseed generate people -n 30000000 -o /srv/tree               compressed shards and a manifest
      ditseed generate people -n 1000 | ldapadd -H ldap://test ...   plain LDIF into a pipe
      ditseed generate people -n 4000 --range 1000:2000 -o piece-2   the second of four pieces
      ditseed generate show people 17                                look at entry 17
      ditseed generate templates                                     list the shipped templates
    """
    generate(tree.spec(template_name, tree_suffix), to, shown)


@declare("show", command)
def show(
    template_name: TemplateName,
    number: Annotated[int | None, Argument("[NUMBER]"), IntRange(min=0)],
    tree: Tree,
    tree_suffix: TreeSuffix,
) -> None:
    """Print entry NUMBER of TEMPLATE, as `generate` would make it; without NUMBER, the template.

    Entry 0 is the suffix. A template of makeldif is printed as the TOML that it is converted to.

    Without -n, the tree is the smallest that contains the entry. Give -n if the template has kinds of
    entries whose number is a share of another kind's.

    \b
    Examples:
      ditseed generate show people 17000000
      ditseed generate show example.template > ours.toml
    """
    spec = tree.spec(template_name, tree_suffix)
    if number is None:
        sys.stdout.write(spec.text())
        return
    template = spec.compiled(default_entries=number + 1)
    if number >= template.entries:
        raise UsageProblem(reason=f"the tree has entries 0 to {units.number(template.entries - 1)}")
    sys.stdout.buffer.write(template.entry(number))
    sys.stdout.buffer.flush()


@declare("templates", command)
def list_templates(as_json: Json) -> None:
    """List the templates that come with ditseed.

    \b
    Example:
      ditseed generate templates
    """
    from loader.sources.dit import TreeSpec
    from seeders.synthetic import templates

    described = {
        name: TreeSpec(path, (templates.LISTS,)).compiled(default_entries=1).description
        for name, path in templates.shipped().items()
    }
    show_report({"templates": described}, as_json, described)


@declare("learn", command)
def learn(
    sources: Annotated[tuple[str, ...], Argument("SOURCE..."), {"required": True}],
    output: Annotated[str, "-o --output TEMPLATE|-", "The template file to write; -: standard output."],
    jobs: Jobs,
    replace: Annotated[bool, "Overwrite an existing template."],
    shown: Shown,
) -> None:
    """Learn a template from a real tree; it generates similar trees of any size.

    SOURCE is LDIF: files, directories of them such as an export, - for standard input. The template
    contains no value and no part of a value: its words are made up.

    \b
    Examples:
      ditseed generate learn /srv/export -o ours.toml               from LDIF
      ditseed export /var/lib/ldap -o - | ditseed generate learn - -o ours.toml
      ditseed generate ./ours.toml -n 30000000 -o /srv/tree         a tree like it, of any size
    """
    from loader import ldif
    from loader.sources.location import Kind, locate

    template = None if output == STDIN else Path(output)
    if template is None:
        standard.reserve_output()
    elif template.exists() and not replace:
        raise UsageProblem(reason=f"{template} exists already; --replace overwrites it")
    else:
        files.require_writable(template.parent)
    paths = [path for source in sources for path in locate(source, Kind.LDIF, Kind.STREAM).paths if source != STDIN]
    descriptor = 0 if STDIN in sources else None
    with shown.progress.step("learn") as meter, ldif.verified_inputs(paths, meter) as opened:
        learned = ldif.learn(opened, descriptor, jobs or defaults.processors(), meter)
    if descriptor is None:
        ldif.require_read(paths, learned.entries)
    if template is None:
        sys.stdout.write(learned.template)
        return
    with files.explained(template):
        files.write_durably(template, learned.template.encode())
    facts = {
        "entries": learned.entries,
        "kinds": learned.kinds,
        "entries of the main kind": learned.main,
        "entries left out": learned.left_out,
    }
    # With a slash, so that `generate` takes it as a path and not as the name of a shipped template.
    path = str(template) if "/" in str(template) else f"./{template}"
    numbers = {name: units.number(count) for name, count in facts.items()}
    printed = {**numbers, "template": template, "try": f"ditseed generate {path} -n 1000"}
    show_report({**facts, "template": template}, shown.as_json, printed)


READS = ("search", "bind")
MIX = {"jsonl": "search=80,bind=15,modify=5", "ldif": "modify=70,add=15,delete=10,modrdn=5"}


@dataclass(frozen=True, kw_only=True)
class _Operations:
    count: Annotated[int, "--operations K", IntRange(1), "Number of operations."]
    mix: Annotated[
        str | None,
        "--mix NAME=SHARE,...",
        "Shares of search, bind, modify, add, delete, modrdn "
        f"(default: {MIX['jsonl']}; with --format ldif {MIX['ldif']}).",
    ] = None
    miss: Annotated[
        float,
        "--miss SHARE",
        Share(zero=True),
        {"default": "5%"},
        "Share of searches that find nothing and of binds with a wrong password.",
    ] = 0.05
    skew: Annotated[
        float,
        FloatRange(0, 20, min_open=True),
        "Exponent of Zipf's law for the choice of entries; a higher one concentrates operations on fewer entries.",
    ] = 0.9
    looks: Annotated[
        str | None,
        "--search ATTRIBUTE[*][=WEIGHT],...",
        "Attributes to search by; with *, by an initial substring (default: as the template's attributes suggest).",
    ] = None
    form: Annotated[
        str, "--format", Choice(list(MIX)), "Format of the plan: one line of JSON for each operation, or LDIF changes."
    ] = "jsonl"
    output: Annotated[str, "-o --output FILE|-", {"show_default": False}, "Output file (default: standard output)."] = (
        "-"
    )
    jobs: Jobs = None


@declare("operations", command)
def operations(
    template_name: TemplateName,
    options: _Operations,
    tree: Tree,
    tree_suffix: TreeSuffix,
    progress_mode: ProgressMode = "auto",
) -> None:
    """Make a load plan for the tree of TEMPLATE: give -n, --seed and --suffix as for the tree itself.

    Each operation states its expected result (entries found, result of a bind), which holds while the whole plan is
    carried out, in any order. docs/load-plans.md describes the format.

    \b
    Examples:
      ditseed generate operations accounts -n 30000000 --operations 1000000 -o plan.jsonl
      ditseed generate operations accounts -n 1000 --operations 100 --search 'uid=80,mail=15,cn*=5'
      ditseed generate operations people -n 1000 --operations 500 --format ldif | ldapmodify -H ldap://test ...
    """
    from loader.sources import dit

    template, mix = tree.spec(template_name, tree_suffix).compiled(), options.mix or MIX[options.form]
    plan = dit.PlanOptions(
        *(options.count, shares(mix, options.form), options.miss, options.skew, tree.seed),
        *(parse_search_option(options.looks), options.form == "ldif"),
    )
    jobs = options.jobs or defaults.processors()
    with progress_of(progress_mode).step("operations", options.count) as meter:
        if options.output == "-":
            stdout = standard.output("the plan", readable=True)
            dit.plan(template, plan, stdout, jobs, meter)
            return
        path = Path(options.output)
        with files.explained(path), files.creating(path) as file:
            dit.plan(template, plan, file.fileno(), jobs, meter)
            os.fsync(file.fileno())


def shares(text: str, form: str) -> dict[str, int]:
    """Returns {"search": 80, "bind": 20} for "search=80,bind=20". Raises UsageProblem."""
    by_name = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if not share.isdecimal():
            raise UsageProblem(reason=f"--mix {text}: write NAME=SHARE,... with whole numbers")
        by_name[name] = int(share)
    reads = [name for name in READS if by_name.get(name)]
    if form == "ldif" and reads:
        raise UsageProblem(reason=f"--mix {text}: LDIF contains only changes, no {reads[0]}")
    return by_name


def parse_search_option(text: str | None) -> tuple[tuple[str, bool, int], ...]:
    """Returns (("uid", False, 80), ("cn", True, 20)) for "uid=80,cn*=20". Raises UsageProblem."""
    attributes = []
    for part in text.split(",") if text else ():
        name, _, weight = part.strip().partition("=")
        attribute = name.removesuffix("*")
        if not attribute or not (weight or "1").isdecimal():
            raise UsageProblem(reason=f"--search {text}: write ATTRIBUTE[*][=WEIGHT],...")
        attributes.append((attribute, name.endswith("*"), int(weight or 1)))
    return tuple(attributes)
