"""`ditseed verify`: is a database sound, down to every index?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from loader import units
from loader.cli.options import DryRun, Shown
from loader.cli.report import show, show_facts, show_json
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.mdb.verify import Problem
from loader.operations.verify import VerifyOptions, VerifyPlan, VerifyReport, plan, verify_database


@declare("verify")
def command(options: VerifyOptions, shown: Shown, dry_run: DryRun = False) -> int:
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
    if dry_run:
        planned = plan(options)
        show_json(dataclasses.asdict(planned)) if shown.as_json else show_facts(_plan_lines(planned))
        return EXIT_OK
    found = verify_database(options, shown.progress)
    show_json(dataclasses.asdict(found)) if shown.as_json else _show(found)
    return EXIT_OK if found.sound else EXIT_DIFFERENT


def _plan_lines(found: VerifyPlan) -> dict[str, object]:
    return {"database": found.place, "level": found.level, "in use": units.size(found.used), "transaction": found.txnid}


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
