"""One layer, read at its pace by a thread of its own: one that hangs stops no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import msgspec

from loader.errors import LoaderError
from loader.operations.storage.watch.layers import Layer
from loader.storage import direct, realtime
from loader.storage.direct import Reader, Unmeasurable

Outcome = tuple[float | None, str | None, bool]  # as the last three of Sample
_AGAIN = 60.0  # seconds
_CACHED = "the read came from a cache: the kernel fetched nothing from a device for it"


class Pace(msgspec.Struct, frozen=True):
    """Round n begins at `start` + n * `interval` (seconds, monotonic)."""

    start: float
    interval: float

    def next_round(self, phase: float) -> int:
        """The first one that is still to come, or comes now; `phase`: seconds after its beginning."""
        return max(0, int((time.monotonic() - self.start - phase) // self.interval) + 1)

    def at(self, number: int) -> float:
        return self.start + number * self.interval


class Sample(msgspec.Struct, frozen=True):
    """`at`: its end, monotonic. `late`: seconds between its planned and its real beginning.

    `seconds`: None where nothing was measured, for the reason in `problem`; `is_error`: a read failed.
    """

    layer: str
    round: int
    at: float
    late: float
    seconds: float | None = None
    problem: str | None = None
    is_error: bool = False


class Probe(threading.Thread):
    """`phase`: seconds after the beginning of a round. Puts its samples into `results`, once `begin` is called.

    `size`: bytes of a read, None before the first; `notes`: what of it is not as asked, and why.
    `begun`: when the read that is under way began (monotonic), or None. `missed`: rounds that passed during a read.
    `ready`: the layer is open, or it is known why not.
    """

    def __init__(self, layer: Layer, phase: float, results: SimpleQueue[Sample]) -> None:
        super().__init__(name=f"probe of {layer.name}", daemon=True)
        self.layer = layer
        self.size: int | None = None
        self.notes: tuple[str, ...] = ()
        self.begun: float | None = None
        self.missed = 0
        self.ready = threading.Event()
        self._phase, self._results = phase, results
        self._pace: SimpleQueue[Pace | None] = SimpleQueue()
        self._ended = threading.Event()
        self._reader: Reader | None = None
        self._unopened: Outcome = None, None, False
        self._try_again = 0.0

    def begin(self, pace: Pace) -> None:
        self._pace.put(pace)

    def end(self) -> None:
        """After the read that is under way."""
        self._ended.set()
        self._pace.put(None)

    def run(self) -> None:
        self.notes = realtime.claim()
        self._try_to_open()
        self.ready.set()
        pace = self._pace.get()
        if pace is not None:
            self._go_on(pace)
        if self._reader is not None:
            self._reader.close()

    def _go_on(self, pace: Pace) -> None:
        number = 0
        while True:
            planned = pace.at(number) + self._phase
            if self._ended.wait(max(0.0, planned - time.monotonic())):
                return
            late = time.monotonic() - planned
            outcome = self._outcome()
            self._results.put(Sample(self.layer.name, number, time.monotonic(), late, *outcome))
            following = max(number + 1, pace.next_round(self._phase))
            self.missed += following - number - 1
            number = following

    def _outcome(self) -> Outcome:
        if self._reader is None and time.monotonic() >= self._try_again:
            self._try_to_open()
        return self._unopened if self._reader is None else self._tried(self._read)

    def _try_to_open(self) -> None:
        """Seldom, for it may write a file."""
        self._unopened = self._tried(self._open)
        self._try_again = time.monotonic() + _AGAIN

    def _tried(self, work: Callable[[], Outcome]) -> Outcome:
        self.begun = time.monotonic()
        try:
            return work()
        except (Unmeasurable, LoaderError) as error:
            return None, str(error), False
        except OSError as error:
            return None, error.strerror or str(error), self._reader is not None
        finally:
            self.begun = None

    def _open(self) -> Outcome:
        reader = direct.opened(Path(self.layer.path))
        self._reader, self.size = reader, reader.size
        self.notes += (reader.note,) if reader.note else ()
        return None, None, False

    def _read(self) -> Outcome:
        assert self._reader is not None
        found = self._reader.read()
        return (found.seconds, None, False) if found.is_fetched else (None, _CACHED, False)
