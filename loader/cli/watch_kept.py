"""Where the rounds of a watch go: to a terminal, into lines, and into files for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from loader import units
from loader.cli import watch_live, watch_shown
from loader.cli.report import show, show_json_line
from loader.operations.storage import charts
from loader.operations.storage.watch import chart
from loader.operations.storage.watch import state as states
from loader.operations.storage.watch.history import History
from loader.operations.storage.watch.state import State


class Kept:
    """Raises UsageProblem at once for a chart that cannot be drawn."""

    def __init__(
        self, state: Path | None, metrics: Path | None, chart_file: Path | None, as_json: bool
    ) -> None:
        self._state, self._metrics, self._chart = state, metrics, chart_file
        self.as_json = as_json
        if chart_file is not None:
            charts.require(chart_file)

    @contextmanager
    def shown(self, headings: Sequence[str]) -> Iterator[Callable[[State, History], None]]:
        """A function that shows a round."""
        if self.as_json:
            yield lambda state, _: show_json_line(msgspec.to_builtins(state))
            return
        with watch_live.shown() as show_live:
            if show_live is None:
                show(*headings)
            yield show_live or (lambda state, _: show(watch_shown.line(state)))

    def write(self, found: State) -> None:
        if self._state is not None:
            states.write(found, self._state)
        if self._metrics is not None:
            from loader.operations.storage.watch import prometheus  # it takes long to import

            prometheus.write(found, self._metrics)

    def end(self, last: State, history: History) -> None:
        """The figures of all, the verdict, and the chart."""
        if self._chart is not None:
            chart.draw(
                history, f"I/O timing watch, up to {units.moment(last.written)}", self._chart
            )
        if not self.as_json:
            watch_shown.show_summary(last)
