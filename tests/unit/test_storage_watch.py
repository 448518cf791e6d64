"""What `storage watch` makes of times: figures, the layer that adds delay, and what a monitoring plugin says, read by
the rules of the Monitoring Plugins guidelines, strictly."""

from __future__ import annotations

import errno
import os
import random
import re
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from loader.operations import monitoring
from loader.operations.monitoring import Status
from loader.operations.options import WatchOptions
from loader.operations.storage import verdict, watch
from loader.operations.storage.verdict import Figures, Layer, LayerState, Limits, Readings, State
from loader.operations.storage.watch import Target, Watch
from loader.storage.mounts import Mount
from loader.storage.probes import TimedProbe
from loader.storage.survey import Device
from tests.support import plugin

NOW = 1_800_000_000.0


def figures(readings: Readings) -> Figures:
    found = readings.figures()
    assert found is not None
    return found


def test_figures_are_those_of_the_last_n() -> None:
    readings = Readings(window=3, half_life=60)
    assert readings.figures() is None
    for number, seconds in enumerate((9.0, 1.0, 2.0, 3.0)):
        readings.add(number, number * 3, seconds)
    found = figures(readings)
    assert (found.last, found.davg) == (3.0, 2.0)
    assert found.dstd_dev == statistics.pstdev((1.0, 2.0, 3.0))
    assert readings.recent == {1: 1.0, 2: 2.0, 3: 3.0}


def test_extremes_attack_at_once_and_are_released_by_half_in_a_half_life() -> None:
    readings = Readings(window=1, half_life=60)
    readings.add(0, 0, 1.0)
    readings.add(1, 3, 9.0)
    assert figures(readings).emax == 9.0
    readings.add(2, 63, 1.0)
    assert figures(readings).emax == pytest.approx(5.0)
    readings.add(3, 183, 1.0)
    assert figures(readings).emax == pytest.approx(2.0)
    readings.add(4, 184, 0.5)
    assert figures(readings).emin == 0.5
    readings.add(5, 244, 1.5)
    assert figures(readings).emin == pytest.approx(1.0)


def test_a_failed_read_is_held_while_it_is_in_the_window_and_for_a_half_life() -> None:
    readings = Readings(window=4, half_life=10)
    for number in range(60):
        readings.add(number, number, None, "EIO" if number % 4 == 0 else None)
    assert readings.errors(59) == (2, 56)  # those of rounds 52 and 56
    assert (readings.failed, readings.error) == (15, "EIO")
    assert readings.errors(66) == (1, 56)
    assert readings.errors(1000) == (1, 56)  # among the last four reads
    readings.add(60, 1000, None)
    assert readings.errors(1000) == (0, None)
    assert readings.failed == 15


MIRROR = (Layer("fs", "/f", ("lv",)), Layer("lv", "/l", ("leg1", "leg2")), Layer("leg1", "/1"), Layer("leg2", "/2"))
FAST, SLOW, MORE = 0.0002, 0.02, 0.01
Served = Callable[[int, float, float], float]


def times(
    served: Served, lv: float = 0.0, fs: float = 0.0, leg2: float = SLOW, rounds: int = 30
) -> dict[str, dict[int, float]]:
    """`lv`, `fs`: what they add. `served`: which of the legs' times a read of the mirror takes, by its round."""
    noise = random.Random(1).uniform
    found: dict[str, dict[int, float]] = {one.name: {} for one in MIRROR}
    for number in range(rounds):
        legs = [FAST * noise(0.7, 1.4), leg2 * noise(0.7, 1.4)]
        found["leg1"][number], found["leg2"][number] = legs
        for name, added in (("lv", lv), ("fs", lv + fs)):
            again = FAST * noise(0.7, 1.4), leg2 * noise(0.7, 1.4)
            found[name][number] = served(number, *again) + added + noise(0, 2e-5)
    return found


SERVED: dict[str, Served] = {
    "by the first": lambda number, one, other: one,
    "by the second": lambda number, one, other: other,
    "by turns": lambda number, one, other: other if number % 2 else one,
}
FIRST, _, TURNS = SERVED.values()


@pytest.mark.parametrize("served", SERVED.values(), ids=SERVED)
def test_a_slow_leg_is_named_however_the_mirror_reads(served: Served) -> None:
    found = verdict.verdict(MIRROR, times(served))
    assert [one.layer for one in found if one.is_delay] == ["leg2"]
    assert verdict.sentence(found, []).startswith("leg2 takes ")


@pytest.mark.parametrize("served", [FIRST, TURNS])
@pytest.mark.parametrize("name", ["lv", "fs"])
def test_a_slow_layer_above_equal_legs_is_named(name: str, served: Served) -> None:
    found = verdict.verdict(MIRROR, times(served, leg2=FAST, **{name: MORE}))  # type: ignore[arg-type]
    assert [one.layer for one in found if one.is_delay] == [name]
    added = next(one for one in found if one.layer == name)
    assert added.seconds == pytest.approx(MORE, rel=0.1)
    assert verdict.sentence(found, []).startswith(f"{name} adds {added.seconds * 1000:.2f} ms to ")
    beside_a_leg_that_is_not_read = verdict.verdict(MIRROR, times(FIRST, **{name: MORE}))  # type: ignore[arg-type]
    assert [one.layer for one in beside_a_leg_that_is_not_read if one.is_delay] == [name, "leg2"]


def test_differences_that_go_both_ways_are_no_delay() -> None:
    """Six rounds of ten are slower, four are faster: the median alone would say that it adds 5 ms."""
    pair = (Layer("lv", "/l", ("disk",)), Layer("disk", "/d"))
    signs = [1 if number % 10 < 6 else -1 for number in range(30)]
    disk = dict.fromkeys(range(30), 0.010)
    found = verdict.verdict(pair, {"lv": {n: 0.010 + sign * 0.005 for n, sign in enumerate(signs)}, "disk": disk})
    assert found[0].seconds == pytest.approx(0.005)
    assert not found[0].is_delay


def test_what_was_not_measured_is_passed_over() -> None:
    """The layer above is compared with that below; too few rounds are none."""
    measured = times(FIRST, fs=MORE, leg2=FAST)
    measured["lv"] = {}
    found = {one.layer: one for one in verdict.verdict(MIRROR, measured)}
    assert found["fs"].over == ("leg1", "leg2")
    assert found["fs"].is_delay
    assert found["lv"].seconds is None
    few = verdict.verdict(MIRROR, times(FIRST, rounds=4))
    assert verdict.sentence(few, []).startswith("not known: ")
    assert verdict.sentence(few, ["leg2", "lv"]).startswith("leg2 does not answer; ")


def test_a_layer_whose_reads_fail_is_not_said_to_add_nothing() -> None:
    found = verdict.verdict(MIRROR, times(TURNS, leg2=FAST))
    assert not any(one.is_delay for one in found)  # nothing is named where nothing adds
    words = verdict.sentence(found, [], ["lv"]).split("; ")
    assert words[0] == "reads of lv fail"
    assert not any(word.startswith("lv ") for word in words)
    unmeasured = verdict.verdict(MIRROR, {**times(TURNS, leg2=FAST), "lv": {}})
    assert "not known" not in verdict.sentence(unmeasured, [], ["lv"])


def test_parts_that_lvm_makes_for_a_volume_are_no_layers() -> None:
    def device(name: str, kind: str, *on: str) -> Device:
        return Device(*(name, f"/dev/{name}", kind, 1 << 30, 0, 0, 512, 512, 0, False, 131072, None), *(None, on))

    mount = Mount("254:9", "/", "/srv", "xfs", "/dev/dm-9", ())
    devices = (
        device("dm-9", "lvm", "dm-5", "dm-6", "dm-7", "dm-8"),
        *(device(f"dm-{n}", "lvm", "sda1" if n < 7 else "crypt") for n in range(5, 9)),
        device("sda1", "partition", "sda"),
        device("sda", "disk"),
        device("crypt", "crypt", "sdb"),
        device("sdb", "disk"),
    )
    found = watch.on_devices("/srv/data.mdb", mount, devices)
    assert [(one.name, one.on) for one in found] == [
        ("xfs on /srv", ("/dev/dm-9",)),
        ("/dev/dm-9", ("/dev/sda1", "/dev/crypt")),
        ("/dev/sda1", ("/dev/sda",)),
        ("/dev/crypt", ("/dev/sdb",)),
        ("/dev/sda", ()),
        ("/dev/sdb", ()),
    ]


def test_given_layers_stand_on_the_next(tmp_path: Path) -> None:
    words = [f"{name}={tmp_path}" for name in ("fs", "lv", "leg1", "leg2", "disk")]
    assert [(one.name, one.on) for one in watch.parse_layers(words)] == [
        ("fs", ("lv",)),
        ("lv", ("leg1", "leg2")),
        ("leg1", ("disk",)),
        ("leg2", ("disk",)),
        ("disk", ()),
    ]


def layer(name: str = "a", davg: float = 0.002, **more: object) -> LayerState:
    found = LayerState(
        *(name, name, (), 512, Figures(davg, davg, 0, davg, davg)),
        *(10, None, None, False, (), None, NOW, 0, 0, None, None),
    )
    return replace(found, **more)


def known(*layers: LayerState, probes: tuple[LayerState, ...] = (), said: str = "well", **more: Any) -> State:
    return replace(State(NOW, 3.0, 10, layers, (), said, probes), **more)


def test_prometheus_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "watch.prom"
    odd, hung = (layer('xfs on /a"b\\c\n', davg=0.25), layer("leg", in_flight_since=NOW - 6, failed=15))
    added = verdict.Added(odd.name, ("leg",), 30, 0.125, 0.25, False)
    monitoring.write(verdict.metrics(known(replace(odd, on=("leg",)), hung, verdict=(added,))), path)
    families = text_string_to_metric_families(path.read_text())
    found = {(one.name, *one.labels.values()): one.value for f in families for one in f.samples}
    name = "ditseed_storage_watch"
    assert found[f"{name}_davg_seconds", odd.name] == 0.25
    assert found[f"{name}_reads_total", "leg"] == 10
    assert found[f"{name}_failed_total", "leg"] == 15
    assert found[f"{name}_failed_total", odd.name] == 0
    assert found[f"{name}_added_seconds", odd.name] == 0.125
    assert found[f"{name}_in_flight_seconds", "leg"] == 6
    assert found[f"{name}_written_timestamp_seconds",] == NOW
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plugin") / "state"


seconds = some.floats(0, 1e8, exclude_min=True)
words = some.text(some.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@pytest.mark.slow
@settings(max_examples=60)
@given(words, words, seconds, seconds, seconds)
def test_whatever_it_is_called_and_however_long_it_takes(
    file: Path, name: str, other: str, davg: float, warning: float, critical: float
) -> None:
    found = known(layer(name, davg), layer("b"), probes=(layer(other, davg),), said=other)
    verdict.write(found, file)
    check = verdict.check(file, Limits(warning, critical), NOW + 1)
    status, data = plugin.read(check.text(), "STORAGE WATCH")
    assert status == check.status.name
    averages = [one for label, one in data.items() if label.endswith("_davg")]
    assert {one.unit for one in data.values()} == {"s", "c"}
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


class Flaky:
    """Reads of which the first two fail, so that the last succeeds, however few a busy machine makes in 7 rounds."""

    size: int | None = 512
    note: str | None = None
    count = 0

    def measure(self) -> float:
        self.count += 1
        if self.count <= 2:
            raise OSError(errno.EIO, "Input/output error")
        return 0.001

    def close(self) -> None:
        pass


def failing(number: int) -> TimedProbe:
    raise OSError(number, os.strerror(number))


def watched(opens: Callable[[], TimedProbe]) -> State:
    """After 7 rounds of a probe that is opened so."""
    options, target = WatchOptions(interval=0.05, samples=7), Target(Layer("p", ""), opens)
    with Watch((), options, (target,)) as watch:
        (*_, last) = watch.rounds()
    return replace(last, layers=last.probes, probes=(), interval=3.0, written=NOW)


def unopened(number: int) -> Callable[[], State]:
    return partial(watched, partial(failing, number))


def flaky() -> State:
    found = watched(Flaky)
    (one,) = found.layers
    assert (one.failed, one.errors, one.is_error) == (2, 2, False), one
    return found


ROWS = re.findall(
    r"^\| (.*) \| \d ([A-Z]+) \|$", (Path(__file__).parents[2] / "docs/storage-watch.md").read_text(), re.MULTILINE
)
NONE, BOTH = Limits(), Limits(0.02, 0.2)
UNMEASURED = layer(figures=None)
FAILED = layer(errors=15, failed=20, error="EIO", failed_at=NOW - 29)
DEAD, OTHERWISE = (errno.EIO, errno.ENXIO, errno.ENODEV), (errno.EACCES, errno.ENOENT, errno.EINVAL)


def probed(**more: object) -> State:
    """A layer that is well, and a probe."""
    return known(layer(), probes=(layer("p", **more),))


# The beginning of a row in docs/storage-watch.md, and states for which its status holds, with what is said.
RULES: dict[str, list[tuple[State | bytes | Callable[[], State | None], Limits, str]]] = {
    "every layer and every probe": [
        (probed(), BOTH, "well"),
        (known(layer()), NONE, "well"),
        (known(layer(in_flight_since=NOW - 4)), NONE, "well"),
        (known(layer(measured=NOW - 9)), NONE, "well"),
        (probed(in_flight_since=NOW - 1, limit=3), NONE, "well"),
    ],
    "a davg is above `-w`": [(known(layer()), Limits(0.001), "(limit 1.00 ms)")],
    "a davg is above `-c`": [
        (known(layer()), Limits(0.001, 0.0015), "(limit 1.50 ms)"),
        # What is not measured does not hide what is too slow.
        (known(UNMEASURED, layer(), layer("b", 1)), Limits(None, 0.5), "b: davg 1000.00 ms"),
    ],
    "a read has been in flight": [(known(layer(in_flight_since=NOW - 5)), NONE, "in flight for 6.0 s")],
    "a flock or a write": [(probed(in_flight_since=NOW - 2, limit=3), NONE, "p: it")],
    "the last read of a layer": [
        (known(layer(is_error=True, problem="EIO")), NONE, "EIO"),
        (known(replace(FAILED, is_error=True, problem="EIO")), NONE, "the last read failed: EIO (14 failed before it)"),
        (probed(is_error=True, problem="late"), NONE, "p: the last try failed"),
    ],
    "an earlier one failed": [
        (flaky, BOTH, "2 reads failed"),
        (known(layer(errors=1, error="EIO")), NONE, "1 read failed: EIO"),
        (known(FAILED), NONE, "a: 15 reads failed, the last one 30.0 s ago: EIO"),
    ],
    "a layer cannot be opened, because": [(unopened(number), BOTH, os.strerror(number)) for number in DEAD],
    "a layer or a probe cannot be opened": [(unopened(number), BOTH, os.strerror(number)) for number in OTHERWISE],
    "no read of a layer was measured": [
        (known(layer(measured=NOW - 10)), NONE, "not measured"),
        (known(layer(problem="cached", figures=None)), NONE, "not measured: cached"),
        (known(UNMEASURED, layer("b")), NONE, "a: not measured"),
        (known(UNMEASURED, probes=(layer("write"),)), NONE, "no read has ended yet"),
        (probed(figures=None, problem="no"), NONE, "p: not"),
        (known(), NONE, "no layer is timed"),
    ],
    "the state file is missing": [
        (lambda: None, BOTH, "No such file"),
        (b"", NONE, "state: "),
        (msgspec.json.encode(known(layer()))[:-9], NONE, "state: "),
        (known(layer(), format=2), NONE, "format 2"),
    ],
    "the state is older": [
        (known(layer(), written=NOW - 8.5), NONE, "last written 9.5 s ago: is the watch running?"),
        (known(layer(), written=NOW + 61), NONE, "later than now"),
    ],
}


def test_each_rule_has_a_row_in_the_documentation() -> None:
    rows = [text for text, status in ROWS]
    assert [[one for one in RULES if text.startswith(one)] for text in rows] == [[one] for one in RULES]


@pytest.mark.parametrize(("text", "status"), ROWS)
def test_each_row_of_the_documentation_is_true(tmp_path: Path, text: str, status: str) -> None:
    (cases,) = [cases for begin, cases in RULES.items() if text.startswith(begin)]
    for made, limits, said in cases:
        path, found = tmp_path / "state", made() if callable(made) else made
        if isinstance(found, State):
            verdict.write(found, path)
        elif found is not None:
            path.write_bytes(found)
        check = verdict.check(path, limits, NOW + 1)
        assert plugin.read(check.text(), "STORAGE WATCH")[0] == check.status.name == status, check
        first = check.text()[0].partition(" - ")[2].partition(" | ")[0]
        assert said in first
        assert status == "OK" or not re.search(r"\bOK\b", check.text()[0])
        assert status == "UNKNOWN" or "not measured" not in first
