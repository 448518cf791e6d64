"""Random trees with random settings: equal to slapadd, every one. A failing seed fails again.

DITSEED_GOLDEN_SEEDS=1000:3000 pytest tests/golden/test_random.py -m heavy
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.golden.random_trees import case
from tests.support.golden import compared

pytestmark = pytest.mark.slapd

SEEDS = range(12)
HEAVY = range(*map(int, os.environ.get("DITSEED_GOLDEN_SEEDS", "100:600").split(":")))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_tree(seed: int, tmp_path: Path) -> None:
    found = compared(case(seed), tmp_path)
    assert not found, "\n".join(found)


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_many_random_trees(tmp_path: Path) -> None:
    failed = {}
    for seed in HEAVY:
        found = compared(case(seed, entries=200), tmp_path)
        if found:
            failed[seed] = found[:3]
    assert not failed, failed
