"""A partial replica that is seeded equals one that syncrepl fills by itself, and stays so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import partial, replication
from fixtures.churn import Churn
from fixtures.replication import wait_in_sync
from fixtures.slapd import Slapd
from fixtures.trees import write_people
from loader.errors import EmptyInput, EntryRefused, PartialReplica
from tests.support.command import ditseed
from tests.support.killing import killed
from tests.support.seeding import Pair, bind, verifying

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
NATIVE = ("search", "ldif", "slapcat")
STRATEGIES = (*NATIVE, "slapadd")
TIMES = ("createTimestamp", "modifyTimestamp")


@dataclass(frozen=True)
class Case:
    """`options` of syncrepl, its search base, the consumer's suffix, and what seeds it (slapadd checks no schema)."""

    options: str
    base: str = SUFFIX
    suffix: str = SUFFIX
    strategies: tuple[str, ...] = STRATEGIES


CASES = {
    "filter": Case('filter="(employeeType=engineer)"'),
    "filter-that-all-match": Case('filter="(|(objectClass=*)(uid=*))"'),
    "filter-of-inner-entries": Case('filter="(objectClass=organizationalUnit)"'),
    "filter-with-not": Case('filter="(&(objectClass=person)(!(manager=*)))"'),
    "filter-with-substrings": Case('filter="(|(cn=person *1*)(telephoneNumber=*4930*9))"'),
    # slapd.conf takes one backslash away, RFC 4515 the other.
    "filter-with-escapes": Case(r'filter="(|(cn=Person\\201)(cn=*\\20 2))"'),
    "attrs": Case('attrs="cn,sn"'),
    "attrs-user": Case('attrs="*"'),
    "attrs-operational": Case('attrs="+"'),
    "attrs-class": Case('attrs="@person"'),
    "attrs-user-and-one": Case('attrs="*,modifyTimestamp"'),
    "attrs-supertype": Case('attrs="name"'),
    "attrs-option": Case('attrs="sn;lang-de,uid"'),
    "exattrs": Case('exattrs="userPassword,sn"'),
    "exattrs-class": Case('exattrs="@person"'),
    "exattrs-alias": Case('exattrs="surname,USERPASSWORD"'),
    "exattrs-operational": Case('exattrs="createTimestamp,entryUUID,entryCSN"'),
    "scope-one": Case("scope=one", PEOPLE),
    "scope-one-of-suffix": Case("scope=one"),
    "scope-base": Case("scope=base", PEOPLE),
    "scope-subordinate": Case("scope=subordinate", PEOPLE),
    "narrower": Case("", f"ou=staff,{PEOPLE}"),
    # No option narrows anything, and contextCSN stands elsewhere at the provider.
    "part-as-suffix": Case("", PEOPLE, PEOPLE, ("search",)),
    "massage": Case('suffixmassage="dc=local"', SUFFIX, "dc=local"),
    "massage-narrower": Case('suffixmassage="ou=deep,ou=sub,dc=local"', PEOPLE, "dc=local"),
    "schemachecking": Case('schemachecking=on filter="(objectClass=inetOrgPerson)" attrs="*"', strategies=NATIVE),
    "all": Case(
        'suffixmassage="dc=local" filter="(|(objectClass=groupOfNames)(employeeType=clerk))"'
        ' attrs="*" exattrs="userPassword" schemachecking=on',
        SUFFIX,
        "dc=local",
        NATIVE,
    ),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Slapd]:
    with partial.provider() as source:
        source.describe("one")
        yield source


def consumer(source: Slapd, case: Case) -> Slapd:
    return partial.consumer(source, case.options, base=case.base, suffix=case.suffix)


def seeding(source: Slapd, target: Slapd, strategy: str, scratch: Path) -> tuple[object, ...]:
    """The command, with the LDIF made that it needs."""
    both = Pair(source, target, scratch)
    both.prepare(strategy)
    given: dict[str, tuple[object, ...]] = {
        "search": ("search", *both.bind),
        "slapadd": ("search", *both.bind, "--engine", "slapadd"),
        "ldif": ("ldif", "--from", both.export_dir),
        "slapcat": ("ldif", "-w", "--from", both.slapcat_file),
    }
    where = ("--config", target.config_path, "--suffix", target.suffix)
    return ("replica", "seed", "--strategy", *given[strategy], *where)


def seed(source: Slapd, target: Slapd, strategy: str, scratch: Path, *more: object) -> str:
    return ditseed(*seeding(source, target, strategy, scratch), *more).ok().out


@pytest.mark.rows(0, "all", "attrs", "schemachecking")
@pytest.mark.parametrize("name", CASES)
def test_a_seeded_one_equals_one_that_syncrepl_filled(provider: Slapd, tmp_path: Path, name: str) -> None:
    with consumer(provider, CASES[name]) as natural:
        wait_in_sync(provider, natural)
        wanted = partial.stored(natural)
        for strategy in CASES[name].strategies:
            scratch = tmp_path / strategy
            scratch.mkdir()
            with closing(consumer(provider, CASES[name])) as seeded:
                seed(provider, seeded, strategy, scratch, "--verify", "tree")
                found = partial.differences(wanted, partial.stored(seeded))
                assert not found, (strategy, found)
                ditseed("verify", seeded.database_dir, "--config", seeded.config_path, "-b", seeded.suffix).ok()


def assert_equal(source: Slapd, natural: Slapd, seeded: Slapd, times: tuple[str, ...] = ()) -> partial.Stored:
    """Once whichever of the two runs has all that the provider has. times: attributes that may differ."""
    for target in (natural, seeded):
        if target.running:
            wait_in_sync(source, target)
    stored = partial.stored(natural)
    assert not partial.differences(stored, partial.stored(seeded), times)
    return stored


@pytest.mark.rows(0, "scope-one")
@pytest.mark.parametrize(
    "name", ["filter", "attrs", "attrs-user", "exattrs", "scope-one", "narrower", "massage", "all"]
)
def test_it_stays_equal_to_that_one(tmp_path: Path, name: str) -> None:
    """Under 300 changes at the provider; the first third are made between the seeding and the consumer's start."""
    case = CASES[name]
    with partial.provider() as source, consumer(source, case) as natural:
        source.describe("a")
        wait_in_sync(source, natural)
        # With 9, no entry is both added and renamed in the first third. Only `natural` would see such a rename, for
        # which syncrepl stores the value of the new RDN, even of an attribute that attrs= lacks.
        records = list(partial.changes(SUFFIX, partial.PEOPLE, 300, 9))
        with closing(consumer(source, case)) as one, closing(consumer(source, case)) as other:
            seed(source, one, "search", tmp_path)
            seed(source, other, "slapcat", tmp_path)
            source.ldapmodify("\n".join(records[:100]))
            for target in (natural, one.start(), other.start()):
                wait_in_sync(source, target)
            source.ldapmodify("\n".join(records[100:]))
            # Where these do not come from the provider, they are of the moment at which the entry came.
            for seeded in (one, other):
                assert len(assert_equal(source, natural, seeded, TIMES if "attrs=" in case.options else ())) > 1


@pytest.mark.rows(0, "exattrs")
@pytest.mark.parametrize("name", ["filter", "attrs", "exattrs", "exattrs-operational", "scope-one", "narrower"])
def test_a_right_one_is_called_equal_and_a_wrong_one_is_not(provider: Slapd, tmp_path: Path, name: str) -> None:
    with consumer(provider, CASES[name]) as target:
        wait_in_sync(provider, target)
        whole = verifying(provider, target, "--json")
        known = (*whole, "--config", target.config_path)
        facts = ditseed(*known).ok().facts
        assert facts["equal"], facts
        assert facts["compared_as"].startswith("a partial replica")
        done = ditseed(*whole)
        assert (done.status, done.facts["compared_as"][:15]) == (1, "a whole replica")
        lost = next(dn for dn in partial.stored(target) if dn.startswith("uid="))
        target.stop()
        partial.lose(target, lost)
        target.start()
        done = ditseed(*known)
        assert [done.status, *(done.facts[name] for name in ("only_a", "only_b", "changed"))] == [1, 1, 0, 0]


def test_names_that_are_massaged_are_not_compared(provider: Slapd) -> None:
    with consumer(provider, CASES["massage"]) as target:
        wait_in_sync(provider, target)
        ditseed(*verifying(provider, target, "--config", target.config_path)).refused(PartialReplica)


@pytest.mark.long
@pytest.mark.parametrize("point", ["start.recorded", "plan.recorded", "read.recorded", "late.recorded"])
def test_a_container_that_is_not_replicated_is_renamed_while_its_children_are_read(tmp_path: Path, point: str) -> None:
    """Its children keep entryCSN, and nobody reads the container itself."""
    case = CASES["filter"]
    with partial.provider() as source, closing(consumer(source, case)) as seeded:
        source.describe("a")
        killed(point, *seeding(source, seeded, "search", tmp_path))
        with source.connection() as handle:
            handle.rename_s(f"ou=staff,{PEOPLE}", "ou=crew", f"ou=groups,{SUFFIX}", delold=1)
        seed(source, seeded, "search", tmp_path)
        with seeded, consumer(source, case) as natural:
            stored = assert_equal(source, natural, seeded)
            assert any(f"ou=crew,ou=groups,{SUFFIX}" in dn for dn in stored)


@pytest.mark.long
def test_a_seeding_that_is_stopped_goes_on(provider: Slapd, tmp_path: Path) -> None:
    case = CASES["all"]
    for point in ("select.start", "select.middle", "select.unrecorded", "load.middle", "publish.unrecorded"):
        with closing(consumer(provider, case)) as target:
            killed(point, *seeding(provider, target, "search", tmp_path))
            seed(provider, target, "search", tmp_path)
            assert "glue" in seed(provider, target, "search", tmp_path)
            left = sorted(one.name for one in target.database_dir.rglob("*.ldif*"))
            assert not left, (point, left)


def refused(target: Slapd, *given: object) -> str:
    """By name, before anything is read; what was said."""
    done = ditseed("replica", "seed", "--strategy", *given, "--config", target.config_path)
    done.refused(PartialReplica)
    assert not (target.database_dir / "data.mdb").exists()
    return done.err


@pytest.mark.rows(1, "attrsonly-ldif-attrsonly", "scope=one-clone-a copy of a database holds every entry")
@pytest.mark.parametrize(
    ("options", "strategy", "word"),
    [
        *(("attrsonly", strategy, "attrsonly") for strategy in ("search", "ldif")),
        ('filter="(cn~=x)"', "ldif", "approximate"),
        ('filter="(hasSubordinates=TRUE)"', "ldif", "hasSubordinates"),
        ('attrs="*,sn;lang-de"', "search", "options"),
        ('attrs="@person" exattrs="cn"', "search", "exattrs and a class"),
        ("scope=one", "clone", "a copy of a database holds every entry"),
        ('exattrs="OBJECTCLASS,cn"', "search", "OBJECTCLASS"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    provider: Slapd, tmp_path: Path, options: str, strategy: str, word: str
) -> None:
    source = tmp_path / "provider.ldif"
    source.write_text(provider.slapcat())
    given = {"search": bind(provider), "ldif": ("--from", source), "clone": ("--from", provider.database_dir)}
    with closing(consumer(provider, Case(options))) as target:
        said = refused(target, strategy, *given[strategy])
        assert word in said
        assert strategy != "clone" or "--strategy search" in said
        assert provider.replicator_password_file.read_text() not in said


def test_a_dry_run_says_what_would_be_done(provider: Slapd, tmp_path: Path) -> None:
    with closing(consumer(provider, CASES["filter"])) as target:
        assert "syncrepl selects" in seed(provider, target, "search", tmp_path, "--dry-run")


def test_what_the_schema_check_of_the_consumer_refuses_is_refused(provider: Slapd, tmp_path: Path) -> None:
    """The RDN's attribute is not among those that come, and slapadd would add it in silence."""
    options = 'schemachecking=on filter="(objectClass=inetOrgPerson)" attrs="cn,sn"'
    with closing(consumer(provider, Case(options))) as target:
        done = ditseed(*seeding(provider, target, "search", tmp_path))
        done.refused(EntryRefused, "uid: the entry lacks the value that its RDN has")
        assert "--engine native" in refused(target, "search", *bind(provider), "--engine", "slapadd")


def test_a_filter_that_matches_nothing_is_told(provider: Slapd, tmp_path: Path) -> None:
    with closing(consumer(provider, Case('filter="(employeeType=nobody)"'))) as target:
        ditseed(*seeding(provider, target, "search", tmp_path)).refused(EmptyInput, "(employeeType=nobody)")


def test_subentries_do_not_come(provider: Slapd, tmp_path: Path) -> None:
    with partial.provider() as source, closing(consumer(source, CASES["exattrs"])) as seeded:
        source.ldapadd(f"dn: cn=sub,{SUFFIX}\nobjectClass: subentry\ncn: sub\nsubtreeSpecification: {{ }}\n")
        with consumer(source, CASES["exattrs"]) as natural:
            wait_in_sync(source, natural)
            wanted = partial.stored(natural)
        assert f"cn=sub,{SUFFIX}" not in wanted
        seed(source, seeded, "slapcat", tmp_path)
        assert not partial.differences(wanted, partial.stored(seeded))


@pytest.mark.rows(0, "scope=subordinate")
@pytest.mark.parametrize("options", ['exattrs="userPassword"', 'attrs="*"', "scope=subordinate"])
def test_with_delta_syncrepl(tmp_path: Path, options: str) -> None:
    """The first load is a refresh like any other; what comes then, comes from the log."""
    (tmp_path / "log").mkdir()
    case = Case(f"{options} {partial.DELTA}")
    with partial.provider(settings=partial.with_log(tmp_path / "log")) as source:
        source.describe("a")
        with consumer(source, case) as natural, closing(consumer(source, case)) as seeded:
            wait_in_sync(source, natural)
            seed(source, seeded, "search", tmp_path)
            assert_equal(source, natural, seeded)
            seeded.start()
            source.ldapmodify("\n".join(partial.changes(SUFFIX, partial.PEOPLE, 100, 3)))
            assert_equal(source, natural, seeded, TIMES)


@pytest.mark.long
@pytest.mark.parametrize(
    "options", ['exattrs="userPassword"', 'attrs="*"', 'filter="(objectClass=*)" attrs="cn,sn,ou,dc"']
)
def test_of_a_provider_that_never_rests(tmp_path: Path, options: str) -> None:
    """Containers move, too, while several connections read; all of them are replicated."""
    people = tmp_path / "people.ldif"
    write_people(people, SUFFIX, 1500)
    case = Case(options)
    with closing(replication.provider()) as source:
        source.slapadd(people)
        source.start()
        source.describe("a")
        with closing(consumer(source, case)) as seeded:
            with Churn(source, rate=80, seed=11):
                seed(source, seeded, "search", tmp_path, "--pieces", "3", "--page", "100")
                seeded.start()
                time.sleep(2)
            with consumer(source, case) as natural:
                assert_equal(source, natural, seeded, TIMES)


def test_a_consumer_that_runs_on_a_slapd_conf(provider: Slapd, tmp_path: Path) -> None:
    options = r'filter="(|(cn=Person\\201)(employeeType=clerk))" exattrs="userPassword mail"'
    made = [partial.consumer(provider, options, form="conf") for _ in range(2)]
    with made[0] as natural, closing(made[1]) as seeded:
        seed(provider, seeded, "slapcat", tmp_path)
        assert not any("mail" in entry for entry in assert_equal(provider, natural, seeded).values())
