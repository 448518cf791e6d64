"""`ditseed verify`: is a database sound, down to every index?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import click

from loader import units
from loader.cli.options import (
    dry_run_option,
    json_option,
    limit_option,
    memory_option,
    progress_of,
    progress_option,
    scratch_option,
    suffix_option,
    threads_option,
    verify_option,
)
from loader.cli.report import show, show_facts, show_json
from loader.defaults import LADDER
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.mdb.verify import LIMIT, Problem, Resources
from loader.operations.verify import VerifyOptions, VerifyPlan, VerifyReport, plan, verify_database

_path = click.Path(path_type=Path, readable=False)


@click.command(name="verify")
@click.argument("place", metavar="[DIR]", required=False, type=_path)
@verify_option(
    LADDER,
    None,
    "How thoroughly to check (default: the highest level that takes a few minutes; indexes needs --config).",
)
@click.option(
    "--config",
    "config_path",
    type=_path,
    help="The server's slapd.d or slapd.conf, for schema and indexes, and for the directory if DIR is not given.",
)
@suffix_option
@limit_option(LIMIT, "Number of problems of each kind to show; all are counted.", least=1)
@memory_option
@scratch_option("Directory for temporary files (default: $TMPDIR or /tmp).")
@threads_option
@dry_run_option
@json_option
@progress_option
def command(
    place: Path | None,
    verify: str | None,
    config_path: Path | None,
    suffix: str | None,
    limit: int,
    memory: int | None,
    scratch: Path | None,
    jobs: int | None,
    dry_run: bool,
    as_json: bool,
    progress_mode: str,
) -> int:
    """Check whether the database in directory DIR (or a data file) is sound; change nothing.

    \b
    Levels, each with all of those before it:
      quick     the head of the file, its tables, their counts
      pages     every page: used once or free, keys in order
      tree      every entry and node: they decode, fit together, counts are right
      indexes   every index rebuilt from the entries and compared (needs --config)

    slapd may be running: a snapshot is checked. Problems are collected, and the first of each kind are shown
    with entry, attribute and page. Exit status: 0 sound, 1 problems; errors that prevent the check have their own.

    \b
    Examples:
      ditseed verify /var/lib/ldap
      ditseed verify --config /etc/ldap/slapd.d --verify indexes
      ditseed verify /srv/copy/data.mdb --verify pages --json
    """
    means = Resources(memory, jobs, scratch, limit)
    options = VerifyOptions(place, config_path, suffix, verify, means)
    if dry_run:
        planned = plan(options)
        show_json(dataclasses.asdict(planned)) if as_json else show_facts(_plan_lines(planned))
        return EXIT_OK
    found = verify_database(options, progress_of(progress_mode))
    show_json(dataclasses.asdict(found)) if as_json else _show(found)
    return EXIT_OK if found.sound else EXIT_DIFFERENT


def _plan_lines(found: VerifyPlan) -> dict[str, object]:
    return {
        "database": found.place,
        "level": found.level,
        "in use": units.size(found.used),
        "transaction": found.txnid,
    }


def _show(found: VerifyReport) -> None:
    count = sum(problem.count for problem in found.problems)
    show_facts(
        {
            "database": found.place,
            "level": found.level,
            "entries": units.number(found.entries),
            "transaction": found.txnid,
            "took": units.duration(found.seconds),
            "verdict": "sound" if found.sound else f"{units.number(count)} problems",
        }
    )
    for problem in found.problems:
        show(*_problem_lines(problem))
    if found.mending:
        show(f"to mend it, with slapd stopped: {found.mending}")
    for note in found.notes:
        show(f"note: {note}")


def _problem_lines(problem: Problem) -> Iterator[str]:
    yield f"{problem.kind}: {units.number(problem.count)}"
    yield from (f"  {one}" for one in problem.told)
    left = problem.count - len(problem.told)
    if left:
        yield f"  ... and {units.number(left)} more (--limit)"
