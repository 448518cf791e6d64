"""What is known of one layer: the times of the last n reads, quick-attack extremes, quantiles of all, failed reads."""

from __future__ import annotations

import statistics
from collections import deque
from typing import Annotated

import msgspec

ACCURACY = 0.01  # of quantiles, relative
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]  # as it may be read from a file


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
