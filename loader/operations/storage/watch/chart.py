"""The chart of a watch, as a picture: a panel for each row, on one logarithmic axis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader import plain
from loader.operations.storage import charts
from loader.operations.storage.watch.history import History, Point
from loader.storage import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which the colour-blind can tell apart too; weights and dashes differ besides.
_BLUE, _ORANGE, _VERMILION, _GREEN = "#0072B2", "#E69F00", "#D55E00", "#009E73"
_DAY = 86400.0  # seconds; matplotlib counts days
_LEAST = 1e-6  # seconds: the bottom of a logarithmic axis
_WIDTH, _PANEL, _AROUND = 10.0, 1.35, 1.1  # inches


def draw(history: History, title: str, path: Path) -> None:
    """Whole or not at all. Raises LoaderError, OSError."""
    from matplotlib.figure import Figure  # here, because it takes long to import

    rows = list(history.rows.items())
    figure = Figure(
        figsize=(_WIDTH, _AROUND + _PANEL * len(rows)), layout="constrained", facecolor="white"
    )
    panels = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for panel, (name, points) in zip(panels, rows, strict=True):
        _panel(panel, name, points)
    _axes(panels[-1])
    figure.suptitle(plain.shortened(title), fontsize=11, parse_math=False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=charts.kind_of(path), dpi=120)
    files.write_durably(path, buffer.getvalue())


def _panel(panel: Axes, name: str, points: Sequence[Point]) -> None:
    times = [one.at / _DAY for one in points]
    panel.plot(times, _heights(points, "emax"), color=_VERMILION, lw=1.4, label="emax")
    panel.plot(times, _heights(points, "davg"), color=_GREEN, lw=1.4, ls="--", label="davg")
    panel.plot(times, _heights(points, "emin"), color=_ORANGE, lw=1.2, ls=":", label="emin")
    panel.plot(times, _heights(points, "last"), ".", color=_BLUE, ms=3, label="last")
    panel.plot(times, _heights(points, "waits"), "x", color="black", ms=4, label="hangs")
    panel.set_title(plain.shortened(name, 100), loc="left", fontsize=9, parse_math=False)
    panel.set_yscale("log")
    panel.tick_params(labelsize=8)
    panel.grid(True, which="major", color="#d0d0d0", lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _heights(points: Sequence[Point], name: str) -> list[float]:
    """In milliseconds; what is not known leaves a gap."""
    values = [getattr(one, name) for one in points]
    return [float("nan") if one is None else max(one, _LEAST) * 1000 for one in values]


def _axes(lowest: Axes) -> None:
    from matplotlib import dates as untyped
    from matplotlib import ticker

    dates: Any = untyped
    locator = dates.AutoDateLocator(maxticks=8)
    lowest.xaxis.set_major_locator(locator)
    lowest.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    lowest.yaxis.set_major_locator(ticker.LogLocator(numticks=6))
    lowest.yaxis.set_major_formatter(ticker.FuncFormatter(_tick))
    lowest.set_xlabel("time (UTC)")


def _tick(milliseconds: float, _: object) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:g} s"
    return f"{milliseconds:g} ms" if milliseconds >= 1 else f"{milliseconds * 1000:g} µs"
