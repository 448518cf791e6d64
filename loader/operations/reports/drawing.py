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

# Okabe and Ito's colours, which the colour-blind can tell apart too.
_BLUE, _ORANGE, _VERMILION, _GREY = "#0072B2", "#E69F00", "#D55E00", "#999999"
_WIDTH, _BAR, _AROUND, _PANEL = 9.0, 0.32, 0.9, 1.9  # inches
_MOST_BARS = 40
_SLICES = 200  # of the time of a run, at most: within one a rate is an average


def steps(report: RunReport) -> str:
    """When each step began and ended."""
    shown = [one for one in report.steps if one.seconds][:_MOST_BARS]
    if not shown:
        return ""
    figure, (panel,) = svg.figure(_WIDTH, _AROUND + _BAR * len(shown))
    colours = [_BLUE if one.state == "done" else _VERMILION for one in shown]
    starts, lengths = [one.begun for one in shown], [one.seconds for one in shown]
    bars = panel.barh(range(len(shown)), lengths, left=starts, color=colours, height=0.6)
    panel.bar_label(bars, [units.duration(one) for one in lengths], padding=3, fontsize=8)
    _name_bars(panel, [one.name for one in shown])
    _since_begin(panel, report)
    return svg.element(figure, "steps")


def rates(report: RunReport) -> str:
    """Entries and bytes a second over time, of each step that counted any."""
    counting = [one for one in report.steps if len(one.points) > 1 and (one.entries or one.bytes)]
    if not counting:
        return ""
    figure, panels = svg.figure(_WIDTH, _AROUND + 2 * _PANEL, 2)
    for panel, name, scale in zip(panels, ("entries", "bytes"), (1, 1 << 20), strict=True):
        for one, colour in zip(counting, _cycle(len(counting)), strict=True):
            times, heights = _rate(one, name, report.seconds / _SLICES)
            # Each rate is that up to the next point.
            panel.stairs([one / scale for one in heights], times, color=colour, label=one.name)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter(lambda height, _: units.brief(height))
    panels[0].set_ylabel("entries/s")
    panels[1].set_ylabel("MiB/s")
    _since_begin(panels[1], report)
    handles, labels = panels[0].get_legend_handles_labels()
    few = min(len(labels), 6)
    figure.legend(
        handles[:12], labels[:12], loc="outside upper left", ncols=few, frameon=False, fontsize=8
    )
    return svg.element(figure, "rates")


def _rate(step: StepRecord, what: str, least: float) -> tuple[list[float], list[float]]:
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


def sizes(tables: Sequence[tuple[str, int]]) -> str:
    """Bytes of each table."""
    shown = tables[:_MOST_BARS]
    figure, (panel,) = svg.figure(_WIDTH, _AROUND + _BAR * len(shown))
    heights = [size / (1 << 20) for _, size in shown]
    bars = panel.barh(range(len(shown)), heights, color=_BLUE, height=0.6)
    panel.bar_label(bars, [units.size(size) for _, size in shown], padding=3, fontsize=8)
    _name_bars(panel, [name for name, _ in shown])
    panel.set_xlabel("MiB")
    panel.margins(x=0.12)
    return svg.element(figure, "sizes")


def planned(rows: Sequence[tuple[str, float | None, float | None]]) -> str:
    """Name, planned and actual seconds of each step."""
    figure, (panel,) = svg.figure(_WIDTH, _AROUND + 2 * _BAR * len(rows))
    for place, colour, name in ((1, _GREY, "planned"), (2, _BLUE, "actual")):
        at = [number + (place - 1.5) * 0.36 for number in range(len(rows))]
        lengths = [float(row[place] or 0.0) for row in rows]
        bars = panel.barh(at, lengths, color=colour, height=0.34, label=name)
        told = [units.duration(one) if one else "" for one in lengths]
        panel.bar_label(bars, told, padding=3, fontsize=8)
    _name_bars(panel, [name for name, _, _ in rows])
    panel.set_xlabel("seconds")
    panel.margins(x=0.12)
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
    return svg.element(figure, "planned")


def _since_begin(panel: Axes, report: RunReport) -> None:
    """The same in each chart; at the right there is room for a label."""
    panel.set_xlabel("seconds since the run began")
    panel.set_xlim(0, 1.1 * report.seconds)


def _name_bars(panel: Axes, names: Sequence[str]) -> None:
    """From above to below."""
    labels = panel.set_yticks(range(len(names)), [plain.shortened(one, 60) for one in names])
    for label in labels:
        label.label1.set_parse_math(False)
    panel.invert_yaxis()


def _cycle(count: int) -> list[str]:
    colours = (_BLUE, _ORANGE, _VERMILION, "#009E73", "#CC79A7", "#56B4E9")
    return [colours[number % len(colours)] for number in range(count)]
