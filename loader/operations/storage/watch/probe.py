"""One target, timed at its pace by a thread of its own: one that hangs stops no other."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import msgspec

from loader.errors import LoaderError, chain
from loader.operations.storage.watch.targets import Target
from loader.storage import realtime
from loader.storage.timed import Timed, Unmeasurable

Outcome = tuple[float | None, str | None, bool]  # as the last three of Sample
_AGAIN = 60.0  # seconds
_DEAD = (errno.EIO, errno.ENXIO, errno.ENODEV)  # of a device that cannot be opened


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

    `seconds`: None where nothing was measured, for the reason in `problem`; `is_error`: it failed, or took too long.
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
    `ready`: the target is open, or it is known why not.
    """

    def __init__(self, target: Target, phase: float, results: SimpleQueue[Sample]) -> None:
        super().__init__(name=f"probe of {target.layer.name}", daemon=True)
        self.target, self.layer = target, target.layer
        self.size: int | None = None
        self.notes: tuple[str, ...] = ()
        self.begun: float | None = None
        self.missed = 0
        self.ready = threading.Event()
        self._phase, self._results = phase, results
        self._pace: SimpleQueue[Pace | None] = SimpleQueue()
        self._ended = threading.Event()
        self._timed: Timed | None = None
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
        if self._timed is not None:
            self._timed.close()

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
        if self._timed is None and time.monotonic() >= self._try_again:
            self._try_to_open()
        return self._unopened if self._timed is None else self._tried(self._once)

    def _try_to_open(self) -> None:
        """Seldom, for it may write a file."""
        self._unopened = self._tried(self._open)
        self._try_again = time.monotonic() + _AGAIN

    def _tried(self, work: Callable[[], Outcome]) -> Outcome:
        self.begun = time.monotonic()
        try:
            return work()
        except Unmeasurable as error:
            return None, str(error), False
        except (LoaderError, OSError) as error:
            is_read = self._timed is not None
            said = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return (
                None,
                said if is_read else f"it cannot be opened: {said}",
                is_read or _is_dead(error),
            )
        finally:
            self.begun = None

    def _open(self) -> Outcome:
        timed = self.target.open()
        self._timed, self.size = timed, timed.size
        self.notes += (timed.note,) if timed.note else ()
        return None, None, False

    def _once(self) -> Outcome:
        assert self._timed is not None
        seconds, limit = self._timed.once(), self.target.limit
        if limit is None or seconds <= limit:
            return seconds, None, False
        return seconds, f"it took {seconds:.1f} s, which is over {limit:g} s", True


def _is_dead(error: Exception) -> bool:
    return any(isinstance(one, OSError) and one.errno in _DEAD for one in chain(error))
