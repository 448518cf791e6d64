"""Gives up a step that stands still. No fixed time: what is allowed follows from what was measured.

Silence is allowed for as long as the step has moved so far (a slapadd that loaded for an hour may sync for an
hour), or many times the longest pause it made, whichever is longer; never less than a floor below which a pause says
nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loader import units
from loader.defaults import SILENCE_FACTOR, SILENCE_FLOOR
from loader.errors import StepTimeout
from loader.progress import Meter


class Watch:
    """Looks at one meter; `error` is set once the step was given up."""

    def __init__(self, meter: Meter, allowed: float | None) -> None:
        self._meter = meter
        self._fixed = allowed
        self._seen: tuple[object, ...] = (0, 0, "", 0, 0)
        self._moved = time.monotonic()
        self._longest = 0.0
        self.error: StepTimeout | None = None

    def allowed(self) -> tuple[float, str]:
        """Seconds of silence allowed now, and why."""
        if self._fixed is not None:
            return self._fixed, "set with --timeout"
        moving = self._moved - self._meter.started
        if moving >= max(self._longest * SILENCE_FACTOR, SILENCE_FLOOR):
            return moving, "as long as it moved before"
        pauses = self._longest * SILENCE_FACTOR
        return max(pauses, SILENCE_FLOOR), f"longest pause before {units.duration(self._longest)}"

    def look(self) -> bool:
        """Whether the step has moved since the look before."""
        now = time.monotonic()
        seen = self._meter.moved
        if seen != self._seen:
            self._longest = max(self._longest, now - self._moved)
            self._seen, self._moved = seen, now
            return True
        allowed, why = self.allowed()
        if now - self._moved > allowed and self.error is None:
            silent, limit = units.duration(now - self._moved), units.duration(allowed)
            self.error = StepTimeout(step=self._meter.name, silent=silent, allowed=limit, why=why)
            self._meter.cancel()
        return False


@contextmanager
def watching(
    meter: Meter, allowed: float | None, moved: Callable[[], None] | None = None
) -> Iterator[None]:
    """Run the body under a watch, which calls `moved` about once a second while the step moves; StepTimeout replaces
    whatever error the cancelling caused."""
    watch, ended = Watch(meter, allowed), threading.Event()

    def loop() -> None:
        while not ended.wait(min(1.0, (allowed or 1.0) / 4)):
            if watch.look() and moved is not None:
                moved()

    watcher = threading.Thread(target=loop, daemon=True)
    watcher.start()
    try:
        yield
    except BaseException as error:
        if watch.error is not None and isinstance(error, Exception):
            raise watch.error from error
        raise
    finally:
        ended.set()
        watcher.join()
