"""Entries that share their entryUUID: slapadd takes them, and each is an entry of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.errors import RefreshRefused, SharedUuid
from tests.support.command import ditseed
from tests.support.seeding import Pair, consumer_of, pair
from tests.support.stopping import begin

pytestmark = pytest.mark.slapd

TWINS = ("cn=one,dc=example,dc=com", "cn=two,dc=example,dc=com")
PERSON = "objectClass: person\nsn: twin\nentryUUID: 11111111-2222-4333-8444-555555555555\n"


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
        provider.ldapmodify(_change(TWINS[0], "later"))
        yield made


def _change(dn: str, description: str) -> str:
    return f"dn: {dn}\nchangetype: modify\nreplace: description\ndescription: {description}\n"


def _expect_named(status: int, err: str) -> None:
    assert status == SharedUuid.exit_status, err
    assert "11111111-2222-4333-8444-555555555555" in err
    assert all(dn in err for dn in TWINS), err


def test_an_export_is_refused_with_both_names(both: Pair, tmp_path: Path) -> None:
    done = ditseed("export", *both.bind, "-b", both.provider.suffix, "-o", tmp_path / "out")
    _expect_named(done.status, done.err)
    assert not list((tmp_path / "out").glob("*.ldif*"))


def test_a_seeding_by_way_of_an_export_is_refused(both: Pair) -> None:
    done = ditseed(*both.seed("search", "--engine", "slapadd"))
    _expect_named(done.status, done.err)
    assert not (both.consumer.database_dir / "data.mdb").exists()


def test_one_that_changed_while_it_was_read_does_not_overtake_the_other(both: Pair) -> None:
    seeding = begin(both, ("plan.recorded",))
    seeding.wait_for_stop()
    both.provider.ldapmodify(_change(TWINS[0], "changed"))
    seeding.go_on()
    _, err = seeding.process.communicate(timeout=300)
    _expect_named(seeding.process.returncode, err)
    assert not (both.consumer.database_dir / "data.mdb").exists()


@pytest.mark.parametrize("strategy", ["search", "slapcat", "clone"])
def test_no_seeding_takes_them(both: Pair, strategy: str) -> None:
    both.prepare(strategy)
    done = ditseed(*both.seed(strategy, "--restart"))
    _expect_named(done.status, done.err)
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
        assert "share the entryUUID 11111111-2222-4333-8444-555555555555" in out
        assert all(dn in out for dn in TWINS)


def test_a_refresh_does_not_guess_which_of_them_was_deleted(both: Pair) -> None:
    """slapadd put both into the consumer's database as well."""
    ldif = both.scratch / "all.ldif"
    ldif.write_text(both.provider.slapcat())
    both.consumer.slapadd(ldif)
    both.provider.ldapmodify(_change(TWINS[0], "once more"))
    config = ("--config", both.consumer.config_path, "-b", both.consumer.suffix)
    done = ditseed("replica", "refresh", *both.bind, *config)
    assert done.status == RefreshRefused.exit_status, done.err
    assert "share the entryUUID 11111111-2222-4333-8444-555555555555" in done.err


@pytest.mark.parametrize("known", [0, 1])
def test_a_refresh_finds_them_at_the_provider_alone(both: Pair, known: int) -> None:
    """`known`: how many of them the consumer has. The restarted provider names all entries that did not change."""
    records = both.provider.slapcat().split("\n\n")
    foreign = tuple(f"dn: {dn}\n" for dn in TWINS[known:])
    ldif = both.scratch / "some.ldif"
    ldif.write_text("\n\n".join(one for one in records if not one.startswith(foreign)))
    both.provider.ldapmodify(_change(both.provider.suffix, f"known: {known}"))
    both.provider.restart()
    with consumer_of(both) as behind:
        behind.consumer.slapadd(ldif)
        before = (behind.consumer.database_dir / "data.mdb").read_bytes()
        config = ("--config", behind.consumer.config_path, "-b", behind.consumer.suffix)
        done = ditseed("replica", "refresh", *behind.bind, *config)
        _expect_named(done.status, done.err)
        assert (behind.consumer.database_dir / "data.mdb").read_bytes() == before
