"""What a chart is drawn of: the rounds of a watch, of a long one as few as can be told apart, and every peak."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loader.operations.storage.watch import watching
from loader.operations.storage.watch.state import LayerState, State

MOST = 4000  # points of a row: more than a chart has columns


class Point(msgspec.Struct, frozen=True):
    """`at`: Unix time; the others in seconds, None where nothing was measured. `waits`: for how long one that hangs has
    been under way."""

    at: float
    last: float | None = None
    davg: float | None = None
    emin: float | None = None
    emax: float | None = None
    waits: float | None = None

    @property
    def height(self) -> float:
        return max(self.last or 0.0, self.waits or 0.0)


class History:
    """Points of each row, by its name."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.rows: dict[str, list[Point]] = {}

    def take(self, state: State) -> None:
        for one in state.rows:
            points = self.rows.setdefault(one.name, [])
            points.append(_point(one, state))
            if len(points) > self._most:
                points[:] = _thinned(points)


def _point(one: LayerState, state: State) -> Point:
    at, since = state.written, one.in_flight_since
    is_hung = watching.is_hung(one, state.interval, at)
    waits = at - since if since is not None and is_hung else None
    if one.figures is None:
        return Point(at, waits=waits)
    found = one.figures
    last = found.last if one.problem is None or one.is_error else None
    return Point(at, last, found.davg, found.emin, found.emax, waits)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Of two the higher one."""
    return [
        max(points[place : place + 2], key=lambda one: one.height)
        for place in range(0, len(points), 2)
    ]
