"""bin/bench migrate in its short form: it runs, and compares what came out with the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.bench.data import LEAN
from tests.bench.test_online import facts

pytestmark = pytest.mark.slapd


def test_both_make_the_same_database(short_tmp: Path) -> None:
    found = facts(short_tmp, "migrate", "-n", 500)
    assert [one["name"] for one in found["runs"]] == ["slapcat|slapadd", "ditseed"]
    assert {one["entries"] for one in found["runs"]} == {502}
    assert not list(short_tmp.glob("run-*"))


def test_lean_accounts(short_tmp: Path) -> None:
    found = facts(short_tmp, "migrate", "-n", 500, "--lean", "--contenders", "ditseed")
    assert {one["entries"] for one in found["runs"]} == {500 + LEAN.containers}
