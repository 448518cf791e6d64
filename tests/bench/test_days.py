"""bin/bench daily and busy in their short forms: what was backed up comes back, beside a writer too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slapd
BENCH = Path(__file__).resolve().parents[2] / "bin" / "bench"


def bench(directory: Path, *words: str) -> str:
    done = subprocess.run(
        [BENCH, *words, "--dir", directory], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(directory.iterdir())
    return done.stdout + done.stderr


def test_days(short_tmp: Path) -> None:
    told = bench(short_tmp, "daily", "-n", "500", "--days", "1", "--contenders", "ditseed")
    assert "round 1: ditseed" in told
    assert "first s  a day s" in told


def test_beside_a_writer(short_tmp: Path) -> None:
    told = bench(short_tmp, "busy", "-n", "1000", "--rate", "50", "--backups", "2")
    assert "2 backups, each drilled good" in told
