"""A run as a page: one file, which loads nothing from anywhere and runs no script. Its charts are SVG images in it."""

from __future__ import annotations

import base64
import importlib.metadata
import importlib.util
import io
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

from loader import log, plain, units
from loader.errors import LoaderError, PackageMissing
from loader.mdb import contents
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.operations.reports import RunReport
from loader.progress import StepRecord
from loader.server import tools
from loader.storage import files, held

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)
_PACKAGES = ("jinja2", "matplotlib")
_MOST_REJECTIONS = 100
_STATES = {0: ("done", "Done."), 1: ("rejects", "Done, with rejected entries.")}
Planned = Sequence[tuple[str, float | None, float | None]]  # name, planned and actual seconds of each step


def require() -> None:
    """Before the work, not after it. Raises PackageMissing."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise PackageMissing(place="--report", package=package, extra="charts", packages=", ".join(_PACKAGES))


def write(run: RunReport, command: str, path: Path) -> None:
    """Whole or not at all; for our eyes only, because it may name entries."""
    files.write_durably(path, rendered(run, command).encode("utf-8", "replace"), 0o600)


def rendered(run: RunReport, command: str) -> str:
    from jinja2 import Environment, StrictUndefined  # here, because it takes long to import

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = lambda value: plain.sentence(str(value))
    environment.filters |= {"number": units.number, "size": units.size, "duration": units.duration}
    text = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(text).render(_facts(run, command))


def _facts(run: RunReport, command: str) -> Mapping[str, object]:
    took = run.seconds_by_step
    names = dict.fromkeys([*run.planned, *took]) if run.planned else ()
    planned = [(name, run.planned.get(name), took.get(name)) for name in names]
    failed = ("failed", f"Not done: the run ended with exit status {run.status}.")
    return {
        "verb": run.verb,
        "host": socket.gethostname(),
        "begun": units.moment(run.recorder.began),
        "ending": _STATES[run.status] if run.is_done else failed,
        "error": _error(run.error),
        "figures": list(_figures(run)),
        "asked": list(_asked(run, command)),
        "steps": run.steps,
        "planned": planned,
        "databases": list(_databases(run)),
        "rejected": run.rejected,
        "rejects_in": run.facts.get("rejects"),
        "rejections": run.rejections[:_MOST_REJECTIONS],
        "charts": {
            "steps": _steps_chart(run),
            "rates": _rates_chart(run),
            "planned": _planned_chart(planned) if planned else "",
        },
    }


def _error(error: LoaderError | None) -> dict[str, str] | None:
    if error is None:
        return None
    return {"code": error.code, "message": log.redact(str(error)), "hint": log.redact(error.advice() or "")}


def _figures(run: RunReport) -> Iterator[tuple[str, float, str]]:
    """Name, value, and how it is shown."""
    yield "entries", run.entries, units.number(run.entries)
    if run.bytes:
        yield "bytes", run.bytes, units.size(run.bytes)
    yield "duration", run.seconds, units.duration(run.seconds)
    if isinstance(rate := run.facts.get("rate"), int) and rate:
        yield "entries per second", rate, units.number(rate)
    if run.rejected:
        yield "rejects", run.rejected, units.number(run.rejected)


def _asked(run: RunReport, command: str) -> Iterator[tuple[str, str]]:
    slapd = tools.release()
    yield "command", plain.shortened(log.redact(command), plain.WHOLE)
    yield "host", plain.printable(socket.gethostname())
    yield "ditseed", importlib.metadata.version("ditseed")
    yield "slapd here", ".".join(map(str, slapd)) if slapd else "none"
    yield "begun", units.moment(run.recorder.began)
    yield "ended", units.moment(run.recorder.began + run.seconds)
    if "done_before" in run.facts:
        yield "done before", f"nothing was done now: all this was done on {run.facts['done_before']}"
    for name in ("directory", "output"):
        if run.facts.get(name):
            yield name, plain.printable(str(run.facts[name]))


def _databases(run: RunReport) -> Iterator[Mapping[str, object]]:
    """Directory, bytes, tables and chart of each database that the run put into place. One that cannot be read now is
    left out, because the report is of the run."""
    databases = run.facts.get("databases")
    for facts in (run.facts, *(databases if isinstance(databases, list) else ())):
        if "published" in facts and "directory" in facts:
            try:
                size, tables = _tables(Path(facts["directory"]))
            except (LoaderError, OSError) as error:
                _log.warning("the report has no sizes of tables: %s", error)
            else:
                chart = _sizes_chart(tables)
                yield {"directory": facts["directory"], "bytes": size, "tables": tables, "chart": chart}


def _tables(directory: Path) -> tuple[int, list[tuple[str, int]]]:
    """Bytes of the data file, and of each table, the largest first. Last comes the rest: pages of long lists of IDs,
    which LMDB does not count with their index, and free ones."""
    with held.checked_file(directory / DATA) as pin:
        size = pin.stat().st_size
        # Nobody has it open, unless slapd has been started already. No lock.mdb is made for this.
        sizes = contents.table_bytes(directory if (directory / LOCK).exists() else pin)
    tables = sorted(sizes.items(), key=lambda table: -table[1])
    return size, [*tables, ("the rest", max(0, size - sum(sizes.values())))]


# --- charts --------------------------------------------------------------------------------------

# Okabe and Ito's colours, which the colour-blind can tell apart too.
_BLUE, _ORANGE, _VERMILION, _GREY = "#0072B2", "#E69F00", "#D55E00", "#999999"
_COLOURS = (_BLUE, _ORANGE, _VERMILION, "#009E73", "#CC79A7", "#56B4E9")
_WIDTH, _BAR, _AROUND, _PANEL = 9.0, 0.32, 0.9, 1.9  # inches
_MOST_BARS, _MOST_EXPLAINED = 40, 12
_TIMES = ((1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"))
_SIZES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"))
_SLICES = 200  # of the time of a run, at most: within one a rate is an average


def _steps_chart(run: RunReport) -> str:
    """When each step began and ended."""
    shown = [step for step in run.steps if step.seconds][:_MOST_BARS]
    if not shown:
        return ""
    figure, (panel,) = _figure(_AROUND + _BAR * len(shown))
    scale = _since_begin(panel, run)
    bars = panel.barh(
        range(len(shown)),
        [step.seconds / scale for step in shown],
        left=[step.begun / scale for step in shown],
        color=[_BLUE if step.state == "done" else _VERMILION for step in shown],
        height=0.6,
    )
    panel.bar_label(bars, [units.duration(step.seconds) for step in shown], padding=3, fontsize=8)
    _name_bars(panel, [step.name for step in shown])
    return _data_uri(figure)


def _rates_chart(run: RunReport) -> str:
    """Entries and bytes a second over time, of each step that counted any."""
    counting = [step for step in run.steps if len(step.points) > 1 and (step.entries or step.bytes)]
    if not counting:
        return ""
    figure, panels = _figure(_AROUND + 2 * _PANEL, 2)
    scale = _since_begin(panels[1], run)
    for panel, name, label, unit in zip(
        panels, ("entries", "bytes"), ("entries/s", "MiB/s"), (1, 1 << 20), strict=True
    ):
        for step, colour in zip(counting, cycle(_COLOURS), strict=False):
            times, rates = rate_of(step, name, run.seconds / _SLICES)
            edges, heights = [at / scale for at in times], [rate / unit for rate in rates]
            panel.stairs(heights, edges, color=colour, label=plain.shortened(step.name, 60))
        panel.set_ylim(bottom=0)
        panel.set_ylabel(label)
    panels[0].yaxis.set_major_formatter(lambda height, _: units.brief(height))
    _explain(figure, panels[0])
    return _data_uri(figure)


def rate_of(step: StepRecord, what: str, least: float) -> tuple[list[float], list[float]]:
    """The edges of its slices of time, each of `least` seconds or more, and the rate within each. What a failed call
    counted is taken back: no rate is negative."""
    kept = [step.points[0]]
    for point in step.points[1:]:
        if point.at - kept[-1].at >= least:
            kept.append(point)
    if kept[-1] is not step.points[-1]:  # the rest belongs to the last slice
        kept[max(1, len(kept) - 1) :] = [step.points[-1]]
    return [point.at for point in kept], [
        max(0, getattr(after, what) - getattr(before, what)) / max(after.at - before.at, 1e-6)
        for before, after in pairwise(kept)
    ]


def _sizes_chart(tables: Sequence[tuple[str, int]]) -> str:
    names, sizes = zip(*tables[:_MOST_BARS], strict=True)
    figure, (panel,) = _figure(_AROUND + _BAR * len(names))
    scale, unit = _scale(max(sizes), _SIZES)
    bars = panel.barh(range(len(names)), [size / scale for size in sizes], color=_BLUE, height=0.6)
    panel.bar_label(bars, list(map(units.size, sizes)), padding=3, fontsize=8)
    _name_bars(panel, names, unit)
    return _data_uri(figure)


def _planned_chart(rows: Planned) -> str:
    figure, (panel,) = _figure(_AROUND + 2 * _BAR * len(rows))
    scale, unit = _scale(max(seconds or 0.0 for row in rows for seconds in row[1:]), _TIMES)
    for column, colour, name in ((1, _GREY, "planned"), (2, _BLUE, "actual")):
        at = [number + (column - 1.5) * 0.36 for number in range(len(rows))]
        seconds = [float(row[column] or 0.0) for row in rows]
        bars = panel.barh(at, [length / scale for length in seconds], color=colour, height=0.34, label=name)
        panel.bar_label(bars, [units.duration(length) if length else "" for length in seconds], padding=3, fontsize=8)
    _name_bars(panel, [name for name, _, _ in rows], unit)
    _explain(figure, panel)
    return _data_uri(figure)


def _since_begin(panel: Axes, run: RunReport) -> float:
    """The same axis in each chart, and how many seconds its unit has; at the right there is room for a label."""
    scale, unit = _scale(run.seconds, _TIMES)
    panel.set_xlabel(f"{unit} since the run began")
    panel.set_xlim(0, 1.1 * run.seconds / scale)
    return scale


def _scale(largest: float, known: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest unit of which there are several."""
    return [unit for unit in known if unit[0] * 5 <= largest or unit is known[0]][-1]


def _explain(figure: Figure, panel: Axes) -> None:
    """A legend of its first lines; names are no formulas."""
    handles, labels = panel.get_legend_handles_labels()
    shown, columns = slice(_MOST_EXPLAINED), max(1, min(len(labels), 6))
    legend = figure.legend(
        *(handles[shown], labels[shown]), loc="outside upper left", ncols=columns, frameon=False, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _name_bars(panel: Axes, names: Sequence[str], unit: str = "") -> None:
    """From above to below. `unit`: of the axis below, if that has no name yet."""
    for tick in panel.set_yticks(range(len(names)), [plain.shortened(name, 60) for name in names]):
        tick.label1.set_parse_math(False)
    panel.invert_yaxis()
    if unit:
        panel.set_xlabel(unit)
        panel.margins(x=0.12)


def _figure(height: float, panels: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """With panels above each other; `height` in inches."""
    from matplotlib.figure import Figure  # here, because it takes long to import

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0].tolist()
    for panel in axes:
        panel.tick_params(labelsize=8)
        panel.xaxis.label.set_size(9)
        panel.yaxis.label.set_size(9)
        panel.grid(True, axis="both" if panels > 1 else "x", color="#d0d0d0", lw=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _data_uri(figure: Figure) -> str:
    """The chart as an SVG image, whose IDs, links and styles are apart from those of the page."""
    import matplotlib

    buffer = io.BytesIO()
    no_metadata = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ditseed"}), catch_warnings():
        # Whatever the names are written in: it is the browser that has the fonts.
        filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(buffer, format="svg", metadata=no_metadata)
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
