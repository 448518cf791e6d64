"""Planned seconds against those that a seeding then took. By hand, on a machine that does nothing else:

.venv/bin/python -m pytest -m heavy -s tests/integration/test_replica_plan_times.py
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fixtures.slapd_config import Settings
from tests.integration.test_replica_plan import carried_out, planned, rows, where
from tests.support.command import ditseed
from tests.support.seeding import consumer_of, pair

pytestmark = [pytest.mark.slapd, pytest.mark.heavy, pytest.mark.timeout(3600)]


def test_each_strategy_takes_as_long_as_planned(tmp_path: Path) -> None:
    told = []
    with pair(tmp_path, 1_000_000, wanted=Settings(maxsize=16 << 30)) as both:
        both.prepare("ldif")
        for strategy in ("search", "ldif", "clone"):
            with consumer_of(both) as one:
                sources = ("--from", one.provider.database_dir, "--from", one.export_dir)
                plan = {**planned(one, *sources), "chosen": strategy}
                steps = rows(plan)[strategy]["steps"]
                seconds = sum(step["seconds"] for step in steps if step["name"] != "catch-up")
                began = time.monotonic()
                carried_out(one, plan).ok()
                took = time.monotonic() - began
                status = ditseed("replica", "status", *where(one)[-4:]).ok().out
                print(f"\n{strategy}: planned {seconds:.1f} s, took {took:.1f} s\n{status}")
                told.append((strategy, seconds, took))
    for strategy, seconds, took in told:
        assert abs(seconds - took) <= 0.3 * took, (strategy, seconds, took)
