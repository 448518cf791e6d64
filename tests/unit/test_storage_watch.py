"""What `storage watch` makes of times: figures, the layer that adds delay, what a monitoring plugin says."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from loader.operations import monitoring
from loader.operations.monitoring import Status
from loader.operations.storage import verdict, watch
from loader.operations.storage.verdict import Figures, Layer, LayerState, Limits, Readings, State, Watcher
from loader.storage.mounts import Mount
from loader.storage.survey import Device

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


def alternating(number: int, one: float, other: float) -> float:
    return other if number % 2 else one


def first(number: int, one: float, other: float) -> float:
    return one


def second(number: int, one: float, other: float) -> float:
    return other


@pytest.mark.parametrize("served", [first, second, alternating])
def test_a_slow_leg_is_named_however_the_mirror_reads(served: Served) -> None:
    found = verdict.verdict(MIRROR, times(served))
    assert [one.layer for one in found if one.is_delay] == ["leg2"]
    assert verdict.sentence(found, []).startswith("leg2 takes ")


@pytest.mark.parametrize("served", [first, alternating])
@pytest.mark.parametrize("name", ["lv", "fs"])
def test_a_slow_layer_above_equal_legs_is_named(name: str, served: Served) -> None:
    found = verdict.verdict(MIRROR, times(served, leg2=FAST, **{name: MORE}))  # type: ignore[arg-type]
    assert [one.layer for one in found if one.is_delay] == [name]
    added = next(one for one in found if one.layer == name)
    assert added.seconds == pytest.approx(MORE, rel=0.1)
    assert verdict.sentence(found, []).startswith(f"{name} adds {added.seconds * 1000:.2f} ms to ")


def test_a_slow_layer_is_named_beside_a_slow_leg_that_is_not_read() -> None:
    found = verdict.verdict(MIRROR, times(first, lv=MORE))
    assert [one.layer for one in found if one.is_delay] == ["lv", "leg2"]


def test_differences_that_go_both_ways_are_no_delay() -> None:
    """Six rounds of ten are slower, four are faster: the median alone would say that it adds 5 ms."""
    pair = (Layer("lv", "/l", ("disk",)), Layer("disk", "/d"))
    signs = [1 if number % 10 < 6 else -1 for number in range(30)]
    disk = dict.fromkeys(range(30), 0.010)
    found = verdict.verdict(pair, {"lv": {n: 0.010 + sign * 0.005 for n, sign in enumerate(signs)}, "disk": disk})
    assert found[0].seconds == pytest.approx(0.005)
    assert not found[0].is_delay


def test_nothing_is_named_where_nothing_adds() -> None:
    found = verdict.verdict(MIRROR, times(alternating, leg2=FAST))
    assert not any(one.is_delay for one in found)


def test_what_was_not_measured_is_passed_over() -> None:
    """The layer above is compared with that below; too few rounds are none."""
    measured = times(first, fs=MORE, leg2=FAST)
    measured["lv"] = {}
    found = {one.layer: one for one in verdict.verdict(MIRROR, measured)}
    assert found["fs"].over == ("leg1", "leg2")
    assert found["fs"].is_delay
    assert found["lv"].seconds is None
    few = verdict.verdict(MIRROR, times(first, rounds=4))
    assert verdict.sentence(few, []).startswith("not known: ")
    assert verdict.sentence(few, ["leg2", "lv"]).startswith("leg2 does not answer; ")


def device(name: str, kind: str, *on: str) -> Device:
    return Device(*(name, f"/dev/{name}", kind, 1 << 30, 0, 0, 512, 512, 0, False, 131072, None), *(None, on))


def test_a_layer_whose_reads_fail_is_not_said_to_add_nothing() -> None:
    found = verdict.verdict(MIRROR, times(alternating, leg2=FAST))
    words = verdict.sentence(found, [], ["lv"]).split("; ")
    assert words[0] == "reads of lv fail"
    assert not any(word.startswith("lv ") for word in words)
    unmeasured = verdict.verdict(MIRROR, {**times(alternating, leg2=FAST), "lv": {}})
    assert "not known" not in verdict.sentence(unmeasured, [], ["lv"])


def test_parts_that_lvm_makes_for_a_volume_are_no_layers() -> None:
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
    assert [(one.name, one.on) for one in watch.given(words)] == [
        ("fs", ("lv",)),
        ("lv", ("leg1", "leg2")),
        ("leg1", ("disk",)),
        ("leg2", ("disk",)),
        ("disk", ()),
    ]


def layer(name: str = "/dev/mapper/vg-ldap", davg: float = 0.002, **more: object) -> LayerState:
    found = LayerState(
        *(name, name, (), 512, Figures(davg, davg, 0, davg, davg)),
        *(10, None, None, False, (), None, NOW, 0, 0, None, None),
    )
    return replace(found, **more)


def checked(tmp_path: Path, *found: LayerState, age: float = 1.0, **limits: float) -> verdict.Check:
    path = tmp_path / "state"
    verdict.write(State(NOW - age, 3.0, 10, found, (), "all well", (), Watcher.own()), path)
    return verdict.check(path, Limits(**limits), NOW)


@pytest.mark.parametrize(
    ("found", "age", "limits", "status", "said"),
    [
        (layer(), 1, {}, Status.OK, "all well"),
        (layer(), 1, {"warning": 0.001}, Status.WARNING, "(limit 1.00 ms)"),
        (layer(), 1, {"warning": 0.001, "critical": 0.0015}, Status.CRITICAL, "(limit 1.50 ms)"),
        (layer(), 9.5, {}, Status.UNKNOWN, "last written 9.5 s ago"),
        (layer(), -60, {}, Status.UNKNOWN, "later than now"),
        (layer(in_flight_since=NOW - 5), 1, {}, Status.OK, "all well"),
        (layer(in_flight_since=NOW - 6), 1, {}, Status.CRITICAL, "in flight for 6.0 s"),
        (layer(problem="Input/output error", is_error=True), 1, {}, Status.CRITICAL, "output"),
        (layer(problem="from a cache", figures=None), 1, {}, Status.UNKNOWN, "from a cache"),
    ],
)
def test_what_a_plugin_says(
    tmp_path: Path, found: LayerState, age: float, limits: dict[str, float], status: Status, said: str
) -> None:
    told = checked(tmp_path, found, age=age, **limits)
    assert (told.status, said in told.text()[0]) == (status, True), told.text()


def test_a_layer_that_is_not_measured_hides_no_other(tmp_path: Path) -> None:
    unknown = layer("/dev/vda", problem="Operation not permitted", figures=None)
    assert checked(tmp_path, unknown, layer()).status is Status.UNKNOWN
    worse = checked(tmp_path, unknown, layer(), layer("b", davg=1), critical=0.5)
    assert worse.status is Status.CRITICAL
    assert worse.lines[0].startswith("b: davg 1000.00 ms")


def test_prometheus_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "watch.prom"
    odd, hung = (layer('xfs on /a"b\\c\n', davg=0.25), layer("leg", in_flight_since=NOW - 6, failed=15))
    added = verdict.Added(odd.name, ("leg",), 30, 0.125, 0.25, False)
    known = State(NOW, 3.0, 10, (replace(odd, on=("leg",)), hung), (added,), "", (), Watcher.own())
    monitoring.write(verdict.metrics(known), path)
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


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    found = State(NOW, 3.0, 1, (), (), "", (), Watcher.own(), format=2)
    path.write_bytes(msgspec.json.encode(found))
    assert "format 2" in verdict.check(path, Limits(), NOW).lines[0]
