"""The bar of the main job: a replica seeded from a provider that never rests converges by itself, and is equal. And
values that got into a provider long ago, and that no check of today would let in: its consumer gets them.

The full size is `pytest -m heavy -s`. The seed of the writer is printed and is another one each time, unless
DITSEED_BAR_SEED gives it; DITSEED_BAR_ENTRIES and DITSEED_BAR_RATE set the size and the changes a second.
"""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from fixtures.churn import Churn
from fixtures.replication import Refresh, refresh_report, wait_in_sync
from fixtures.trees import record
from tests.support.command import Done, ditseed
from tests.support.seeding import STRATEGIES, Pair, pair
from tests.support.trees import assert_same, tree

pytestmark = pytest.mark.slapd

ENTRIES = int(os.environ.get("DITSEED_BAR_ENTRIES", "5000"))
RATE = float(os.environ.get("DITSEED_BAR_RATE", "50"))
SEED = int(os.environ.get("DITSEED_BAR_SEED", "0")) or random.randrange(1, 10**6)
SIZES = [pytest.param(ENTRIES, RATE, id="short"), pytest.param(50_000, 200, id="long", marks=pytest.mark.heavy)]


@pytest.mark.rows(0, "short-search")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("people", "rate"), SIZES)
def test_a_replica_of_a_restless_provider_converges(short_tmp: Path, people: int, rate: float, strategy: str) -> None:
    """Without a full refresh: the cookie was taken, and the session log named what went."""
    with pair(short_tmp, people) as both:
        (refresh,) = _seed_and_sync(both, strategy, rate)
        assert refresh.kind == "delete"
        assert refresh.sent <= people // 2


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["search", "slapcat", "clone"])
@pytest.mark.parametrize(
    ("settings", "kind"), [({"session_log": 0}, "present"), ({"overlays": ("overlay syncprov",)}, "delete")]
)
def test_another_provider_or_consumer(short_tmp: Path, settings: dict[str, Any], kind: str, strategy: str) -> None:
    """Without a session log, the provider names all that stays, and the consumer deletes the rest: also what came after
    the claimed contextCSN. A consumer that provides for others raises contextCSN at the start to the newest entryCSN
    that it finds: nothing may be newer."""
    with pair(short_tmp, 2000, **settings) as both:
        (refresh,) = _seed_and_sync(both, strategy, RATE)
        assert refresh.kind == kind
        assert refresh.sent < 1000


def _seed_and_sync(both: Pair, strategy: str, rate: float) -> list[Refresh]:
    print(f"\n{strategy}: {rate:g} changes/s, DITSEED_BAR_SEED={SEED}")
    with Churn(both.provider, rate=rate, seed=SEED) as churn:
        churn.wait_for(20)
        started = time.monotonic()
        both.prepare(strategy)
        said = ditseed(*both.seed(strategy)).ok()
        seconds = time.monotonic() - started
        if strategy == "search":
            _assert_counts_add_up(said)
        both.consumer.start()
        churn.wait_for(churn.changes() + 20)
    waited = wait_in_sync(both.provider, both.consumer)
    refreshes = refresh_report(both.consumer)
    print(f"{said.err}seeded in {seconds:.1f} s, in sync {waited:.2f} s after the last change")
    print(churn.counts, refreshes)
    assert_same(both.provider, both.consumer)
    places = ("compare", both.provider.uri, both.consumer.uri, "-b", both.provider.suffix)
    bind = (*both.bind[2:], "--consumer-password-file", both.consumer.replicator_password_file)
    ditseed(*places, *bind, "--with-context-csn").ok()
    for refresh in refreshes:
        assert refresh.cookie
        assert refresh.sent <= sum(churn.counts.values())
    return refreshes


def _assert_counts_add_up(said: Done) -> None:
    """Each number of entries that one seeding shows follows from the others."""
    shown = {name.strip(): value for name, value in re.findall(r"^(.+?)  +([\d,]+)$", said.out, re.M)}
    counts = {name: int(value.replace(",", "")) for name, value in shown.items()}
    assert counts["read"] == counts["entries"] + counts["rejected"] + counts["left out"]
    assert counts["left out"] == counts.get("read twice", 0) + counts.get("parent is gone", 0)
    (streamed,) = re.findall(r"^stream: ([\d,]+) entries", said.err, re.M)
    assert streamed == shown["read"]


OLD = [
    *(("objectClass", "inetOrgPerson"), ("objectClass", "posixAccount"), ("cn", "old"), ("sn", "old")),
    *(("uid", "old"), ("uidNumber", "007"), ("gidNumber", "seven"), ("homeDirectory", "/häme")),
    *(("telephoneNumber", "ask *her*"), ("telephoneNumber", "#7")),
]


@pytest.mark.long("slapcat")
@pytest.mark.parametrize("strategy", ["search", "slapcat"])
def test_the_consumer_gets_old_values_that_are_not_valid(tmp_path: Path, strategy: str) -> None:
    """Which come by slapadd."""
    with pair(tmp_path, 50) as both:
        both.provider.stop()
        both.provider.slapadd(record(f"uid=old,{both.provider.suffix}", OLD), "-S", "0", "-w")
        both.provider.start()
        both.prepare(strategy)
        syntax = "1.3.6.1.4.1.1466.115.121.1"
        assert sorted(ditseed(*both.seed(strategy, "--json")).ok().facts["invalid values"]) == [
            f"1 of gidNumber ({syntax}.27)",
            f"1 of homeDirectory ({syntax}.26)",
            f"1 of uidNumber ({syntax}.27)",
            f"2 of telephoneNumber ({syntax}.50)",
        ]
        assert tree(both.consumer.slapcat()) == tree(both.provider.slapcat())
