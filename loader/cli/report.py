"""What a verb prints: errors and hints on stderr, its report on stdout, as a table or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from loader import log, units
from loader.errors import LoaderError


def show_error(error: LoaderError) -> None:
    """`ditseed: CODE: message`, and the hint below it."""
    print(log.blank(f"ditseed: {error} [{error.code}]"), file=sys.stderr)
    hint = error.advice()
    if hint:
        print(log.blank(f"hint: {hint}"), file=sys.stderr)


def show_json(facts: Mapping[str, Any]) -> None:
    print(json.dumps(facts, indent=2, default=str))


def show_table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None
) -> None:
    """Columns of numbers are right-aligned; off a terminal the table is as wide as it needs."""
    # Here, because rich takes longer to import than `--help` or an error takes to be shown.
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for place, heading in enumerate(headings):
        numeric = all(str(row[place])[:1].isdigit() or str(row[place]) in ("", "-") for row in rows)
        table.add_column(heading, justify="right" if numeric and rows else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


_SIZES = {"bytes", "estimate", "maxsize"}
_NOT_FOR_PEOPLE = {"identity", "databases", "forecast", "published"}
_REJECTS_SHOWN = 10  # the rest stands in the file


def for_people(facts: Mapping[str, Any]) -> dict[str, object]:
    """The facts of a run as they read best; --json has them as they are."""
    shown = {
        name: _readable(name, value) for name, value in facts.items() if name not in _NOT_FOR_PEOPLE
    }
    for one in facts.get("databases", ()):
        entries = f"{units.number(one['entries'])} entries in " if "entries" in one else ""
        shown[f"database {one['suffix']}"] = f"{entries}{one['directory']}"
    return shown


def _readable(name: str, value: Any) -> object:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return units.size(value) if name in _SIZES else units.number(value)
    return value


def show_facts(facts: Mapping[str, object]) -> None:
    """Name and value, one a line."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")


def warn_of_rejects(facts: Mapping[str, Any]) -> None:
    """The first entries that were refused, and why."""
    for path, line, dn, reason in facts.get("rejections", ())[:_REJECTS_SHOWN]:
        logging.getLogger(__name__).warning(
            "%s, line %s: %s: %s", path or "standard input", line, dn, reason
        )
