"""What a verb prints: errors and hints on stderr, its report on stdout, as a table or as JSON.

Only this module and loader/progress.py print (tests/test_floors.py checks that), and all of it through
loader/plain.py: DNs, values and messages come from outside. JSON escapes by its own rules and is complete.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loader import log, plain, standard, units
from loader.errors import LoaderError

if TYPE_CHECKING:  # neither is needed for `--help`, or to show an error
    from loader.operations.storage.findings import Finding
    from loader.storage.survey import Unseen

_log = logging.getLogger(__name__)


def show_error(error: LoaderError) -> None:
    """`ditseed: CODE: message`, and the hint below it."""
    _tell_marked("ditseed:", log.RED, f"{log.redact(str(error))} [{error.code}]")
    _log.error("%s [%s]", error, error.code, extra=log.SHOWN)
    hint = error.advice()
    if hint:
        first, *more = log.redact(hint).split("\n")
        _tell_marked("hint:", log.BOLD, first)
        tell(*more)


def _tell_marked(mark: str, colour: str, text: str) -> None:
    print(log.coloured(mark, colour), plain.printable(text), file=sys.stderr)


def show(*lines: str) -> None:
    """Lines of the report."""
    for line in lines:
        print(plain.printable(line))


def tell(*lines: str) -> None:
    """Lines on stderr."""
    for line in lines:
        print(plain.printable(line), file=sys.stderr)


REPORT = {"report": 1}  # version of what --json prints; it rises when a member is removed or changes its meaning


def show_json(facts: Mapping[str, object]) -> None:
    print(json.dumps({**REPORT, **facts}, indent=2, default=str))


def show_json_line(facts: Mapping[str, object]) -> None:
    """Flushed, for programs that follow the output."""
    print(json.dumps({**REPORT, **facts}, default=str), flush=True)


def tell_json(facts: Mapping[str, object]) -> None:
    """On one line of stderr, for verbs whose data go to stdout."""
    print(json.dumps({**REPORT, **facts}, default=str), file=sys.stderr)


def show_failure(error: LoaderError, status: int, as_json: bool) -> None:
    """The error that ends a run; with --json it also takes the place of the report."""
    show_error(error)
    if as_json:
        hint = error.advice()
        message, hint = log.redact(str(error)), log.redact(hint) if hint else None
        facts = {"error": {"code": error.code, "status": status, "message": message, "hint": hint}}
        (tell_json if standard.is_for_data() else show_json)(facts)


def show_table(headings: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Columns of numbers are right-aligned. The table is as wide as it needs: a narrow terminal wraps its lines."""
    # Here, because rich takes longer to import than `--help` or an error takes to be shown.
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for column, heading in enumerate(headings):
        cells = [str(row[column]) for row in rows]
        numeric = all(cell.removeprefix("-")[:1].isdigit() or cell in ("", "-") for cell in cells)
        table.add_column(heading, justify="right" if numeric and rows else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(plain.printable(str(cell))) for cell in row))
    unlimited = Console(width=1 << 16)  # columns of characters
    console = Console(width=max(Measurement.get(unlimited, unlimited.options, table).maximum, 1))
    with console.capture() as shown:
        console.print(table)
    # Without the spaces at the ends, which would take lines of their own on a narrow terminal.
    print(_SPACES_AT_END.sub(r"\1", shown.get()), end="")


_SPACES_AT_END = re.compile(r" +((?:\x1b\[\d*m)?)$", re.M)


_SIZES = {"bytes", "estimate", "maxsize"}
# Only other programs read these, in --json.
_NOT_FOR_PEOPLE = {
    *("identity", "databases", "forecast", "phases", "tables", "rejections", "rate", "attributes"),
    "published",
}
# Where the name of a fact is not what an operator would call it.
_NAMES = {
    "context_csns": "contextCSN",
    "catch_up": "catch-up",
    "first_dn": "first entry",
    "held_back": "entryCSN set back",
    "read_twice": "  read twice",
    "without_parent": "  parent is gone",
}
_REJECTS_SHOWN = 10  # the file has all of them


def show_report(facts: Mapping[str, object], as_json: bool) -> None:
    """The report of a run: for people with the first rejected entries, and why."""
    if as_json:
        show_json(facts)
        return
    rejections = facts.get("rejections")
    for path, line, dn, reason in rejections[:_REJECTS_SHOWN] if isinstance(rejections, list) else ():
        _log.warning("%s, line %s: %s: %s", path or "standard input", line, dn, reason)
    show_facts(for_people(facts))


def for_people(facts: Mapping[str, object]) -> dict[str, object]:
    """The facts of a run that people read; --json has all of them, unchanged."""
    shown: dict[str, object] = {
        _NAMES.get(name, name.replace("_", " ")): _readable(name, value)
        for name, value in facts.items()
        if name not in _NOT_FOR_PEOPLE and value is not None
    }
    seconds, rate = facts.get("seconds"), facts.get("rate")
    if isinstance(seconds, int | float) and seconds:
        speed = f" ({units.number(rate)} entries/s)" if isinstance(rate, int) and rate else ""
        shown["seconds"] = f"{seconds:.1f}{speed}"
    databases = facts.get("databases")
    for database in databases if isinstance(databases, list) else ():
        entries = f"{units.number(database['entries'])} entries in " if "entries" in database else ""
        shown[f"database {database['suffix']}"] = f"{entries}{database['directory']}"
    return shown


def _readable(name: str, value: object) -> object:
    """Words for any value: no punctuation of Python's."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_readable(key, item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(str(_readable(name, item)) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return units.size(value) if name in _SIZES else units.number(value)
    return value


def show_facts(facts: Mapping[str, object]) -> None:
    """Name and value, one a line."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        show(f"{name:<{width}}  {value}")


def findings(found: Sequence[Finding], unseen: Sequence[Unseen]) -> Iterator[str]:
    """Lines of what a check found, the worst first: each with its reason and the commands that mend it."""
    import textwrap  # few runs need it

    well = [finding for finding in found if finding.severity.value == "ok"]
    for finding in found:
        if finding in well:
            continue
        yield f"{finding.severity.value.upper()}  {finding.subject}: {finding.what}"
        yield from (f"  {line}" for line in textwrap.wrap(finding.why, 98))
        yield from (f"    {line}" for line in finding.mend)
        if finding.source:
            yield f"  ({finding.source})"
        yield ""
    if well:
        yield "in order:"
        yield from (f"  {finding.subject}: {finding.what}" for finding in well)
    yield from (f"not looked at: {missing.what} ({missing.why})" for missing in unseen)
