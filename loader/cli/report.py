"""Prints errors and hints on stderr, and a verb's report on stdout, as a table or as JSON.

Only this module and loader/progress.py print (tests/test_floors.py checks this). All text passes through
loader/plain.py, because DNs, values and messages are untrusted. JSON has its own escapes, and is not shortened.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, cast

import msgspec

from loader import log, plain, standard, units
from loader.errors import LoaderError

if TYPE_CHECKING:  # not imported at run time, so that --help and errors are fast
    from rich.table import Table

    from loader.operations.monitoring import Check
    from loader.operations.storage.findings import Finding
    from loader.storage.survey import Unseen

_log = logging.getLogger(__name__)


def show_error(error: LoaderError) -> None:
    """Prints `ditseed: MESSAGE [CODE]`, and the hint below."""
    text, hint = plain.printable(f"{log.redact(str(error))} [{error.code}]"), error.advice()
    print(log.coloured("ditseed:", log.RED), text, file=sys.stderr)
    _log.error("%s [%s]", error, error.code, extra=log.SHOWN)
    if hint:
        first, *more = log.redact(hint).split("\n")
        print(log.coloured("hint:", log.BOLD), plain.printable(first), file=sys.stderr)
        tell(*more)


def show(*lines: str) -> None:
    """Prints lines of the report on stdout."""
    for line in lines:
        print(plain.printable(line))


def tell(*lines: str) -> None:
    """Prints lines on stderr."""
    for line in lines:
        print(plain.printable(line), file=sys.stderr)


REPORT = {"report": 1}  # version of the JSON; increases if a member is removed or changes its meaning


def show_json(report: object, indent: int | None = 2, file: TextIO | None = None) -> None:
    """Prints a mapping or a struct as JSON, on stdout by default. If `indent` is None, prints one line, and flushes it
    for programs that follow the output."""
    members = {**REPORT, **msgspec.to_builtins(report, enc_hook=str)}
    print(json.dumps(members, indent=indent), file=file, flush=indent is None)


def tell_report(report: msgspec.Struct, as_json: bool) -> None:
    """Like `show_report`, but on stderr, for verbs that write data to stdout. With -q, prints only JSON."""
    if as_json:
        show_json(report, None, sys.stderr)
    elif log.verbosity() >= 0:
        tell(*fact_lines(readable_facts(msgspec.structs.asdict(report))))


def show_failure(error: LoaderError, status: int, as_json: bool) -> None:
    """Prints the error that ended a run; with `as_json`, also as JSON in place of the report."""
    if not as_json and [finding.severity.value for finding in error.missing].count("critical") > 1:
        show("missing:", *findings(error.missing, indent=""))
    show_error(error)
    if as_json:
        message, hint = log.redact(str(error)), log.redact(error.advice()) or None
        facts: dict[str, object] = {"code": error.code, "status": status, "message": message, "hint": hint}
        missing = {"missing": error.missing} if error.missing else {}
        show_json({"error": facts, **missing}, *((None, sys.stderr) if standard.is_for_data() else ()))


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> Table:
    # Imported here, because the import takes longer than to print --help or an error.
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    cells = [[str(cell) for cell in row] for row in rows]
    for column, heading in enumerate(headings):
        numeric = all(re.match(r"-?\d|-?$", row[column]) for row in cells)
        table.add_column(heading, justify="right" if numeric and cells else "left", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(plain.printable(cell)) for cell in row))
    return table


def show_table(headings: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Prints a table as wide as its content, with columns of numbers right-aligned. Narrow terminals wrap its lines."""
    from rich.console import Console
    from rich.measure import Measurement

    table, unlimited = _table(headings, rows, title), Console(width=1 << 16)  # characters; wider than any table
    console = Console(width=max(Measurement.get(unlimited, unlimited.options, table).maximum, 1))
    with console.capture() as shown:
        console.print(table)
    # Trailing spaces are removed, because a narrow terminal would wrap them into blank lines.
    print(_SPACES_AT_END.sub(r"\1", shown.get()), end="")


@contextmanager
def screen() -> Iterator[Callable[[Sequence[str], Iterable[Sequence[str]], Iterable[str]], None] | None]:
    """Yields a function that redraws a table (headings, rows) and the lines below, until the end of the body. Yields
    None if stdout is no terminal that can move its cursor."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout)
    if not console.is_terminal or console.is_dumb_terminal:
        yield None
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def draw(headings: Sequence[str], rows: Iterable[Sequence[str]], lines: Iterable[str]) -> None:
            below = (Text(plain.printable(line)) for line in lines)
            live.update(Group(_table(headings, rows), Text(""), *below), refresh=True)

        yield draw


_SPACES_AT_END = re.compile(r" +((?:\x1b\[\d*m)?)$", re.M)

# Facts whose value is a number of bytes.
_SIZES = {
    *("allocated", "bytes", "data_bytes", "estimate", "free", "grown", "have", "length", "map_size", "maxsize"),
    *("needed", "skipped", "source_allocated", "source_apparent", "stored_bytes"),
    *("target_allocated", "target_apparent"),
}
# Facts that are printed only with --json.
_JSON_ONLY = {"identity", "databases", "forecast", "phases", "tables", "rejections", "rate", "attributes", "published"}
# Fact -> its name in the printed report, if that differs.
_NAMES = {
    "context_csns": "contextCSN",
    "catch_up": "catch-up",
    "first_dn": "first entry",
    "held_back": "entryCSN set back",
    "read_twice": "  read twice",
    "without_parent": "  parent is gone",
}
_REJECTS_SHOWN = 10  # maximum number of rejected entries that are printed; the file of rejects has all


def show_report(
    report: object, as_json: bool, printed: Mapping[str, object] | Iterable[str] | Callable[[], None] | None = None
) -> None:
    """Prints a report as JSON, or else prints `printed`, which is facts, lines, or a function that prints. If `printed`
    is None, logs the report's first rejected entries with their reasons, then prints the report's facts."""
    if as_json:
        show_json(report)
    elif isinstance(printed, Mapping):
        show_facts(printed)
    elif callable(printed):
        printed()
    elif printed is not None:
        show(*printed)
    else:
        facts = report if isinstance(report, Mapping) else msgspec.structs.asdict(cast("msgspec.Struct", report))
        rejections = facts.get("rejections")
        for path, line, dn, reason in rejections[:_REJECTS_SHOWN] if isinstance(rejections, list) else ():
            _log.warning("%s, line %s: %s: %s", path or "standard input", line, dn, reason)
        show_facts(readable_facts(facts))


def show_check(check: Check, as_json: bool) -> int:
    """Prints the result of a monitoring plugin. Returns the plugin's exit status."""
    show_report({**msgspec.structs.asdict(check), "status": check.status.name}, as_json, check.text())
    return int(check.status)


def readable_facts(facts: Mapping[str, object]) -> dict[str, object]:
    """Returns the facts of a printed report, with readable names and values; --json has all facts unchanged."""
    shown: dict[str, object] = {
        _NAMES.get(name, name.replace("_", " ")): _readable(name, value)
        for name, value in facts.items()
        if name not in _JSON_ONLY and value not in (None, "")
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
    """Returns a value as readable text, without Python's brackets and quotes."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        items = ((name, item) for name, item in value.items() if item not in (None, ""))
        return ", ".join(f"{name.replace('_', ' ')} {_readable(name, item)}" for name, item in items) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        if any(isinstance(item, Mapping | msgspec.Struct) for item in value):
            return units.number(len(value))
        return ", ".join(str(_readable(name, item)) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return units.size(value) if name in _SIZES else units.number(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    return value


def show_facts(facts: Mapping[str, object]) -> None:
    """Prints one line for each name and value."""
    show(*fact_lines(facts))


def fact_lines(facts: Mapping[str, object]) -> list[str]:
    width = max((len(name) for name in facts), default=0)
    return [f"{name:<{width}}  {value}" for name, value in facts.items()]


def findings(results: Sequence[Finding], unseen: Sequence[Unseen] = (), indent: str = "    ") -> Iterator[str]:
    """Yields the lines of a check's findings, in the given order, each with its reason and the commands that fix it.
    `indent`: before each command; "" if commands may have several lines, which a shell needs unindented."""
    import textwrap  # imported here, because few runs need it

    sound = [finding for finding in results if finding.severity.value == "ok"]
    for finding in results:
        if finding in sound:
            continue
        yield f"{finding.severity.value.upper()}  {finding.subject}: {finding.what}"
        yield from (f"  {line}" for line in textwrap.wrap(finding.why, 98))
        yield from (f"{indent}{line}" for line in finding.mend)
        if finding.source:
            yield f"  ({finding.source})"
        yield ""
    if sound:
        yield "in order:"
        yield from (f"  {finding.subject}: {finding.what}" for finding in sound)
    yield from (f"not looked at: {missing.what} ({missing.why})" for missing in unseen)
