"""What is known after a round: a file that a monitoring system may poll as seldom as it likes, and what a monitoring
plugin says of it. It never says OK of a watch that has ended."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from loader import plain, units
from loader.errors import LoaderError
from loader.operations.monitoring import Status
from loader.operations.storage.watch.verdict import Added, Figures, Seconds
from loader.run.lease import boot_id
from loader.storage import files

FORMAT = 1
HUNG = 2  # intervals: a read that began within one after the device stopped is told before three have passed
STALE = 3  # intervals
_LEAST_STALE = 1.0  # seconds
_TOKEN = str.maketrans({"=": "-", "'": "", "|": "-", "\n": " "})


class LayerState(msgspec.Struct, frozen=True):
    """`size`: bytes of a read. `problem`: why the last read measured nothing; `is_error`: it failed.

    Counted are `reads` that were measured, those that came from a cache or failed (`unmeasured`), and rounds that
    passed during a read (`missed`). `in_flight_since`: Unix time. `late`: the longest that a read began behind plan.
    `limit`: seconds after which it counts as failed. Of a probe beside the layers, "read" means what it does.
    `measured`: when the last read that was measured ended. `failed`: reads that failed since the start, the last
    of them with `error`; `errors`: those that are held as emax is (verdict.Errors), the last of them at `failed_at`.
    """

    name: str
    path: str
    on: tuple[str, ...]
    size: int | None
    figures: Figures | None
    reads: int
    unmeasured: int
    missed: int
    late: Seconds
    in_flight_since: float | None
    problem: str | None
    is_error: bool
    notes: tuple[str, ...]
    limit: float | None
    measured: float | None
    failed: int
    errors: int
    error: str | None
    failed_at: float | None


class Watcher(msgspec.Struct, frozen=True):
    """The process that writes the state. A process ID means something in its own namespace, until the next boot."""

    process: int
    namespace: str

    @classmethod
    def own(cls) -> Watcher:
        return cls(os.getpid(), f"{boot_id()} {os.stat('/proc/self/ns/pid').st_ino}")

    def has_ended(self) -> bool:
        """False where that cannot be told from here."""
        if self.namespace != Watcher.own().namespace:
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # of another account
            return False
        return False


class State(msgspec.Struct, frozen=True):
    """`written`: Unix time. Times in seconds. `told`: the verdict as a sentence. `probes`: those beside the layers."""

    written: float
    interval: Seconds
    round: int
    layers: tuple[LayerState, ...]
    verdict: tuple[Added, ...]
    told: str
    probes: tuple[LayerState, ...]
    watcher: Watcher
    format: int = FORMAT

    @property
    def rows(self) -> tuple[LayerState, ...]:
        """All that is timed."""
        return self.layers + self.probes


def write(state: State, path: Path) -> None:
    """Whole or not at all, and readable for the account of the monitoring system."""
    files.write_durably(path, msgspec.json.encode(state) + b"\n")


def read(path: Path) -> State:
    """Raises LoaderError, OSError; ValueError where it is no state of this format."""
    found = msgspec.json.decode(files.read(path), type=State)
    if found.format != FORMAT:
        raise ValueError(f"format {found.format}, this ditseed reads {FORMAT}")
    return found


def is_hung(layer: LayerState, interval: float, now: float) -> bool:
    if layer.in_flight_since is None:
        return False
    patience = HUNG * interval
    if layer.limit is not None:
        patience = min(patience, layer.limit)
    return now - layer.in_flight_since >= patience


class Limits(msgspec.Struct, frozen=True):
    """Of davg, in seconds; None: no limit."""

    warning: float | None = None
    critical: float | None = None


class Check(msgspec.Struct, frozen=True):
    """`lines`: the first is what a monitoring system shows; `perfdata` belongs to it."""

    status: Status
    lines: tuple[str, ...]
    perfdata: tuple[str, ...] = ()

    def text(self) -> tuple[str, ...]:
        """`STORAGE WATCH OK - ... | ...`, then one line for each layer."""
        first, *more = (plain.printable(line.replace("|", "-")) for line in self.lines)
        numbers = f" | {' '.join(self.perfdata)}" if self.perfdata else ""
        return (f"STORAGE WATCH {self.status.name} - {first}{numbers}", *more)


def check(path: Path, limits: Limits, now: float | None = None) -> Check:
    """Never raises a LoaderError: what cannot be known is UNKNOWN. `now`: Unix time."""
    try:
        found = read(path)
    except (LoaderError, OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        return Check(Status.UNKNOWN, (f"{path}: {_reason(error)}",))
    moment = time.time() if now is None else now
    age = moment - found.written
    watcher = found.watcher
    if watcher.has_ended():
        said = f"the watch (process {watcher.process}) has ended; {path} was {_aged(age)}"
        return Check(Status.UNKNOWN, (said,))
    if not -_LEAST_STALE <= age <= max(_LEAST_STALE, STALE * found.interval):
        return Check(Status.UNKNOWN, (f"{path} was {_aged(age)}: is the watch running?",))
    return _judged(found, limits, moment)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def _aged(age: float) -> str:
    if age < 0:
        return f"written {units.duration(-age)} later than now"
    return f"last written {units.duration(age)} ago"


def _judged(state: State, limits: Limits, now: float) -> Check:
    judged = [(one, *_row(one, state, limits, now)) for one in state.rows]
    # A row that was not measured is never OK, and hides none that is over a limit.
    order = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)
    worst = max((status for _, status, _ in judged), key=order.index, default=Status.UNKNOWN)
    if worst is Status.OK and not state.layers:
        worst = Status.UNKNOWN
    found = [f"{one.name}: {said}" for one, status, said in judged if status is worst]
    bad = ", ".join(found) or "no layer is timed"
    first = state.told if worst is Status.OK else f"{bad}; {state.told}"
    lines = (f"{one.name}: {said}" for one, _, said in judged)
    return Check(worst, (first, *lines), tuple(_perfdata(state, limits)))


def _row(one: LayerState, state: State, limits: Limits, now: float) -> tuple[Status, str]:
    is_layer = one in state.layers
    if is_hung(one, state.interval, now):
        assert one.in_flight_since is not None
        what = "a read is" if is_layer else "it has been"
        return Status.CRITICAL, f"{what} in flight for {units.duration(now - one.in_flight_since)}"
    if one.is_error or one.errors:
        return Status.CRITICAL, _failed(one, "read" if is_layer else "try", now)
    if not _is_measured(one, state):
        return Status.UNKNOWN, f"not measured: {one.problem or 'no read has ended yet'}"
    assert one.figures is not None
    said = f"davg {_ms(one.figures.davg)}, emax {_ms(one.figures.emax)}"
    for status, limit in (
        (Status.CRITICAL, limits.critical),
        (Status.WARNING, limits.warning),
    ):
        if limit is not None and one.figures.davg > limit:
            return status, f"{said} (limit {_ms(limit)})"
    return Status.OK, said


def _failed(one: LayerState, what: str, now: float) -> str:
    if one.is_error:
        before = f" ({one.errors - 1} failed before it)" if one.errors > 1 else ""
        return f"the last {what} failed: {one.problem}{before}"
    whats = what if one.errors == 1 else "reads" if what == "read" else "tries"
    ago = (
        "" if one.failed_at is None else f", the last one {units.duration(now - one.failed_at)} ago"
    )
    return f"{one.errors} {whats} failed{ago}: {one.error}"


def _is_measured(one: LayerState, state: State) -> bool:
    """A single read may come from a cache: what was measured within the last intervals was looked at."""
    if one.figures is None or one.measured is None:
        return False
    return state.written - one.measured <= max(_LEAST_STALE, STALE * state.interval)


def _perfdata(state: State, limits: Limits) -> Iterator[str]:
    """Seconds, as the guidelines prefer. Short labels: RRDtool tells 19 characters apart."""
    for one, label in zip(state.rows, _labels(state.rows), strict=True):
        if one.figures is not None:
            bounds = ";".join(
                "" if x is None else _number(x) for x in (limits.warning, limits.critical)
            )
            yield f"'{label}_davg'={_number(one.figures.davg)}s;{bounds};0"
            for name in ("last", "emin", "emax", "p50", "p99", "p999"):
                yield f"'{label}_{name}'={_number(getattr(one.figures, name))}s;;;0"
        yield f"'{label}_missed'={one.missed}c;;;0"
        yield f"'{label}_failed'={one.failed}c;;;0"


def _labels(rows: Sequence[LayerState]) -> list[str]:
    """One for each, no two alike."""
    found: list[str] = []
    for one in rows:
        name = one.name.removeprefix("/dev/").removeprefix("mapper/").translate(_TOKEN)
        label = plain.printable(name) or "layer"
        others = (f"{label}-{number}" for number in itertools.count(2))
        found.append(
            next(other for other in itertools.chain([label], others) if other not in found)
        )
    return found


def _number(value: float) -> str:
    """Never in scientific notation."""
    return f"{value:.6f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
