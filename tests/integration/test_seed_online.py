"""A replica seeded while it runs: what it then holds is the provider's, and syncrepl goes on from there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.replication import refresh_report, wait_in_sync
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import DATABASE
from fixtures.trees import write_people
from loader import errors
from tests.support.command import Done, ditseed
from tests.support.killing import killed
from tests.support.leases import recorded_leases
from tests.support.seeding import bind, follow, online
from tests.support.trees import assert_same, emptied

pytestmark = [pytest.mark.slapd, pytest.mark.usefixtures("state")]

SEED = random.randrange(1, 10**6)
DOMAIN = "objectClass: domain\ndc: example\n"


@contextmanager
def pair(scratch: Path, people: int, *overlays: str) -> Iterator[tuple[Slapd, Slapd]]:
    """A running provider of so many people, and a running, empty server that is nobody's replica yet."""
    source = replication.provider()
    write_people(scratch / "people.ldif", source.suffix, people)
    source.slapadd(scratch / "people.ldif")
    settings = replication.as_consumer(source.settings, overlays=overlays, loglevel="sync stats")
    with source, Slapd(settings) as target:
        yield source, target


def seed(source: Slapd, target: Slapd, *more: object) -> Done:
    return ditseed(*online(source, target), *more)


def lent(target: Slapd) -> bool:
    return "olcUpdateDN" in target.search(base=DATABASE, scope=0, external=True)[0][1]


@pytest.mark.rows(1)
@pytest.mark.parametrize("overlays", [(), ("overlay syncprov",)])
def test_it_converges_with_a_restless_provider(short_tmp: Path, overlays: tuple[str, ...]) -> None:
    with pair(short_tmp, 2000, *overlays) as (source, target):
        with Churn(source, rate=50, seed=SEED) as churn:
            churn.wait_for(20)
            seed(source, target).ok()
            assert not lent(target)
            follow(source, target)
            churn.wait_for(churn.changes() + 20)
        wait_in_sync(source, target)
        (refresh,) = refresh_report(target)
        assert refresh.kind == "delete", SEED  # the cookie was taken
        assert refresh.sent < 1000
        assert_same(source, target)


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["join.recorded", "updatedn.taken", "load.middle", "claim.middle", "updatedn.given-back"]
)
def test_killed_and_begun_again(short_tmp: Path, point: str) -> None:
    with pair(short_tmp, 300) as (source, target):
        killed(point, *online(source, target))
        if point == "updatedn.taken":
            with pytest.raises(ServerError, match="shadow context"):  # nobody else can write meanwhile
                target.ldapadd(f"dn: {target.suffix}\n{DOMAIN}")
        seed(source, target).ok()
        assert not lent(target)
        assert not recorded_leases()
        follow(source, target)
        wait_in_sync(source, target)
        assert_same(source, target)


@pytest.mark.long
def test_from_an_export(short_tmp: Path) -> None:
    with pair(short_tmp, 100) as (source, target):
        out, base = short_tmp / "export", ("-b", source.suffix)
        ditseed("export", *bind(source), *base, "-o", out).ok()
        ditseed(*online(source, target, "--from", out, *base)).ok()
        assert_same(source, target)


def test_a_consumer_that_was_made_anew_is_seeded_again_if_it_is_empty(short_tmp: Path) -> None:
    """What was done there once says nothing of the server that is there now."""
    said = "nothing was done now"
    with pair(short_tmp, 50) as (source, target):
        first, again = (seed(source, target, "--json").ok() for _ in range(2))
        assert said in again.err
        assert again.facts == {**first.facts, "done_before": again.facts["done_before"]}
        assert first.facts["entries"] == len(target.search(attributes=("1.1",)))
        target.restart()
        assert said in seed(source, target).ok().err
        emptied(target)
        assert said not in seed(source, target).ok().err
        assert_same(source, target)
        emptied(target)
        target.ldapadd(f"dn: {target.suffix}\n{DOMAIN}")
        seed(source, target).refused(errors.ReplicaNotEmpty)
        assert not lent(target)
        follow(source, target)
        seed(source, target).refused(errors.NotAReplica, "olcSyncrepl")
