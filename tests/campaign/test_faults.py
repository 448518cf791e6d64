"""One random fault in a run, then the same command again. Short here; the whole campaign is `bin/campaign faults`."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from fixtures.campaign.faults import report, trials
from fixtures.campaign.faults.kinds import KINDS, Fault
from fixtures.campaign.faults.stage import Material, Stage
from fixtures.campaign.faults.trials import Clean, Trial
from fixtures.campaign.faults.verbs import LOCAL, VERBS
from tests.support.require import require

# storage.failed, run.damaged; and where slapd's tools have met it: tool.failed, config.unreadable, config.refused.
STATUSES = (13, 14, 8, 20, 28)
pytestmark = [pytest.mark.slapd, pytest.mark.timeout(600)]

SHORT = ("clone", "add-nosync", "tune-maxsize")


@pytest.fixture(autouse=True)
def _parts() -> None:
    require(trials.missing())


def _told(found: list[Trial]) -> str:
    return "\n".join([*map(str, found), report.table(found)])


def test_the_same_command_ends_as_if_nothing_had_been() -> None:
    """Every kind of fault, with one verb that copies, one that sends and one that changes a configuration."""
    pairs = [pair for name in SHORT for pair in trials.chosen(name, None)]
    found = list(trials.trials(pairs, len(pairs), random.randrange(10**6)))
    print(_told(found))
    assert {one.kind for one in found} == set(KINDS)
    assert not any(one.faults for one in found), _told(found)
    assert sum(one.hit for one in found) > len(found) / 2, _told(found)


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_every_verb_and_every_fault() -> None:
    found = list(trials.trials(trials.chosen(None, None), 500, random.randrange(10**6)))
    print(_told(found))
    assert not any(one.faults for one in found), _told(found)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require(trials.missing())
    place = tmp_path_factory.mktemp("f")
    with Stage.made(place, Material.made(place)) as made:
        yield made


@pytest.mark.parametrize("name", ["backup", "tune-maxsize"])
def test_each_call_that_fails_is_told_as_what_it_is(stage: Stage, name: str) -> None:
    """EIO at one call after the other: an error of the disk, never one of ditseed's own."""
    verb, ways = VERBS[name], set()
    known = trials.clean(stage, verb)
    assert known.usual.calls > 10
    for number in range(1, known.usual.calls + 1, 1 + known.usual.calls // 40):
        with trials.room_of(stage, verb, f"{name}-{number}") as (scene, control):
            control.fail_at(number)
            done = trials.attempt(scene, control.environment(scene.below))
            assert control.hits == 1
            assert done.how != "internal", f"{control.what}: {done.err}"
            assert done.status in (0, *STATUSES), f"{control.what}: {done.err}"
            ways.add(done.how)
    assert "storage.failed" in ways


class _Nothing(Fault):
    """The campaign's own judgement is tried without any fault."""


def _known(stage: Stage) -> Clean:
    return trials.clean(stage, VERBS["clone"])


def _trial(stage: Stage, known: Clean) -> Trial:
    KINDS["nothing"] = _Nothing
    try:
        return trials.tried(stage, known, VERBS["clone"], "nothing", 1)
    finally:
        del KINDS["nothing"]


def test_what_is_lost_or_left_behind_is_noticed(stage: Stage) -> None:
    known = _known(stage)
    assert not _trial(stage, known).faults
    one = next(iter(known.result))
    less = Clean(known.usual, known.result - {one}, known.footprint, known.again)
    assert [line[:16] for line in _trial(stage, less).faults] == ["the result has 1"]
    more = Clean(known.usual, known.result | {"more"}, known.footprint, known.again)
    assert [line[:18] for line in _trial(stage, more).faults] == ["the result lacks 1"]
    tidy = Clean(known.usual, known.result, known.footprint - {"copy/data.mdb"}, known.again)
    assert _trial(stage, tidy).faults == ["left behind: copy/data.mdb"]
    other = Clean(known.usual, known.result, known.footprint, "0")
    assert _trial(stage, other).faults[0].startswith("given once more: mdb.target_not_empty")


def test_calls_are_counted_and_fail_once(stage: Stage) -> None:
    with trials.room_of(stage, VERBS["tune-maxsize"], "counted") as (scene, control):
        control.fail_at(1)
        environment = control.environment(scene.below)
        assert trials.attempt(scene, environment).status != 0
        assert (control.hits, control.what.split()[0]) == (1, "read")
        assert trials.attempt(scene, environment).status == 0
        assert control.hits == 1


def test_every_pair_has_its_turn() -> None:
    every = trials.chosen(None, None)
    assert len(every) == sum(len(verb.faults) for verb in VERBS.values())
    assert {kind for _, kind in every} == set(KINDS)
    assert [kind for _, kind in trials.chosen("seed-ldif", None)] == list(LOCAL)
    assert not trials.chosen("clone", "cut")
