"""From the tables of a sample to those of the whole: what grows with the entries, and what does not. Whether a database
fits: a prediction is made only if it decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import MaxsizeTooSmall, NoSpace
from loader.mdb.contents import IndexCounts, TableSizes
from loader.operations import sizing
from loader.operations.sizing import Growth, Limits, TableForecast, require_room

PAGE = 4096
LONGEST = 65_535


def forecast(keys: dict[int, int], own: int, factor: int = 100) -> dict[str, TableForecast]:
    after = TableSizes(1000 + own, PAGE, {"id2e": 500, "x": own}, {"x": IndexCounts(keys, 4)})
    before = TableSizes(20, PAGE, {"id2e": 4, "x": 1}, {"x": IndexCounts({}, 4)})
    growth = Growth(before, after, 10_000, 10_000 * factor, LONGEST)
    return {one.name: one for one in sizing.tables(growth)}


def test_what_the_parents_take_does_not_grow() -> None:
    found = forecast({}, 1)
    assert found["id2e"].bytes == (4 + 496 * 100) * PAGE


def test_a_key_of_each_entry_grows_with_them() -> None:
    found = forecast({1: 10_000}, 55)["x"]
    assert found.bytes == pytest.approx(55 * 100 * PAGE, rel=0.05)


def test_a_key_of_all_becomes_a_range() -> None:
    """Its 10,000 IDs take 20 pages, 1,000,000 take three numbers."""
    found = forecast({10_000: 1}, 1)["x"]
    assert found.bytes < 6 * PAGE


def test_a_key_below_the_limit_keeps_its_numbers() -> None:
    found = forecast({600: 1}, 1)["x"]
    assert found.bytes == pytest.approx(600 * 100 * 8, rel=0.05)


def test_keys_that_all_have_been_met_do_not_become_more() -> None:
    """Each of 1,000 words in 10 entries: later each in 1,000, a tree of two pages and its root."""
    found = forecast({10: 1000}, 30)["x"]
    assert found.bytes == pytest.approx(1000 * 3 * PAGE, rel=0.1)


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
