"""A watch on a terminal while it runs: its rows, and a chart of the last rounds with a logarithmic axis."""

from __future__ import annotations

import math
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from loader import plain
from loader.cli import watch_shown
from loader.operations.storage.watch.state import LayerState, State, is_hung

_BARS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=+*%#"
_COLUMNS = ("last", "davg", "emax")
_NAME, _NUMBER = 32, 10  # columns
_LEAST = 1e-6  # seconds
_ROUNDS = 1000  # that are kept of each row: more than a terminal has columns


@contextmanager
def shown() -> Iterator[Callable[[State], None] | None]:
    """A function that shows a round in the place of the one before; None where stdout is no terminal, or a dumb one."""
    # Here, because rich takes longer to import than `--help` or an error takes to be shown.
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout)
    if not console.is_terminal or console.is_dumb_terminal:
        yield None
        return
    bars = _ASCII if console.options.ascii_only else _BARS
    heights: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_ROUNDS))
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show_round(state: State) -> None:
            for one in state.rows:
                heights[one.name].append(height_of(one, state))
            live.update(_drawn(state, heights, console.width, bars), refresh=True)

        yield show_round


def height_of(one: LayerState, state: State) -> float:
    """Seconds: of the last read, or for how long one that hangs has been under way; 0 where nothing was measured."""
    last = one.figures.last if one.figures and (one.problem is None or one.is_error) else 0.0
    since = one.in_flight_since
    if since is None or not is_hung(one, state.interval, state.written):
        return last
    return max(last, state.written - since)


def _drawn(state: State, heights: Mapping[str, Sequence[float]], width: int, bars: str) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    room = max(8, width - _NAME - len(_COLUMNS) * _NUMBER - 2)
    shown = {one.name: list(heights[one.name])[-room:] for one in state.rows}
    scale = Scale.of(height for row in shown.values() for height in row)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("milliseconds", width=_NAME - 1, no_wrap=True, overflow="ellipsis")
    for name in _COLUMNS:
        table.add_column(name, justify="right", width=_NUMBER - 1, no_wrap=True)
    table.add_column(scale.told(bars), no_wrap=True, overflow="crop")
    for one in state.rows:
        line = "".join(scale.bar(height, bars) for height in shown[one.name])
        texts = (one.name, *watch_shown.cells(one, state, _COLUMNS), line)
        table.add_row(*(Text(plain.printable(text)) for text in texts))
    return Group(table, Text(""), Text(plain.printable(state.told)))


class Scale:
    """Of whole powers of ten, in seconds."""

    def __init__(self, least: float, most: float) -> None:
        self._low = math.floor(math.log10(max(least, _LEAST)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(most, _LEAST))))

    @classmethod
    def of(cls, heights: Iterable[float]) -> Scale:
        known = [one for one in heights if one]
        return cls(min(known, default=_LEAST), max(known, default=_LEAST))

    def bar(self, height: float, bars: str) -> str:
        """A blank where nothing was measured."""
        if not height:
            return " "
        share = (math.log10(max(height, _LEAST)) - self._low) / (self._high - self._low)
        return bars[min(len(bars) - 1, max(0, int(share * len(bars))))]

    def told(self, bars: str) -> str:
        return f"{bars[0]} {10**self._low * 1000:g} to {bars[-1]} {10**self._high * 1000:g} ms"
