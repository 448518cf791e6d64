"""Planned seconds against those that a seeding then took. By hand, on a machine that does nothing else:

.venv/bin/python -m pytest -m heavy -s tests/integration/test_replica_plan_times.py
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fixtures.slapd_config import Settings
from tests.support.command import ditseed
from tests.support.seeding import consumer_of, pair

pytestmark = [pytest.mark.slapd, pytest.mark.heavy, pytest.mark.timeout(3600)]

PEOPLE = 1_000_000
WITHIN = 0.3


def test_each_strategy_takes_as_long_as_planned(tmp_path: Path) -> None:
    told = []
    with pair(tmp_path, PEOPLE, wanted=Settings(maxsize=16 << 30)) as both:
        both.prepare("ldif")
        for strategy in ("search", "ldif", "clone"):
            with consumer_of(both) as one:
                where = (*one.bind, "--config", one.consumer.config_path, "-b", one.consumer.suffix)
                sources = ("--from", one.provider.database_dir, "--from", one.export_dir)
                plan = ditseed("replica", "seed", "--dry-run", *where, *sources, "--json").ok().facts
                (row,) = (row for row in plan["strategies"] if row["strategy"] == strategy)
                planned = sum(step["seconds"] for step in row["steps"] if step["name"] != "catch-up")
                source = [word for path in row["source"] for word in ("--from", path)]
                began = time.monotonic()
                ditseed("replica", "seed", "--strategy", strategy, *source, *where).ok()
                took = time.monotonic() - began
                status = ditseed("replica", "status", *where[-4:]).ok().out
                print(f"\n{strategy}: planned {planned:.1f} s, took {took:.1f} s\n{status}")
                told.append((strategy, planned, took))
    for strategy, planned, took in told:
        assert abs(planned - took) <= WITHIN * took, (strategy, planned, took)
