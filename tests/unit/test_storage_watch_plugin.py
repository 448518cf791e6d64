"""The plugin's output, read by the rules of the Monitoring Plugins guidelines, strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import nagiosplugin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from loader.operations.monitoring import Status
from loader.operations.storage.watch import plugin, state
from loader.operations.storage.watch.plugin import Limits
from loader.operations.storage.watch.state import LayerState, State
from loader.operations.storage.watch.timing import Figures

NOW = 1_800_000_000.0
UNITS = {"", "s", "ms", "us", "%", "B", "c"}
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")  # no exponent, no comma, no sign but minus


@dataclass(frozen=True)
class Datum:
    label: str
    value: float
    unit: str
    limits: tuple[nagiosplugin.Range | None, ...]


def read(lines: tuple[str, ...]) -> tuple[str, list[Datum]]:
    """The status word, and the performance data. AssertionError where a rule is broken."""
    first, *more = lines
    assert all(line.isprintable() for line in lines)
    assert not any("|" in line for line in more)
    text, _, numbers = first.partition(" | ")
    assert "|" not in text + numbers
    head, dash, said = text.partition(" - ")
    assert (head.rsplit(" ", 1)[0], dash, bool(said)) == ("STORAGE WATCH", " - ", True)
    found = []
    while numbers:
        datum, numbers = first_of(numbers)
        found.append(datum)
    assert len({one.label for one in found}) == len(found)
    return head.rsplit(" ", 1)[1], found


def first_of(numbers: str) -> tuple[Datum, str]:
    """'label'=value[UOM];[warn];[crit];[min];[max], and what follows it."""
    assert numbers[0] == "'"
    label, _, rest = numbers[1:].partition("'=")
    assert label
    assert not set(label) & set("='|")
    word, _, following = rest.partition(" ")
    value, *fields = word.split(";")
    found = DECIMAL.match(value)
    assert found is not None
    unit = value[found.end() :]
    assert unit in UNITS
    assert len(fields) <= 4
    assert all(not one or DECIMAL.fullmatch(one) for one in fields[2:])
    # Its own constructors refuse what is no label and no range.
    nagiosplugin.Performance(label, found[0], unit, *fields)
    ranges = tuple(nagiosplugin.Range(one) if one else None for one in fields[:2])
    return Datum(label, float(found[0]), unit, ranges), following


def layer(name: str, davg: float = 0.002) -> LayerState:
    return LayerState(
        *(name, name, (), 512, Figures(davg, davg, 0, davg, davg, davg, davg, davg)),
        *(10, 0, 0, 0.0, None, None, False, ()),
    )


def told(path: Path, known: State, limits: Limits = Limits(), age: float = 1.0) -> plugin.Check:  # noqa: B008
    state.write(known, path)
    return plugin.check(path, limits, NOW + age)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plugin") / "state"


def known(*layers: LayerState, probes: tuple[LayerState, ...] = (), said: str = "well") -> State:
    return State(NOW, 3.0, 10, layers, (), said, probes=probes)


seconds = some.floats(0, 1e8, exclude_min=True)
words = some.text(some.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(words, words, seconds, seconds, seconds)
def test_whatever_it_is_called_and_however_long_it_takes(
    file: Path, name: str, other: str, davg: float, warning: float, critical: float
) -> None:
    found = known(layer(name, davg), layer("b"), probes=(layer(other, davg),), said=other)
    check = told(file, found, Limits(warning, critical))
    status, data = read(check.text())
    assert status == check.status.name
    averages = [one for one in data if one.label.endswith("_davg")]
    assert {one.unit for one in data} == {"s", "c"}
    assert averages[0].value == pytest.approx(davg, abs=1e-6)
    worst, limits = max(davg, 0.002), averages[0].limits
    for wanted, limit, is_over in (
        (Status.CRITICAL, limits[1], worst > critical),
        (Status.WARNING, limits[0], worst > warning),
    ):
        if is_over:
            assert check.status is wanted
            # Its monitoring system comes to the same from the range, to the digits that are shown.
            assert limit is not None
            assert worst not in limit or worst == pytest.approx(limit.end, abs=1e-6)
            return
    assert check.status is Status.OK


@pytest.mark.parametrize(
    ("found", "age", "status"),
    [
        (known(layer("a")), 9.5, Status.UNKNOWN),
        (known(layer("a")), -60, Status.UNKNOWN),
        (known(), 1, Status.UNKNOWN),
        (known(replace(layer("a"), figures=None), probes=(layer("wake-up"),)), 1, Status.UNKNOWN),
        (
            known(layer("a"), probes=(replace(layer("p"), figures=None, problem="no"),)),
            1,
            Status.OK,
        ),
        (known(layer("a"), probes=(replace(layer("p"), is_error=True),)), 1, Status.CRITICAL),
        (
            known(layer("a"), probes=(replace(layer("p"), in_flight_since=NOW - 2, limit=3),)),
            1,
            Status.CRITICAL,
        ),
        (
            known(layer("a"), probes=(replace(layer("p"), in_flight_since=NOW - 1, limit=3),)),
            1,
            Status.OK,
        ),
    ],
)
def test_exit_statuses(file: Path, found: State, age: float, status: Status) -> None:
    check = told(file, found, age=age)
    assert read(check.text())[0] == status.name == check.status.name
    assert int(check.status) in range(4)


@pytest.mark.parametrize(
    "wrong",
    [
        "STORAGE WATCH OK - well | 'a=b'=1s",
        "STORAGE WATCH OK - well | 'a'=1e-7s",
        "STORAGE WATCH OK - well | 'a'=1,5s",
        "STORAGE WATCH OK - well | 'a'=1m",
        "STORAGE WATCH OK - well | 'a'=1s;;;;;",
        "STORAGE WATCH OK - well | 'a'=1s 'a'=2s",
        "STORAGE WATCH OK - a|b | 'a'=1s",
        "STORAGE WATCH OK - a\nb",
    ],
)
def test_the_reader_is_strict(wrong: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        read((wrong,))
