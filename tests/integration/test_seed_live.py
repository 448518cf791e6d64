"""The bar of the main job: a replica seeded from a provider that never rests converges by itself, and is equal.

DITSEED_BAR_ENTRIES=50000 DITSEED_BAR_SEED=7 DITSEED_BAR_RATE=200 pytest -s tests/integration/test_seed_live.py
is the full size. The seed of the writer is printed; without DITSEED_BAR_SEED it is another one each time.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from fixtures.churn import Churn
from fixtures.replication import Refresh, refresh_report, wait_in_sync
from tests.support.command import ditseed
from tests.support.seeding import STRATEGIES, pair
from tests.support.trees import assert_same

pytestmark = [pytest.mark.slapd, pytest.mark.timeout(900)]

ENTRIES = int(os.environ.get("DITSEED_BAR_ENTRIES", "5000"))
RATE = float(os.environ.get("DITSEED_BAR_RATE", "50"))
SEED = int(os.environ.get("DITSEED_BAR_SEED", "0")) or random.randrange(1, 10**6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replica_of_a_restless_provider_converges(short_tmp: Path, strategy: str) -> None:
    print(f"\n{strategy}: {ENTRIES} people, {RATE:g} changes/s, DITSEED_BAR_SEED={SEED}")
    with pair(short_tmp, ENTRIES) as both:
        total = ENTRIES + ENTRIES // 100
        with Churn(both.provider, rate=RATE, seed=SEED) as churn:
            churn.wait_for(20)
            started = time.monotonic()
            both.prepare(strategy)
            said = ditseed(*both.seed(strategy)).ok()
            seconds = time.monotonic() - started
            both.consumer.start()
            churn.wait_for(churn.changes() + 20)
        waited = wait_in_sync(both.provider, both.consumer, timeout=120)
        refreshes = refresh_report(both.consumer)
        print(
            said.err,
            f"seeded in {seconds:.1f} s; in sync after {waited:.2f} s",
            churn.counts,
            refreshes,
        )
        assert_same(both.provider, both.consumer)
        compared = ditseed(
            "compare",
            both.provider.uri,
            both.consumer.uri,
            *both.bind[2:],
            "-b",
            both.provider.suffix,
        )
        assert compared.status == 0, compared.out + compared.err
        _assert_no_full_refresh(refreshes, sum(churn.counts.values()), total)


def _assert_no_full_refresh(refreshes: list[Refresh], changes: int, total: int) -> None:
    """Only what changed was sent: the cookie was taken, and the session log named what went."""
    assert refreshes
    for refresh in refreshes:
        assert refresh.cookie
        assert refresh.kind == "delete"
    assert len(refreshes) == 1
    assert refreshes[0].sent <= min(changes, total // 2)
