"""Thousands of parents that come after their children, in another order, more than is sorted in memory."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, stamps, top
from fixtures.golden.tables import differences
from fixtures.trees import record
from tests.support.golden import build, slapadd

pytestmark = pytest.mark.slapd
PARENTS = 3000
ROW = 200  # entries in a row that stay where they are


def unit(number: int) -> str:
    return f"ou=late {number},{SUFFIX}"


def entry(dn: str, *more: tuple[str, str]) -> str:
    return record(dn, [*more, *stamps(dn)])


def person(dn: str, name: str) -> str:
    """Large, so that what is sorted does not fit."""
    values = [("objectClass", "person"), ("cn", name), ("sn", "x"), ("description", name * 200)]
    return entry(dn, *values)


def parent(number: int) -> str:
    values = [("objectClass", "organizationalUnit"), ("ou", f"late {number}")]
    return entry(unit(number), *values, ("description", f"{number} " * 600))


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    """Children, then their parents, with entries between that nobody moves: some in long rows, some alone."""
    chance = random.Random(1)
    children, parents = list(range(PARENTS)), list(range(PARENTS))
    chance.shuffle(children)
    chance.shuffle(parents)
    parts = [top(), *(person(f"cn=c {one},{unit(one)}", f"c {one}") for one in children)]
    for place, one in enumerate(parents):
        parts.append(parent(one))
        between = ROW if place % 1000 == 0 else place % 3 == 0
        names = (f"p {place} {n}" for n in range(between))
        parts += [person(f"cn={name},{SUFFIX}", name) for name in names]
    path = tmp_path / "late.ldif"
    path.write_text("".join(parts))
    return path


def test_equal_to_slapadd(ldif: Path) -> None:
    wanted = settings("objectClass,cn,ou eq")
    with closing(server(wanted)) as theirs, closing(server(wanted)) as ours:
        slapadd(theirs, ldif)
        build(ours, ldif, "--memory", "16M").ok()
        assert not differences(theirs.database_dir, ours.database_dir)
