"""The golden cases in other versions of OpenLDAP: there slapadd is the judge, and its slapcat shows ditseed the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.chroots import Chroot, chroot, missing_chroot
from fixtures.golden.case import Case
from fixtures.golden.random_trees import case as random_case
from tests.golden.everything import CASES
from tests.support.golden import compared
from tests.support.require import require

# Making a root directory takes half a minute, and more where the mirror is far.
pytestmark = [pytest.mark.slapd, pytest.mark.timeout(600)]

SUITES = ("bullseye", "trixie", "forky")
# The others show the same code again; these stand for them where time counts.
CHOSEN = (
    "broad",
    "hash64",
    "multival-all",
    "sortvals",
    "supertypes",
    "conf-index-partial",
    "conf-definitions",
    "holes",
    "scattered",
    "context-partly",
    "made",
    "rare-rules",
    "authorization",
    "policy",
    "policy-of-2.4",
    "log",
)


@pytest.fixture(scope="module", params=SUITES)
def other(request: pytest.FixtureRequest) -> Chroot:
    require(missing_chroot())
    return chroot(request.param)


def _version(other: Chroot) -> tuple[int, ...]:
    return tuple(map(int, other.version.split(".")))


def _fits(case: Case, other: Chroot) -> bool:
    return case.since <= _version(other) < case.until


@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_that_versions_slapadd(other: Chroot, name: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == name)
    if not _fits(case, other):
        pytest.skip(f"slapd {other.version} does not know this, or does otherwise")
    found = compared(case, tmp_path, other)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["policy", "policy-of-2.4", "dds", "multival-all", "sortvals"])
def test_a_private_configuration_keeps_what_counts(
    other: Chroot, name: str, tmp_path: Path
) -> None:
    """--engine slapadd runs that version's slapadd on less than the whole configuration."""
    (case,) = (case for case in CASES if case.name == name)
    if not _fits(case, other):
        pytest.skip(f"slapd {other.version} does not know this, or does otherwise")
    found = compared(case, tmp_path, other, "slapadd")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_trees(other: Chroot, seed: int, tmp_path: Path) -> None:
    found = compared(random_case(seed, old=_version(other) < (2, 5)), tmp_path, other)
    assert not found, "\n".join(found)


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_all_of_it(other: Chroot, tmp_path: Path) -> None:
    """Every case, and many random trees."""
    old = _version(other) < (2, 5)
    every = [case for case in CASES if _fits(case, other)]
    every += [random_case(seed, 150, old) for seed in range(100, 200)]
    failed = {case.name: found[:3] for case in every if (found := compared(case, tmp_path, other))}
    assert not failed, failed
