"""tests/support/order.py: what is begun first, on each worker."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support import order


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("lines", [0, 1, 4, 7])
def test_each_part_begins_with_some_of_the_longest(workers: int, lines: int) -> None:
    """And what a line of the table means stays together."""
    long = [f"{line}_{number}" for number in range(2) for line in order.LONGEST[:lines]]
    names = [*(f"tests/x.py::test_{number}" for number in range(60)), *long]
    found = order.begun_first(names, names, workers)
    assert Counter(found) == Counter(names)
    begun = _begun(found, workers)
    assert [len(part) for part in begun] == [2 * len(range(number, lines, workers)) for number in range(workers)]
    for part in begun:
        assert [one[:-2] for one in part[::2]] == [one[:-2] for one in part[1::2]]


def test_more_of_the_longest_than_a_part_has_room_for() -> None:
    names = [f"{order.LONGEST[0]}_{number}" for number in range(9)] + ["tests/x.py::test"]
    assert Counter(order.begun_first(names, names, 5)) == Counter(names)


def _begun(found: list[str], workers: int) -> list[list[str]]:
    """The longest that each worker begins with, as xdist deals out the list."""
    begun = []
    for number in range(workers):
        size = len(found) // (workers - number)
        part, found = found[:size], found[size:]
        mine = [name for name in part if name.startswith(order.LONGEST)]
        assert mine == part[: len(mine)]
        begun.append(mine)
    return begun
