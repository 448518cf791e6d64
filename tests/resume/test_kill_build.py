"""kill -9 of `ditseed build --replace`, by each engine, and of `migrate`: the database is the old one or the new one; a
rerun ends it, but not under another configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_hard_tree, write_people
from loader.mdb import contents
from loader.operations import migrate
from loader.operations.build.native import made_for
from loader.operations.build.steps import BuildOptions
from loader.run.log import Catalogue
from loader.server import configuration
from tests.support import killing
from tests.support.adding import SUFFIX, TOP, unit, write
from tests.support.building import KINDS, RUN_DIR, SHARDS, Building
from tests.support.command import ditseed
from tests.support.trees import tree

pytestmark = pytest.mark.slapd


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


@pytest.fixture(params=KINDS)
def building(request: pytest.FixtureRequest, ldif: tuple[Path, Path]) -> Iterator[Building]:
    old, new = ldif
    with closing(Slapd()) as target:
        target.slapadd(old)
        yield Building(target, target.slapcat(), new, request.param)


@pytest.mark.rows(1)
def test_killed_at_every_point_in_turn(building: Building) -> None:
    with closing(Slapd()) as other:  # a run of the same kind that is left alone
        whole = Building(other, "", building.new, building.engine)
        ditseed(*whole.command).ok()
        points = killing.points_of(whole.steps)
    load = "slices.middle" if building.engine == SHARDS else "load.middle"
    assert {load, "publish.middle"} <= set(points)
    for point in points:
        killing.killed(point, *building.command)
        building.assert_old_or_new()
    assert "publish: done before" in ditseed(*building.command).ok().err
    building.assert_done()


@pytest.mark.long
@pytest.mark.parametrize("times", [3, pytest.param(50, marks=pytest.mark.heavy)])
def test_killed_at_random_moments(building: Building, times: int) -> None:
    chance = killing.chance()
    for _ in range(times):
        killing.kill_after(chance.uniform(0.1, 0.6), *building.command)
        building.assert_old_or_new()
    ditseed(*building.command).ok()
    building.assert_done()


@pytest.mark.long
def test_a_slice_that_is_loaded_is_not_loaded_again(ldif: tuple[Path, Path]) -> None:
    with closing(Slapd()) as target:
        building = Building(target, "", ldif[1], SHARDS)
        killing.killed("slices.each", *building.command)
        before = _environments(building)
        assert before
        killing.killed("slices.recorded", *building.command)
        after = _environments(building)
        assert len(after) == 3
        assert before.items() <= after.items()
        ditseed(*building.command).ok()
        building.assert_done()


def _environments(building: Building) -> dict[str, int]:
    """Slices that the catalogue says are loaded, with the inodes of their data files."""
    run_dir = building.target.database_dir / RUN_DIR
    names = Catalogue(run_dir).partitions("slices", dict)
    return {name: (run_dir / "slices" / name / "data.mdb").stat().st_ino for name in names}


def test_migrate_killed_at_every_point_in_turn(ldif: tuple[Path, Path]) -> None:
    points = killing.points_of(migrate.STEPS)
    assert {"load.middle", "publish.middle"} <= set(points)
    with closing(Slapd()) as source, closing(Slapd()) as target:
        source.slapadd(ldif[1], "-w")
        place, theirs = target.database_dir, tree(source.slapcat())
        run_dir = place / migrate.RUN_DIR
        command = ("migrate", source.database_dir, place, "--config", target.config_path)
        for point in points:
            killing.killed(point, *command)
            inside = {path.name for path in place.iterdir()}
            assert inside <= {"data.mdb", "lock.mdb", run_dir.name}
            if "data.mdb" in inside:  # all of it or nothing
                assert tree(target.slapcat()) == theirs
        assert "publish: done before" in ditseed(*command).ok().err
        assert [step.name for step in Catalogue(run_dir).steps()] == list(migrate.STEPS)
        assert {path.name for path in run_dir.iterdir()} == {"lock", "now.json", "run.log"}
        assert tree(target.slapcat()) == theirs


# --- another configuration --------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """An LDIF of two entries."""
    return write(tmp_path / "x.ldif", TOP + unit("a"))


def _with_an_index(server: Slapd) -> None:
    """Of ou, in slapd.conf."""
    path = Path(server.config_path)
    path.write_text(path.read_text().replace("\nindex ", "\nindex ou eq\nindex ", 1))


@pytest.mark.long("done-slapadd", "killed-slapadd")
@pytest.mark.parametrize("engine", ["native", "slapadd"])
@pytest.mark.parametrize("done", [False, True], ids=["killed", "done"])
def test_another_configuration(two: Path, engine: str, done: bool) -> None:
    with closing(Slapd(Settings(indexes=("objectClass eq",)), form="conf")) as server:
        command = ("build", two, "--config", server.config_path, "--engine", engine)
        ditseed(*command).ok() if done else killing.killed("check.recorded", *command)
        _with_an_index(server)
        again = ditseed(*command)
        if done:  # it is in its place by then, and perhaps in use
            assert "[mdb.target_not_empty]" in again.err
            return
        again.ok()
        assert sorted(contents.indexes(server.database_dir)) == ["objectClass", "ou"]


def test_a_slapd_conf_is_the_same_each_time_it_is_read(two: Path) -> None:
    """Converted, its entries have other UUIDs, times and places each time. The native engine would go by the settings
    it follows; with index_intlen 16 all of them count."""
    settings = Settings(global_lines=("index_intlen 16",))
    with closing(Slapd(settings, form="conf")) as server:
        options = BuildOptions(server.config_path, (two,))
        first, second = (configuration.read(server.config_path) for _ in range(2))
        assert first.entries != second.entries
        _with_an_index(server)
        configs = (first, second, configuration.read(server.config_path))
        before, again, after = (made_for(config, config.database(None), options) for config in configs)
    assert before == again != after
