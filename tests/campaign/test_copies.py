"""Files under another configuration, by chance. Short here; the whole campaign is `bin/campaign copies`."""

from __future__ import annotations

import random

import pytest

from fixtures.campaign import verdict
from fixtures.campaign.copies import pair as trials
from tests.support.require import require

pytestmark = pytest.mark.slapd

# Pairs that come out alike in every run; each seed is one way.
EQUAL, REFUSED = 2014, 1013  # all indexes are made again; an object class is missing


@pytest.mark.long
@pytest.mark.parametrize(("seed", "outcome"), [(EQUAL, verdict.EQUAL), (REFUSED, verdict.REFUSED)])
def test_one_pair(seed: int, outcome: str) -> None:
    require(trials.missing())
    found = list(trials.trials(1, seed))
    assert [one.outcome for one in found] == [outcome], trials.table(found)


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_all_pairs() -> None:
    require(trials.missing())
    found = list(trials.trials(trials.PAIRS, random.randrange(10**6)))
    print(trials.table(found))
    assert all(one.sound for one in found), trials.table(found)
