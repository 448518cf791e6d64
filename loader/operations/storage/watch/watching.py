"""The watch itself: probes of all targets at one pace, each a thread of its own, so that one that hangs stops no other;
and what is known after each round."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Annotated

import msgspec
from click import FloatRange, IntRange

from loader.declared import Duration
from loader.errors import LoaderError, chain
from loader.operations.storage.watch import verdict
from loader.operations.storage.watch.layers import Layer, Target, of_layer
from loader.operations.storage.watch.verdict import Errors, LayerState, State, Timing, Watcher, is_hung
from loader.storage import probes
from loader.storage.probes import Timed, Unmeasurable

Outcome = tuple[float | None, str | None, bool]  # as the last three of Sample
_AGAIN = 60.0  # seconds
_DEAD = (errno.EIO, errno.ENXIO, errno.ENODEV)  # of a device that cannot be opened
_OPENING = 5.0  # seconds that all layers together may take to be opened before the first round begins without them


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
        self.notes = probes.claim()
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
            return (None, said if is_read else f"it cannot be opened: {said}", is_read or _is_dead(error))
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


@dataclass(frozen=True)
class Wishes:
    """Seconds. `window`: of how many reads davg and dstd_dev are. `samples`: rounds, None: until it is ended."""

    interval: Annotated[float, "--interval SECONDS", FloatRange(0.05), "Time between two reads of a layer."] = 3.0
    window: Annotated[int, IntRange(2), "Number of reads that davg and dstd_dev are of."] = 100
    half_life: Annotated[
        float, "--half-life TIME", Duration(), {"default": "5m"}, "Half-life with which emin and emax are released."
    ] = 300.0
    samples: Annotated[int | None, IntRange(1), "End after that many rounds (default: never)."] = None


class _Record:
    """What came from one probe so far."""

    def __init__(self, probe: Probe, wishes: Wishes) -> None:
        self._probe = probe
        self.timing = Timing(wishes.window, wishes.half_life, wishes.interval)
        self._errors = Errors(wishes.window, wishes.half_life)
        self._measured: float | None = None
        self._interval = wishes.interval
        self._reads = self._unmeasured = 0
        self._late = 0.0
        self._problem: str | None = None
        self._is_error = False

    def take(self, sample: Sample) -> None:
        self._late = max(self._late, sample.late)
        self._problem, self._is_error = sample.problem, sample.is_error
        self._errors.take(sample.at, sample.problem if sample.is_error else None)
        if sample.seconds is None:
            self._unmeasured += 1
        else:
            self._reads += 1
            self._measured = sample.at
            self.timing.add(sample.round, sample.at, sample.seconds)

    def state(self) -> LayerState:
        probe, begun = self._probe, self._probe.begun
        now, moment = time.monotonic(), time.time()
        flight = 0.0 if begun is None else now - begun
        errors, failed = self._errors.held(now)
        return LayerState(
            name=probe.layer.name,
            path=probe.layer.path,
            on=probe.layer.on,
            size=probe.size,
            figures=self.timing.figures(),
            reads=self._reads,
            unmeasured=self._unmeasured,
            missed=probe.missed + int(flight // self._interval),
            late=self._late,
            in_flight_since=None if begun is None else moment - flight,
            problem=self._problem,
            is_error=self._is_error,
            notes=probe.notes,
            limit=probe.target.limit,
            measured=None if self._measured is None else moment - (now - self._measured),
            failed=self._errors.total,
            errors=errors,
            error=self._errors.last,
            failed_at=None if failed is None else moment - (now - failed),
        )


class Watch:
    """Probes of these layers, and of what is timed beside them; a context manager."""

    def __init__(self, layers: Sequence[Layer], wishes: Wishes, beside: Sequence[Target] = ()) -> None:
        self._layers, self._wishes = layers, wishes
        self._watcher = Watcher.own()
        self._results: SimpleQueue[Sample] = SimpleQueue()
        all_of_them = [*map(of_layer, layers), *beside]
        step = wishes.interval / (len(all_of_them) + 1)  # one after the other: none waits for another
        self._probes = [Probe(one, step * place, self._results) for place, one in enumerate(all_of_them, 1)]
        self._records = {one.layer.name: _Record(one, wishes) for one in self._probes}

    def __enter__(self) -> Watch:
        for probe in self._probes:
            probe.start()
        return self

    def __exit__(self, *_: object) -> None:
        for probe in self._probes:
            probe.end()

    def rounds(self) -> Iterator[State]:
        """What is known after each."""
        until = time.monotonic() + _OPENING
        for probe in self._probes:
            probe.ready.wait(max(0.0, until - time.monotonic()))
        pace = Pace(time.monotonic(), self._wishes.interval)
        for probe in self._probes:
            probe.begin(pace)
        number = 0
        while number != self._wishes.samples:
            number = max(number + 1, pace.next_round(0.0))
            number = min(number, self._wishes.samples or number)
            _sleep_until(pace.at(number))
            if number == self._wishes.samples:
                self._let_end()
            self._take()
            yield self._state(number)

    def _let_end(self) -> None:
        """What is under way, for up to an interval."""
        for probe in self._probes:
            probe.end()
        until = time.monotonic() + self._wishes.interval
        for probe in self._probes:
            probe.join(max(0.0, until - time.monotonic()))

    def _take(self) -> None:
        while True:
            try:
                sample = self._results.get_nowait()
            except Empty:
                return
            self._records[sample.layer].take(sample)

    def _state(self, number: int) -> State:
        states = tuple(one.state() for one in self._records.values())
        now, count = time.time(), len(self._layers)
        layers, beside = states[:count], states[count:]
        times = {name: one.timing.recent for name, one in self._records.items()}
        found = verdict.verdict(self._layers, times)
        failing = [one.name for one in layers if one.errors]
        told = [verdict.told(found, self._hung(layers, now), failing)]
        told += [f"{name} does not end" for name in self._hung(beside, now)]
        told += [f"{one.name} fails" for one in beside if one.errors]
        told += verdict.slow_probes([one.name for one in beside], [one.name for one in layers], times)
        interval = self._wishes.interval
        return State(now, interval, number, layers, found, "; ".join(told), beside, self._watcher)

    def _hung(self, states: Sequence[LayerState], now: float) -> list[str]:
        return [one.name for one in states if is_hung(one, self._wishes.interval, now)]


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
