"""bin/bench incremental in its short form: what comes back is the full backup of the same moment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slapd
BENCH = Path(__file__).resolve().parents[2] / "bin" / "bench"


def test_what_comes_back_is_the_same(short_tmp: Path) -> None:
    command = [BENCH, "incremental", "-n", "500", "--links", "2", "--dir", short_tmp]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = done.stdout + done.stderr
    assert "link 2:" in told
    assert "; the same bytes" in told
    assert not list(short_tmp.iterdir())
