"""The tables of the databases that a run put into place."""

from __future__ import annotations

import base64
import importlib.metadata
import importlib.util
import io
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from loader import log, plain, units
from loader.errors import LoaderError, PackageMissing
from loader.mdb import contents
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.operations.publish import PUBLISHED
from loader.operations.reports.report import RunReport
from loader.progress import StepRecord
from loader.server import tools
from loader.storage import files, held

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)
_REST = "the rest"


@dataclass(frozen=True)
class DatabaseTables:
    """bytes: of the data file. tables: with their bytes, the largest first. Last comes the rest: pages of long lists of
    IDs, which LMDB does not count with their index, and free ones."""

    directory: str
    bytes: int
    tables: list[tuple[str, int]]
    chart: str


def made_by(report: RunReport) -> list[DatabaseTables]:
    """A database that cannot be read now is left out: the report is of the run."""
    found = []
    for directory in _directories(report):
        try:
            found.append(_read(directory))
        except (LoaderError, OSError) as error:
            _log.warning("the report has no sizes of tables: %s", error)
    return found


def _directories(report: RunReport) -> Iterator[Path]:
    for facts in (report.facts, *(report.facts.get("databases") or ())):
        if PUBLISHED in facts and "directory" in facts:
            yield Path(facts["directory"])


def _read(directory: Path) -> DatabaseTables:
    with held.checked_file(directory / DATA) as pin:
        size = pin.stat().st_size
        # Nobody has it open, unless slapd has been started already. No lock.mdb is made for this.
        used = (directory / LOCK).exists()
        sizes = contents.table_bytes(directory if used else pin)
    tables = sorted(sizes.items(), key=lambda one: -one[1])
    tables.append((_REST, max(0, size - sum(sizes.values()))))
    return DatabaseTables(str(directory), size, tables, sizes_chart(tables))


# --- drawing ---------------------------------------------------------------------------------------------------------
#
# The charts of a report, each as the data URI of an SVG image.


# Okabe and Ito's colours, which the colour-blind can tell apart too.
_BLUE, _ORANGE, _VERMILION, _GREY = "#0072B2", "#E69F00", "#D55E00", "#999999"
_WIDTH, _BAR, _AROUND, _PANEL = 9.0, 0.32, 0.9, 1.9  # inches
_MOST_BARS, _MOST_EXPLAINED = 40, 12
_TIMES = ((1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"))
_SIZES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"))
_NO_METADATA: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_SLICES = 200  # of the time of a run, at most: within one a rate is an average


def steps(report: RunReport) -> str:
    """When each step began and ended."""
    shown = [one for one in report.steps if one.seconds][:_MOST_BARS]
    if not shown:
        return ""
    figure, (panel,) = svg_figure(_WIDTH, _AROUND + _BAR * len(shown))
    colours = [_BLUE if one.state == "done" else _VERMILION for one in shown]
    scale = _since_begin(panel, report)
    starts, lengths = [one.begun / scale for one in shown], [one.seconds / scale for one in shown]
    bars = panel.barh(range(len(shown)), lengths, left=starts, color=colours, height=0.6)
    panel.bar_label(bars, [units.duration(one.seconds) for one in shown], padding=3, fontsize=8)
    _name_bars(panel, [one.name for one in shown])
    return data_uri(figure)


def rates(report: RunReport) -> str:
    """Entries and bytes a second over time, of each step that counted any."""
    counting = [one for one in report.steps if len(one.points) > 1 and (one.entries or one.bytes)]
    if not counting:
        return ""
    figure, panels = svg_figure(_WIDTH, _AROUND + 2 * _PANEL, 2)
    scale = _since_begin(panels[1], report)
    for panel, name, unit in zip(panels, ("entries", "bytes"), (1, 1 << 20), strict=True):
        for one, colour in zip(counting, _cycle(len(counting)), strict=True):
            times, rates = rate_of(one, name, report.seconds / _SLICES)
            edges, heights = [at / scale for at in times], [rate / unit for rate in rates]
            panel.stairs(heights, edges, color=colour, label=_named(one.name))
        panel.set_ylim(bottom=0)
    panels[0].yaxis.set_major_formatter(lambda height, _: units.brief(height))
    panels[0].set_ylabel("entries/s")
    panels[1].set_ylabel("MiB/s")
    _explain(figure, panels[0])
    return data_uri(figure)


def rate_of(step: StepRecord, what: str, least: float) -> tuple[list[float], list[float]]:
    """The edges of its slices of time, and the rate within each. What a failed call counted is taken back: no rate is
    negative."""
    kept = [step.points[0]]
    for point in step.points[1:]:
        if point.at - kept[-1].at >= least:
            kept.append(point)
    if kept[-1] is not step.points[-1]:  # the rest belongs to the last slice
        kept[max(1, len(kept) - 1) :] = [step.points[-1]]
    return [one.at for one in kept], [
        max(0, getattr(after, what) - getattr(before, what)) / max(after.at - before.at, 1e-6)
        for before, after in pairwise(kept)
    ]


def sizes_chart(tables: Sequence[tuple[str, int]]) -> str:
    """Bytes of each table."""
    shown = tables[:_MOST_BARS]
    figure, (panel,) = svg_figure(_WIDTH, _AROUND + _BAR * len(shown))
    scale, unit = _scale(max((size for _, size in shown), default=0), _SIZES)
    heights = [size / scale for _, size in shown]
    bars = panel.barh(range(len(shown)), heights, color=_BLUE, height=0.6)
    panel.bar_label(bars, [units.size(size) for _, size in shown], padding=3, fontsize=8)
    _name_bars(panel, [name for name, _ in shown])
    panel.set_xlabel(unit)
    panel.margins(x=0.12)
    return data_uri(figure)


def planned_chart(rows: Sequence[tuple[str, float | None, float | None]]) -> str:
    """Name, planned and actual seconds of each step."""
    figure, (panel,) = svg_figure(_WIDTH, _AROUND + 2 * _BAR * len(rows))
    longest = max(float(one or 0.0) for row in rows for one in row[1:])
    scale, unit = _scale(longest, _TIMES)
    for place, colour, name in ((1, _GREY, "planned"), (2, _BLUE, "actual")):
        at = [number + (place - 1.5) * 0.36 for number in range(len(rows))]
        seconds = [float(row[place] or 0.0) for row in rows]
        lengths = [one / scale for one in seconds]
        bars = panel.barh(at, lengths, color=colour, height=0.34, label=name)
        told = [units.duration(one) if one else "" for one in seconds]
        panel.bar_label(bars, told, padding=3, fontsize=8)
    _name_bars(panel, [name for name, _, _ in rows])
    panel.set_xlabel(unit)
    panel.margins(x=0.12)
    _explain(figure, panel)
    return data_uri(figure)


def _since_begin(panel: Axes, report: RunReport) -> float:
    """The same axis in each chart, and how many seconds its unit has; at the right there is room for a label."""
    scale, unit = _scale(report.seconds, _TIMES)
    panel.set_xlabel(f"{unit} since the run began")
    panel.set_xlim(0, 1.1 * report.seconds / scale)
    return scale


def _scale(largest: float, known: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest unit of which there are several."""
    return [one for one in known if one[0] * 5 <= largest or one is known[0]][-1]


def _explain(figure: Figure, panel: Axes) -> None:
    """A legend of its first lines; names are no formulas."""
    handles, labels = panel.get_legend_handles_labels()
    made = figure.legend(
        handles[:_MOST_EXPLAINED],
        labels[:_MOST_EXPLAINED],
        loc="outside upper left",
        ncols=max(1, min(len(labels), 6)),
        frameon=False,
        fontsize=8,
    )
    for text in made.get_texts():
        text.set_parse_math(False)


def _named(name: str) -> str:
    return plain.shortened(name, 60)


def _name_bars(panel: Axes, names: Sequence[str]) -> None:
    """From above to below."""
    labels = panel.set_yticks(range(len(names)), [_named(one) for one in names])
    for label in labels:
        label.label1.set_parse_math(False)
    panel.invert_yaxis()


def _cycle(count: int) -> list[str]:
    colours = (_BLUE, _ORANGE, _VERMILION, "#009E73", "#CC79A7", "#56B4E9")
    return [colours[number % len(colours)] for number in range(count)]


def svg_figure(width: float, height: float, panels: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """With panels above each other; in inches."""
    from matplotlib.figure import Figure  # here, because it takes long to import

    made = Figure(figsize=(width, height), layout="constrained")
    made.patch.set_alpha(0)
    found = made.subplots(panels, 1, sharex=True, squeeze=False)[:, 0].tolist()
    for panel in found:
        panel.tick_params(labelsize=8)
        panel.xaxis.label.set_size(9)
        panel.yaxis.label.set_size(9)
        panel.grid(True, axis="both" if panels > 1 else "x", color="#d0d0d0", lw=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return made, found


def data_uri(drawn: Figure) -> str:
    """The chart as an SVG image, whose IDs, links and styles are apart from those of the page."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ditseed"}), catch_warnings():
        # Whatever the names are written in: it is the browser that has the fonts.
        filterwarnings("ignore", "Glyph .* missing from")
        drawn.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


# --- page ------------------------------------------------------------------------------------------------------------
#
# A run as a page: one file, which loads nothing from anywhere and runs no script.


_PACKAGES = ("jinja2", "matplotlib")
_MOST_REJECTIONS = 100
_STATES = {0: ("done", "Done."), 1: ("rejects", "Done, with rejected entries.")}


def require() -> None:
    """Before the work, not after it. Raises PackageMissing."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            all_of_it = ", ".join(_PACKAGES)
            raise PackageMissing(place="--report", package=package, extra="charts", packages=all_of_it)


def write(report: RunReport, command: str, path: Path) -> None:
    """Whole or not at all; for our eyes only, because it may name entries."""
    files.write_durably(path, rendered(report, command).encode("utf-8", "replace"), 0o600)


def rendered(report: RunReport, command: str) -> str:
    from jinja2 import Environment, StrictUndefined  # here, because it takes long to import

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
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
        "databases": made_by(report),
        "rejected": report.rejected,
        "rejects_in": report.facts.get("rejects"),
        "rejections": report.rejections[:_MOST_REJECTIONS],
        "charts": {
            "steps": steps(report),
            "rates": rates(report),
            "planned": planned_chart(planned) if planned else "",
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
    slapd = tools.release()
    yield "command", plain.shortened(log.redact(command), plain.WHOLE)
    yield "host", plain.printable(socket.gethostname())
    yield "ditseed", importlib.metadata.version("ditseed")
    yield "slapd here", ".".join(map(str, slapd)) if slapd else "none"
    yield "begun", units.moment(began)
    yield "ended", units.moment(began + report.seconds)
    if "done_before" in report.facts:
        yield ("done before", f"nothing was done now: all this was done on {report.facts['done_before']}")
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
