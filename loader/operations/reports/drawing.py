"""The charts of a report, each as an SVG element."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from loader import plain, units
from loader.operations.reports import svg
from loader.operations.reports.report import RunReport
from loader.progress import StepRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart too.
_BLUE, _ORANGE, _VERMILION, _GREY = "#0072B2", "#E69F00", "#D55E00", "#999999"
_WIDTH, _BAR, _AROUND, _PANEL = 9.0, 0.32, 0.9, 1.9  # inches
_MOST_BARS, _MOST_EXPLAINED = 40, 12
_TIMES = ((1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"))
_SIZES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"))
_SLICES = 200  # of the time of a run, at most: within one a rate is an average


def steps(report: RunReport) -> str:
    """When each step began and ended."""
    shown = [one for one in report.steps if one.seconds][:_MOST_BARS]
    if not shown:
        return ""
    figure, (panel,) = svg.figure(_WIDTH, _AROUND + _BAR * len(shown))
    colours = [_BLUE if one.state == "done" else _VERMILION for one in shown]
    scale = _since_begin(panel, report)
    starts, lengths = [one.begun / scale for one in shown], [one.seconds / scale for one in shown]
    bars = panel.barh(range(len(shown)), lengths, left=starts, color=colours, height=0.6)
    panel.bar_label(bars, [units.duration(one.seconds) for one in shown], padding=3, fontsize=8)
    _name_bars(panel, [one.name for one in shown])
    return svg.element(figure, "steps")


def rates(report: RunReport) -> str:
    """Entries and bytes a second over time, of each step that counted any."""
    counting = [one for one in report.steps if len(one.points) > 1 and (one.entries or one.bytes)]
    if not counting:
        return ""
    figure, panels = svg.figure(_WIDTH, _AROUND + 2 * _PANEL, 2)
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
    return svg.element(figure, "rates")


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


def sizes(tables: Sequence[tuple[str, int]], database: str) -> str:
    """Bytes of each table. A page may have several of these charts."""
    shown = tables[:_MOST_BARS]
    figure, (panel,) = svg.figure(_WIDTH, _AROUND + _BAR * len(shown))
    scale, unit = _scale(max((size for _, size in shown), default=0), _SIZES)
    heights = [size / scale for _, size in shown]
    bars = panel.barh(range(len(shown)), heights, color=_BLUE, height=0.6)
    panel.bar_label(bars, [units.size(size) for _, size in shown], padding=3, fontsize=8)
    _name_bars(panel, [name for name, _ in shown])
    panel.set_xlabel(unit)
    panel.margins(x=0.12)
    return svg.element(figure, f"sizes {database}")


def planned(rows: Sequence[tuple[str, float | None, float | None]]) -> str:
    """Name, planned and actual seconds of each step."""
    figure, (panel,) = svg.figure(_WIDTH, _AROUND + 2 * _BAR * len(rows))
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
    return svg.element(figure, "planned")


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
