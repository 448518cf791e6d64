"""The least of accounts: what docs/performance.md reckons with for a hundred million."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.bench import data, measure
from tests.bench.test_bench import facts, run


def test_an_account_is_as_small_as_told() -> None:
    made = measure.run(data.least().command(1000)).out
    assert made.count("\ndn: ") == 1001
    assert 180 < len(made) / 1000 < 200


@pytest.mark.slapd
def test_a_database_of_them_takes_what_is_reckoned_with(tmp_path: Path) -> None:
    words = ("--engines", "native", "--least", "--pipe", "-n", 100_000)
    *_, one = facts(tmp_path, *words)["runs"]
    assert one["entries"] == 100_002
    assert one["size"] / 100_000 == pytest.approx(457, rel=0.03)


def test_one_tree_at_a_time(tmp_path: Path) -> None:
    done = run(tmp_path, "--least", "--lean", "-n", 5)
    assert done.returncode == 3
    assert "two trees" in done.stderr
