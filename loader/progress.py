"""Displays the progress of a run (work done, rate, time left) on a terminal, as lines, or as JSON.

A step passes its `Meter` to the functions that do the work. Native calls count entries and bytes in `Counters`, and the
meter adds up these counts. Another thread reads the meter at intervals, so no function here runs for every entry.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TextIO

from msgspec import Struct, structs

from loader import log, plain, units

RECENT = 10.0  # seconds over which the recent rate is averaged
WIDTH = 80  # columns of a terminal
SCHEMA_VERSION = 1  # version of the JSON records
_log = logging.getLogger(__name__)

WholeFile = tuple[str, int, str]  # path, bytes and XXH3 (128 bits) of a file that was read to its end


class Counting(Protocol):
    """The counts of a running native call (loader._native.Counters)."""

    @property
    def entries(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> Sequence[WholeFile]: ...
    @property
    def open_ends(self) -> Sequence[str]: ...
    def cancel(self) -> None: ...


class Staged(Protocol):
    """A native call that works in several stages after it has read its entries."""

    @property
    def stage(self) -> tuple[str, int, int]:
        """Name of the current stage, number of finished parts, and number of all parts (0: unknown)."""


@contextmanager
def alongside(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `watch` in a thread while the body runs. The end of the body sets the event that `watch` gets."""
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(ended,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@dataclass
class Meter:
    """The work that a step has done. `total`, `size`: entries and bytes to process; None: unknown."""

    name: str
    total: int | None = None
    size: int | None = None
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    files: list[WholeFile] = field(default_factory=list)  # LDIF files read by native calls
    open_ends: list[str] = field(default_factory=list)  # paths of LDIF files whose last line has no newline
    _entries: int = 0
    _bytes: int = 0
    _running: list[Counting] = field(default_factory=list)
    _staged: Staged | None = None
    _cancels: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def add(self, entries: int = 0, size: int = 0) -> None:
        with self._lock:
            self._entries += entries
            self._bytes += size

    @contextmanager
    def counting(self, counters: Counting) -> Iterator[None]:
        """Adds the counts of the native call in the body to this meter; if the call fails, subtracts them again."""
        with self._lock:
            self._running.append(counters)
        if self.cancelled.is_set():
            counters.cancel()
        succeeded = False
        try:
            yield
            succeeded = True
        finally:
            with self._lock:
                self._running.remove(counters)
                if succeeded:
                    self._entries += counters.entries
                    self._bytes += counters.bytes
                    self.files += counters.files
                    self.open_ends += counters.open_ends

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Calls `cancel`, which kills a child or closes a connection, if the step is cancelled while the body runs."""
        self._cancels.append(cancel)
        if self.cancelled.is_set():
            cancel()
        try:
            yield
        finally:
            self._cancels.remove(cancel)

    def cancel(self) -> None:
        """Cancels the step: ends its running calls, and all calls that begin later."""
        self.cancelled.set()
        for cancel in [*(counters.cancel for counters in list(self._running)), *self._cancels]:
            cancel()

    @property
    def entries(self) -> int:
        with self._lock:
            return self._entries + sum(counters.entries for counters in self._running)

    @property
    def bytes(self) -> int:
        with self._lock:
            return self._bytes + sum(counters.bytes for counters in self._running)

    @contextmanager
    def following(self, staged: Staged) -> Iterator[None]:
        """Shows the stages of a native call while the body runs."""
        self._staged = staged
        try:
            yield
        finally:
            self._staged = None

    @property
    def stage(self) -> tuple[str, int, int]:
        return self._staged.stage if self._staged else ("", 0, 0)

    @property
    def status(self) -> str:
        """The note; without a note, the current stage with its percentage."""
        name, done, total = self.stage
        return self.note or (f"{name} {done / total:.0%}" if total else name)

    @property
    def mark(self) -> tuple[object, ...]:
        """A value that changes whenever the step makes progress."""
        return self.entries, self.bytes, *self.stage

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Sample(Struct, frozen=True):
    """State of a meter. `recent` and `average`: entries per second over RECENT seconds, and over the whole step."""

    step: str
    note: str
    entries: int
    bytes: int
    seconds: float
    recent: float
    average: float
    total: int | None
    size: int | None = None

    @property
    def left(self) -> float | None:
        """Estimated seconds left at the average rate; None if unknown."""
        if self.size and self.bytes:
            return max(0.0, (self.size - self.bytes) * self.seconds / self.bytes)
        if not self.total or not self.average:
            return None
        return max(0.0, (self.total - self.entries) / self.average)

    def _facts(self) -> Iterator[str]:
        """Yields the known counts, rates and time left, as texts."""
        if self.bytes and not self.entries and not self.total:  # the step counts bytes instead of entries
            of = f" of {units.size(self.size)} ({min(1.0, self.bytes / self.size):.0%})" if self.size else ""
            yield units.size(self.bytes) + of
            yield f"{units.size(self.bytes / self.seconds if self.seconds > 0 else 0.0)}/s on average"
        else:
            if self.total:
                part = min(1.0, self.entries / self.total)
                yield f"{units.brief(self.entries)} of {units.brief(self.total)} ({part:.0%})"
            else:
                yield f"{units.brief(self.entries)} entries"
            yield f"{units.brief(self.recent)}/s"
            yield f"average {units.brief(self.average)}/s"
        if self.left is not None:
            yield f"{units.duration(self.left)} left"

    def lines(self) -> list[str]:
        """Returns the counts and the note as lines of at most WIDTH columns; a long note gets its own lines."""
        note = plain.sentence(self.note)
        indent, counts = "  ", f"{plain.sentence(self.step)}: {', '.join(self._facts())}"
        together = f"{counts} [{note}]"
        if note and len(together) <= WIDTH:
            return [together]
        return [
            *textwrap.wrap(counts, WIDTH, subsequent_indent=indent),
            *textwrap.wrap(note, WIDTH, initial_indent=indent, subsequent_indent=indent),
        ]

    def record(self) -> str:
        return _json("progress", **structs.asdict(self), left=self.left)


def _json(event: str, **facts: object) -> str:
    return json.dumps({"schema_version": SCHEMA_VERSION, "event": event, **facts})


def samples_of(meter: Meter) -> Iterator[Sample]:
    """Yields the present state of the meter, again and again."""
    history: deque[tuple[float, int]] = deque([(0.0, 0)])  # seconds since the start of the step, entries
    while True:
        seconds, entries = meter.seconds, meter.entries
        history.append((seconds, entries))
        while len(history) > 2 and history[1][0] < seconds - RECENT:
            history.popleft()
        since, before = history[0]
        # A failed native call lowers the count.
        recent = max(0.0, (entries - before) / (seconds - since)) if seconds > since else 0.0
        average = entries / seconds if seconds > 0 else 0.0
        yield Sample(meter.name, meter.status, entries, meter.bytes, seconds, recent, average, meter.total, meter.size)


# --- the history of a run's steps, for its report --------------------------------------------------

MOST = 1000  # maximum number of points of all steps together, not counting the first and the last point of each step
FIRST_INTERVAL = 0.05  # seconds between two points at first; more than MOST points double the interval
DONE, FAILED, DONE_BEFORE = "done", "failed", "done before"


class Point(Struct, frozen=True):
    """Counts of a step at one time. `at`: seconds since the start of the run."""

    at: float
    entries: int
    bytes: int


class StepRecord(Struct):
    """The history of one step. `begun`: seconds between the start of the run and the start of the step."""

    name: str
    begun: float
    seconds: float = 0.0
    entries: int = 0
    bytes: int = 0
    state: str = FAILED
    points: list[Point] = []


class Recorder:
    """Records the meters of all steps in bounded memory. Steps can run in parallel."""

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
        """Records the step of `meter` while the body runs."""
        step = self._new_step(meter.name, meter.started - self._started)

        def watch(ended: threading.Event) -> None:
            while not ended.wait(self._interval):
                self.add_point(step, meter)

        try:
            with alongside(watch):
                try:
                    yield
                finally:
                    step.seconds = meter.seconds
            self.add_point(step, meter)
            step.state = DONE
        finally:
            step.entries, step.bytes = step.points[-1].entries, step.points[-1].bytes

    def skipped(self, name: str) -> None:
        """Records a step that an earlier run has completed."""
        self._new_step(name, self.seconds).state = DONE_BEFORE

    def _new_step(self, name: str, begun: float) -> StepRecord:
        step = StepRecord(name, begun, points=[Point(begun, 0, 0)])
        with self._lock:
            self.steps.append(step)
        return step

    def add_point(self, step: StepRecord, meter: Meter) -> None:
        """Adds a point. If this makes too many points, drops every second point of all steps."""
        point = Point(self.seconds, meter.entries, meter.bytes)
        with self._lock:
            step.points.append(point)
            if sum(max(0, len(recorded.points) - 2) for recorded in self.steps) > self._most:
                self._interval *= 2
                for recorded in self.steps:
                    recorded.points[1:-1] = recorded.points[2:-1:2]


# --- display for people and programs ---------------------------------------------------------------


class Progress:
    """Displays the steps of a run. `mode`: "terminal", "plain", "json" or "none"; "auto" depends on the stream.
    `recorder`: records the steps in every mode."""

    def __init__(self, mode: str = "auto", stream: TextIO | None = None, recorder: Recorder | None = None) -> None:
        self._recorder = recorder
        self._stream = stream or sys.stderr
        self._open_ends: set[str] = set()  # files that were reported because their last line has no newline
        if mode == "auto":
            moves_cursor = self._stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
            mode = "terminal" if moves_cursor else "plain"
        self._mode = mode
        self._every = {"terminal": 0.25, "json": 1.0}.get(mode, 15.0)  # seconds between two updates

    @contextmanager
    def step(self, name: str, total: int | None = None, size: int | None = None) -> Iterator[Meter]:
        meter = Meter(name, total, size)
        _log.info("%s: started", name)
        recording = self._recorder.following(meter) if self._recorder else nullcontext()
        display = nullcontext() if self._mode == "none" else alongside(partial(self._watch, meter))
        with recording, display:
            yield meter
        self._close(meter)

    def skipped(self, name: str) -> None:
        """Reports a step that an earlier run has completed."""
        if self._recorder:
            self._recorder.skipped(name)
        self.say(f"{name}: done before")

    def say(self, text: str) -> None:
        """Logs a line, and prints it in the modes "terminal" and "plain"."""
        _log.info("%s", plain.with_operator_paths(text), extra=log.SHOWN if self._mode != "none" else None)
        if self._mode in ("terminal", "plain"):
            self._print(plain.shortened(plain.with_operator_paths(text), plain.WHOLE))

    def _print(self, *lines: str) -> None:
        print("\n".join(lines), file=self._stream, flush=True)

    def _watch(self, meter: Meter, ended: threading.Event) -> None:
        samples = samples_of(meter)
        if self._mode == "terminal":
            if ended.wait(self._every):
                return  # a short step displays nothing
            # Imported here, because importing rich takes longer than a small build.
            from rich.console import Console, Group
            from rich.live import Live
            from rich.progress_bar import ProgressBar
            from rich.text import Text

            with Live(console=Console(file=self._stream), transient=True, auto_refresh=False) as live:
                while True:
                    sample = next(samples)
                    text = Text("\n".join(sample.lines()))
                    total, done = (sample.size, sample.bytes) if sample.size else (sample.total, sample.entries)
                    bar = [ProgressBar(total, min(done, total))] if total else []
                    live.update(Group(text, *bar), refresh=True)
                    if ended.wait(self._every):
                        return
        while not ended.wait(self._every):
            sample = next(samples)
            self._print(*([sample.record()] if self._mode == "json" else sample.lines()))

    def _close(self, meter: Meter) -> None:
        for path in dict.fromkeys(meter.open_ends):
            if path not in self._open_ends:
                self._open_ends.add(path)
                self.say(f"{path}: note: the last line has no newline; ditseed reads it as slapadd does")
        for path, size, _ in meter.files:
            _log.info("%s: read %s (%s)", meter.name, plain.with_operator_paths(path), units.size(size))
        if self._mode == "json":
            self._print(_json("step", step=meter.name, entries=meter.entries, seconds=meter.seconds))
        speed = f", {units.rate(meter.entries, meter.seconds)}" if meter.entries else ""
        count = f"{units.number(meter.entries)} entries in " if meter.entries else ""
        self.say(f"{meter.name}: {count}{units.duration(meter.seconds)}{speed}")
