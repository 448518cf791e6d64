"""`ditseed generate operations`: writes a plan of client operations on a tree, for load drivers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice, FloatRange, IntRange

from loader import defaults, standard
from loader.cli.options import ProgressMode, progress_of
from loader.cli.trees import Tree, TreeSuffix
from loader.declared import Argument, Jobs, Share
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.sources import dit
from loader.sources.dit import PlanOptions
from loader.storage import files

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

    def plan(self, seed: int) -> PlanOptions:
        return PlanOptions(
            *(self.count, shares(self.mix or MIX[self.form], self.form), self.miss, self.skew, seed),
            *(parse_search_option(self.looks), self.form == "ldif"),
        )


@declare("operations")
def operations(
    template_name: Annotated[str, Argument("TEMPLATE")],
    options: _Operations,
    tree: Tree,
    tree_suffix: TreeSuffix,
    progress_mode: ProgressMode = "auto",
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
    template = tree.spec(template_name, tree_suffix).compiled()
    plan, jobs = options.plan(tree.seed), options.jobs or defaults.processors()
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
    """ "search=80,bind=20" -> {"search": 80, "bind": 20}. Raises UsageProblem."""
    by_name = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if not share.isdecimal():
            raise UsageProblem(reason=f"--mix {text}: write NAME=SHARE,... with whole numbers")
        by_name[name] = int(share)
    reads = [name for name in READS if by_name.get(name)]
    if form == "ldif" and reads:
        raise UsageProblem(reason=f"--mix {text}: LDIF holds changes, and no {reads[0]}")
    return by_name


def parse_search_option(text: str | None) -> tuple[tuple[str, bool, int], ...]:
    """ "uid=80,cn*=20" -> (("uid", False, 80), ("cn", True, 20)). Raises UsageProblem."""
    attributes = []
    for part in text.split(",") if text else ():
        name, _, weight = part.strip().partition("=")
        attribute = name.removesuffix("*")
        if not attribute or not (weight or "1").isdecimal():
            raise UsageProblem(reason=f"--search {text}: write ATTRIBUTE[*][=WEIGHT],...")
        attributes.append((attribute, name.endswith("*"), int(weight or 1)))
    return tuple(attributes)
