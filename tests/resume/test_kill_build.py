"""kill -9 of `ditseed build --replace`, by each engine: the database is the old one or the new one; a rerun ends it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.trees import write_hard_tree, write_people
from loader.defaults import ENGINES
from tests.support import killing
from tests.support.building import Building
from tests.support.command import ditseed, start

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two trees, the second with operational attributes."""
    home = tmp_path_factory.mktemp("build")
    write_hard_tree(home / "old.ldif", SUFFIX)
    write_people(home / "people.ldif", SUFFIX, 300)
    with closing(Slapd()) as server:
        server.slapadd(home / "people.ldif")
        (home / "new.ldif").write_text(server.slapcat())
    return home / "old.ldif", home / "new.ldif"


@pytest.fixture(params=ENGINES)
def building(request: pytest.FixtureRequest, ldif: tuple[Path, Path]) -> Iterator[Building]:
    old, new = ldif
    with closing(Slapd()) as target:
        target.slapadd(old)
        yield Building(target, target.slapcat(), new, request.param)


def _points(building: Building) -> list[str]:
    """Learned from a run of the same kind that is left alone."""
    with closing(Slapd()) as other:
        whole = Building(other, "", building.new, building.engine)
        ditseed(*whole.command).ok()
        return killing.points_of(whole.steps)


def _kill_at(point: str, building: Building) -> None:
    done = ditseed(*building.command, env={killing.KILL_AT: point})
    assert done.status == -signal.SIGKILL, f"{point}: {done}"
    building.assert_old_or_new()


@pytest.mark.rows(1)
def test_killed_at_every_point_in_turn(building: Building) -> None:
    points = _points(building)
    assert {"load.middle", "publish.middle"} <= set(points)
    for point in points:
        _kill_at(point, building)
    assert "publish: done before" in ditseed(*building.command).ok().err
    building.assert_done()


@pytest.mark.rows(1)
@pytest.mark.long("native-load.middle", "slapadd-load.middle")
@pytest.mark.parametrize("point", ["load.middle", "publish.middle", "publish.unrecorded"])
def test_killed_once_and_finished(building: Building, point: str) -> None:
    _kill_at(point, building)
    ditseed(*building.command).ok()
    building.assert_done()


def _kill_at_random(building: Building, times: int, chance: random.Random) -> None:
    for _ in range(times):
        process = start(*building.command)
        time.sleep(chance.uniform(0.1, 0.6))
        process.kill()
        process.communicate()
        building.assert_old_or_new()
    ditseed(*building.command).ok()
    building.assert_done()


@pytest.mark.long
def test_killed_at_random_moments(building: Building) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    _kill_at_random(building, 3, random.Random(seed))


@pytest.mark.heavy
def test_killed_at_fifty_random_moments(building: Building) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    _kill_at_random(building, 50, random.Random(seed))
