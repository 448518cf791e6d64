"""What the steps of a run did over time, kept in memory for its report; how much is kept does not grow with the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from loader.progress.meter import Meter

MOST = 1000  # points between the first and the last one of each step
FIRST_INTERVAL = 0.05  # seconds between two points; twice as many whenever there are too many
DONE, FAILED, DONE_BEFORE = "done", "failed", "done before"


@dataclass(frozen=True)
class Point:
    """at: seconds since the run began."""

    at: float
    entries: int
    bytes: int


@dataclass
class StepRecord:
    """`begun`: seconds since the run began. A step that failed has what it had counted when it was last looked at."""

    name: str
    begun: float
    seconds: float = 0.0
    entries: int = 0
    bytes: int = 0
    state: str = FAILED
    points: list[Point] = field(default_factory=list)


class Recorder:
    """Looks at the meters of all steps, which may run beside each other."""

    def __init__(self, interval: float = FIRST_INTERVAL, most: int = MOST) -> None:
        self.began = time.time()
        self.steps: list[StepRecord] = []
        self._started = time.monotonic()
        self._interval, self._most = interval, most
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @contextmanager
    def following(self, meter: Meter) -> Iterator[None]:
        """Record the step of that meter while it runs."""
        step, ended = self._begun(meter.name, meter.started - self._started), threading.Event()
        watcher = threading.Thread(target=self._watch, args=(step, meter, ended), daemon=True)
        watcher.start()
        try:
            yield
            step.state = DONE
        finally:
            step.seconds = meter.seconds
            ended.set()
            watcher.join()
            if step.state == DONE:  # what a failed call counted has been taken back
                self.look(step, meter)
            step.entries, step.bytes = step.points[-1].entries, step.points[-1].bytes

    def passed_over(self, name: str) -> None:
        """An earlier run did that step."""
        self._begun(name, self.seconds).state = DONE_BEFORE

    def _begun(self, name: str, begun: float) -> StepRecord:
        step = StepRecord(name, begun)
        step.points.append(Point(step.begun, 0, 0))
        with self._lock:
            self.steps.append(step)
        return step

    def _watch(self, step: StepRecord, meter: Meter, ended: threading.Event) -> None:
        while not ended.wait(self._interval):
            self.look(step, meter)

    def look(self, step: StepRecord, meter: Meter) -> None:
        """Another point."""
        point = Point(self.seconds, meter.entries, meter.bytes)
        with self._lock:
            step.points.append(point)
            if sum(max(0, len(one.points) - 2) for one in self.steps) > self._most:
                self._thin()

    def _thin(self) -> None:
        self._interval *= 2
        for one in self.steps:
            one.points[1:-1] = one.points[2:-1:2]
