"""One random fault in a run, then the same command again. Short here; the whole campaign is `bin/campaign faults`."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from fixtures.campaign.faults import trials
from fixtures.campaign.faults.kinds import KINDS
from fixtures.campaign.faults.trials import Clean, Trial
from fixtures.campaign.faults.verbs import LOCAL, VERBS, Material, Stage
from tests.support.require import require

# storage.failed, run.damaged; and where slapd's tools have met it: tool.failed, config.unreadable, config.refused.
STATUSES = (13, 14, 8, 20, 28)
pytestmark = pytest.mark.slapd

CALLS = 10  # of those of a verb, that are made to fail
SHORT = ("clone", "add-nosync", "tune-maxsize")


@pytest.fixture(autouse=True)
def _parts() -> None:
    require(trials.missing())


def _told(found: list[Trial]) -> str:
    return "\n".join([*map(str, found), trials.table(found)])


@pytest.mark.long
@pytest.mark.parametrize("name", SHORT)
def test_the_same_command_ends_as_if_nothing_had_been(name: str) -> None:
    """Every kind of fault, with one verb that copies, one that sends and one that changes a configuration."""
    pairs = trials.chosen(name, None)
    found = list(trials.trials(pairs, len(pairs), random.randrange(10**6)))
    print(_told(found))
    assert {one.kind for one in found} == {kind for _, kind in pairs}
    assert not any(one.faults for one in found), _told(found)
    assert sum(one.hit for one in found) > len(found) / 2, _told(found)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require(trials.missing())
    place = tmp_path_factory.mktemp("f")
    with Stage.made(place, Material.made(place)) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("name", ["backup", "tune-maxsize"])
def test_each_call_that_fails_is_told_as_what_it_is(stage: Stage, name: str) -> None:
    """EIO at one call after the other: an error of the disk, never one of ditseed's own."""
    verb, ways = VERBS[name], set()
    known = trials.clean(stage, verb)
    assert known.usual.calls > 10
    step = 1 + known.usual.calls // CALLS
    for number in range(random.randint(1, step), known.usual.calls + 1, step):
        with trials.room_of(stage, verb, f"{name}-{number}") as (scene, control):
            control.fail_at(number)
            done = scene.attempt(control.environment(scene.below))
            assert control.hits == 1
            assert done.how != "internal", f"{control.what}: {done.err}"
            assert done.status in (0, *STATUSES), f"{control.what}: {done.err}"
            ways.add(done.how)
    assert "storage.failed" in ways


@pytest.mark.long
def test_what_is_lost_or_left_behind_is_noticed(stage: Stage) -> None:
    verb = VERBS["clone"]
    known = trials.clean(stage, verb)
    wanted = Clean(
        known.usual, known.result - {next(iter(known.result))} | {"an entry"}, known.footprint - {"copy/data.mdb"}, "0"
    )
    with trials.room_of(stage, verb, "noticed") as (scene, _):
        assert scene.attempt({}).status == 0
        assert not list(trials.judged(scene, known, {}))
        (scene.place / "copied.conf").unlink()
        found = list(trials.judged(scene, wanted, {}))
    assert [line.partition(":")[0] for line in found] == [
        *("given once more", "left behind", "the result lacks 1", "the result has 1")
    ]


@pytest.mark.long
def test_a_backup_never_lacks_the_configuration(stage: Stage) -> None:
    """slapcat ends with status 0 where it cannot read one of the files, and prints nothing."""
    config = stage.provider.config_path
    verb, words = VERBS["backup"], ("--config", config, "-b", stage.provider.suffix)
    with trials.room_of(stage, verb, "counted") as (scene, control):
        scene.arguments = ("backup", "run", "--init", *words, "-R", scene.place / "repository")
        assert scene.attempt(control.environment([config])).status == 0
        calls = control.calls
    for number in range(calls, calls // 2, -6):
        with trials.room_of(stage, verb, "unreadable") as (scene, control):
            scene.arguments = ("backup", "run", "--init", *words, "-R", scene.place / "repository")
            control.fail_at(number)
            done = scene.attempt(control.environment([config]))
            assert done.how in ("config.unreadable", "storage.failed"), f"{control.what}: {done}"
            assert not list(scene.place.glob("repository/*/manifest.json"))


@pytest.mark.rows(0, "export")
@pytest.mark.parametrize("verb", ["export", "compare"])
def test_a_database_that_cannot_be_read_is_named(stage: Stage, verb: str) -> None:
    """By the native core: the file, and an error of the disk, not of its LDIF."""
    place = stage.provider.database_dir
    words = {"export": ("-o", "-"), "compare": (stage.material.people,)}[verb]
    ways = set()
    for number in (14, 30, 45):
        with trials.room_of(stage, VERBS["clone"], "named") as (scene, control):
            scene.arguments = (verb, place, *words)
            control.fail_at(number)
            done = scene.attempt(control.environment([place]))
            assert str(place / "data.mdb") in done.err, f"{control.what}: {done.err}"
            ways.add(done.how)
    assert ways == {"storage.failed"}


def test_calls_are_counted_and_fail_once(stage: Stage) -> None:
    with trials.room_of(stage, VERBS["tune-maxsize"], "counted") as (scene, control):
        control.fail_at(1)
        environment = control.environment(scene.below)
        assert scene.attempt(environment).status != 0
        assert (control.hits, control.what.split()[0]) == (1, "read")
        assert scene.attempt(environment).status == 0
        assert control.hits == 1


def test_every_pair_has_its_turn() -> None:
    every = trials.chosen(None, None)
    assert len(every) == sum(len(verb.faults) for verb in VERBS.values())
    assert {kind for name in SHORT for _, kind in trials.chosen(name, None)} == set(KINDS)
    assert [kind for _, kind in trials.chosen("seed-ldif", None)] == list(LOCAL)
    assert not trials.chosen("clone", "cut")
