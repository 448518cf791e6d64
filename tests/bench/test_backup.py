"""bin/bench backup in its short form: each contender's backup has all entries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.bench.backup import WAYS
from tests.bench.test_online import facts
from tests.support.require import require

pytestmark = pytest.mark.slapd
ENTRIES = 1000


@pytest.mark.parametrize("peer", [name for name in WAYS if name != "ditseed"])
def test_all_back_up_the_same_entries(short_tmp: Path, peer: str) -> None:
    for program in ("mdb_copy", "zstd"):
        require(None if shutil.which(program) else f"{program} is not installed")
    if shutil.which(WAYS[peer].program) is None:
        pytest.skip(f"{WAYS[peer].program} is not installed, and nothing of ditseed needs it")
    found = facts(short_tmp, "backup", "-n", ENTRIES, "--contenders", f"{peer},ditseed")
    assert {one["name"] for one in found["runs"]} == {peer, "ditseed"}
    assert [one["what"] for one in found["ratios"]] == [f"seconds of ditseed / {peer}"]
    assert all(one["size"] for one in found["runs"])
    assert not list(short_tmp.glob("run-*"))
