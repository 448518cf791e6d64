"""kill -9 of `ditseed migrate` at every point of every step; then the same command finishes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.trees import write_people
from loader.operations.migrate import RUN_DIR, STEPS
from loader.run.log import Catalogue
from tests.support import killing
from tests.support.command import ditseed
from tests.support.trees import tree

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    ldif = tmp_path_factory.mktemp("migrate") / "people.ldif"
    with closing(Slapd()) as server:
        write_people(ldif, server.suffix, 300)
        server.slapadd(ldif, "-w")
        yield server


def _steps(place: Path) -> list[str]:
    return [step.name for step in Catalogue(place / RUN_DIR).steps()]


def test_killed_at_every_point_in_turn(source: Slapd) -> None:
    points = killing.points_of(STEPS)
    assert {"load.middle", "publish.middle"} <= set(points)
    with closing(Slapd()) as target:
        place = target.database_dir
        command = ("migrate", source.database_dir, place, "--config", target.config_path)
        for point in points:
            done = ditseed(*command, env={killing.KILL_AT: point})
            assert done.status == -signal.SIGKILL, f"{point}: {done}"
            inside = {path.name for path in place.iterdir()}
            assert inside <= {"data.mdb", "lock.mdb", RUN_DIR}
            if "data.mdb" in inside:  # all of it or nothing
                assert tree(target.slapcat()) == tree(source.slapcat())
        assert "publish: done before" in ditseed(*command).ok().err
        assert _steps(place) == list(STEPS)
        assert {path.name for path in (place / RUN_DIR).iterdir()} == {"lock", "now.json", "run.log"}
        assert tree(target.slapcat()) == tree(source.slapcat())
