"""Databases that are glued together: built each of its part, seeded, exported, and left alone when not meant."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures import glued, replication
from fixtures.glued import GROUPS, INNER, SUFFIX, SubordinateDatabase
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Settings
from loader import errors
from loader.defaults import ENGINES
from loader.mdb import contents
from loader.mdb.contents import entry_count
from tests.support.command import Done, ditseed
from tests.support.killing import killed
from tests.support.seeding import Pair, online
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

BELOW = (SubordinateDatabase(INNER), SubordinateDatabase(GROUPS))
BASE = Settings(suffix=SUFFIX, maxsize=64 << 20, indexes=glued.INDEXES)


def unit(dn: str) -> str:
    return f"dn: {dn}\nobjectClass: organizationalUnit\nou: {dn[3:].partition(',')[0]}\n\n"


TOP = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n" + unit(f"ou=people,{SUFFIX}")
REST = "".join(unit(dn) for dn in (GROUPS, f"ou=a,{GROUPS}", INNER, f"ou=b,{INNER}", f"ou=c,{INNER}"))


@contextmanager
def server(home: Path, below: tuple[SubordinateDatabase, ...] = BELOW, form: Form = "config") -> Iterator[Slapd]:
    with closing(Slapd(glued.settings(home, below, BASE), form=form)) as found:
        yield found


def counts(home: Path, target: Slapd) -> list[int]:
    """Entries of the superior, and of the others."""
    directories = [target.database_dir, *(glued.directory(home, one.suffix) for one in BELOW)]
    return [entry_count(one) if (one / "data.mdb").exists() else 0 for one in directories]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "in.ldif"
    path.write_text(TOP + REST)
    return path


def build(target: Slapd, ldif: object, *words: object, base: str = SUFFIX) -> Done:
    return ditseed("build", ldif, "--config", target.config_path, "-b", base, *words)


@pytest.mark.long
def test_a_live_subordinate_database_is_not_written_to(engine: str, form: Form, ldif: Path, tmp_path: Path) -> None:
    with server(tmp_path, form=form) as target:
        target.slapadd(TOP + unit(GROUPS))
        live = glued.directory(tmp_path, GROUPS) / "data.mdb"
        before = (live.read_bytes(), live.stat().st_mtime_ns)
        aside = tmp_path / "aside"
        build(target, ldif, "--engine", engine, "--target", aside).refused(
            errors.EntryRefused, GROUPS, "another database holds it"
        )
        assert (live.read_bytes(), live.stat().st_mtime_ns) == before
        ldif.write_text(TOP)
        build(target, ldif, "--engine", engine, "--target", aside).ok()
        assert (live.read_bytes(), live.stat().st_mtime_ns) == before
        assert entry_count(aside) == 2


@pytest.mark.long
def test_each_by_itself(engine: str, ldif: Path, tmp_path: Path) -> None:
    with server(tmp_path) as target:
        assert "another database holds it" in build(target, ldif, "-g", "--engine", engine).err
        ldif.write_text(TOP)
        build(target, ldif, "-g", "--engine", engine).ok()
        ldif.write_text(unit(GROUPS) + unit(f"ou=a,{GROUPS}"))
        build(target, ldif, "--engine", engine, base=GROUPS).ok()
        ldif.write_text(unit(INNER))
        build(target, ldif, "--engine", engine, base=INNER).ok()
        assert counts(tmp_path, target) == [2, 1, 2]
        assert target.slapcat().count("dn: ") == 5


@pytest.mark.long
def test_rejects_are_told_of_all(ldif: Path, tmp_path: Path) -> None:
    bad = "dn: ou=bad,{}\nobjectClass: organizationalUnit\nou: bad\nnoSuchThing: x\n\n"
    ldif.write_text(TOP + REST + "".join(bad.format(place) for place in (SUFFIX, GROUPS, INNER)))
    with server(tmp_path) as target:
        build(target, ldif, "--max-rejects", "2").refused(errors.EntryRefused)
        assert counts(tmp_path, target) == [0, 0, 0]
        rejects = tmp_path / "bad.ldif"
        done = build(target, ldif, "--max-rejects", "3", "--rejects", rejects, "--json")
        assert done.status == errors.EXIT_DIFFERENT, done
        assert (done.facts["read"], done.facts["entries"], done.facts["rejected"]) == (10, 7, 3)
        kept = [tmp_path / name for name in ("bad.ldif", "bad.1.ldif", "bad.2.ldif")]
        assert [one.read_text().count("dn: ou=bad") for one in kept] == [1, 1, 1]


def test_a_part_without_entries_is_not_left_standing_in_silence(ldif: Path, tmp_path: Path) -> None:
    """And another database that is full stops the build."""
    with server(tmp_path) as target:
        target.slapadd(unit(GROUPS), "-b", GROUPS)
        build(target, ldif).refused(errors.TargetNotEmpty)
        assert counts(tmp_path, target) == [0, 0, 1]
        (glued.directory(tmp_path, GROUPS) / "data.mdb").unlink()
        ldif.write_text(TOP)
        done = build(target, ldif).ok()
        assert f"{GROUPS}: no entries" in done.err
        ldif.write_text(TOP + REST)
        build(target, ldif, "--replace").ok()
        for text, word in ((TOP, "--no-glue"), (REST, SUFFIX)):
            ldif.write_text(text)
            build(target, ldif, "--replace").refused(errors.GlueRefused, word)
            assert counts(tmp_path, target) == [2, 3, 2]


@pytest.mark.rows(1)
def test_nothing_for_the_superior(engine: str, ldif: Path, tmp_path: Path) -> None:
    """As slapadd -b SUPERIOR loads it (its8667 of OpenLDAP's tests)."""
    ldif.write_text(REST)
    with server(tmp_path) as target:
        build(target, ldif, "-w", "--engine", engine).refused(errors.GlueRefused, "contextCSN")
        done = build(target, ldif, "--engine", engine, "--json").ok()
        assert f"{SUFFIX}: no entries" in done.err
        assert done.facts["entries"] == 5
        assert done.facts["directory"] == str(target.database_dir)
        assert counts(tmp_path, target) == [0, 3, 2]
        assert build(target, ldif, "--engine", engine, "--json").ok().facts["entries"] == 5


@pytest.mark.parametrize("text", ["", unit("ou=a,dc=elsewhere")], ids=["empty", "elsewhere"])
def test_nothing_for_any_of_them(text: str, engine: str, ldif: Path, tmp_path: Path) -> None:
    ldif.write_text(text)
    with server(tmp_path) as target:
        done = build(target, ldif, "--engine", engine)
        refusals = (errors.EmptyInput, errors.EntryRefused, errors.NoSuchSuffix)
        assert done.status in [one.exit_status for one in refusals], done
        assert counts(tmp_path, target) == [0, 0, 0]


@pytest.mark.long
def test_maxsize_of_each_is_raised(ldif: Path, form: Form, tmp_path: Path) -> None:
    """In a slapd.d; of a slapd.conf the lines are printed."""
    with server(tmp_path, form=form) as target:
        told = build(target, ldif, "--maxsize", "80M").ok().err
        if form == "config":
            told = target.tool("slapcat", "-n0", *target.config_arguments).decode()
        assert len(re.findall(rf"(?:olcDbMaxSize|`): (?:maxsize )?{80 << 20}$", told, re.MULTILINE)) == 3


POINTS = (
    *("split.middle", "split.recorded", "load.middle", "check.recorded"),
    *("publish.middle", "publish.unrecorded", "report.start", "report.recorded"),
)


@pytest.mark.long
def test_killed_anywhere_the_same_command_goes_on(engine: str, ldif: Path, tmp_path: Path) -> None:
    with server(tmp_path) as target:
        for point in POINTS:
            killed(point, "build", ldif, "--config", target.config_path, "-b", SUFFIX, "--engine", engine)
        build(target, ldif, "--engine", engine).ok()
        assert counts(tmp_path, target) == [2, 3, 2]
        done = build(target, ldif, "--engine", engine, "--json").ok()
        assert done.facts["entries"] == 7
        assert not (target.database_dir / ".ditseed-build" / "split").exists()


def test_a_dry_run_and_a_stream(engine: str, ldif: Path, tmp_path: Path) -> None:
    with server(tmp_path) as target, ldif.open("rb") as stream:
        done = build(target, ldif, "--engine", engine, "--dry-run", "--json").ok()
        assert done.facts["entries"] == 7
        assert {one["suffix"] for one in done.facts["databases"]} == {GROUPS, INNER}
        assert counts(tmp_path, target) == [0, 0, 0]
        words = ("build", "-", "--config", target.config_path, "-b", SUFFIX, "--engine", engine)
        ditseed(*words, stdin=stream).ok()
        assert counts(tmp_path, target) == [2, 3, 2]


# --- verbs that read a configuration ----------------------------------------------------------------


Built = tuple[Slapd, dict[str, Path]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """A stopped server with all entries, and the directory of each suffix."""
    home = tmp_path_factory.mktemp("built")
    (home / "in.ldif").write_text(TOP + REST)
    with server(home) as target:
        build(target, home / "in.ldif").ok()
        below = {one: glued.directory(home, one) for one in (GROUPS, INNER)}
        yield target, {SUFFIX: target.database_dir, **below}


@pytest.mark.long
def test_what_reads_a_configuration_reads_as_slapcat(built: Built, tmp_path: Path) -> None:
    """-b SUPERIOR is all of the tree, -b CHILD that database alone."""
    target, places = built
    for base in places:
        where = ["-b", base, *target.config_arguments, "-o", "ldif-wrap=no"]
        told = tmp_path / "told.ldif"
        told.write_bytes(target.tool("slapcat", *where))
        ditseed("compare", told, target.config_path, "-b", base).ok()
        done = ditseed("verify", "--config", target.config_path, "-b", base, "--json").ok()
        assert done.facts["sound"]
        assert done.facts["entries"] == {SUFFIX: 2, GROUPS: 2, INNER: 3}[base]
        noted = [suffix for suffix in (INNER, GROUPS) if f"(-b {suffix})" in str(done.facts)]
        assert noted == ([INNER, GROUPS] if base == SUFFIX else [])


def test_a_directory_tells_which_database_is_verified(built: Built, tmp_path: Path) -> None:
    """Without -b: by the configuration, a copy elsewhere by the suffix that it has."""
    target, places = built
    where = ("--config", target.config_path, "--verify", "indexes")
    for place in places.values():
        ditseed("verify", place, *where).ok()
        copy = shutil.copy(place / "data.mdb", tmp_path / "copy.mdb")
        ditseed("verify", copy, *where).ok()
    ditseed("verify", target.database_dir, *where, "-b", INNER).refused(
        errors.NoSuchSuffix, f"{SUFFIX}, which the file has"
    )


@pytest.mark.long
def test_the_slapindex_that_is_advised_leaves_the_others_alone(built: Built) -> None:
    target, _ = built
    where = ("--config", target.config_path, "--add", "sn eq", "--no-reindex")
    for base, command in (SUFFIX, "slapindex -q -g "), (INNER, "slapindex -q -F "):
        told = ditseed("tune", "indexes", *where, "-b", base)
        assert command in told.out + told.err


@pytest.mark.long
def test_migrated_one_by_one(built: Built, tmp_path: Path) -> None:
    target, places = built
    for number, (suffix, place) in enumerate(places.items()):
        made = tmp_path / f"made-{number}"
        done = ditseed("migrate", place, made, "--config", target.config_path, "--json").ok()
        assert done.facts["suffix"] == suffix
        ditseed("compare", place, made).ok()


# --- replicas ---------------------------------------------------------------------------------


@contextmanager
def pair(home: Path) -> Iterator[tuple[Pair, Slapd]]:
    """A glued provider with glued consumers: one to be seeded, one that fills itself."""
    # Else syncprov stands below the glue and sees the superior database alone (slapd.conf(5), overlay).
    settings = glued.settings(home / "provider", BELOW, dataclasses.replace(BASE, overlays=("overlay glue",)))
    source = replication.provider(settings)
    plain = dataclasses.replace(BASE, overlays=())
    source.slapadd(TOP + REST)
    with source:
        source.ldapmodify(f"dn: {GROUPS}\nchangetype: modify\nadd: description\ndescription: x\n")
        with (
            closing(replication.consumer(source, glued.settings(home / "seeded", BELOW, plain))) as one,
            closing(replication.consumer(source, glued.settings(home / "natural", BELOW, plain))) as other,
        ):
            yield Pair(source, one, home), other


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["search", "ldif", "slapcat"])
def test_a_seeded_glued_consumer_is_as_one_that_filled_itself(strategy: str, engine: str, tmp_path: Path) -> None:
    with pair(tmp_path) as (both, natural):
        both.prepare(strategy)
        more = ("-w",) if strategy == "slapcat" else ()
        ditseed(*both.seed(strategy, "--engine", engine, *more)).ok()
        seeded = both.consumer
        assert counts(tmp_path / "seeded", seeded) == [2, 3, 2]
        assert contents.context_csns(seeded.database_dir)
        for suffix in (GROUPS, INNER):
            assert contents.context_csns(glued.directory(tmp_path / "seeded", suffix)) == []
        with natural, seeded:
            replication.wait_in_sync(both.provider, natural)
            replication.wait_in_sync(both.provider, seeded)
            assert replication.refresh_report(seeded)[0].cookie is not None
            change(both.provider)
            replication.wait_in_sync(both.provider, natural)
            replication.wait_in_sync(both.provider, seeded)
            assert tree(seeded.slapcat()) == tree(both.provider.slapcat())
            assert tree(seeded.slapcat()) == tree(natural.slapcat())


def change(provider: Slapd) -> None:
    for number, place in enumerate((SUFFIX, GROUPS, INNER)):
        provider.ldapadd(unit(f"ou=new{number},{place}") + unit(f"ou=gone{number},{place}"))
        provider.ldapmodify(
            f"dn: ou=new{number},{place}\nchangetype: modify\nadd: description\ndescription: y\n\n"
            f"dn: ou=gone{number},{place}\nchangetype: delete\n"
        )
    provider.ldapmodify(f"dn: ou=b,{INNER}\nchangetype: delete\n")


@pytest.mark.rows(1)
def test_a_seed_takes_what_its_syntax_forbids_in_every_part(engine: str, tmp_path: Path) -> None:
    csn = "20260101000000.000000Z#000000#001#000000"
    ldif = tmp_path / "in.ldif"
    text = (TOP + REST).replace("\nou: ", f"\nentryCSN: {csn}\nou: ")
    bad = "objectClass: organizationalUnit\nfacsimileTelephoneNumber: not a number!\n"
    ldif.write_text(text.replace("objectClass: organizationalUnit\n", bad))
    with server(tmp_path) as target:
        where = ("--config", target.config_path, "--suffix", SUFFIX, "--engine", engine, "-w")
        done = ditseed("replica", "seed", "--strategy", "ldif", "--from", ldif, *where).ok()
        assert counts(tmp_path, target) == [2, 3, 2]
        if engine == "native":
            assert done.out.count("of facsimileTelephoneNumber") == 3


def test_a_clone_says_what_is_missing_and_a_running_consumer_is_refused(tmp_path: Path) -> None:
    with pair(tmp_path) as (both, _), server(tmp_path / "running") as target, target:
        for more in ((), ("--dry-run",)):
            done = ditseed(*both.seed("clone", *more))
            done.refused(errors.GlueRefused)
            assert GROUPS in done.err or INNER in done.err
        ditseed(*online(both.provider, target), "--run-dir", tmp_path / "run").refused(errors.GlueRefused)
        config = target.tool("slapcat", "-n0", *target.config_arguments).decode()
        assert "\nolcUpdateDN" not in config
    assert counts(tmp_path / "running", target) == [0, 0, 0]


def test_a_part_with_a_syncrepl_of_its_own(ldif: Path, tmp_path: Path) -> None:
    bind = 'bindmethod=simple binddn="cn=x" credentials="y"'
    line = f'syncrepl rid=7 provider=ldap://127.0.0.1:1 searchbase="{GROUPS}" type=refreshOnly {bind}'
    with server(tmp_path, (SubordinateDatabase(GROUPS, lines=(line,)),)) as target:
        where = ("--config", target.config_path, "--suffix", SUFFIX)
        ditseed("replica", "seed", "--strategy", "ldif", "--from", ldif, *where, "-w").refused(
            errors.GlueRefused, f"--suffix {GROUPS}"
        )
