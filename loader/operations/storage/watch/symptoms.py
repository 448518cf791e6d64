"""What the probes beside the layers tell: a program waits, and no layer takes as long."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from loader.operations.storage.watch.targets import WAKE_UP
from loader.operations.storage.watch.verdict import LEAST_ROUNDS, Times

LEAST_USUAL = 0.02  # seconds, of the median: less is what a write to a disk takes
LEAST_PEAK = 0.1  # seconds, of the longest
_TIMES = 3  # what is that much slower than the slowest layer is not explained by it


def told(probes: Sequence[str], layers: Sequence[str], times: Times) -> Iterator[str]:
    """A sentence for each that is slow. `times`: of the last n rounds, those of the layers too."""
    usual, peak = (max(_each(of, layers, times), default=0.0) for of in (_usual, max))
    for name in probes:
        own = list(times.get(name, {}).values())
        if not own:
            continue
        mine, most = _usual(own), max(own)
        if name == WAKE_UP:
            yield from _late(most, peak)
        elif len(own) >= LEAST_ROUNDS and mine >= max(LEAST_USUAL, _TIMES * usual):
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


def _late(most: float, peak: float) -> Iterator[str]:
    """As long as a good part of the longest read: then that may have been the processor's."""
    if most >= LEAST_USUAL and most >= peak / _TIMES:
        yield (
            f"the processor let a probe wait for up to {_ms(most)}: it was busy, or stolen by the hypervisor; the "
            "longest times are not the storage's alone"
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
