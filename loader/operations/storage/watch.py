"""`storage watch`: reads the file system and every device below a path (the layers) at regular intervals, and runs
probes. Each layer and probe has a thread of its own, so that a read that hangs delays no other."""

from __future__ import annotations

import errno
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from loader.errors import LoaderError, UsageProblem, chain
from loader.operations.options import PROBES, WatchOptions
from loader.operations.storage import check, verdict
from loader.operations.storage.verdict import Layer, LayerState, Readings, State, is_hung
from loader.storage import files, mounts, probes, survey
from loader.storage.mounts import Mount
from loader.storage.probes import FileLock, TimedProbe, Unmeasurable, Writer
from loader.storage.survey import Device

_PROBES: dict[str, Callable[[Path], TimedProbe]] = dict(zip(PROBES, (FileLock, Writer), strict=True))
_LIMIT = 3.0  # seconds; a probe that takes longer has failed
_DIGITS = "0123456789"
_RETRY = 60.0  # seconds between two attempts to open a target
_DEAD = (errno.EIO, errno.ENXIO, errno.ENODEV)  # errors from opening a dead device
_OPENING = 5.0  # seconds after which the first round begins, even if some layers are not open yet
# Result of a read: seconds, or None if nothing was measured; the problem, or None; whether the read failed.
Outcome = tuple[float | None, str | None, bool]


class Target(msgspec.Struct, frozen=True):
    """A layer or a probe. `limit`: seconds after which a read counts as failed, or None."""

    layer: Layer
    open: Callable[[], TimedProbe]
    limit: float | None = None


def layers_below(path: Path) -> tuple[Layer, ...]:
    """Returns the file system and its devices, from the top. Raises NoSuchPath, NotPermitted, UsageProblem."""
    path = check.data_file(path) or path
    with files.explained(path):
        mount = mounts.mount_of(path)
    return on_devices(str(path), mount, survey.devices_of(mount))


def on_devices(path: str, mount: Mount, devices: Sequence[Device]) -> tuple[Layer, ...]:
    by_name = {device.name: device for device in devices}
    lower = {name for device in devices for name in device.on}

    def below(device: Device) -> list[Device]:
        """Returns the devices right below, but skips LVM's hidden volumes (rimage, rmeta, tdata)."""
        parts = [by_name[name] for name in device.on if name in by_name]
        return [each for part in parts for each in (below(part) if device.kind == part.kind == "lvm" else [part])]

    level = [device for device in devices if device.name not in lower]
    layers = {path: Layer(f"{mount.kind} on {mount.target}", path, tuple(device.path for device in level))}
    while level:
        for device in level:
            on = dict.fromkeys(each.path for each in below(device))
            layers.setdefault(device.path, Layer(device.path, device.path, tuple(on)))
        level = [each for device in level for each in below(device)]
    return tuple(layers.values())


def parse_layers(words: Sequence[str]) -> tuple[Layer, ...]:
    """Parses words of the form NAME=PATH, the highest layer first. Each layer lies on the next, but layers whose names
    differ only in the number at the end are side by side. Raises UsageProblem, NoSuchPath."""
    levels: dict[str, dict[str, str]] = {}
    for word in words:
        name, _, path = word.partition("=")
        if not (name and path) or not name.isprintable():
            raise UsageProblem(reason=f"--layer {word}: write NAME=PATH")
        with files.explained(Path(path)):
            Path(path).stat()
        level = levels.setdefault(name.rstrip(_DIGITS), {})
        if name in level:
            raise UsageProblem(reason="--layer: two layers have the same name")
        level[name] = path
    pairs = itertools.pairwise([*levels.values(), {}])
    return tuple(Layer(name, path, tuple(lower)) for level, lower in pairs for name, path in level.items())


def probe_targets(names: Sequence[str], layers: Sequence[Layer], path: Path | None) -> tuple[Target, ...]:
    """Returns the probes `names`. They create files at `path` or, if it is None, at the first layer that is a file or a
    directory. Raises UsageProblem if there is no such layer, or if a layer has the name of a probe."""
    paths = [path] if path else [Path(layer.path) for layer in layers]
    where = next((each for each in paths if each.is_dir() or each.is_file()), None)
    targets = []
    for name in filter(names.__contains__, PROBES):
        if where is None:
            raise UsageProblem(reason=f"--probe {name} needs a directory: give PATH, or a layer that is one")
        directory = where if where.is_dir() else where.parent
        layer = Layer(f"{name} in {directory}", str(directory))
        if layer.name in (each.name for each in layers):
            raise UsageProblem(reason=f"--layer: {layer.name} is the name of a probe")
        targets.append(Target(layer, partial(_PROBES[name], directory), _LIMIT))
    return tuple(targets)


class Pace:
    """The common clock of all threads: round n begins n * `interval` seconds after `begin`."""

    def __init__(self, interval: float) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self._start, self._interval = 0.0, interval

    def begin(self) -> None:
        self._start = time.monotonic()
        self.begun.set()

    def end(self) -> None:
        """Makes all threads end after their present reads."""
        self.ended.set()
        self.begun.set()

    def next_round(self, phase: float = 0.0) -> int:
        """Returns the number of the first round that has not yet reached `phase` (seconds after its beginning)."""
        return max(0, int((time.monotonic() - self._start - phase) // self._interval) + 1)

    def until(self, number: int, phase: float = 0.0) -> float:
        """Returns the seconds until round `number` reaches `phase`, or 0 if it has."""
        return max(0.0, self._start + number * self._interval + phase - time.monotonic())


class Probe(threading.Thread):
    """A thread that times one target. `phase`: seconds between the beginning of a round and the read. `size`: bytes of
    a read, or None before the target is open. `notes`: what differs from the request, and why. `begun`: beginning of
    the present read (monotonic clock), or None. `ready` is set after the first attempt to open the target."""

    def __init__(self, target: Target, phase: float, pace: Pace, readings: Readings) -> None:
        super().__init__(name=f"probe of {target.layer.name}", daemon=True)
        self.target, self._phase, self._pace, self._readings = target, phase, pace, readings
        self.size: int | None = None
        self.notes: tuple[str, ...] = ()
        self.begun: float | None = None
        self.ready = threading.Event()
        self._last: Outcome = None, None, False
        self._lock = threading.Lock()  # protects `_last` and `_readings`
        self._timed: TimedProbe | None = None
        self._retry_at = 0.0

    def state(self) -> tuple[LayerState, dict[int, float]]:
        """Returns the state of the target, and the seconds of the last reads, by round."""
        layer, readings, begun, now = self.target.layer, self._readings, self.begun, time.monotonic()
        offset = time.time() - now  # from a monotonic clock to Unix time
        with self._lock:
            errors, failed_at = readings.errors(now)
            _, problem, is_error = self._last
            state = LayerState(
                *(layer.name, layer.path, layer.on, self.size, readings.figures(), readings.measured),
                in_flight_since=None if begun is None else begun + offset,
                problem=problem,
                is_error=is_error,
                notes=self.notes,
                limit=self.target.limit,
                measured=None if readings.measured_at is None else readings.measured_at + offset,
                failed=readings.failed,
                errors=errors,
                error=readings.error,
                failed_at=None if failed_at is None else failed_at + offset,
            )
            return state, dict(readings.recent)

    def run(self) -> None:
        self.notes = probes.claim_priority()
        outcome, pace, number = self._attempt(self._open), self._pace, 0
        self.ready.set()
        pace.begun.wait()
        while not pace.ended.wait(pace.until(number, self._phase)):
            if self._timed is None and time.monotonic() >= self._retry_at:
                outcome = self._attempt(self._open)
            if self._timed is not None:
                outcome = self._attempt(self._measure)
            seconds, problem, is_error = outcome
            with self._lock:
                self._last = outcome
                self._readings.add(number, time.monotonic(), seconds, problem if is_error else None)
            number = max(number + 1, pace.next_round(self._phase))
        if self._timed is not None:
            self._timed.close()

    def _attempt(self, work: Callable[[], Outcome]) -> Outcome:
        self.begun = time.monotonic()
        try:
            return work()
        except Unmeasurable as error:
            return None, str(error), False
        except (LoaderError, OSError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            if self._timed is not None:
                return None, reason, True
            is_dead = any(isinstance(cause, OSError) and cause.errno in _DEAD for cause in chain(error))
            return None, f"it cannot be opened: {reason}", is_dead
        finally:
            self.begun = None

    def _open(self) -> Outcome:
        """Opens the target. After a failure, `run` tries again only after _RETRY, because opening may write a file."""
        try:
            self._timed = timed = self.target.open()
        finally:
            self._retry_at = time.monotonic() + _RETRY
        self.size, self.notes = timed.size, (*self.notes, *filter(None, [timed.note]))
        return None, None, False

    def _measure(self) -> Outcome:
        assert self._timed is not None
        seconds, limit = self._timed.measure(), self.target.limit
        if limit is None or seconds <= limit:
            return seconds, None, False
        return seconds, f"it took {seconds:.1f} s, which is over {limit:g} s", True


class Watch:
    """A context manager with threads that time the layers and the targets `extra`."""

    def __init__(self, layers: Sequence[Layer], options: WatchOptions, extra: Sequence[Target] = ()) -> None:
        self._layers, self._options = layers, options
        self._pace = Pace(options.interval)
        targets = [*(Target(layer, partial(probes.open_reader, Path(layer.path))) for layer in layers), *extra]
        step = options.interval / (len(targets) + 1)  # staggered, so that no read waits for another
        self._probes = [
            Probe(target, step * number, self._pace, Readings(options.window, options.half_life))
            for number, target in enumerate(targets, 1)
        ]

    def __enter__(self) -> Watch:
        for probe in self._probes:
            probe.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pace.end()

    def rounds(self) -> Iterator[State]:
        """Yields the state after each round."""
        until = time.monotonic() + _OPENING
        for probe in self._probes:
            probe.ready.wait(max(0.0, until - time.monotonic()))
        pace, samples, number = self._pace, self._options.samples, 0
        pace.begin()
        while number != samples:
            number = min(max(number + 1, pace.next_round()), samples or 1 << 62)
            time.sleep(pace.until(number))
            if number == samples:  # reads in progress get one more interval
                pace.end()
                for probe in self._probes:
                    probe.join(pace.until(number + 1))
            yield self._state(number)

    def _state(self, number: int) -> State:
        states = [probe.state() for probe in self._probes]
        rows, times = [row for row, _ in states], {row.name: recent for row, recent in states}
        now, count, interval = time.time(), len(self._layers), self._options.interval
        layers, extra = rows[:count], rows[count:]
        added = verdict.verdict(self._layers, times)
        hung = {row.name for row in rows if is_hung(row, interval, now)}
        failing = [row.name for row in layers if row.errors]
        sentence = [verdict.sentence(added, [row.name for row in layers if row.name in hung], failing)]
        sentence += [f"{row.name} does not end" for row in extra if row.name in hung]
        sentence += [f"{row.name} fails" for row in extra if row.errors]
        return State(now, interval, number, tuple(layers), added, "; ".join(sentence), tuple(extra))
