"""What a verb prints: errors and hints on stderr, its report on stdout, as a table or as JSON.

Only here and in loader/progress.py anything is printed (tests/test_floors.py holds it), and all of it through
loader/plain.py: DNs, values and messages come from outside. JSON has its own escapes, and holds them as they are.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from loader import log, plain, standard, units
from loader.errors import LoaderError

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


REPORT = {"report": 1}  # the version of what --json prints: a member that is gone or means something else raises it


def show_json(facts: Mapping[str, Any]) -> None:
    print(json.dumps({**REPORT, **facts}, indent=2, default=str))


def show_json_line(facts: Mapping[str, Any]) -> None:
    """At once, for whoever reads along."""
    print(json.dumps({**REPORT, **facts}, default=str), flush=True)


def tell_json(facts: Mapping[str, Any]) -> None:
    """On one line of stderr, where stdout is that of the data."""
    print(json.dumps({**REPORT, **facts}, default=str), file=sys.stderr)


def show_failure(error: LoaderError, status: int, as_json: bool) -> None:
    """The error that ends a run; with --json it stands in the report's place too."""
    show_error(error)
    if as_json:
        hint = error.advice()
        facts = {
            "code": error.code,
            "status": status,
            "message": log.redact(str(error)),
            "hint": log.redact(hint) if hint else None,
        }
        (tell_json if standard.is_for_data() else show_json)({"error": facts})


def show_table(headings: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Columns of numbers are right-aligned. The table is as wide as it needs: a narrow terminal wraps its lines."""
    # Here, because rich takes longer to import than `--help` or an error takes to be shown.
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for place, heading in enumerate(headings):
        cells = [str(row[place]) for row in rows]
        numeric = all(one.removeprefix("-")[:1].isdigit() or one in ("", "-") for one in cells)
        table.add_column(heading, justify="right" if numeric and rows else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(plain.printable(str(cell))) for cell in row))
    unlimited = Console(width=_UNLIMITED)
    width = Measurement.get(unlimited, unlimited.options, table).maximum
    console = Console(width=max(width, 1))
    with console.capture() as shown:
        console.print(table)
    # Without the spaces at the ends, which would take lines of their own on a narrow terminal.
    print(_SPACES_AT_END.sub(r"\1", shown.get()), end="")


_UNLIMITED = 1 << 16  # columns of characters
_SPACES_AT_END = re.compile(r" +((?:\x1b\[\d*m)?)$", re.M)


_SIZES = {"bytes", "estimate", "maxsize"}
# What other programs read in --json.
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
_REJECTS_SHOWN = 10  # the rest stands in the file


def for_people(facts: Mapping[str, Any]) -> dict[str, object]:
    """The facts of a run as they read best; --json has them as they are, and all of them."""
    shown: dict[str, object] = {
        _NAMES.get(name, name.replace("_", " ")): _readable(name, value)
        for name, value in facts.items()
        if name not in _NOT_FOR_PEOPLE and value is not None
    }
    if facts.get("seconds"):
        speed = f" ({units.number(facts['rate'])} entries/s)" if facts.get("rate") else ""
        shown["seconds"] = f"{facts['seconds']:.1f}{speed}"
    for one in facts.get("databases", ()):
        entries = f"{units.number(one['entries'])} entries in " if "entries" in one else ""
        shown[f"database {one['suffix']}"] = f"{entries}{one['directory']}"
    return shown


def _readable(name: str, value: Any) -> object:
    """Words, whatever it is: no punctuation of Python's."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_readable(key, one)}" for key, one in value.items()) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(str(_readable(name, one)) for one in value) or "none"
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


def warn_of_rejects(facts: Mapping[str, Any]) -> None:
    """The first entries that were refused, and why."""
    for path, line, dn, reason in facts.get("rejections", ())[:_REJECTS_SHOWN]:
        _log.warning("%s, line %s: %s: %s", path or "standard input", line, dn, reason)
