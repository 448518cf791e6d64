"""`ditseed generate operations`: what clients do with a tree, for load drivers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from loader import resources, standard
from loader.cli.options import progress_of, progress_option, threads_option
from loader.cli.trees import recipe_of, tree_options, tree_suffix_option
from loader.cli.written import Share
from loader.errors import UsageProblem
from loader.sources import dit
from loader.sources.dit import PlanOptions
from loader.storage import files

READS = ("search", "bind")
MIX = {"jsonl": "search=80,bind=15,modify=5", "ldif": "modify=70,add=15,delete=10,modrdn=5"}


@click.command("operations")
@click.argument("template_name", metavar="TEMPLATE")
@click.option(
    "--operations",
    "count",
    type=click.IntRange(1),
    required=True,
    metavar="K",
    help="Number of operations.",
)
@click.option(
    "--mix",
    metavar="NAME=SHARE,...",
    help="Shares of search, bind, modify, add, delete, modrdn "
    f"(default: {MIX['jsonl']}; with --format ldif {MIX['ldif']}).",
)
@click.option(
    "--miss",
    type=Share(zero=True),
    default="5%",
    show_default=True,
    metavar="SHARE",
    help="Share of searches that find nothing and of binds with a wrong password.",
)
@click.option(
    "--skew",
    type=click.FloatRange(0, 20, min_open=True),
    default=0.9,
    show_default=True,
    help="Exponent of Zipf's law for the choice of entries; a higher one concentrates operations on fewer entries.",
)
@click.option(
    "--search",
    "looks",
    metavar="ATTRIBUTE[*][=WEIGHT],...",
    help="Attributes to search by; with *, by an initial substring (default: as the template's attributes suggest).",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(MIX)),
    default="jsonl",
    show_default=True,
    help="Format of the plan: one line of JSON for each operation, or LDIF changes.",
)
@click.option(
    "-o", "--output", default="-", metavar="FILE|-", help="Output file (default: standard output)."
)
@threads_option
@tree_options
@tree_suffix_option
@progress_option
def operations(
    template_name: str,
    count: int,
    mix: str | None,
    miss: float,
    skew: float,
    looks: str | None,
    form: str,
    output: str,
    jobs: int | None,
    progress_mode: str,
    tree_suffix: str | None,
    **options: Any,
) -> None:
    """Make a load plan for the tree of TEMPLATE: give -n, --seed and --suffix as for the tree itself.

    Each operation states its expected result (entries found, result of a bind), which holds while the whole plan is
    carried out, in any order. docs/generate.md describes the format.

    \b
    Examples:
      ditseed generate operations accounts -n 30000000 --operations 1000000 -o plan.jsonl
      ditseed generate operations accounts -n 1000 --operations 100 --search 'uid=80,mail=15,cn*=5'
      ditseed generate operations people -n 1000 --operations 500 --format ldif | ldapmodify -H ldap://test ...
    """
    seed = options["seed"]
    template = recipe_of(template_name, options, tree_suffix).compiled()
    wishes = PlanOptions(
        count,
        shares(mix or MIX[form], form),
        miss,
        skew,
        seed,
        parse_search_option(looks),
        form == "ldif",
    )
    with progress_of(progress_mode).step("operations", count) as meter:
        if output == "-":
            to = standard.output("the plan", readable=True)
            dit.plan(template, wishes, to, jobs or resources.processors(), meter)
            return
        path = Path(output)
        with files.explained(path), files.creating(path) as file:
            dit.plan(template, wishes, file.fileno(), jobs or resources.processors(), meter)
            os.fsync(file.fileno())


def shares(text: str, form: str) -> dict[str, int]:
    """ "search=80,bind=20" -> {"search": 80, "bind": 20}. Raises UsageProblem."""
    found = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if not share.isdecimal():
            raise UsageProblem(reason=f"--mix {text}: write NAME=SHARE,... with whole numbers")
        found[name] = int(share)
    reads = [name for name in READS if found.get(name)]
    if form == "ldif" and reads:
        raise UsageProblem(reason=f"--mix {text}: LDIF holds changes, and no {reads[0]}")
    return found


def parse_search_option(text: str | None) -> tuple[tuple[str, bool, int], ...]:
    """ "uid=80,cn*=20" -> (("uid", False, 80), ("cn", True, 20)). Raises UsageProblem."""
    found = []
    for part in text.split(",") if text else ():
        name, _, weight = part.strip().partition("=")
        attribute, beginning = name.removesuffix("*"), name.endswith("*")
        if not attribute or not (weight or "1").isdecimal():
            raise UsageProblem(reason=f"--search {text}: write ATTRIBUTE[*][=WEIGHT],...")
        found.append((attribute, beginning, int(weight or 1)))
    return tuple(found)
