"""The watch itself: probes of all targets at one pace, and what is known after each round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue

import msgspec

from loader.operations.storage.watch import symptoms, targets, verdict
from loader.operations.storage.watch.layers import Layer
from loader.operations.storage.watch.probe import Pace, Probe, Sample
from loader.operations.storage.watch.state import LayerState, State, Watcher
from loader.operations.storage.watch.targets import Target
from loader.operations.storage.watch.timing import Errors, Timing

_OPENING = 5.0  # seconds that all layers together may take to be opened before the first round begins without them
HUNG = 2  # intervals: a read that began within one after the device stopped is told before three have passed


class Wishes(msgspec.Struct, frozen=True):
    """Seconds. `window`: of how many reads davg and dstd_dev are. `samples`: rounds, None: until it is ended."""

    interval: float = 3.0
    window: int = 100
    half_life: float = 300.0
    samples: int | None = None


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

    def __init__(
        self, layers: Sequence[Layer], wishes: Wishes, beside: Sequence[Target] = ()
    ) -> None:
        self._layers, self._wishes = layers, wishes
        self._watcher = Watcher.own()
        self._results: SimpleQueue[Sample] = SimpleQueue()
        all_of_them = [*map(targets.of, layers), *beside]
        step = wishes.interval / (
            len(all_of_them) + 1
        )  # one after the other: none waits for another
        self._probes = [
            Probe(one, step * place, self._results) for place, one in enumerate(all_of_them, 1)
        ]
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
        told += symptoms.told([one.name for one in beside], [one.name for one in layers], times)
        interval = self._wishes.interval
        return State(
            now,
            interval,
            number,
            layers,
            found,
            "; ".join(told),
            beside,
            self._watcher,
        )

    def _hung(self, states: Sequence[LayerState], now: float) -> list[str]:
        return [one.name for one in states if is_hung(one, self._wishes.interval, now)]


def is_hung(layer: LayerState, interval: float, now: float) -> bool:
    if layer.in_flight_since is None:
        return False
    patience = HUNG * interval
    if layer.limit is not None:
        patience = min(patience, layer.limit)
    return now - layer.in_flight_since >= patience


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
