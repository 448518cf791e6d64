"""From the tables of a sample to those of the whole: what grows with the entries, and what does not. Whether a database
fits: a prediction is made only if it decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import MaxsizeTooSmall, NoSpace
from loader.mdb.contents import IndexCounts, TableSizes
from loader.operations import sizing
from loader.operations.sizing import Growth, Limits, require_room

PAGE = 4096
LONGEST = 65_535


def grown(table: str, keys: dict[int, int], own: int) -> int:
    """Returns the bytes of a table for a hundred times as many entries."""
    after = TableSizes(1000 + own, PAGE, {"id2e": 500, "x": own}, {"x": IndexCounts(keys, 4)})
    before = TableSizes(20, PAGE, {"id2e": 4, "x": 1}, {"x": IndexCounts({}, 4)})
    growth = Growth(before, after, 10_000, 1_000_000, LONGEST)
    return next(one.bytes for one in sizing.tables(growth) if one.name == table)


@pytest.mark.parametrize(
    ("table", "keys", "own", "expected", "within"),
    [
        pytest.param("id2e", {}, 1, (4 + 496 * 100) * PAGE, 0, id="what the parents take does not grow"),
        pytest.param("x", {1: 10_000}, 55, 55 * 100 * PAGE, 0.05, id="a key of each entry grows with them"),
        pytest.param("x", {600: 1}, 1, 600 * 100 * 8, 0.05, id="a key below the limit keeps its numbers"),
        # Each of 1,000 words in 10 entries: later each in 1,000, a tree of two pages and its root.
        pytest.param("x", {10: 1000}, 30, 1000 * 3 * PAGE, 0.1, id="keys that all have been met do not become more"),
    ],
)
def test_a_hundred_times_as_many(table: str, keys: dict[int, int], own: int, expected: int, within: float) -> None:
    assert grown(table, keys, own) == pytest.approx(expected, rel=within)


def test_a_key_of_all_becomes_a_range() -> None:
    """Its 10,000 IDs take 20 pages, 1,000,000 take three numbers."""
    assert grown("x", {10_000: 1}, 1) < 6 * PAGE


def unneeded() -> int:
    raise AssertionError("what fits in any case needs no prediction")


def test_what_fits_in_any_case_is_not_predicted(tmp_path: Path) -> None:
    require_room(Limits("dc=example", 1 << 20, tmp_path), lambda: 1 << 20, unneeded)
    require_room(Limits("dc=example", None, None), lambda: 1 << 60, unneeded)


def test_a_prediction_is_held_against_the_map_and_the_disk(tmp_path: Path) -> None:
    require_room(Limits("dc=example", 1 << 20, tmp_path), lambda: 1 << 60, lambda: 1 << 20)
    with pytest.raises(MaxsizeTooSmall, match=r"1\.0 MiB.*2\.0 MiB"):
        require_room(Limits("dc=example", 1 << 20, tmp_path), lambda: 2 << 20)
    with pytest.raises(NoSpace, match="needed"):
        require_room(Limits("dc=example", None, tmp_path), lambda: 1 << 60)
