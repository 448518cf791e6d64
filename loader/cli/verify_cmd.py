"""`ditseed verify`: checks a database, down to every index."""

from __future__ import annotations

from loader import units
from loader.cli.options import Shown
from loader.cli.report import show, show_json, show_report
from loader.declared import declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.options import VerifyOptions


@declare("verify")
def command(options: VerifyOptions, shown: Shown) -> int:
    """Check whether the database in directory DIR (or a data file) is sound; change nothing.

    \b
    Levels; each includes the levels before it:
      quick     the head of the file, its tables, their counts
      pages     every page: used once or free, keys in order
      tree      every entry and node: they decode, fit together, counts are right
      indexes   every index rebuilt from the entries and compared (needs --config)

    slapd may be running: the check reads a snapshot. The report shows the first problems of each kind, with entry,
    attribute and page. Exit status: 0 sound, 1 problems; errors that prevent the check have statuses of their own.

    \b
    Examples:
      ditseed verify /var/lib/ldap
      ditseed verify --config /etc/ldap/slapd.d --verify indexes
      ditseed verify /srv/copy/data.mdb --verify pages --json
    """
    from loader.operations import verify

    report = verify.verify_database(options, shown.progress)
    status = EXIT_OK if report.sound else EXIT_DIFFERENT
    if shown.as_json:
        show_json(report)
        return status
    count = sum(problem.count for problem in report.problems)
    verdict = "sound" if report.sound else f"{units.number(count)} problems"
    names = ("place", "level", "entries", "txnid", "seconds")
    show_report({**{name: getattr(report, name) for name in names}, "verdict": verdict}, as_json=False)
    for problem in report.problems:
        more = problem.count - len(problem.examples)
        show(f"{problem.kind}: {units.number(problem.count)}", *(f"  {example}" for example in problem.examples))
        show(*([f"  ... and {units.number(more)} more (--limit)"] if more else []))
    show(*([f"to repair it, with slapd stopped: {report.mending}"] if report.mending else []))
    show(*(f"note: {note}" for note in report.notes))
    return status
