"""bin/bench from in its short form."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.command import environment

BENCH = Path(__file__).parents[2] / "bin" / "bench"

pytestmark = pytest.mark.slapd


def test_a_build_is_measured_and_its_server_asked(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("-n", "2000", "--operations", "200", "--dir", tmp_path / "place", "--json", out)
    command = [str(word) for word in (BENCH, "from", *words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    assert "slapd answered 200" in done.stderr
    (run,) = json.loads(out.read_text())["runs"]
    assert run["entries"] == 2000 + 100 + 4 + 4
    assert run["usage"]["seconds"] > 0 < run["answering"]
    assert list((tmp_path / "place").iterdir()) == []
