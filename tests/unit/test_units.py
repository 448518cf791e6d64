"""Sizes, durations and rates, read and written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import units
from loader.errors import UsageProblem

SIZES = {"4096": 4096, "250G": 250 << 30, "64 MiB": 64 << 20, "64mb": 64 << 20, " 1.5k ": 1536, "2T": 2 << 40, "0": 0}
DURATIONS = {"90": 90, "30s": 30, "15m": 900, "1.5h": 5400, "2d": 172_800, "250ms": 0.25}
READ = [
    *((units.parse_size, *row) for row in SIZES.items()),
    *((units.parse_duration, *row) for row in DURATIONS.items()),
]
NEITHER = [
    *((units.parse_size, text, "write 250G") for text in ("", "G", "-1", "1e9", "10 X", "1,000", "ten", "1G2")),
    *((units.parse_duration, text, "write 90, 30s") for text in ("", "-5", "soon", "1h30m", "5 weeks")),
]


@pytest.mark.parametrize(("parse", "text", "value"), READ)
def test_a_size_in_powers_of_1024_or_a_duration_in_seconds(
    parse: Callable[[str], float], text: str, value: float
) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(("parse", "text", "example"), NEITHER)
def test_what_is_neither_is_refused_with_an_example(parse: Callable[[str], float], text: str, example: str) -> None:
    with pytest.raises(UsageProblem, match=example):
        parse(text)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (units.size, (0,), "0 B"),
        (units.size, (1023,), "1023 B"),
        (units.size, (1536,), "1.5 KiB"),
        (units.size, (250 << 30,), "250.0 GiB"),
        (units.size, (3 << 40,), "3.0 TiB"),
        (units.duration, (0,), "0.0 s"),
        (units.duration, (3.21,), "3.2 s"),
        (units.duration, (59.97,), "1 min 0 s"),
        (units.duration, (61,), "1 min 1 s"),
        (units.duration, (3600,), "1 h 0 min"),
        (units.duration, (93784,), "1 d 2 h"),
        (units.number, (30_000_000,), "30,000,000"),
        (units.rate, (50_000, 2.0), "25,000/s"),
        (units.rate, (0, 2.0), "-"),  # nothing was measured
        (units.rate, (10, 0.0), "-"),
        (units.listed, (["cn", "sn", "uid"], 3), "cn, sn, uid"),
        (units.listed, (["cn", "sn", "uid"], 1, "; "), "cn; and 2 more"),
        (units.listed, (["cn", "sn", "uid"], 2, ", ", " "), "cn, sn and 1 more"),
    ],
)
def test_written(write: Callable[..., str], value: tuple[object, ...], text: str) -> None:
    assert write(*value) == text


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_written_size_reads_back_within_its_rounding(count: int) -> None:
    assert abs(units.parse_size(units.size(count)) - count) <= max(1, count * 0.05)
