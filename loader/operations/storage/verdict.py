"""The verdict of `storage watch`: which layer adds delay. Also writes the state after each round, and reads it for a
monitoring plugin and Prometheus."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from loader import plain, units
from loader.errors import LoaderError
from loader.operations import monitoring
from loader.operations.monitoring import Status
from loader.storage import files

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]  # decoding a state file with other values fails
LEAST_ROUNDS = 5  # with fewer rounds, no delay is computed
LEAST_DELAY = 1e-4  # seconds; a smaller added delay is never reported
_SHARE = 0.1  # share of the lower layers' time; a smaller added delay may be chance
_OF_WORST = 0.05  # share of the largest added delay; a smaller added delay does not matter
_SAME = 1.5  # factor; a lower read that took longer than the upper read by this factor cannot have served it

Times = Mapping[str, Mapping[int, float]]  # seconds of a read, by layer and round


class Layer(msgspec.Struct, frozen=True):
    """A file system or a device. `path`: the file or device to read. `on`: names of the layers right below."""

    name: str
    path: str
    on: tuple[str, ...] = ()


class Figures(msgspec.Struct, frozen=True):
    """Times in seconds. davg, dstd_dev: mean and standard deviation of the last n reads. emin, emax: exponentially
    decaying extremes."""

    last: Seconds
    davg: Seconds
    dstd_dev: Seconds
    emin: Seconds
    emax: Seconds


class Readings:
    """The reads of a layer. `recent`: seconds of the last n reads, by round. `measured`, `failed`: numbers of reads.
    `measured_at`: end of the last measured read (monotonic clock). `error`: reason of the last failed read."""

    def __init__(self, window: int, half_life: float) -> None:
        self.recent: dict[int, float] = {}
        self.measured = self.failed = 0
        self.measured_at: float | None = None
        self.error: str | None = None
        self._window, self._half_life = window, half_life
        self._emin = self._emax = 0.0
        self._reads = 0
        self._errors: list[tuple[int, float]] = []  # of each failed read: its number, its end (monotonic)

    def add(self, number: int, at: float, seconds: float | None, error: str | None = None) -> None:
        """Adds the read of round `number`, which ended at `at` (monotonic). `seconds`: None if nothing was measured.
        `error`: why the read failed, or None."""
        self._reads += 1
        if error is not None:
            self._errors.append((self._reads, at))
            self.failed, self.error = self.failed + 1, error
        if seconds is None:
            return
        self.recent[number] = seconds
        if len(self.recent) > self._window:
            del self.recent[next(iter(self.recent))]
        # emin and emax jump to a new extreme, and decay towards the extreme of the last n reads.
        age = math.inf if self.measured_at is None else at - self.measured_at
        share = 1 - 0.5 ** (age / self._half_life)
        least, most = min(self.recent.values()), max(self.recent.values())
        self._emin = min(least, self._emin + share * (least - self._emin))
        self._emax = max(most, self._emax + share * (most - self._emax))
        self.measured, self.measured_at = self.measured + 1, at

    def figures(self) -> Figures | None:
        """Returns None before the first measured read."""
        if not self.recent:
            return None
        times = [*self.recent.values()]
        return Figures(times[-1], statistics.fmean(times), statistics.pstdev(times), self._emin, self._emax)

    def errors(self, now: float) -> tuple[int, float | None]:
        """Returns the number of failed reads that still count, and the end of the newest (monotonic clock). A read
        counts while it is among the last n, and at least for a half-life, because monitoring systems ask seldom."""
        before = self._reads - self._window
        self._errors = [(read, at) for read, at in self._errors if read > before or now - at <= self._half_life]
        return len(self._errors), self._errors[-1][1] if self._errors else None


class Added(msgspec.Struct, frozen=True):
    """The delay that a layer adds to the layers `over`. `seconds`: median of the differences in `rounds` rounds, or
    None if there are fewer than LEAST_ROUNDS. `own`: median of the layer's whole time. A device at the bottom is
    compared with the fastest such device. For the fastest device, `over` is empty, and `seconds` is its whole time."""

    layer: str
    over: tuple[str, ...]
    rounds: int
    seconds: float | None
    own: float | None
    is_lowest: bool
    is_delay: bool = False


def verdict(layers: Sequence[Layer], times: Times) -> tuple[Added, ...]:
    """Returns the delay that each layer adds, in the order of `layers`."""
    lowest = [layer.name for layer in layers if not layer.on and times.get(layer.name)]  # mirror legs, stripes
    fastest = min(lowest, key=lambda name: statistics.median(times[name].values()), default="")
    compared = []
    for layer in layers:
        reads = times.get(layer.name, {})
        over = _measured_below(layer, layers, times)
        if not over and fastest not in ("", layer.name):
            over = (fastest,)
        differences = [*_differences(reads, [times.get(name, {}) for name in over])] if over else [*reads.values()]
        seconds = statistics.median(differences) if len(differences) >= LEAST_ROUNDS else None
        median = statistics.median(reads.values()) if reads else None
        compared.append((Added(layer.name, over, len(differences), seconds, median, not layer.on), differences))

    # A layer adds delay if it is slower in three of four rounds, and if the delay is not small beside other times.
    worst = max((added.seconds or 0.0 for added, _ in compared if added.over), default=0.0)
    verdict = []
    for added, differences in compared:
        is_delay = False
        if added.seconds is not None and added.own is not None and added.over:
            lower_quartile = statistics.quantiles(differences, n=4)[0]
            least = max(LEAST_DELAY, _SHARE * (added.own - added.seconds), _OF_WORST * worst)
            is_delay = lower_quartile > 0 and added.seconds >= least
        verdict.append(msgspec.structs.replace(added, is_delay=is_delay))
    return tuple(verdict)


def _measured_below(layer: Layer, layers: Sequence[Layer], times: Times) -> tuple[str, ...]:
    """Returns the layers right below `layer`; instead of a layer that was not measured, the layers below that one."""
    by_name = {layer.name: layer for layer in layers}
    below: dict[str, None] = {}
    for name in layer.on:
        passed = not times.get(name) and _measured_below(by_name[name], layers, times)
        below.update(dict.fromkeys(passed or (name,)))
    return tuple(below)


def _differences(layer_reads: Mapping[int, float], below: Sequence[Mapping[int, float]]) -> Iterator[float]:
    """Yields for each read its seconds minus those of the slowest read of the layers below. Ignores reads below that
    were too slow to have served it: then another mirror leg served it."""
    for number, seconds in layer_reads.items():
        lower = [reads[number] for reads in below if number in reads]
        if len(lower) == len(below):
            served = [time for time in lower if time <= seconds * _SAME]
            yield seconds - (max(served) if served else min(lower))


def sentence(verdict: Sequence[Added], hung: Sequence[str], failing: Sequence[str] = ()) -> str:
    """Returns a sentence: which layers hang, fail, add delay (the largest first), or add nothing."""
    lowest_hung = [each.layer for each in verdict if each.layer in hung and not set(each.over) & set(hung)]
    words = [f"{name} does not answer" for name in lowest_hung or hung]
    words += [f"reads of {name} fail" for name in failing]
    timed_layers = [each for each in verdict if each.seconds is not None]
    for each in sorted((each for each in timed_layers if each.is_delay), key=lambda each: -(each.seconds or 0)):
        over, added = " and ".join(each.over), _ms(each.seconds)
        takes = f"takes {_ms(each.own)}, {added} more than {over}"
        words.append(f"{each.layer} {takes if each.is_lowest else f'adds {added} to {over}'}")
    for each in timed_layers:
        if not each.is_delay and each.layer not in failing:
            added = f" ({_ms(each.seconds)})" if (each.seconds or 0.0) > 0 else ""
            words.append(f"{each.layer} {f'takes {_ms(each.own)}' if each.is_lowest else f'adds nothing{added}'}")
    untimed_layers = [each.layer for each in verdict if each.seconds is None and each.layer not in failing]
    if not timed_layers and not words:
        return f"not known: layers were measured together in fewer than {LEAST_ROUNDS} rounds"
    return "; ".join([*words, f"not known of {', '.join(untimed_layers)}"] if untimed_layers else words)


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1000:.2f} ms"


# --- the state after each round: a file that a monitoring system may read as seldom as it likes -----------------------

FORMAT = 1
HUNG = 2  # intervals; a longer read counts as hung, so that a dead device is reported within three intervals
STALE = 3  # intervals; if the state is older, the watch may not be running
_LEAST_STALE = 1.0  # seconds; the least duration of STALE intervals
_TOKEN = str.maketrans({"=": "-", "'": "", "|": "-", "\n": " "})


class LayerState(msgspec.Struct, frozen=True):
    """The state of a layer or probe; the operations of a probe count as reads. `size`: bytes of a read. `reads`: number
    of measured reads. `measured`: end of the last measured read. `problem`: why the last read measured nothing;
    `is_error`: whether it failed. `limit`: seconds after which a read counts as failed. `failed`: number of failed
    reads since the start. `errors`: number of those that still count. `error`, `failed_at`: reason and end of the last
    failed read. `in_flight_since`, `measured` and `failed_at` are Unix times."""

    name: str
    path: str
    on: tuple[str, ...]
    size: int | None
    figures: Figures | None
    reads: int
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


class State(msgspec.Struct, frozen=True):
    """`written`: Unix time. `interval`: seconds. `told`: the verdict as a sentence."""

    written: float
    interval: Seconds
    round: int
    layers: tuple[LayerState, ...]
    verdict: tuple[Added, ...]
    told: str
    probes: tuple[LayerState, ...]
    format: int = FORMAT

    @property
    def rows(self) -> tuple[LayerState, ...]:
        return self.layers + self.probes


def write(state: State, path: Path) -> None:
    """Replaces the file atomically. Any account can read the file, because the monitoring system has its own."""
    files.write_durably(path, msgspec.json.encode(state) + b"\n")


def is_hung(layer: LayerState, interval: float, now: float) -> bool:
    patience = HUNG * interval if layer.limit is None else min(HUNG * interval, layer.limit)
    return layer.in_flight_since is not None and now - layer.in_flight_since >= patience


class Limits(msgspec.Struct, frozen=True):
    """Thresholds for davg, in seconds. None disables a threshold."""

    warning: float | None = None
    critical: float | None = None


def check(path: Path, limits: Limits, now: float | None = None) -> monitoring.Finding:
    """Judges the state file. The status is UNKNOWN if the file is unreadable or too old. `now`: Unix time."""
    result = partial(monitoring.Finding, name="STORAGE WATCH")
    try:
        state = msgspec.json.decode(files.read(path), type=State)
        if state.format != FORMAT:
            raise ValueError(f"format {state.format}, this ditseed reads {FORMAT}")
    except (LoaderError, OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return result(status=Status.UNKNOWN, summary=f"{path}: {reason}")
    moment = time.time() if now is None else now
    age = moment - state.written
    written = f"written {units.duration(-age)} later than now" if age < 0 else f"last written {units.duration(age)} ago"
    if not -_LEAST_STALE <= age <= max(_LEAST_STALE, STALE * state.interval):
        return result(status=Status.UNKNOWN, summary=f"{path} was {written}: is the watch running?")

    rows = [(row.name, *judge(row, state, limits, moment)) for row in state.rows]
    # UNKNOWN (a row was not measured) is worse than OK, but not than WARNING and CRITICAL.
    order = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)
    worst = max((status for _, status, _ in rows), key=order.index, default=Status.UNKNOWN)
    if worst is Status.OK and not state.layers:
        worst = Status.UNKNOWN
    bad = ", ".join(f"{name}: {text}" for name, status, text in rows if status is worst) or "no layer is timed"
    lines = tuple(f"{name}: {text}" for name, _, text in rows)
    summary = state.told if worst is Status.OK else f"{bad}; {state.told}"
    return result(status=worst, summary=summary, lines=lines, numbers=tuple(_perfdata(state, limits)))


def judge(row: LayerState, state: State, limits: Limits, now: float) -> tuple[Status, str]:
    """Returns the status of a layer or probe, and the reason."""
    is_layer = row in state.layers
    if is_hung(row, state.interval, now):
        assert row.in_flight_since is not None
        what = "a read is" if is_layer else "it has been"
        return Status.CRITICAL, f"{what} in flight for {units.duration(now - row.in_flight_since)}"
    one, several = ("read", "reads") if is_layer else ("try", "tries")
    if row.is_error:
        before = f" ({row.errors - 1} failed before it)" if row.errors > 1 else ""
        return Status.CRITICAL, f"the last {one} failed: {row.problem}{before}"
    if row.errors:
        ago = "" if row.failed_at is None else f", the last one {units.duration(now - row.failed_at)} ago"
        return Status.CRITICAL, f"{row.errors} {one if row.errors == 1 else several} failed{ago}: {row.error}"
    # Figures count only if a read was measured within the last STALE intervals.
    latest = -math.inf if row.measured is None else row.measured
    if row.figures is None or state.written - latest > max(_LEAST_STALE, STALE * state.interval):
        return Status.UNKNOWN, f"not measured: {row.problem or 'no read has ended yet'}"
    text = f"davg {_ms(row.figures.davg)}, emax {_ms(row.figures.emax)}"
    for status, limit in ((Status.CRITICAL, limits.critical), (Status.WARNING, limits.warning)):
        if limit is not None and row.figures.davg > limit:
            return status, f"{text} (limit {_ms(limit)})"
    return Status.OK, text


def _perfdata(state: State, limits: Limits) -> Iterator[str]:
    """Yields performance data in seconds. Labels are short, because RRDtool compares only 19 characters."""
    labels: list[str] = []
    for row in state.rows:
        name = row.name.removeprefix("/dev/").removeprefix("mapper/").translate(_TOKEN)
        plain_name = plain.printable(name) or "layer"
        numbered = itertools.chain([plain_name], (f"{plain_name}-{number}" for number in itertools.count(2)))
        label = next(each for each in numbered if each not in labels)
        labels.append(label)
        if row.figures is not None:
            bounds = ";".join("" if x is None else f"{x:.6f}" for x in (limits.warning, limits.critical))
            yield f"'{label}_davg'={row.figures.davg:.6f}s;{bounds};0"
            yield f"'{label}_emax'={row.figures.emax:.6f}s;;;0"
        yield f"'{label}_failed'={row.failed}c;;;0"


_NAME = "ditseed_storage_watch"
_METRICS = {  # gauges in seconds, and counters
    "last_seconds": "Time of the last read.",
    "davg_seconds": "Mean time of the last reads.",
    "dstd_dev_seconds": "Standard deviation of the times of the last reads.",
    "emin_seconds": "Least time, decaying exponentially.",
    "emax_seconds": "Largest time, decaying exponentially.",
    "added_seconds": "What a layer adds to those below it, as the median of the differences.",
    "in_flight_seconds": "For how long the read has been under way, 0 if none is.",
    "reads": "Reads that were measured.",
    "failed": "Reads that failed, or could not be tried on a device that is dead.",
}


def metrics(state: State) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # takes long to import

    written, added = f"{_NAME}_written_timestamp_seconds", {each.layer: each.seconds for each in state.verdict}
    yield GaugeMetricFamily(written, "When the watch wrote this, as Unix time.", value=state.written)
    values: dict[str, dict[str, float | None]] = {}
    for row in state.rows:
        in_flight = state.written - (row.in_flight_since or state.written)
        values[row.name] = {"in_flight": in_flight, "reads": row.reads, "failed": row.failed}
        values[row.name] |= {"added": added.get(row.name)} if row.on else {}
        values[row.name] |= msgspec.structs.asdict(row.figures) if row.figures else {}
    for name, text in _METRICS.items():
        kind = GaugeMetricFamily if name.endswith("_seconds") else CounterMetricFamily
        family = kind(f"{_NAME}_{name}", text, labels=["layer"])
        for layer, figures in values.items():
            if (value := figures.get(name.removesuffix("_seconds"))) is not None:
                family.add_metric([layer], value)
        yield family
