"""`ditseed backup check`, a monitoring plugin."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from loader import units
from loader.cli.options import json_option, metrics_option, repo_option, suffix_option
from loader.cli.report import show, show_json
from loader.declared import Share
from loader.errors import LoaderError
from loader.operations.backup import check as checking
from loader.operations.backup import repository
from loader.operations.backup.check import Check, Limits
from loader.operations.backup.repository import Repo


@click.command("check")
@repo_option
@suffix_option
@click.option(
    "--max-age",
    default="26h",
    show_default=True,
    metavar="TIME",
    help="CRITICAL if the latest backup is older: 26h, 90m.",
)
@click.option(
    "--min-count",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="WARNING if there are fewer backups.",
)
@click.option(
    "--max-verify-age",
    metavar="TIME",
    help="WARNING if no backup was verified for longer: 8d (default: it is not asked).",
)
@click.option(
    "--max-drill-age",
    metavar="TIME",
    help="WARNING if no backup was drilled for longer: 35d (default: it is not asked).",
)
@click.option(
    "--max-shrink",
    type=Share(),
    default=f"{checking.SHRINK:.0%}",
    show_default=True,
    metavar="SHARE",
    help="WARNING if the latest backup has so many fewer entries than those before it (the median of seven).",
)
@metrics_option(
    "Also write FILE for node_exporter's textfile collector (NAME.prom), with what is found of each suffix."
)
@json_option
def check_command(
    repo: Repo,
    suffix: str | None,
    max_age: str,
    min_count: int,
    max_verify_age: str | None,
    max_drill_age: str | None,
    max_shrink: float,
    metrics_file: Path | None,
    as_json: bool,
) -> int:
    """Is there a backup young enough? A monitoring plugin: one line, exit status 0, 1, 2 or 3.

    \b
      ditseed backup check -R /srv/backup --max-age 26h --min-count 7 --max-verify-age 8d --max-drill-age 35d
      ditseed backup check -R /srv/backup --metrics /var/lib/prometheus/node-exporter/ditseed-backup.prom
    """
    limits = Limits(units.parse_duration(max_age), min_count, _limit(max_verify_age), _limit(max_drill_age), max_shrink)
    found = _checked(repo, limits, suffix, metrics_file)
    if as_json:
        show_json({**dataclasses.asdict(found), "status": found.status.name})
    else:
        show(found.line())
    return int(found.status)


def _limit(text: str | None) -> float | None:
    """Seconds; None where nobody asks."""
    return units.parse_duration(text) or None if text else None


def _checked(repo: Repo, limits: Limits, suffix: str | None, metrics_file: Path | None) -> Check:
    each: dict[str, Check] = {}
    try:
        with repository.at(repo) as place:
            found = checking.check(place, limits, suffix)
            if metrics_file is not None:
                each = checking.each(place, limits, suffix)
    except LoaderError as error:
        found = checking.unknown(error, limits)
    if metrics_file is not None:
        checking.write_metrics(each or {suffix or "": found}, metrics_file)
    return found
