"""Sizes, durations and rates, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import units
from loader.errors import UsageProblem


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("250G", 250 << 30),
        ("64 MiB", 64 << 20),
        ("64mb", 64 << 20),
        (" 1.5k ", 1536),
        ("2T", 2 << 40),
        ("0", 0),
    ],
)
def test_a_size_counts_in_powers_of_1024(text: str, count: int) -> None:
    assert units.parse_size(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1", "1e9", "10 X", "1,000", "ten", "1G2"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageProblem, match="write 250G"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("30s", 30), ("15m", 900), ("1.5h", 5400), ("2d", 172_800), ("250ms", 0.25)]
)
def test_a_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-5", "soon", "1h30m", "5 weeks"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageProblem, match="write 90, 30s"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (250 << 30, "250.0 GiB"), (3 << 40, "3.0 TiB")]
)
def test_a_size_is_written_with_its_unit(count: int, text: str) -> None:
    assert units.size(count) == text


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_written_size_reads_back_within_its_rounding(count: int) -> None:
    again = units.parse_size(units.size(count))
    assert abs(again - count) <= max(1, count * 0.05)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (3.21, "3.2 s"), (59.97, "1 min 0 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (93784, "1 d 2 h")],
)
def test_a_duration_is_written_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


def test_numbers_are_grouped() -> None:
    assert units.number(30_000_000) == "30,000,000"


@pytest.mark.parametrize(("count", "seconds", "text"), [(50_000, 2.0, "25,000/s"), (0, 2.0, "-"), (10, 0.0, "-")])
def test_a_rate_is_a_dash_where_nothing_was_measured(count: int, seconds: float, text: str) -> None:
    assert units.rate(count, seconds) == text


def test_a_long_list_is_cut() -> None:
    names = ["cn", "sn", "uid"]
    assert units.listed(names, 3) == "cn, sn, uid"
    assert units.listed(names, 1, "; ") == "cn; and 2 more"
    assert units.listed(names, 2, last=" ") == "cn, sn and 1 more"
