"""Entries that share their entryUUID: slapadd takes them, and each is an entry of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.errors import RefreshRefused, SharedUuid
from tests.support.command import Done, ditseed
from tests.support.seeding import Pair, consumer_of, pair
from tests.support.stopping import stopped_at

pytestmark = pytest.mark.slapd

TWINS = ("cn=one,dc=example,dc=com", "cn=two,dc=example,dc=com")
UUID = "11111111-2222-4333-8444-555555555555"
PERSON = f"objectClass: person\nsn: twin\nentryUUID: {UUID}\n"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("twins"), 20) as made:
        provider = made.provider
        ldif = made.scratch / "twins.ldif"
        ldif.write_text("\n".join(f"dn: {dn}\n{PERSON}" for dn in TWINS))
        provider.stop()
        provider.slapadd(ldif)
        provider.start()
        # Its CSN goes beyond those of slapadd's entries into contextCSN, which slapadd left as it was.
        provider.describe("later", TWINS[0])
        yield made


def _expect_named(done: Done) -> None:
    done.refused(SharedUuid, UUID, *TWINS)


def test_an_export_is_refused_with_both_names(both: Pair, tmp_path: Path) -> None:
    _expect_named(ditseed("export", *both.bind, "-b", both.provider.suffix, "-o", tmp_path / "out"))
    assert not list((tmp_path / "out").glob("*.ldif*"))


def test_one_that_changed_while_it_was_read_does_not_overtake_the_other(both: Pair) -> None:
    seeding = stopped_at("plan.recorded", *both.seed("search"))
    both.provider.describe("changed", TWINS[0])
    _expect_named(seeding.end())
    assert not (both.consumer.database_dir / "data.mdb").exists()


@pytest.mark.parametrize(
    ("strategy", "more"), [("search", ()), ("search", ("--engine", "slapadd")), ("slapcat", ()), ("clone", ())]
)
def test_no_seeding_takes_them(both: Pair, strategy: str, more: tuple[str, ...]) -> None:
    """With slapadd, by way of an export."""
    both.prepare(strategy)
    _expect_named(ditseed(*both.seed(strategy, "--restart", *more)))
    assert not (both.consumer.database_dir / "data.mdb").exists()


@pytest.mark.parametrize("indexes", [("objectClass eq", "entryUUID eq"), ("objectClass eq",)])
def test_verify_names_them(indexes: tuple[str, ...]) -> None:
    """With an index on entryUUID few entries are looked at; without one, all are."""
    root = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n"
    with closing(Slapd(Settings(indexes=indexes))) as server:
        server.slapadd("\n".join([root, *(f"dn: {dn}\n{PERSON}" for dn in TWINS)]))
        done = ditseed("verify", "--config", server.config_path).ok()
        told = ditseed("doctor", "--config", server.config_path)
    assert told.status == 1
    for out in (done.out, told.out) if "entryUUID eq" in indexes else (done.out,):
        assert f"share the entryUUID {UUID}" in out
        assert all(dn in out for dn in TWINS)


def test_a_refresh_does_not_guess_which_of_them_was_deleted(both: Pair) -> None:
    """slapadd put both into the consumer's database as well."""
    both.provider.restart()  # writes contextCSN, which slapcat reads, to the database
    ldif = both.scratch / "all.ldif"
    ldif.write_text(both.provider.slapcat())
    both.consumer.slapadd(ldif)
    both.provider.describe("once more", TWINS[0])
    done = ditseed("replica", "refresh", *both.bind, *both.where)
    done.refused(RefreshRefused, f"share the entryUUID {UUID}")


@pytest.mark.parametrize("known", [0, 1])
def test_a_refresh_finds_them_at_the_provider_alone(both: Pair, known: int) -> None:
    """`known`: how many of them the consumer has. The restarted provider names all entries that did not change."""
    records = both.provider.slapcat().split("\n\n")
    foreign = tuple(f"dn: {dn}\n" for dn in TWINS[known:])
    ldif = both.scratch / "some.ldif"
    ldif.write_text("\n\n".join(one for one in records if not one.startswith(foreign)))
    both.provider.describe(f"known: {known}")
    both.provider.restart()
    with consumer_of(both) as behind:
        behind.consumer.slapadd(ldif)
        before = (behind.consumer.database_dir / "data.mdb").read_bytes()
        _expect_named(ditseed("replica", "refresh", *behind.bind, *behind.where))
        assert (behind.consumer.database_dir / "data.mdb").read_bytes() == before
