"""`ditseed clone`: a hot copy of a data.mdb directory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from loader import units
from loader.cli.options import dry_run_option, json_option, progress_of, progress_option
from loader.cli.report import show_facts, show_json
from loader.mdb.verify import LEVELS
from loader.operations.clone import CloneOptions, ClonePlan, CloneReport, clone, plan


@click.command(name="clone")
@click.argument("source", type=click.Path(path_type=Path, readable=False))
@click.argument("target", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--replace",
    is_flag=True,
    help="Put the clone in the place of a database that TARGET holds, once it is checked.",
)
@click.option(
    "--verify",
    type=click.Choice(LEVELS),
    help="What is checked before the clone is put in place (default: pages below 16 GiB, else quick).",
)
@dry_run_option
@json_option
@progress_option
def command(
    source: Path,
    target: Path,
    replace: bool,
    verify: str | None,
    dry_run: bool,
    as_json: bool,
    progress_mode: str,
) -> None:
    """Copy the database in directory SOURCE into directory TARGET, beside a running slapd if need be.

    The copy is one consistent moment of the database and holds only what is in use, however large the
    file looks. TARGET must not be in use. Stopped at any moment, the same command begins again, and
    TARGET holds what it held before.

    \b
    A running server's database to a directory on a spare disk:
      ditseed clone /var/lib/ldap /srv/spare/ldap
    What it would take:
      ditseed clone /var/lib/ldap /srv/spare/ldap --dry-run
    In the place of an older one:
      ditseed clone /var/lib/ldap /srv/spare/ldap --replace --verify pages
    """
    options = CloneOptions(source, target, replace, verify)
    found = plan(options) if dry_run else clone(options, progress_of(progress_mode))
    if as_json:
        show_json(dataclasses.asdict(found))
    else:
        show_facts(_plan_lines(found) if isinstance(found, ClonePlan) else _report_lines(found))


def _plan_lines(found: ClonePlan) -> dict[str, object]:
    return {
        "source": found.source,
        "shown / on disk": _sizes(found.source_apparent, found.source_allocated),
        "target": found.target + (" (its database is replaced)" if found.replaces else ""),
        "needed / free": f"{units.size(found.needed)} / {units.size(found.free)}",
        "data format": found.format,
        "verify": found.verify,
    }


def _report_lines(found: CloneReport) -> dict[str, object]:
    speed = found.target_apparent / found.seconds if found.seconds else 0
    return {
        "clone": found.target,
        "suffix": " ".join(found.suffixes) or "-",
        "entries": units.number(found.entries),
        "contextCSN": " ".join(found.context_csns) or "none stored",
        "source shown / on disk": _sizes(found.source_apparent, found.source_allocated),
        "clone shown / on disk": _sizes(found.target_apparent, found.target_allocated),
        "copied in": f"{units.duration(found.seconds)}, {units.size(speed)}/s",
        "transaction": found.txnid,
        "data format": found.format,
        "verified": found.verified,
    }


def _sizes(apparent: int, allocated: int) -> str:
    return f"{units.size(apparent)} / {units.size(allocated)}"
