"""The work that one step has done so far, entries and bytes, also of native calls that are running; and the sample of
it that is shown: how much, how fast, how long still."""

from __future__ import annotations

import json
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from loader import plain, units

WholeFile = tuple[str, int, str]  # path, bytes and XXH3 of 128 bits of a file that was read to its end


class Counting(Protocol):
    """What a running native call offers (loader._native.Counters)."""

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
    """A native call that goes on when its entries are read."""

    @property
    def stage(self) -> tuple[str, int, int]:
        """Its name, and how many of how many parts are done; 0 where nobody knows."""


@dataclass
class Meter:
    """Work done so far in one step. `total` is in entries, None while unknown."""

    name: str
    total: int | None = None
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    files: list[WholeFile] = field(default_factory=list)  # LDIF that native calls have read
    open_ends: list[str] = field(default_factory=list)  # those of them whose last line had no end
    _base: int = 0
    _bytes: int = 0
    _watched: list[Counting] = field(default_factory=list)
    _staged: Staged | None = None
    _cancels: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def add(self, entries: int = 0, size: int = 0) -> None:
        with self._lock:
            self._base += entries
            self._bytes += size

    @contextmanager
    def counting(self, counters: Counting) -> Iterator[None]:
        """Add up `counters` while a native call runs; what a failed call counted is taken back."""
        with self._lock:
            self._watched.append(counters)
        if self.cancelled.is_set():
            counters.cancel()
        try:
            yield
        except BaseException:
            with self._lock:
                self._watched.remove(counters)
            raise
        with self._lock:
            self._watched.remove(counters)
            self._base += counters.entries
            self._bytes += counters.bytes
            self.files += counters.files
            self.open_ends += counters.open_ends

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Call `cancel` should the step be given up meanwhile (kill a child, shut a connection)."""
        self._cancels.append(cancel)
        if self.cancelled.is_set():
            cancel()
        try:
            yield
        finally:
            self._cancels.remove(cancel)

    def cancel(self) -> None:
        """The step is given up: end what runs, and what is begun after this."""
        self.cancelled.set()
        for counters in list(self._watched):
            counters.cancel()
        for cancel in list(self._cancels):
            cancel()

    @property
    def entries(self) -> int:
        with self._lock:
            return self._base + sum(counters.entries for counters in self._watched)

    @property
    def bytes(self) -> int:
        with self._lock:
            return self._bytes + sum(counters.bytes for counters in self._watched)

    @contextmanager
    def following(self, staged: Staged) -> Iterator[None]:
        """Tell of the stages of a native call while it runs."""
        self._staged = staged
        try:
            yield
        finally:
            self._staged = None

    @property
    def stage(self) -> tuple[str, int, int]:
        return self._staged.stage if self._staged else ("", 0, 0)

    @property
    def noted(self) -> str:
        """The note, or the stage and how far it is."""
        name, done, total = self.stage
        return self.note or (f"{name} {done / total:.0%}" if total else name)

    @property
    def moved(self) -> tuple[object, ...]:
        """Other than before whenever something was done."""
        return self.entries, self.bytes, *self.stage

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


# --- sample ----------------------------------------------------------------------------------------------------------
#
# One look at a meter: how much, how fast (recent and average), how long still; as lines and as JSON.


RECENT = 10.0  # seconds that the recent rate looks back
WIDTH = 80  # columns of a terminal
SCHEMA_VERSION = 1  # of the JSON records


@dataclass(frozen=True)
class Sample:
    """One look at a meter."""

    step: str
    note: str
    entries: int
    bytes: int
    seconds: float
    recent: float  # entries/s over the last RECENT seconds
    average: float  # entries/s since the step began
    total: int | None

    @property
    def left(self) -> float | None:
        """Seconds still to go by the average rate."""
        if not self.total or not self.average:
            return None
        return max(0.0, (self.total - self.entries) / self.average)

    def lines(self) -> list[str]:
        """What was done, how fast, how long still, and the note, below it where it is long; none wider than WIDTH."""
        indent, done, note = "  ", self._done(), plain.sentence(self.note)
        together = f"{done} [{note}]"
        if note and len(together) <= WIDTH:
            return [together]
        return [
            *textwrap.wrap(done, WIDTH, subsequent_indent=indent),
            *textwrap.wrap(note, WIDTH, initial_indent=indent, subsequent_indent=indent),
        ]

    def _done(self) -> str:
        if self.bytes and not self.entries and not self.total:
            return f"{self.step}: {self._bytes_moved()}"
        count = f"{units.brief(self.entries)} entries"
        if self.total:
            done = min(1.0, self.entries / self.total)
            count = f"{units.brief(self.entries)} of {units.brief(self.total)} ({done:.0%})"
        speed = f"{units.brief(self.recent)}/s, average {units.brief(self.average)}/s"
        left = "" if self.left is None else f", {units.duration(self.left)} left"
        return f"{self.step}: {count}, {speed}{left}"

    def _bytes_moved(self) -> str:
        """Of a step that moves bytes and knows of no entries."""
        average = self.bytes / self.seconds if self.seconds > 0 else 0.0
        return f"{units.size(self.bytes)}, {units.size(average)}/s on average"

    def record(self) -> str:
        facts = {"schema_version": SCHEMA_VERSION, "event": "progress", **self.__dict__, "left": self.left}
        return json.dumps(facts)


class Sampler:
    """Turns looks at one meter into samples with a recent rate."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])

    def look(self) -> Sample:
        seconds, entries = self._meter.seconds, self._meter.entries
        self._seen.append((seconds, entries))
        while len(self._seen) > 2 and self._seen[1][0] < seconds - RECENT:
            self._seen.popleft()
        since, before = self._seen[0]
        return Sample(
            step=self._meter.name,
            note=self._meter.noted,
            entries=entries,
            bytes=self._meter.bytes,
            seconds=seconds,
            # What a failed native call had counted is taken back.
            recent=max(0.0, (entries - before) / (seconds - since)) if seconds > since else 0.0,
            average=entries / seconds if seconds > 0 else 0.0,
            total=self._meter.total,
        )
