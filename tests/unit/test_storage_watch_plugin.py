"""The plugin's output, read by the rules of the Monitoring Plugins guidelines, strictly."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nagiosplugin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from loader.operations.monitoring import Status
from loader.operations.storage import verdict
from loader.operations.storage.verdict import Figures, Layer, LayerState, Limits, State, Watcher
from loader.operations.storage.watch import Target, Watch, WatchOptions
from loader.storage.probes import Timed

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
        *(name, name, (), 512, Figures(davg, davg, 0, davg, davg)),
        *(10, None, None, False, (), None, NOW, 0, 0, None, None),
    )


def told(path: Path, known: State, limits: Limits = Limits(), age: float = 1.0) -> verdict.Check:  # noqa: B008
    verdict.write(known, path)
    return verdict.check(path, limits, NOW + age)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plugin") / "state"


def known(*layers: LayerState, probes: tuple[LayerState, ...] = (), said: str = "well") -> State:
    return State(NOW, 3.0, 10, layers, (), said, probes, Watcher.own())


seconds = some.floats(0, 1e8, exclude_min=True)
words = some.text(some.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@pytest.mark.slow
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
        (known(replace(layer("a"), figures=None), probes=(layer("write"),)), 1, Status.UNKNOWN),
        (known(layer("a"), probes=(replace(layer("p"), figures=None, problem="no"),)), 1, Status.UNKNOWN),
        (known(replace(layer("a"), measured=NOW - 9)), 1, Status.OK),
        (known(replace(layer("a"), measured=NOW - 10)), 1, Status.UNKNOWN),
        (known(layer("a"), probes=(replace(layer("p"), is_error=True),)), 1, Status.CRITICAL),
        (known(layer("a"), probes=(replace(layer("p"), in_flight_since=NOW - 2, limit=3),)), 1, Status.CRITICAL),
        (known(layer("a"), probes=(replace(layer("p"), in_flight_since=NOW - 1, limit=3),)), 1, Status.OK),
    ],
)
def test_exit_statuses(file: Path, found: State, age: float, status: Status) -> None:
    check = told(file, found, age=age)
    assert read(check.text())[0] == status.name == check.status.name
    assert int(check.status) in range(4)


ROWS = re.findall(
    r"^\| (.*) \| \d ([A-Z]+) \|$", (Path(__file__).parents[2] / "docs/storage.md").read_text(), re.MULTILINE
)
LIMITS = Limits(0.02, 0.2)


class Flaky:
    """Reads of which every fourth fails."""

    size: int | None = 512
    note: str | None = None
    count = 0

    def once(self) -> float:
        self.count += 1
        if self.count % 4 == 1:
            raise OSError(errno.EIO, "Input/output error")
        return 0.001

    def close(self) -> None:
        pass


def unopened(number: int) -> State:
    def opens() -> Timed:
        raise OSError(number, os.strerror(number))

    return watched(opens)


def watched(opens: Callable[[], Timed]) -> State:
    """After 7 rounds of a probe that is opened so."""
    options, target = WatchOptions(interval=0.05, samples=7), Target(Layer("p", ""), opens)
    with Watch((), options, (target,)) as watch:
        (*_, last) = watch.rounds()
    return replace(last, layers=last.probes, probes=(), interval=3.0, written=NOW)


def flaky() -> State:
    found = watched(Flaky)
    (one,) = found.layers
    assert (one.failed, one.errors, one.is_error) == (2, 2, False), one
    return found


def ended() -> State:
    done = subprocess.Popen(["true"])
    done.wait()
    return replace(known(layer("a")), watcher=replace(Watcher.own(), process=done.pid))


# The beginning of a row in docs/storage.md, and states for which its status holds.
RULES: dict[str, list[Callable[[], State | None]]] = {
    "every layer and every probe": [
        lambda: known(layer("a"), probes=(layer("p"),)),
        lambda: replace(known(layer("a")), watcher=Watcher.own()),
    ],
    "a davg is above `-w`": [lambda: known(layer("a", 0.03))],
    "a davg is above `-c`": [lambda: known(layer("a", 0.3))],
    "a read has been in flight": [lambda: known(replace(layer("a"), in_flight_since=NOW - 5))],
    "a flock or a write": [lambda: known(layer("a"), probes=(replace(layer("p"), in_flight_since=NOW - 2, limit=3),))],
    "the last read of a layer": [
        lambda: known(replace(layer("a"), is_error=True, problem="EIO", errors=1)),
        lambda: known(layer("a"), probes=(replace(layer("p"), is_error=True, problem="late"),)),
    ],
    "an earlier one failed": [flaky],
    "a layer cannot be opened, because": [
        lambda number=number: unopened(number)  # type: ignore[misc]
        for number in (errno.EIO, errno.ENXIO, errno.ENODEV)
    ],
    "a layer or a probe cannot be opened": [
        lambda number=number: unopened(number)  # type: ignore[misc]
        for number in (errno.EACCES, errno.ENOENT, errno.EINVAL)
    ],
    "no read of a layer was measured": [
        lambda: known(replace(layer("a"), problem="from a cache", measured=NOW - 10)),
        lambda: known(layer("b"), replace(layer("a"), figures=None)),
        lambda: known(layer("b"), probes=(replace(layer("p"), figures=None),)),
    ],
    "the state file is missing": [lambda: None],
    "the state is older": [
        lambda: replace(known(layer("a")), written=NOW - 9),
        lambda: replace(known(layer("a")), written=NOW + 60),
    ],
    "the process of the watch has ended": [ended],
}


def test_each_rule_has_a_row_in_the_documentation() -> None:
    rows = [text for text, status in ROWS]
    assert [[one for one in RULES if text.startswith(one)] for text in rows] == [[one] for one in RULES]


@pytest.mark.parametrize(("text", "status"), ROWS)
def test_each_row_of_the_documentation_is_true(tmp_path: Path, text: str, status: str) -> None:
    (makes,) = [makes for begin, makes in RULES.items() if text.startswith(begin)]
    for make in makes:
        path, found = tmp_path / "state", make()
        if found is not None:
            verdict.write(found, path)
        check = verdict.check(path, LIMITS, NOW + 1)
        assert read(check.text())[0] == check.status.name == status, check


def test_failed_reads_are_told_with_their_number_and_age(file: Path) -> None:
    one = replace(layer("a"), errors=15, failed=20, error="Input/output error", failed_at=NOW - 29)
    assert told(file, known(one)).lines[1] == ("a: 15 reads failed, the last one 30.0 s ago: Input/output error")
    last = replace(one, is_error=True, problem="Input/output error")
    assert told(file, known(last)).lines[1] == ("a: the last read failed: Input/output error (14 failed before it)")


def test_a_watch_of_another_pid_namespace_is_not_said_to_have_ended(file: Path) -> None:
    elsewhere = replace(Watcher.own(), process=4194305, namespace="elsewhere")
    assert told(file, replace(known(layer("a")), watcher=elsewhere)).status is Status.OK
