"""The golden cases in other versions of OpenLDAP: there slapadd is the judge, and its slapcat shows ditseed the way."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures.chroots import Chroot, chroot, missing_chroot
from fixtures.golden.of_2_7 import ALL
from fixtures.golden.random_trees import case as random_case
from fixtures.golden.tables import differences
from loader.defaults import ENGINES
from tests.golden import test_glued
from tests.golden.everything import BY_NAME, CASES
from tests.support.command import ditseed
from tests.support.golden import ENGINE, compared, fresh, slapadd
from tests.support.require import require

# Making a root directory takes half a minute, and more where the mirror is far.
pytestmark = pytest.mark.slapd

SUITES = ("bullseye", "trixie", "forky")
# The others show the same code again; these stand for them where time counts.
CHOSEN = (
    *("broad", "hash64", "multival-all", "sortvals", "supertypes", "conf-index-partial", "conf-definitions", "holes"),
    *("scattered", "context-partly", "made", "rare-rules", "authorization", "policy", "policy-of-2.4", "log"),
)


@pytest.fixture(scope="module", params=SUITES)
def other(request: pytest.FixtureRequest) -> Chroot:
    require(missing_chroot())
    return chroot(request.param)


def _version(other: Chroot) -> tuple[int, ...]:
    return tuple(map(int, other.version.split(".")))


def _assert_equal(name: str, other: Chroot, directory: Path, engine: str) -> None:
    case = BY_NAME[name]
    if not case.since <= _version(other) < case.until:
        pytest.skip(f"slapd {other.version} does not know this, or does otherwise")
    assert compared(case, directory, other, engine) == []


@pytest.mark.rows(3)
@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_that_versions_slapadd(other: Chroot, name: str, tmp_path: Path) -> None:
    _assert_equal(name, other, tmp_path, ENGINE)


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", ["policy", "policy-of-2.4", "dds", "multival-all", "sortvals"])
def test_a_private_configuration_keeps_what_counts(other: Chroot, name: str, tmp_path: Path) -> None:
    """--engine slapadd runs that version's slapadd on less than the whole configuration."""
    _assert_equal(name, other, tmp_path, "slapadd")


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["nested", "own-root", "dds"])
def test_glued_trees(other: Chroot, name: str, engine: str, tmp_path: Path) -> None:
    assert test_glued.compared(test_glued.TREES[name], engine, "conf", tmp_path, other) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_random_trees(other: Chroot, seed: int, tmp_path: Path) -> None:
    assert compared(random_case(seed, old=_version(other) < (2, 5)), tmp_path, other) == []


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_all_of_it(other: Chroot, tmp_path: Path) -> None:
    """Every case, and many random trees."""
    old = _version(other) < (2, 5)
    every = [case for case in CASES if case.since <= _version(other) < case.until]
    every += [random_case(seed, 150, old) for seed in range(100, 200)]
    failed = {case.name: found[:3] for case in every if (found := compared(case, tmp_path, other))}
    assert not failed, failed


@pytest.mark.long
def test_migrated_from_that_version_and_back(other: Chroot, tmp_path: Path) -> None:
    """Each equals what slapadd of its version makes of the other's slapcat."""
    case, text = ALL["most"].case, tmp_path / "all.ldif"
    with closing(fresh(case, other)) as first, closing(fresh(case)) as here:
        slapadd(first, case.write(tmp_path))
        ditseed("migrate", first.database_dir, here.database_dir, "--config", here.config_path).ok()
        with closing(fresh(case)) as oracle:
            text.write_text(first.slapcat())
            slapadd(oracle, text)
            assert not differences(oracle.database_dir, here.database_dir)
        with closing(fresh(case, other)) as back, closing(fresh(case, other)) as oracle:
            where = ("--config", back.config_path)
            env = {"DITSEED_TOOLS": other.tools}
            ditseed("migrate", here.database_dir, back.database_dir, *where, env=env).ok()
            slapadd(oracle, text)
            assert not differences(oracle.database_dir, back.database_dir)
