"""bin/bench clone in its short form: it runs, looks at what came out, and notices when it is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.limits import missing_memory_group
from tests.bench.test_online import facts, run
from tests.support.require import require

pytestmark = pytest.mark.slapd
ENTRIES = 2000


@pytest.mark.parametrize("builder", ["ditseed", "slapadd"])
def test_all_copy_the_same_database(short_tmp: Path, builder: str) -> None:
    require(None if shutil.which("mdb_copy") else "mdb_copy is not installed")
    found = facts(short_tmp, "clone", "-n", ENTRIES, "--built-by", builder)
    names = ["mdb_copy", "mdb_copy-c", "ditseed", "ditseed-compact", "ditseed-checked", "ditseed-compact-checked"]
    assert [one["name"] for one in found["runs"]] == names
    assert [one["what"] for one in found["ratios"]] == [
        "seconds of mdb_copy / ditseed",
        "seconds of mdb_copy-c / ditseed-compact",
        "seconds of ditseed-checked / ditseed",
        "seconds of ditseed-compact-checked / ditseed-compact",
    ]
    assert not list(short_tmp.glob("run-*"))


def test_copies_in_little_memory(short_tmp: Path) -> None:
    require(None if shutil.which("mdb_copy") else "mdb_copy is not installed")
    require(missing_memory_group())
    words = ("--memory-limit", "96M", "--contenders", "mdb_copy-c,ditseed-compact")
    found = facts(short_tmp, "clone", "-n", ENTRIES, *words)
    assert found["plan"]["limit"] == 96 << 20
    assert [one["name"] for one in found["runs"]] == ["mdb_copy-c", "ditseed-compact"]


def test_unknown_contenders_are_refused(short_tmp: Path) -> None:
    done = run(short_tmp, "clone", "-n", ENTRIES, "--contenders", "cp")
    assert done.returncode == 3
    assert "mdb_copy" in done.stderr
