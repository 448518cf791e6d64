"""Databases whose suffix is the empty DN (`suffix ""`, as of Zimbra). Their root is an entry that no search
shows. And a suffix with escaped characters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.golden.case import settings
from fixtures.golden.records import pairs_of, top, unit
from fixtures.golden.tables import differences
from fixtures.slapd import Form, ServerError, Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from fixtures.waiting import until
from loader.defaults import ENGINES
from loader.errors import EntryRefused, LdifSyntax, UsageProblem
from tests.support.building import build
from tests.support.command import ditseed
from tests.support.seeding import Pair, online
from tests.support.trees import assert_same, tree

pytestmark = pytest.mark.slapd

PERSON = "inetOrgPerson; uid: {0}; cn: {0}; sn: {0}; userPassword: x"


def records(texts: dict[str, str]) -> str:
    return "".join(record(dn, pairs_of(f"objectClass: {text}")) for dn, text in texts.items())


BELOW = records({"dc=com": "domain; dc: com", "uid=u,dc=com": PERSON.format("u"), "cn=other": "device; cn: other"})
ROOT = "dn:\nobjectClass: organization\no: all\n\n"
SETTINGS = dataclasses.replace(
    settings("objectClass,entryCSN,entryUUID eq", suffix="", modules=("syncprov",)), schema=()
)


@pytest.fixture(scope="module", params=["rooted", "rootless"])
def source(request: pytest.FixtureRequest) -> Iterator[Slapd]:
    with closing(replication.provider(SETTINGS)) as server:
        server.slapadd((ROOT if request.param == "rooted" else "") + BELOW, "-w")
        with server:
            server.describe("one", "dc=com")
            yield server


def wait_for(change: str, *targets: Slapd) -> None:
    """No search shows a consumer's contextCSN."""
    until(lambda: all(target.search(f"(description={change})") for target in targets))


@pytest.mark.rows(0, "rooted-slapcat", "rootless-search")
@pytest.mark.parametrize("strategy", ["search", "ldif", "slapcat", "clone", "slapadd"])
def test_a_replica_goes_on_from_its_seed(source: Slapd, short_tmp: Path, strategy: str) -> None:
    how = {"slapadd": ("search", "--engine", "slapadd"), "slapcat": ("slapcat", "-w")}.get(strategy, (strategy,))
    with closing(replication.consumer(source)) as target, closing(replication.consumer(source)) as natural:
        both = Pair(source, target, short_tmp)
        both.prepare(how[0])
        ditseed(*both.seed(*how)).ok()
        ditseed("verify", *both.where, "--verify", "indexes").ok()
        target.start()
        natural.start()
        source.describe(strategy, "dc=com")
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
    source.describe("again", "dc=com")
    out = short_tmp / "out"
    found = ditseed("export", source.database_dir, "-o", out, "--json").ok().facts
    assert found["context_csns"], "it stands in the root"
    with closing(Slapd(SETTINGS)) as target:
        build(target, out).ok()
        ours, theirs = tree(target.slapcat()), tree(source.slapcat())
        assert set(theirs["dn:"]) <= set(ours["dn:"]), "a glue entry is completed"
        assert {**ours, "dn:": ()} == {**theirs, "dn:": ()}


@pytest.mark.long("more2")
@pytest.mark.parametrize("more", [(), ("--engine", "slapadd"), ("--engine", "slapadd", "--shards", "2")])
def test_every_engine_makes_the_root(short_tmp: Path, more: tuple[str, ...]) -> None:
    path = short_tmp / "in.ldif"
    path.write_text(ROOT + BELOW)
    with closing(Slapd(SETTINGS)) as target:
        build(target, path, *more).ok()
        assert "o: all" in tree(target.slapcat())["dn:"]


@pytest.mark.long
def test_a_root_that_stands_elsewhere_or_is_no_entry_is_refused(short_tmp: Path) -> None:
    for text in (BELOW + ROOT, "dn:\nobjectClass: person\n\n" + BELOW):
        path = short_tmp / "in.ldif"
        path.write_text(text)
        with closing(Slapd(SETTINGS)) as target:
            done = build(target, path)
            assert done.status in (EntryRefused.exit_status, LdifSyntax.exit_status), done.err
            rejected = build(target, path, "--max-rejects", "1")
            assert rejected.status == 1, rejected.err
            assert set(tree(target.slapcat())) == {"dn: dc=com", "dn: uid=u,dc=com", "dn: cn=other"}


def test_no_replica_is_seeded_online(source: Slapd) -> None:
    with Slapd(SETTINGS) as target:
        ditseed(*online(source, target)).refused(UsageProblem, "empty suffix")


INNER = "ou=inner,dc=com"
LDIF = top("dc=com") + unit("ou=people,dc=com") + top("o=Other")


# --- in a configuration, beside a database with a longer suffix: every verb that works on files ------


@pytest.fixture
def server(form: Form, tmp_path: Path) -> Iterator[Slapd]:
    other = tmp_path / "other"
    other.mkdir()
    lines = ("database mdb", f"suffix {INNER}", f"rootdn cn=x,{INNER}", f"directory {other}")
    wanted = settings("objectClass,ou eq", suffix="", top_lines=lines)
    with closing(Slapd(wanted, form=form)) as made:
        yield made


@pytest.mark.parametrize("engine", ENGINES)
def test_built_as_slapadd_does(server: Slapd, engine: str, tmp_path: Path) -> None:
    ldif, where = tmp_path / "in.ldif", ("--config", server.config_path, "-b", "")
    ldif.write_text(LDIF)
    server.slapadd(ldif)
    theirs = tmp_path / "theirs"
    server.database_dir.rename(theirs)
    server.database_dir.mkdir()
    ditseed("build", ldif, *where, "--engine", engine).ok()
    assert not differences(theirs, server.database_dir, frozenset())
    ditseed("verify", *where, "--verify", "indexes").ok()


@pytest.mark.parametrize("engine", ENGINES)
def test_entries_of_the_other_database_are_its_own(server: Slapd, engine: str, tmp_path: Path) -> None:
    ldif, where = tmp_path / "in.ldif", ("--config", server.config_path, "-b", "")
    ldif.write_text(LDIF + unit(INNER))
    with pytest.raises(ServerError):
        server.slapadd(ldif)
    ditseed("build", ldif, *where, "--engine", engine, "--replace").refused(EntryRefused, INNER)


@pytest.mark.long
def test_read_copied_tuned_and_backed_up(server: Slapd, tmp_path: Path) -> None:
    where, repo = ("--config", server.config_path, "-b", ""), tmp_path / "repo"
    server.slapadd(LDIF)
    ditseed("clone", server.database_dir, tmp_path / "copy").ok()
    ditseed("compare", server.config_path, tmp_path / "copy", "-b", "").ok()
    ditseed("migrate", tmp_path / "copy", tmp_path / "made", *where).ok()
    assert not differences(server.database_dir, tmp_path / "made", frozenset())
    done = ditseed("export", server.database_dir, "-b", "", "-o", tmp_path / "out", "--json").ok()
    assert done.facts["entries"] == 3
    apply = ("--apply",) if server.form == "config" else ()
    ditseed("tune", "maxsize", *where, "--maxsize", "100M", *apply).ok()
    ditseed("tune", "indexes", *where, "--add", "cn eq", *apply).ok()
    ditseed("backup", "run", "--init", *where, "--repo", repo).ok()
    ditseed("backup", "restore", "latest", *where, "--repo", repo, "--replace").ok()
    ditseed("verify", *where, "--verify", "indexes").ok()


# --- escaped characters, and -b in every spelling that slapd takes for the same DN -------------------

COMMA, HASH = r"o=Foo\, Inc.,c=US", r"o=\#1 Foo,c=US"
SPELLINGS = (
    *(COMMA, r"o=foo\2C inc.,c=us", r'O = "Foo, Inc." , C=us'),
    *(r"organizationName=Foo\, Inc.,countryName=US", r"2.5.4.10=Foo\2c  Inc.;c=US"),
)


def three(suffix: str, value: str) -> str:
    people = f"ou=People,{suffix}"
    above = {suffix: f"organization; o: {value}", people: "organizationalUnit; ou: People"}
    return records({**above, f"uid=a,{people}": PERSON.format("a")})


@pytest.fixture(scope="module")
def loaded() -> Iterator[Slapd]:
    made = replication.provider(Settings(suffix=COMMA))
    made.slapadd(three(COMMA, "Foo, Inc."), "-w")
    with made:
        yield made


def as_root(server: Slapd, base: str) -> list[object]:
    return ["-H", server.uri, "-D", server.root_dn, "-y", server.password_file, "-b", base]


@pytest.mark.long
@pytest.mark.parametrize("base", SPELLINGS)
def test_reading(loaded: Slapd, base: str, tmp_path: Path) -> None:
    ditseed("export", *as_root(loaded, base), "-o", tmp_path / "server").ok()
    ditseed("export", loaded.database_dir, "-b", base, "-o", tmp_path / "database").ok()
    below = ditseed("export", loaded.database_dir, "-b", f"OU=people,{base}", "-o", tmp_path / "below", "--json").ok()
    assert below.facts["entries"] == 2
    for made in (tmp_path / "server", tmp_path / "database", loaded.config_path):
        ditseed("compare", loaded.uri, made, *as_root(loaded, base)[2:]).ok()
    ditseed("verify", "--config", loaded.config_path, "-b", base, "--verify", "indexes").ok()


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("base", [SPELLINGS[2], SPELLINGS[-1]])
def test_building(loaded: Slapd, base: str, engine: str, form: Form, tmp_path: Path) -> None:
    ditseed("export", loaded.database_dir, "-o", tmp_path / "out").ok()
    with closing(Slapd(Settings(suffix=COMMA), form=form)) as server:
        where = ("--config", server.config_path, "-b", base)
        ditseed("build", tmp_path / "out", *where, "--engine", engine).ok()
        assert sorted(server.slapcat().split("\n\n")) == sorted(loaded.slapcat().split("\n\n"))
        apply = ("--apply",) if form == "config" else ()
        assert "maxsize" in ditseed("tune", "maxsize", *where, "--maxsize", "2G", *apply).ok().out
        told = ditseed("tune", "indexes", *where, "--add", "description eq", *apply).ok().out
        assert "description eq" in told


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["search", "ldif", "clone"])
@pytest.mark.parametrize("base", [SPELLINGS[0], SPELLINGS[-1]])
def test_seeding(loaded: Slapd, base: str, strategy: str, tmp_path: Path) -> None:
    ditseed("export", *as_root(loaded, base), "-o", tmp_path / "out").ok()
    of = {"search": [], "ldif": ["--from", tmp_path / "out"], "clone": ["--from", loaded.database_dir]}
    with closing(replication.consumer(loaded)) as replica:
        where = ("--config", replica.config_path, *of[strategy])
        ditseed("replica", "seed", "--strategy", strategy, *as_root(loaded, base), *where).ok()
        replica.start()
        replication.wait_in_sync(loaded, replica)
        ditseed("compare", loaded.uri, replica.config_path, *as_root(loaded, base)[2:]).ok()


@pytest.mark.rows(2)
@pytest.mark.parametrize("base", [HASH, r"o=\231 foo,C=us"])
def test_a_number_sign(base: str, form: Form, tmp_path: Path) -> None:
    text = tmp_path / "in.ldif"
    text.write_text(three(HASH, "#1 Foo"))
    with closing(Slapd(Settings(suffix=HASH), form=form)) as server:
        ditseed("build", text, "--config", server.config_path, "-b", base).ok()
        ditseed("verify", "--config", server.config_path, "-b", base, "--verify", "indexes").ok()
        assert server.slapcat().count("dn: ") == 3
