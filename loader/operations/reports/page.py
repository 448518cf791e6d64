"""A run as a page: one file, which loads nothing from anywhere and runs no script."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import socket
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from loader import log, plain, units
from loader.errors import LoaderError, PackageMissing
from loader.operations.reports import databases, drawing
from loader.operations.reports.report import RunReport
from loader.server import version
from loader.storage import files

_PACKAGES = ("jinja2", "matplotlib")
_MOST_REJECTIONS = 100
_STATES = {0: ("done", "Done."), 1: ("rejects", "Done, with rejected entries.")}


def require() -> None:
    """Before the work, not after it. Raises PackageMissing."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            all_of_it = ", ".join(_PACKAGES)
            raise PackageMissing(
                place="--report", package=package, extra="charts", packages=all_of_it
            )


def write(report: RunReport, command: str, path: Path) -> None:
    """Whole or not at all; for our eyes only, because it may name entries."""
    files.write_durably(path, rendered(report, command).encode("utf-8", "replace"), 0o600)


def rendered(report: RunReport, command: str) -> str:
    from jinja2 import Environment, StrictUndefined  # here, because it takes long to import

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["plain"] = lambda value: plain.sentence(str(value))
    environment.filters["number"] = units.number
    environment.filters["size"] = units.size
    environment.filters["duration"] = units.duration
    text = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(text).render(_facts(report, command))


def _facts(report: RunReport, command: str) -> dict[str, Any]:
    planned = list(_planned(report))
    state, told = _STATES[report.status] if report.is_done else ("failed", _ending(report))
    return {
        "verb": report.verb,
        "host": socket.gethostname(),
        "begun": units.moment(report.recorder.began),
        "state": state,
        "told": told,
        "error": _error(report.error),
        "figures": list(_figures(report)),
        "asked": list(_asked(report, command)),
        "steps": report.steps,
        "planned": planned,
        "databases": databases.made_by(report),
        "rejected": report.rejected,
        "rejects_in": report.facts.get("rejects"),
        "rejections": report.rejections[:_MOST_REJECTIONS],
        "charts": {
            "steps": drawing.steps(report),
            "rates": drawing.rates(report),
            "planned": drawing.planned(planned) if planned else "",
        },
    }


def _ending(report: RunReport) -> str:
    return f"Not done: the run ended with exit status {report.status}."


def _error(error: LoaderError | None) -> dict[str, str] | None:
    if error is None:
        return None
    hint = error.advice() or ""
    return {"code": error.code, "message": log.redact(str(error)), "hint": log.redact(hint)}


def _figures(report: RunReport) -> Iterator[tuple[str, float, str]]:
    """Name, value, and how it is shown."""
    yield "entries", report.entries, units.number(report.entries)
    if report.bytes:
        yield "bytes", report.bytes, units.size(report.bytes)
    yield "duration", report.seconds, units.duration(report.seconds)
    if report.facts.get("rate"):
        rate = report.facts["rate"]
        yield "entries per second", rate, units.number(rate)
    if report.rejected:
        yield "rejects", report.rejected, units.number(report.rejected)


def _asked(report: RunReport, command: str) -> Iterator[tuple[str, str]]:
    began = report.recorder.began
    slapd = version.release()
    yield "command", plain.shortened(log.redact(command), plain.WHOLE)
    yield "host", plain.printable(socket.gethostname())
    yield "ditseed", importlib.metadata.version("ditseed")
    yield "slapd here", ".".join(map(str, slapd)) if slapd else "none"
    yield "begun", units.moment(began)
    yield "ended", units.moment(began + report.seconds)
    if "done_before" in report.facts:
        yield (
            "done before",
            f"nothing was done now: all this was done on {report.facts['done_before']}",
        )
    for name in ("directory", "output"):
        if report.facts.get(name):
            yield name, plain.printable(str(report.facts[name]))


def _planned(report: RunReport) -> Iterator[tuple[str, float | None, float | None]]:
    """Each step with its planned and its actual seconds, in the order of the plan; those that it does not know last."""
    if not report.planned:
        return
    took = report.seconds_by_step
    for name in dict.fromkeys([*report.planned, *took]):
        yield name, report.planned.get(name), took.get(name)
