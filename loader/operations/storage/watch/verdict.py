"""Which layer adds the delay: the time of each layer compared with that of those right below it, round by round."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from loader.operations.storage.watch.layers import Layer

LEAST_ROUNDS = 5
LEAST_DELAY = 1e-4  # seconds: what is less is nothing to look for
_SHARE = 0.1  # of what is below: less is within what reads differ by themselves
_OF_WORST = 0.05  # of the largest delay that any layer adds: what is less does not explain anything
_SAME = 1.5  # a read of an upper layer may be that much faster than the read of the lower one that served it

Times = Mapping[str, Mapping[int, float]]  # layer -> round -> seconds


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
