"""bin/bench migrate in its short form: it runs, and compares what came out with the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.bench.data import LEAN
from fixtures.limits import missing_memory_group
from tests.bench.test_online import facts
from tests.support.require import require

pytestmark = pytest.mark.slapd


def test_both_make_the_same_database(short_tmp: Path) -> None:
    found = facts(short_tmp, "migrate", "-n", 500)
    assert [one["name"] for one in found["runs"]] == ["slapcat|slapadd", "ditseed"]
    assert {one["entries"] for one in found["runs"]} == {502}
    assert not list(short_tmp.glob("run-*"))


def test_lean_accounts(short_tmp: Path) -> None:
    found = facts(short_tmp, "migrate", "-n", 500, "--lean", "--contenders", "ditseed")
    assert {one["entries"] for one in found["runs"]} == {500 + LEAN.containers}


def test_index_keys_do_not_wait_in_memory(short_tmp: Path) -> None:
    """Each of these entries has 39, and those of a few hundred entries are a part of the work."""
    require(missing_memory_group())
    words = ("--contenders", "ditseed", "--memory-limit", "144M")
    (found,) = facts(short_tmp, "migrate", "-n", 100_000, *words)["runs"]
    assert found["entries"] == 100_002
