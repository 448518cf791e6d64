"""One random fault in a run, then the same command again. Short here; the whole campaign is `bin/campaign faults`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fixtures.campaign.faults import trials
from fixtures.campaign.faults.kinds import KINDS
from fixtures.campaign.faults.scene import Control
from fixtures.campaign.faults.verbs import LOCAL, VERBS, Stage, material
from fixtures.campaign.ran import Ended
from tests.support.require import require

# storage.failed, run.damaged; and where slapd's tools have met it: tool.failed, config.unreadable, config.refused.
STATUSES = (13, 14, 8, 20, 28)
pytestmark = pytest.mark.slapd

CALLS = 10  # of those of a verb, that are made to fail
SHORT = ("clone", "add-nosync", "tune-maxsize")


@pytest.fixture(autouse=True)
def _parts() -> None:
    require(trials.missing())


@pytest.mark.long
@pytest.mark.parametrize("name", SHORT)
def test_the_same_command_ends_as_if_nothing_had_been(name: str) -> None:
    """Every kind of fault, with one verb that copies, one that sends and one that changes a configuration."""
    pairs = trials.chosen(name, None)
    found = list(trials.trials(pairs, len(pairs), random.randrange(10**6)))
    print(*found, trials.table(found), sep="\n")
    assert {one.kind for one in found} == {kind for _, kind in pairs}
    assert not any(one.faults for one in found)
    assert sum(one.hit for one in found) > len(found) / 2


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require(trials.missing())
    place = tmp_path_factory.mktemp("f")
    with Stage.made(place, material(place)) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("name", ["backup", "tune-maxsize"])
def test_each_call_that_fails_is_told_as_what_it_is(stage: Stage, name: str) -> None:
    """EIO at one call after the other: an error of the disk, never one of ditseed's own."""
    known, ways = trials.clean(stage, name), set()
    assert known.calls > 10
    step = 1 + known.calls // CALLS
    for number in range(random.randint(1, step), known.calls + 1, step):
        with trials.room_of(stage, name, f"{name}-{number}") as (scene, control):
            control.fail_at = number
            done = scene.attempt(control.environment(scene.below))
            assert control.hits == 1
            assert done.how != "internal", f"{control.what!r}: {done.err}"
            assert done.status in (0, *STATUSES), f"{control.what!r}: {done.err}"
            ways.add(done.how)
    assert "storage.failed" in ways


@pytest.mark.long
def test_what_is_lost_or_left_behind_is_noticed(stage: Stage) -> None:
    known = trials.clean(stage, "clone")
    result = known.result - {next(iter(known.result))} | {"an entry"}
    wanted = replace(known, result=result, footprint=known.footprint - {"copy/data.mdb"}, again="0")
    with trials.room_of(stage, "clone", "noticed") as (scene, _):
        assert scene.attempt({}).status == 0
        assert not list(trials.judged(scene, known, {}))
        (scene.place / "copied.conf").unlink()
        found = list(trials.judged(scene, wanted, {}))
    expected = ["given once more", "left behind", "the result lacks 1", "the result has 1"]
    assert [line.partition(":")[0] for line in found] == expected


@pytest.mark.long
def test_a_backup_never_lacks_the_configuration(stage: Stage) -> None:
    """slapcat ends with status 0 where it cannot read one of the files, and prints nothing."""
    config = stage.provider.config_path

    def backup(fail_at: int) -> tuple[Control, Ended, bool]:
        with trials.room_of(stage, "backup", "unreadable") as (scene, control):
            words = ("--config", config, "-b", stage.provider.suffix, "-R", scene.place / "repository")
            scene.arguments, control.fail_at = ("backup", "run", "--init", *words), fail_at
            done = scene.attempt(control.environment([config]))
            return control, done, any(scene.place.glob("repository/*/manifest.json"))

    control, done, exists = backup(0)
    assert (done.status, exists) == (0, True)
    for number in range(control.calls, control.calls // 2, -6):
        control, done, exists = backup(number)
        assert done.how in ("config.unreadable", "storage.failed"), f"{control.what!r}: {done}"
        assert not exists


@pytest.mark.rows(0, "export")
@pytest.mark.parametrize("verb", ["export", "compare"])
def test_a_database_that_cannot_be_read_is_named(stage: Stage, verb: str) -> None:
    """By the native core: the file, and an error of the disk, not of its LDIF."""
    place = stage.provider.database_dir
    words = {"export": ("-o", "-"), "compare": (stage.files.people,)}[verb]
    ways = set()
    for number in (14, 30, 45):
        with trials.room_of(stage, "clone", "named") as (scene, control):
            scene.arguments = (verb, place, *words)
            control.fail_at = number
            done = scene.attempt(control.environment([place]))
            assert str(place / "data.mdb") in done.err, f"{control.what!r}: {done.err}"
            ways.add(done.how)
    assert ways == {"storage.failed"}


def test_calls_are_counted_and_fail_once(stage: Stage) -> None:
    with trials.room_of(stage, "tune-maxsize", "counted") as (scene, control):
        control.fail_at = 1
        environment = control.environment(scene.below)
        assert scene.attempt(environment).status != 0
        assert (control.hits, control.what.split()[0]) == (1, b"read")
        assert scene.attempt(environment).status == 0
        assert control.hits == 1


def test_every_pair_has_its_turn() -> None:
    every = trials.chosen(None, None)
    assert len(every) == sum(len(verb.faults) for verb in VERBS.values())
    assert {kind for name in SHORT for _, kind in trials.chosen(name, None)} == set(KINDS)
    assert [kind for _, kind in trials.chosen("seed-ldif", None)] == list(LOCAL)
    assert not trials.chosen("clone", "cut")
