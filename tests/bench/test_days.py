"""bin/bench daily, busy and forecast in their short forms."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slapd
BENCH = Path(__file__).resolve().parents[2] / "bin" / "bench"


def run(directory: Path, *words: str) -> str:
    done = subprocess.run([BENCH, *words, "--dir", directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def bench(directory: Path, *words: str) -> str:
    """Nothing stays."""
    told = run(directory, *words)
    assert not list(directory.iterdir())
    return told


def test_days(short_tmp: Path) -> None:
    told = bench(short_tmp, "daily", "-n", "500", "--days", "1", "--contenders", "ditseed")
    assert "round 1: ditseed" in told
    assert "first s  a day s" in told


def test_beside_a_writer(short_tmp: Path) -> None:
    told = bench(short_tmp, "busy", "-n", "1000", "--rate", "50", "--backups", "2")
    assert "2 backups, each drilled good" in told


def test_what_was_foreseen(short_tmp: Path) -> None:
    told = run(short_tmp, "forecast", "-n", "5000", "--rounds", "1")  # the LDIF stays
    found = re.search(r"^bench: size: ([0-9.]+) of the real one", told, re.MULTILINE)
    assert found
    assert float(found[1]) == pytest.approx(1, rel=0.15)
