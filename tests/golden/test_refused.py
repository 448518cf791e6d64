"""Bad entries: each is refused with its reason, file and line; the others are loaded, and nothing is lost. And settings
and syntaxes that nobody has proven the builder to do as slapd."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.golden.case import Case, server, settings
from fixtures.golden.configured import LIMIT, UUID
from fixtures.golden.mistakes import ALL, APART, BROKEN, Mistake
from fixtures.golden.reading import Database
from fixtures.golden.records import SUFFIX, entry, golden, top, unit
from fixtures.golden.tables import differences
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from loader import errors
from tests.support.golden import build, compared, slapadd

pytestmark = pytest.mark.slapd
SETTINGS = settings("objectClass,cn,ou eq", "description sub")
GOOD = top() + "".join(unit(one.base) for one in ALL)


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(server(SETTINGS)) as made:
        yield made


@dataclass(frozen=True)
class Rejected:
    """One build of all mistakes at once."""

    target: Slapd
    ldif: Path
    rejects: Path
    status: int
    facts: dict[str, object]
    reasons: dict[int, tuple[str, str]]  # line -> DN, reason


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rejected]:
    home = tmp_path_factory.mktemp("rejects")
    ldif, rejects = home / "all.ldif", home / "rejects.ldif"
    ldif.write_text(top() + "".join(unit(one.base) + one.text for one in ALL))
    with closing(server(SETTINGS)) as made:
        done = build(made, ldif, "--max-rejects", 1000, "--rejects", rejects, "--json")
        facts = json.loads(done.out)
        reasons = {line: (dn, reason) for path, line, dn, reason in facts["rejections"] if path == str(ldif)}
        yield Rejected(made, ldif, rejects, done.status, facts, reasons)


@pytest.mark.parametrize("mistake", ALL, ids=[one.name for one in ALL])
def test_refused_with_its_reason_and_line(rejected: Rejected, mistake: Mistake) -> None:
    text, container = rejected.ldif.read_text(), unit(mistake.base)
    line = text.count("\n", 0, text.index(container + mistake.text) + len(container)) + 1
    assert line in rejected.reasons, "it was taken"
    _, reason = rejected.reasons[line]
    assert reason
    assert mistake.word in reason


def test_nothing_else_is_refused_and_all_is_counted(rejected: Rejected) -> None:
    assert rejected.status == 1, "done with rejects"
    assert rejected.facts["rejected"] == len(rejected.reasons) == len(ALL)
    assert rejected.facts["entries"] == GOOD.count("dn: ")
    assert rejected.facts["read"] == GOOD.count("dn: ") + len(ALL)


def test_the_others_are_as_slapadd_loads_them(rejected: Rejected, tmp_path: Path) -> None:
    _is_as_slapadd_makes(rejected.target, GOOD, tmp_path)


def _is_as_slapadd_makes(target: Slapd, text: str, directory: Path) -> None:
    (directory / "good.ldif").write_text(text)
    with closing(server(SETTINGS)) as oracle:
        slapadd(oracle, directory / "good.ldif")
        assert not differences(oracle.database_dir, target.database_dir)


def test_the_reject_file_holds_them_as_they_were(rejected: Rejected, target: Slapd) -> None:
    """Below a comment each with the reason and the place; loaded again they are refused for the same reasons."""
    text = rejected.rejects.read_text()
    assert rejected.rejects.stat().st_mode & 0o077 == 0
    for one in ALL:
        assert one.text.rstrip("\n") + "\n\n" in text
    for line, (_, reason) in rejected.reasons.items():
        assert f"# {reason}\n# {rejected.ldif}, line {line}\n" in text
    again = rejected.ldif.with_name("again.ldif")
    again.write_text(GOOD + text)
    done = build(target, again, "--max-rejects", 1000, "--json")
    reasons = sorted(one[3] for one in json.loads(done.out)["rejections"])
    assert reasons == sorted(reason for _, reason in rejected.reasons.values())


@pytest.mark.parametrize("mistake", APART, ids=[one.name for one in APART])
def test_a_mistake_in_lines_that_stand_apart(target: Slapd, tmp_path: Path, mistake: Mistake) -> None:
    ldif = tmp_path / "apart.ldif"
    ldif.write_text(top() + unit(mistake.base) + mistake.text)
    done = build(target, ldif)
    assert done.status == errors.EntryRefused.exit_status, done
    assert mistake.word in done.err


@pytest.mark.rows(8)
@pytest.mark.parametrize("mistake", [*ALL, *APART], ids=[one.name for one in (*ALL, *APART)])
def test_what_slapadd_says(mistake: Mistake, tmp_path: Path, target: Slapd) -> None:
    """The list is right about slapadd, which looks at less."""
    ldif = tmp_path / "one.ldif"
    ldif.write_text(top() + unit(mistake.base) + mistake.text)
    try:
        slapadd(target, ldif)
    except ServerError:
        assert mistake.slapadd, "slapadd refuses it"
    else:
        assert not mistake.slapadd, "slapadd takes it"


def test_more_than_are_allowed_stop_a_build(target: Slapd, tmp_path: Path) -> None:
    """Without --max-rejects the first does: nothing is published, and the place of the entry is told."""
    ldif = tmp_path / "some.ldif"
    ldif.write_text(top() + "".join(unit(one.base) + one.text for one in ALL[:3]))
    for more in ((), ("--max-rejects", 2)):
        done = build(target, ldif, *more)
        assert done.status == errors.EntryRefused.exit_status, done
        assert not (target.database_dir / "data.mdb").exists()
        if not more:
            assert f"{ldif}, line 17" in done.err
            assert ALL[0].word in done.err
    assert build(target, ldif, "--max-rejects", 3).status == 1


def test_a_mended_reject_file_completes_the_load(target: Slapd, tmp_path: Path) -> None:
    lame = golden(f"cn=lame,{SUFFIX}").replace("cn: x\n", "")
    child = golden(f"cn=child,cn=lost,{SUFFIX}", cn="child")
    first, rejects = tmp_path / "first.ldif", tmp_path / "rejects.ldif"
    first.write_text(top() + lame + golden(f"description=bad,{SUFFIX}") + child + unit(f"ou=end,{SUFFIX}"))
    assert build(target, first, "--max-rejects", 9, "--rejects", rejects).status == 1
    both = top() + unit(f"ou=end,{SUFFIX}") + rejects.read_text() + golden(f"cn=lost,{SUFFIX}", cn="lost")
    assert compared(Case("both", "", SETTINGS, lambda: both), tmp_path) == []


@pytest.mark.parametrize("spelled", ["cn=twice", "CN = Twice ", "2.5.4.3=tw\\69ce", 'cn="twice"'])
def test_a_dn_that_comes_twice(target: Slapd, tmp_path: Path, spelled: str) -> None:
    """The first is kept, the second refused, as slapadd does; however it is spelled, however far apart."""
    ldif = tmp_path / "twice.ldif"
    between = "".join(unit(f"ou=n{n},{SUFFIX}") for n in range(2000))
    once = top() + golden(f"cn=twice,{SUFFIX}") + between
    ldif.write_text(once + golden(f"{spelled},{SUFFIX}", [("cn", "second")]))
    with pytest.raises(ServerError, match=r"already exists|68|KEYEXIST"), closing(server(SETTINGS)) as oracle:
        slapadd(oracle, ldif)
    done = build(target, ldif, "--max-rejects", 1, "--json")
    assert done.status == 1, done
    ((_, line, _, reason),) = done.facts["rejections"]
    assert line == once.count("\n") + 1
    assert "line 9" in reason, "where the first is"
    _is_as_slapadd_makes(target, once, tmp_path)


def test_a_missing_parent(target: Slapd, tmp_path: Path) -> None:
    """Told by name with its first child; with rejects allowed, all below it goes to the reject file."""
    lost = [golden(f"cn={n},ou=a,ou=nobody,{SUFFIX}", cn=f"{n}") for n in range(3)]
    ldif, rejects = tmp_path / "lost.ldif", tmp_path / "rejects.ldif"
    first = golden(f"cn=first,{SUFFIX}", cn="first")  # so that no attribute is the lost ones' own
    ldif.write_text(top() + first + lost[0] + unit(f"ou=good,{SUFFIX}") + lost[1] + lost[2])
    done = build(target, ldif)
    assert done.status == errors.MissingParents.exit_status, done
    assert f"ou=a,ou=nobody,{SUFFIX}" in done.err
    done = build(target, ldif, "--max-rejects", 3, "--rejects", rejects, "--json")
    assert done.status == 1, done
    assert [line for _, line, _, _ in done.facts["rejections"]] == [17, 33, 41]
    assert all(line in rejects.read_text() for text in lost for line in text.splitlines())
    _is_as_slapadd_makes(target, top() + first + unit(f"ou=good,{SUFFIX}"), tmp_path)


def test_children_of_a_refused_entry_go_with_it(target: Slapd, tmp_path: Path) -> None:
    """They have no parent any more; each is told of, and can be loaded once that is mended."""
    bad = golden(f"cn=bad,{SUFFIX}", [("mail", "a"), ("noSuchThing", "x")])
    below = [golden(f"cn=a,cn=bad,{SUFFIX}"), golden(f"cn=b,cn=a,CN=Bad,{SUFFIX}")]
    ldif, rejects = tmp_path / "family.ldif", tmp_path / "rejects.ldif"
    ldif.write_text(top() + below[1] + bad + below[0] + unit(f"ou=good,{SUFFIX}"))
    done = build(target, ldif, "--max-rejects", 3, "--rejects", rejects, "--json")
    assert done.status == 1, done
    assert done.facts["rejected"] == 3
    assert done.facts["entries"] == 2
    assert bad in rejects.read_text()
    kept = rejects.read_text().splitlines()  # what was read already is written anew
    assert all(line in kept for text in below for line in text.splitlines())


@pytest.mark.parametrize("name", BROKEN)
def test_a_record_that_is_none(target: Slapd, tmp_path: Path, name: str) -> None:
    """It stops a build at its line; with rejects allowed it is one of them."""
    ldif, rejects = tmp_path / "broken.ldif", tmp_path / "rejects.ldif"
    broken = BROKEN[name].replace("{base}", SUFFIX)
    ldif.write_text(top() + broken + unit(f"ou=good,{SUFFIX}"))
    done = build(target, ldif)
    assert done.status in (errors.LdifSyntax.exit_status, errors.EntryRefused.exit_status), done
    assert str(ldif) in done.err
    assert "line 9" in done.err or "line 10" in done.err or "line 11" in done.err
    assert not (target.database_dir / "data.mdb").exists()
    done = build(target, ldif, "--max-rejects", 1, "--rejects", rejects, "--json")
    assert done.status == 1, done
    assert (done.facts["entries"], done.facts["rejected"]) == (2, 1)
    assert broken in rejects.read_text()


def test_a_file_that_was_cut(target: Slapd, tmp_path: Path) -> None:
    """No number of rejects makes up for what is not there."""
    ldif = tmp_path / "cut.ldif.gz"
    ldif.write_bytes(gzip.compress((top() + golden(f"cn=x,{SUFFIX}").rstrip("\n")).encode()))
    done = build(target, ldif, "--max-rejects", 1000)
    assert done.status == errors.LdifTruncated.exit_status, done
    assert not (target.database_dir / "data.mdb").exists()


# Syntaxes that slapd registers for filters. OpenLDAP's own test.schema defines an attribute of the first one.
ASSERTIONS = ("1.3.6.1.1.15.1", "1.3.6.1.1.15.5", "1.3.6.1.4.1.4203.666.11.10.2.2")
DEFINED = tuple(f"attributetype ( 1.2.3.{n} NAME 'gAssertion{n}' SYNTAX {oid} )" for n, oid in enumerate(ASSERTIONS))
SUBTYPE = "attributetype ( 1.2.3.9 NAME 'gAssertion9' SUP gAssertion0 )"


@pytest.mark.parametrize(
    ("wanted", "word", "more"),
    [
        (settings("gInteger eq", top_lines=("index_intlen 9",)), "index_intlen is 9", ()),
        (settings("gAssertion0 pres", top_lines=DEFINED), "gAssertion0", ()),
        (settings(database=("sync_use_subentry on",)), "sync_use_subentry", ("-w",)),
    ],
    ids=["intlen", "assertion", "subentry"],
)
def test_what_is_not_proven_is_refused_by_name(
    wanted: Settings, word: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    """Before any work. The LDIF is one that slapadd loads."""
    ldif = tmp_path / "input.ldif"
    ldif.write_text(top())
    with closing(server(wanted)) as oracle, closing(server(wanted)) as ours:
        slapadd(oracle, ldif)
        done = build(ours, ldif, *more)
        assert done.status == errors.NotProven.exit_status, done
        assert word in done.err
        assert "--engine slapadd" in done.err.partition("hint:")[2]
        assert not (ours.database_dir / "data.mdb").exists()


def test_assertions_that_are_only_defined(tmp_path: Path) -> None:
    wanted = settings("objectClass eq", top_lines=(*DEFINED, SUBTYPE))
    assert compared(Case("defined", "", wanted, top), tmp_path) == []


ASSERTED = '{ serialNumber 5, issuer rdnSequence:"cn=x" }'
UNFOLLOWED = {
    **{f"gAssertion{number}": ASSERTED for number in (0, 1, 2, 9)},
    "authzTo": "dn.children:ou=People,dc=x",
    "OpenLDAPaci": "1#entry#grant;r;cn#access-id#cn=A,dc=X",
}


@pytest.mark.long(*(f"{name}-{how}" for name in list(UNFOLLOWED)[1:] for how in ("checked", "unchecked")))
@pytest.mark.parametrize("checks", [(), ("--no-value-check",)], ids=["checked", "unchecked"])
@pytest.mark.parametrize("name", UNFOLLOWED)
def test_entries_with_values_that_are_not_followed(name: str, checks: tuple[str, ...], tmp_path: Path) -> None:
    """A value ends the build, which names its attribute; a DN that has one is its entry's fault."""
    value = UNFOLLOWED[name]
    classes = [("objectClass", "device"), ("objectClass", "extensibleObject"), ("cn", "x")]
    escaped = value.replace(",", "\\2C").replace('"', "\\22").replace("=", "\\3D")
    ldif, rejecting = tmp_path / "input.ldif", ("--max-rejects", 9)
    for text, more, error in (
        (entry(f"cn=x,{SUFFIX}", [*classes, (name, value)]), rejecting, errors.NotProven),
        (entry(f"{name}={escaped},{SUFFIX}", classes), (), errors.EntryRefused),
        (entry(f"cn=x,{SUFFIX}", [*classes, ("seeAlso", f"{name}={escaped}")]), (), errors.EntryRefused),
    ):
        ldif.write_text(top() + text)
        with closing(server(settings(top_lines=(*DEFINED, SUBTYPE)))) as ours:
            done = build(ours, ldif, *checks, *more)
            assert done.status == error.exit_status, done
            assert name in done.err
            assert not (ours.database_dir / "data.mdb").exists()


@pytest.mark.parametrize("name", ["authzTo", "OpenLDAPaci"])
def test_slapadd_stores_what_the_native_engine_does_not_follow(name: str, tmp_path: Path) -> None:
    ldif = tmp_path / "input.ldif"
    pairs = [("objectClass", "device"), ("objectClass", "extensibleObject"), ("cn", "x"), (name, UNFOLLOWED[name])]
    ldif.write_text(top() + entry(f"cn=x,{SUFFIX}", pairs))
    with closing(server(settings())) as ours:
        assert "--engine slapadd" in build(ours, ldif).err.partition("hint:")[2]
        build(ours, ldif, engine="slapadd").ok()
        assert f"{name}: " in ours.slapcat()


@pytest.mark.long
def test_a_late_parent_beside_a_list_that_becomes_a_range(tmp_path: Path) -> None:
    """65,535 entries with one word, and then their parent with it and with another one: slapadd puts what is left of
    that attribute's keys under the highest ID (servers/slapd/back-mdb/idl.c)."""
    stamp = ("entryCSN", "20240101000000.000000Z#000000#001#000000")
    pairs = [("objectClass", "gEntry"), ("cn", "x"), ("description", "crowd"), stamp]
    names = ((f"cn={n},ou=late,{SUFFIX}", ("entryUUID", UUID.format(n))) for n in range(1, LIMIT + 1))
    words = [*pairs[:3], ("description", "one"), ("description", "two")]
    parts = [top(), *(record(dn, [*pairs, uuid]) for dn, uuid in names), entry(f"ou=late,{SUFFIX}", words)]
    ldif, wanted = tmp_path / "late.ldif", settings("description eq", maxsize=256 << 20)
    ldif.write_text("".join(parts))
    with closing(server(wanted)) as theirs, closing(server(wanted)) as ours:
        slapadd(theirs, ldif)
        build(ours, ldif).ok()
        for target, found in ((theirs, LIMIT + 2), (ours, 2)):
            with closing(Database(target.database_dir)) as database:
                short = [ids for ids in database.index("description").values() if len(ids) < 3]
            assert short == [[found], [found]]


def test_a_batch_that_breaks_off(tmp_path: Path) -> None:
    """`slapadd -q -c` loses up to 500 good entries with a bad one, and a mended one is to be noticed; ditseed none."""
    ldif = tmp_path / "batch.ldif"
    units = [unit(f"ou=n{number},{SUFFIX}") for number in range(300)]
    ldif.write_text(top() + "".join(units[:200]) + units[7] + "".join(units[200:]))
    with closing(server(settings())) as theirs, closing(server(settings())) as ours:
        where = [*theirs.config_arguments, "-b", SUFFIX, "-l", str(ldif)]
        with pytest.raises(ServerError, match="slapadd ended"):
            theirs.tool("slapadd", "-q", "-c", *where)
        assert len(_entries(theirs)) < 200
        assert build(ours, ldif, "--max-rejects", 1).status == 1
        assert len(_entries(ours)) == 301


def _entries(target: Slapd) -> list[str]:
    with closing(Database(target.database_dir)) as database:
        return [dn for dn, blob in database.entries().items() if blob]
