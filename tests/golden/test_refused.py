"""Bad entries: each is refused with its reason, file and line; the others are loaded, and nothing is lost. And settings
and syntaxes that nobody has proven the builder to do as slapd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.case import Case, server, settings
from fixtures.golden.configured import LIMIT, UUID
from fixtures.golden.mistakes import ALL, APART, BROKEN, Mistake
from fixtures.golden.reading import Database
from fixtures.golden.records import SUFFIX, entry, golden, top, unit
from fixtures.golden.tables import differences
from fixtures.slapd import ServerError, Slapd
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


def _is_as_slapadd_makes(target: Slapd, text: str, directory: Path) -> None:
    (directory / "good.ldif").write_text(text)
    with closing(server(SETTINGS)) as oracle:
        slapadd(oracle, directory / "good.ldif")
        assert not differences(oracle.database_dir, target.database_dir)


def test_all_at_once(target: Slapd, tmp_path: Path) -> None:
    """Each is refused with its reason and line; the others are as slapadd loads them. The file of rejects holds them as
    they were, each below a comment with the reason and the place; loaded again they are refused for the same reasons.
    """
    ldif, rejects = tmp_path / "all.ldif", tmp_path / "rejects.ldif"
    ldif.write_text(top() + "".join(unit(one.base) + one.text for one in ALL))
    done = build(target, ldif, "--max-rejects", 1000, "--rejects", rejects, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    counts, good = tuple(done.facts[name] for name in ("read", "entries", "rejected")), GOOD.count("dn: ")
    assert counts == (good + len(ALL), good, len(ALL))
    assert done.facts["rejects"] == str(rejects)
    _is_as_slapadd_makes(target, GOOD, tmp_path)
    assert rejects.stat().st_mode & 0o077 == 0
    text, kept = ldif.read_text(), rejects.read_text()
    reasons = {line: reason for path, line, _, reason in done.facts["rejections"] if path == str(ldif)}
    for one in ALL:
        container = unit(one.base)
        line = text.count("\n", 0, text.index(container + one.text) + len(container)) + 1
        assert line in reasons, f"{one.name} was taken"
        assert reasons[line], one
        assert one.word in reasons[line], one
        assert f"# {reasons[line]}\n# {ldif}, line {line}\n" in kept
        assert one.text.rstrip("\n") + "\n\n" in kept
    again = tmp_path / "again.ldif"
    again.write_text(GOOD + kept)
    told = build(target, again, "--max-rejects", 1000, "--replace", "--json").facts["rejections"]
    assert sorted(one[3] for one in told) == sorted(reasons.values())


@pytest.mark.parametrize("mistake", APART, ids=[one.name for one in APART])
def test_a_mistake_in_lines_that_stand_apart(target: Slapd, tmp_path: Path, mistake: Mistake) -> None:
    ldif = tmp_path / "apart.ldif"
    ldif.write_text(top() + unit(mistake.base) + mistake.text)
    build(target, ldif).refused(errors.EntryRefused, mistake.word)


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
    ldif, kept = tmp_path / "some.ldif", target.database_dir / ".ditseed-build" / "rejects.ldif"
    ldif.write_text(top() + "".join(unit(one.base) + one.text for one in ALL[:3]))
    for more in ("--max-rejects", 2), ():
        done = build(target, ldif, *more)
        done.refused(errors.EntryRefused)
        assert not (target.database_dir / "data.mdb").exists()
    assert f"cn=wrong,{ALL[0].base} was refused" in done.err
    assert f"{ldif}, line 17" in done.err
    assert ALL[0].word in done.err
    assert "--no-value-check" not in done.err, "is for values alone"
    assert str(kept) in done.err
    assert ALL[0].text in kept.read_text()
    assert build(target, ldif, "--max-rejects", 3).status == errors.EXIT_DIFFERENT


def test_entries_below_no_other(target: Slapd, tmp_path: Path) -> None:
    """A missing parent is told by name with its first child. With rejects allowed, all below it, and all below a
    refused entry, is told of and can be loaded once that is mended."""
    lost = [golden(f"cn={n},ou=a,ou=nobody,{SUFFIX}", cn=f"{n}") for n in range(3)]
    bad = golden(f"cn=bad,{SUFFIX}", [("mail", "a"), ("noSuchThing", "x")])
    below = [golden(f"cn=a,cn=bad,{SUFFIX}"), golden(f"cn=b,cn=a,CN=Bad,{SUFFIX}")]
    first = golden(f"cn=first,{SUFFIX}", cn="first")  # so that no attribute is the lost ones' own
    good = unit(f"ou=good,{SUFFIX}")
    ldif, rejects = tmp_path / "lost.ldif", tmp_path / "rejects.ldif"
    ldif.write_text(top() + first + lost[0] + good + lost[1] + lost[2])
    done = build(target, ldif)
    done.refused(errors.MissingParents, f"ou=a,ou=nobody,{SUFFIX}")
    ldif.write_text(ldif.read_text() + below[1] + bad + below[0])
    done = build(target, ldif, "--max-rejects", 6, "--rejects", rejects, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    assert {line for _, line, _, _ in done.facts["rejections"]} >= {17, 33, 41}
    assert (done.facts["rejected"], done.facts["entries"]) == (6, 3)
    assert bad in rejects.read_text()
    kept = rejects.read_text().splitlines()  # what was read already is written anew
    assert all(line in kept for text in (*lost, *below) for line in text.splitlines())
    _is_as_slapadd_makes(target, top() + first + good, tmp_path)


def test_records_that_are_none(target: Slapd, tmp_path: Path) -> None:
    """With rejects allowed, each is one of them."""
    ldif, rejects = tmp_path / "broken.ldif", tmp_path / "rejects.ldif"
    broken = [text.replace("{base}", SUFFIX) for text in BROKEN.values()]
    ldif.write_text(top() + "".join(broken) + unit(f"ou=good,{SUFFIX}"))
    done = build(target, ldif, "--max-rejects", len(broken), "--rejects", rejects, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    assert (done.facts["entries"], done.facts["rejected"]) == (2, len(broken))
    assert all(text in rejects.read_text() for text in broken)


# Syntaxes that slapd registers for filters. OpenLDAP's own test.schema defines an attribute of the first one.
ASSERTIONS = ("1.3.6.1.1.15.1", "1.3.6.1.1.15.5", "1.3.6.1.4.1.4203.666.11.10.2.2")
DEFINED = tuple(f"attributetype ( 1.2.3.{n} NAME 'gAssertion{n}' SYNTAX {oid} )" for n, oid in enumerate(ASSERTIONS))
SUBTYPE = "attributetype ( 1.2.3.9 NAME 'gAssertion9' SUP gAssertion0 )"


def test_what_is_not_proven_is_refused_by_name(tmp_path: Path) -> None:
    """Before any work; the LDIF is one that slapadd loads. What is only defined is no reason."""
    wanted = settings("objectClass eq", top_lines=(*DEFINED, SUBTYPE))
    assert compared(Case("defined", "", wanted, top), tmp_path) == []
    wanted, ldif = settings("gAssertion0 pres", top_lines=DEFINED), tmp_path / "defined.ldif"
    with closing(server(wanted)) as oracle, closing(server(wanted)) as ours:
        slapadd(oracle, ldif)
        done = build(ours, ldif)
        done.refused(errors.NotProven, "gAssertion0")
        assert "--engine slapadd" in done.err.partition("hint:")[2]
        assert not (ours.database_dir / "data.mdb").exists()


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
    escaped = value.translate({ord(each): f"\\{ord(each):02X}" for each in ',"=;'})
    ldif, rejecting = tmp_path / "input.ldif", ("--max-rejects", 9)
    for text, more, error in (
        (entry(f"cn=x,{SUFFIX}", [*classes, (name, value)]), rejecting, errors.NotProven),
        (entry(f"{name}={escaped},{SUFFIX}", classes), (), errors.EntryRefused),
        (entry(f"cn=x,{SUFFIX}", [*classes, ("seeAlso", f"{name}={escaped}")]), (), errors.EntryRefused),
    ):
        ldif.write_text(top() + text)
        with closing(server(settings(top_lines=(*DEFINED, SUBTYPE)))) as ours:
            build(ours, ldif, *checks, *more).refused(error, name)
            assert not (ours.database_dir / "data.mdb").exists()


@pytest.mark.parametrize("name", ["authzTo", "OpenLDAPaci"])
def test_slapadd_stores_what_the_native_engine_does_not_follow(name: str, target: Slapd, tmp_path: Path) -> None:
    ldif = tmp_path / "input.ldif"
    pairs = [("objectClass", "device"), ("objectClass", "extensibleObject"), ("cn", "x"), (name, UNFOLLOWED[name])]
    ldif.write_text(top() + entry(f"cn=x,{SUFFIX}", pairs))
    assert "--engine slapadd" in build(target, ldif).refused(errors.NotProven)
    build(target, ldif, engine="slapadd").ok()
    assert f"{name}: " in target.slapcat()


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


@pytest.mark.parametrize("sids", [(2,), (1, 2)], ids=["too many by -w", "too many already"])
def test_contextcsn_that_belongs_in_id2v(sids: tuple[int, ...], tmp_path: Path) -> None:
    """slapadd -w leaves the rows of id2v as they are."""
    csns = [f"contextCSN: 20230101000000.000000Z#000000#00{sid}#000000" for sid in sids]
    csns.append("entryCSN: 20240101000000.000000Z#000000#001#000000")
    ldif = tmp_path / "context.ldif"
    ldif.write_text("\n".join([f"dn: {SUFFIX}", "objectClass: domain", "dc: example", *csns, ""]))
    with closing(server(settings("objectClass eq", database=("multival default 1,0",)))) as ours:
        build(ours, ldif, "-w").refused(errors.NotProven, "contextCSN")
        if len(sids) > 1:
            build(ours, ldif, "-w", engine="slapadd").refused(errors.UsageProblem, "id2v")


def test_a_dn_that_comes_twice(target: Slapd, tmp_path: Path) -> None:
    """The first is kept, the second refused, however it is spelled, however far apart. `slapadd -q -c` loses up to 500
    good entries with a bad one, and a mended one is to be noticed; ditseed none."""
    ldif, units = tmp_path / "twice.ldif", [unit(f"ou=n{number},{SUFFIX}") for number in range(2300)]
    before = top() + "".join(units[:2200])
    ldif.write_text(before + unit(f"2.5.4.11=N\\37 ,{SUFFIX}") + "".join(units[2200:]))
    with closing(server(SETTINGS)) as theirs:
        with pytest.raises(ServerError, match=r"already exists|KEYEXIST"):
            theirs.tool("slapadd", "-q", "-c", *theirs.config_arguments, "-b", SUFFIX, "-l", str(ldif))
        with closing(Database(theirs.database_dir)) as database:
            assert len([blob for blob in database.entries().values() if blob]) < 2200
    done = build(target, ldif, "--max-rejects", 1, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    ((_, line, _, reason),) = done.facts["rejections"]
    assert line == before.count("\n") + 1
    assert f"line {(top() + ''.join(units[:7])).count(chr(10)) + 1}" in reason, "where the first is"
    _is_as_slapadd_makes(target, top() + "".join(units), tmp_path)
