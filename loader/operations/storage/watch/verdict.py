"""What the times tell: the figures of each layer, which layer adds the delay, and which probe is slow where none is."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from loader.operations.storage.watch.layers import Layer

ACCURACY = 0.01  # of quantiles, relative
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]  # as it may be read from a file
LEAST_ROUNDS = 5
LEAST_DELAY = 1e-4  # seconds: what is less is nothing to look for
_SHARE = 0.1  # of what is below: less is within what reads differ by themselves
_OF_WORST = 0.05  # of the largest delay that any layer adds: what is less does not explain anything
_SAME = 1.5  # a read of an upper layer may be that much faster than the read of the lower one that served it
LEAST_USUAL = 0.02  # seconds, of the median: less is what a write to a disk takes
LEAST_PEAK = 0.1  # seconds, of the longest
_TIMES = 3  # what is that much slower than the slowest layer is not explained by it

Times = Mapping[str, Mapping[int, float]]  # layer -> round -> seconds


class Figures(msgspec.Struct, frozen=True):
    """Seconds. davg, dstd_dev: of the last n; emin, emax: see Timing; quantiles: of all reads since the start."""

    last: Seconds
    davg: Seconds
    dstd_dev: Seconds
    emin: Seconds
    emax: Seconds
    p50: Seconds
    p99: Seconds
    p999: Seconds


class Timing:
    """emin and emax take a new extreme at once, and go back to that of the last n with that half-life, in seconds.

    A read that took longer than the interval between reads also stands in the quantiles for those that could not begin
    meanwhile, each with the time that it would have waited: else the slower a device, the less its slowness counted.
    """

    def __init__(self, window: int, half_life: float, interval: float) -> None:
        from ddsketch import DDSketch  # here, for no other verb of `storage` needs it

        self._recent: deque[tuple[int, float]] = deque(maxlen=window)
        self._half_life = half_life
        self._interval = interval
        self._sketch = DDSketch(ACCURACY)
        self._at = 0.0
        self._emin = self._emax = 0.0

    @property
    def recent(self) -> dict[int, float]:
        """Round -> seconds, of the last n."""
        return dict(self._recent)

    def add(self, number: int, at: float, seconds: float) -> None:
        """The read of round `number`, which ended at `at` (seconds of a monotonic clock)."""
        is_first = not self._recent
        self._recent.append((number, seconds))
        while seconds > 0:
            self._sketch.add(seconds)
            seconds -= self._interval
        self._release(1.0 if is_first else 1 - 0.5 ** ((at - self._at) / self._half_life))
        self._at = at

    def _release(self, share: float) -> None:
        """That share of the way from the extremes so far to those of the last n; all of it to a new extreme."""
        times = [seconds for _, seconds in self._recent]
        least, most = min(times), max(times)
        self._emin = min(least, self._emin + share * (least - self._emin))
        self._emax = max(most, self._emax + share * (most - self._emax))

    def figures(self) -> Figures | None:
        """None before the first read."""
        if not self._recent:
            return None
        times = [seconds for _, seconds in self._recent]
        return Figures(
            last=times[-1],
            davg=statistics.fmean(times),
            dstd_dev=statistics.pstdev(times),
            emin=self._emin,
            emax=self._emax,
            p50=self._quantile(0.5),
            p99=self._quantile(0.99),
            p999=self._quantile(0.999),
        )

    def _quantile(self, share: float) -> float:
        return float(self._sketch.get_quantile_value(share) or 0.0)


class Errors:
    """Reads that failed. Each is held as emax holds a peak: while it is among the last n reads, and at least for a
    half-life, so that whoever asks every few minutes sees it. `total`: since the start."""

    def __init__(self, window: int, half_life: float) -> None:
        self._window, self._half_life = window, half_life
        self._held: deque[tuple[int, float]] = deque()  # number of the read, end (monotonic)
        self._reads = self.total = 0
        self.last: str | None = None

    def take(self, at: float, problem: str | None) -> None:
        """The next read, which ended at `at`; `problem`: why it failed, or None."""
        self._reads += 1
        if problem is not None:
            self._held.append((self._reads, at))
            self.total, self.last = self.total + 1, problem

    def held(self, now: float) -> tuple[int, float | None]:
        """How many, and when the last one was (monotonic)."""
        while self._held:
            number, at = self._held[0]
            if number > self._reads - self._window or now - at <= self._half_life:
                break
            self._held.popleft()
        return len(self._held), self._held[-1][1] if self._held else None


class Added(msgspec.Struct, frozen=True):
    """`seconds`: the median of the differences to the layers `over` in `rounds` rounds; None: in too few of them.

    A device with none below it is compared with the fastest of its kind; `over` is empty where it is alone, and
    `seconds` is all it takes. `own`: median of its own time.
    """

    layer: str
    over: tuple[str, ...]
    rounds: int
    seconds: float | None
    own: float | None
    is_lowest: bool
    is_delay: bool = False


def verdict(layers: Sequence[Layer], times: Times) -> tuple[Added, ...]:
    """In the order of the layers."""
    found = [_of(layer, layers, times) for layer in layers]
    worst = max((one.seconds or 0.0 for one, _ in found if one.over), default=0.0)
    return tuple(
        msgspec.structs.replace(one, is_delay=_is_delay(one, differences, worst))
        for one, differences in found
    )


def _of(layer: Layer, layers: Sequence[Layer], times: Times) -> tuple[Added, list[float]]:
    own = times.get(layer.name, {})
    over = _measured_below(layer, layers, times) or _fastest_peer(layer, layers, times)
    differences = (
        [*_differences(own, [times.get(name, {}) for name in over])] if over else [*own.values()]
    )
    enough = len(differences) >= LEAST_ROUNDS
    added = Added(
        layer.name,
        over,
        len(differences),
        statistics.median(differences) if enough else None,
        statistics.median(own.values()) if own else None,
        not layer.on,
    )
    return added, differences


def _measured_below(layer: Layer, layers: Sequence[Layer], times: Times) -> tuple[str, ...]:
    """What stands below a layer that could not be measured takes its place."""
    known = {one.name: one for one in layers}
    found: dict[str, None] = {}
    for name in layer.on:
        passed = not times.get(name) and _measured_below(known[name], layers, times)
        found.update(dict.fromkeys(passed or (name,)))
    return tuple(found)


def _fastest_peer(layer: Layer, layers: Sequence[Layer], times: Times) -> tuple[str, ...]:
    """Of the lowest layers: a leg of a mirror or a stripe stands beside its like."""
    lowest = [one.name for one in layers if not one.on and times.get(one.name)]
    fastest = min(lowest, key=lambda name: statistics.median(times[name].values()), default=None)
    return () if fastest in (None, layer.name) else (str(fastest),)


def _differences(own: Mapping[int, float], below: Sequence[Mapping[int, float]]) -> Iterator[float]:
    """To the slowest of the layers below that can have served the read: a mirror reads one of its legs."""
    for number, seconds in own.items():
        beside = [one[number] for one in below if number in one]
        if len(beside) == len(below):
            served = [one for one in beside if one <= seconds * _SAME]
            yield seconds - (max(served) if served else min(beside))


def _is_delay(one: Added, differences: Sequence[float], worst: float) -> bool:
    """Three of four rounds say so, and it is not small beside what is below it, or beside what another layer adds."""
    if one.seconds is None or one.own is None or not one.over:
        return False
    lower_quartile = statistics.quantiles(differences, n=4)[0]
    least = max(LEAST_DELAY, _SHARE * (one.own - one.seconds), _OF_WORST * worst)
    return lower_quartile > 0 and one.seconds >= least


def told(found: Sequence[Added], hung: Sequence[str], failing: Sequence[str] = ()) -> str:
    """One sentence: what hangs or fails, what adds delay, the largest first, and what adds nothing."""
    lowest_hung = [
        one.layer for one in found if one.layer in hung and not set(one.over) & set(hung)
    ]
    words = [f"{name} does not answer" for name in lowest_hung or hung]
    words += [f"reads of {name} fail" for name in failing]
    known = [one for one in found if one.seconds is not None]
    slow = sorted((one for one in known if one.is_delay), key=lambda one: -(one.seconds or 0))
    words += [_delay(one) for one in slow]
    words += [_nothing(one) for one in known if not one.is_delay and one.layer not in failing]
    unknown = [one.layer for one in found if one.seconds is None and one.layer not in failing]
    if not known and not words:
        return (
            f"not known: layers were measured beside each other in fewer than {LEAST_ROUNDS} rounds"
        )
    words += [f"not known of {', '.join(unknown)}"] if unknown else []
    return "; ".join(words)


def _delay(one: Added) -> str:
    over = " and ".join(one.over)
    if one.is_lowest:
        return f"{one.layer} takes {_ms(one.own)}, {_ms(one.seconds)} more than {over}"
    return f"{one.layer} adds {_ms(one.seconds)} to {over}"


def _nothing(one: Added) -> str:
    if one.is_lowest:
        return f"{one.layer} takes {_ms(one.own)}"
    added = f" ({_ms(one.seconds)})" if (one.seconds or 0.0) > 0 else ""
    return f"{one.layer} adds nothing{added}"


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1000:.2f} ms"


def slow_probes(probes: Sequence[str], layers: Sequence[str], times: Times) -> Iterator[str]:
    """A sentence for each that is slow. `times`: of the last n rounds, those of the layers too."""
    usual, peak = (max(_each(of, layers, times), default=0.0) for of in (_usual, max))
    for name in probes:
        own = list(times.get(name, {}).values())
        if not own:
            continue
        mine, most = _usual(own), max(own)
        if len(own) >= LEAST_ROUNDS and mine >= max(LEAST_USUAL, _TIMES * usual):
            yield f"{name} takes {_ms(mine)}, and {_than(usual, layers)}"
        elif most >= max(LEAST_PEAK, _TIMES * peak):
            yield f"{name} took up to {_ms(most)}, and {_than(peak, layers)}"


def _each(of: object, layers: Sequence[str], times: Times) -> Iterator[float]:
    assert callable(of)
    return (of(times[name].values()) for name in layers if times.get(name))


def _usual(times: Iterable[float]) -> float:
    return statistics.median(times)


def _than(longest: float, layers: Sequence[str]) -> str:
    if not longest:
        return "no layer was measured"
    return f"no read of a layer more than {_ms(longest)}: what it waits for is not these reads"
