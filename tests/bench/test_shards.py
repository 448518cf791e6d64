"""bin/bench shards in its short form."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.limits import missing_memory_group
from tests.support.command import environment
from tests.support.require import require

BENCH = Path(__file__).parents[2] / "bin" / "bench"

pytestmark = pytest.mark.slapd


def _facts(directory: Path, *options: object) -> Any:
    out = directory / "out.json"
    words = [BENCH, "shards", "--rounds", 1, "--dir", directory, "--json", out, *options]
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_one_slapadd_and_several_are_measured(tmp_path: Path) -> None:
    found = _facts(tmp_path, "-n", 2000, "--shards", 2, "--shards", 0)
    names = [run["name"] for run in found["runs"]]
    assert names == ["slapadd", "ditseed, 2 shards", "ditseed, its choice of shards"]
    alone, two, _ = (run["seconds"] for run in found["runs"])
    assert found["ratios"][0]["median"] == pytest.approx(alone / two)


@pytest.mark.alone
def test_a_slapadd_without_memory_is_broken_off_and_its_rate_told(tmp_path: Path) -> None:
    require(missing_memory_group())
    found = _facts(tmp_path, "-n", 60000, "--shards", 4, "--memory-limit", "96M", "--patience", 3)
    alone, shared = found["runs"]
    assert alone["name"] == "slapadd, in 96.0 MiB"
    assert shared["peak"] <= 96 << 20
    broken = alone["broken"]
    assert 0 < broken["entries"] < 60002
    assert alone["seconds"] > broken["seconds"] >= 3
