"""tests/support/order.py: what is begun first, on each worker."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support import order

LONG = order.LONGEST[1]


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("long", [0, 1, 4, 7, 23])
def test_each_part_begins_with_some_of_the_longest(workers: int, long: int) -> None:
    names = [f"tests/x.py::test_{number}" for number in range(23 - long)]
    names += [f"{LONG}_{number}" for number in range(long)]
    found = order.begun_first(names, names, workers)
    assert Counter(found) == Counter(names)
    if long != len(names):
        assert _parts_of_the_longest(found, workers) == [
            len(range(number, long, workers)) for number in range(workers)
        ]


def _parts_of_the_longest(found: list[str], workers: int) -> list[int]:
    """How many each worker begins with, as xdist deals them out."""
    counts = []
    for number in range(workers):
        size = len(found) // (workers - number)
        part, found = found[:size], found[size:]
        mine = [name.startswith(LONG) for name in part]
        assert mine == sorted(mine, reverse=True)
        counts.append(sum(mine))
    return counts
