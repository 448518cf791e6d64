"""Databases whose suffix is the empty DN (`suffix ""`, as of Zimbra). Their root is an entry that no search shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.golden.case import settings
from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader.errors import EntryRefused, LdifSyntax, UsageProblem
from tests.support.command import Done, ditseed
from tests.support.trees import assert_same, tree

pytestmark = pytest.mark.slapd

BELOW = """dn: dc=com
objectClass: domain
dc: com

dn: uid=u,dc=com
objectClass: inetOrgPerson
uid: u
cn: u
sn: u
userPassword: x

dn: cn=other
objectClass: device
cn: other

"""
ROOT = "dn:\nobjectClass: organization\no: all\n\n"
CHANGE = "dn: dc=com\nchangetype: modify\nreplace: description\ndescription: {}\n"
SETTINGS = dataclasses.replace(
    settings("objectClass,entryCSN,entryUUID eq", suffix=""), modules=("back_mdb", "syncprov"), schema=()
)


@contextmanager
def provider(text: str) -> Iterator[Slapd]:
    with closing(replication.provider(SETTINGS)) as server:
        server.slapadd(text, "-w")
        with server:
            server.ldapmodify(CHANGE.format("one"))
            yield server


@pytest.fixture(scope="module", params=["rooted", "rootless"])
def source(request: pytest.FixtureRequest) -> Iterator[Slapd]:
    with provider((ROOT if request.param == "rooted" else "") + BELOW) as server:
        yield server


def bound(server: Slapd) -> tuple[object, ...]:
    return ("-H", server.uri, "-D", "cn=replicator", "-y", server.replicator_password_file)


def seed(source: Slapd, target: Slapd, strategy: str, home: Path, *more: object) -> Done:
    if strategy == "ldif":
        ditseed("export", *bound(source), "-b", "", "-o", home / "out").ok()
    (home / "slapcat.ldif").write_text(source.slapcat())
    given: dict[str, tuple[object, ...]] = {
        "search": ("search", *bound(source)),
        "ldif": ("ldif", "--from", home / "out"),
        "slapcat": ("ldif", "-w", "--from", home / "slapcat.ldif"),
        "clone": ("clone", *bound(source), "--from", source.database_dir),
    }
    where = ("--config", target.config_path, "-b", "")
    return ditseed("replica", "seed", "--strategy", *given[strategy], *where, *more)


def wait_for(change: str, *targets: Slapd) -> None:
    """No search shows a consumer's contextCSN."""
    until(lambda: all(target.search(f"(description={change})") for target in targets))


@pytest.mark.rows(0, "rooted-slapcat", "rootless-search")
@pytest.mark.parametrize("strategy", ["search", "ldif", "slapcat", "clone", "slapadd"])
def test_a_replica_goes_on_from_its_seed(source: Slapd, short_tmp: Path, strategy: str) -> None:
    how = ("search", "--engine", "slapadd") if strategy == "slapadd" else (strategy,)
    with closing(replication.consumer(source)) as target, closing(replication.consumer(source)) as natural:
        seed(source, target, how[0], short_tmp, *how[1:]).ok()
        words = ("--config", target.config_path, "-b", "", "--verify", "indexes")
        ditseed("verify", *words).ok()
        target.start()
        natural.start()
        source.ldapmodify(CHANGE.format(strategy))
        wait_for(strategy, target, natural)
        (refresh,) = replication.refresh_report(target)[:1]
        assert refresh.cookie, "a full refresh"
        assert refresh.sent <= 1
        # Whether the root is the provider's own depends on who can see it; all else is equal.
        ours, theirs = tree(target.slapcat()), tree(source.slapcat())
        assert {**ours, "dn:": ()} == {**theirs, "dn:": ()}
        if strategy in ("search", "ldif"):
            assert_same(target, natural)
        elif strategy != "slapadd":
            assert ours["dn:"] or "dn:" not in theirs


@pytest.mark.long("rootless")
def test_what_slapcat_and_export_write_is_built(source: Slapd, short_tmp: Path) -> None:
    source.restart()  # slapd stores its contextCSN when it stops
    source.ldapmodify(CHANGE.format("again"))
    out = short_tmp / "out"
    found = ditseed("export", source.database_dir, "-o", out, "--json").ok().facts
    assert found["context_csns"], "it stands in the root"
    with closing(Slapd(SETTINGS)) as target:
        ditseed("build", out, "--config", target.config_path, "-b", "").ok()
        ours, theirs = tree(target.slapcat()), tree(source.slapcat())
        assert set(theirs["dn:"]) <= set(ours["dn:"]), "a glue entry is completed"
        assert {**ours, "dn:": ()} == {**theirs, "dn:": ()}


@pytest.mark.parametrize("more", [(), ("--engine", "slapadd")])
def test_every_engine_makes_the_root(short_tmp: Path, more: tuple[str, ...]) -> None:
    path = short_tmp / "in.ldif"
    path.write_text(ROOT + BELOW)
    with closing(Slapd(SETTINGS)) as target:
        ditseed("build", path, "--config", target.config_path, "-b", "", *more).ok()
        assert "o: all" in tree(target.slapcat())["dn:"]


@pytest.mark.long
def test_a_root_that_stands_elsewhere_or_is_no_entry_is_refused(short_tmp: Path) -> None:
    for text in (BELOW + ROOT, "dn:\nobjectClass: person\n\n" + BELOW):
        path = short_tmp / "in.ldif"
        path.write_text(text)
        with closing(Slapd(SETTINGS)) as target:
            done = ditseed("build", path, "--config", target.config_path, "-b", "")
            assert done.status in (EntryRefused.exit_status, LdifSyntax.exit_status), done.err
            rejected = ditseed(*("build", path, "--config", target.config_path, "-b", "", "--max-rejects", "1"))
            assert rejected.status == 1, rejected.err
            assert set(tree(target.slapcat())) == {"dn: dc=com", "dn: uid=u,dc=com", "dn: cn=other"}


def test_no_replica_is_seeded_online(source: Slapd) -> None:
    with Slapd(SETTINGS) as target:
        consumer = ("--consumer", target.ldapi_uri, "--consumer-mechanism", "EXTERNAL")
        words = ("replica", "seed", "--strategy", "online", *bound(source), *consumer, "-b", "")
        done = ditseed(*words)
        assert done.status == UsageProblem.exit_status, done.err
        assert "empty suffix" in done.err
