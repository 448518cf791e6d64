"""The golden cases in other versions of OpenLDAP: there slapadd is the judge, and its slapcat shows ditseed the way.
Of 2.7 (LMDB 1.0), fixtures/golden/of-2.7 has what slapadd of 2.7.0 made; where a 2.7 is installed, so does its slapadd
now, and its slapd goes on with it. And what a slapd with all its modules publishes is known."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import closing
from itertools import repeat
from pathlib import Path

import ldap
import pytest
from msgspec import structs

from fixtures import openldap_27
from fixtures.chroots import Chroot, chroot, missing_chroot
from fixtures.compat.definitions import RULES, SYNTAXES
from fixtures.golden.case import server, server_with, settings
from fixtures.golden.of_2_7 import ALL, EVERY, LONG, Made
from fixtures.golden.random_trees import case as random_case
from fixtures.golden.records import SUFFIX, top
from fixtures.golden.tables import GENERATED, differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation
from loader import backmdb
from loader.defaults import ENGINES
from loader.errors import MadeOtherwise, MdbDamaged
from loader.mdb import meta
from loader.mdb.verify import verify
from loader.operations.migrate import migrate
from loader.operations.options import MigrateOptions
from loader.progress import Meter, Progress
from loader.server import configuration, tools
from loader.sinks import mdb
from tests.golden import test_glued
from tests.golden.everything import BY_NAME, CASES
from tests.support.command import ditseed
from tests.support.golden import ENGINE, build, compared, fresh, slapadd
from tests.support.require import require, require_2_7

# Making a root directory takes half a minute, and more where the mirror is far.
pytestmark = pytest.mark.slapd

SUITES = ("bullseye", "trixie", "forky")
# The others show the same code again; these stand for them where time counts.
CHOSEN = (
    *("broad", "hash64", "multival-all", "sortvals", "supertypes", "conf-index-partial", "conf-definitions", "holes"),
    *("scattered", "context-partly", "made", "rare-rules", "policy", "policy-of-2.4", "log"),
)
# --engine slapadd runs that version's slapadd on less than the whole configuration, which keeps what counts.
PRIVATE = ("policy", "policy-of-2.4", "dds", "multival-all", "sortvals")


@pytest.fixture(scope="module", params=SUITES)
def other(request: pytest.FixtureRequest) -> Chroot:
    require(missing_chroot())
    return chroot(request.param)


def _version(other: Chroot) -> tuple[int, ...]:
    return tuple(map(int, other.version.split(".")))


@pytest.mark.rows(4)
@pytest.mark.parametrize(("engine", "name"), [*zip(repeat(ENGINE), CHOSEN), *zip(repeat("slapadd"), PRIVATE)])
def test_equal_to_that_versions_slapadd(other: Chroot, engine: str, name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    if not case.since <= _version(other) < case.until:
        pytest.skip(f"slapd {other.version} does not know this, or does otherwise")
    assert compared(case, tmp_path, other, engine) == []


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["nested", "own-root", "dds"])
def test_glued_trees(other: Chroot, name: str, engine: str, tmp_path: Path) -> None:
    assert test_glued.compared(test_glued.TREES[name], engine, "conf", tmp_path, other) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_random_trees(other: Chroot, seed: int, tmp_path: Path) -> None:
    assert compared(random_case(seed, old=_version(other) < (2, 5)), tmp_path, other) == []


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_all_of_it(other: Chroot, tmp_path: Path) -> None:
    old = _version(other) < (2, 5)
    every = [case for case in CASES if case.since <= _version(other) < case.until]
    every += [random_case(seed, 150, old) for seed in range(100, 200)]
    failed = {case.name: found[:3] for case in every if (found := compared(case, tmp_path, other))}
    assert not failed, failed


@pytest.mark.long
@pytest.mark.parametrize("suite", [*SUITES, *(f"2.7 {name}" for name in ALL)])
def test_migrated_from_that_version_and_back(suite: str, tmp_path: Path) -> None:
    """Each equals what slapadd of its version makes of the other's slapcat."""
    if suite in SUITES:
        require(missing_chroot())
        other, made = chroot(suite), ALL["most"]
    else:
        require_2_7()
        other, made = None, ALL[suite.removeprefix("2.7 ")]

    def empty() -> closing[Slapd]:
        return closing(fresh(made.case, other) if other else made.server())

    text, env = tmp_path / "all.ldif", {"DITSEED_TOOLS": other.tools if other else openldap_27.tools()}
    with empty() as first, closing(fresh(made.case)) as here, closing(fresh(made.case)) as oracle:
        slapadd(first, made.case.write_oracle(tmp_path))
        ditseed("migrate", first.database_dir, here.database_dir, "--config", here.config_path).ok()
        text.write_text(first.slapcat())
        slapadd(oracle, text)
        assert not differences(oracle.database_dir, here.database_dir)
        with empty() as back, empty() as oracle:
            command = ("migrate", here.database_dir, back.database_dir, "--config", back.config_path)
            ditseed(*command, env=env).ok()
            slapadd(oracle, text)
            assert not differences(oracle.database_dir, back.database_dir)
            assert meta.read_meta(back.database_dir).format == meta.read_meta(first.database_dir).format
            with back:
                assert back.slapcat() == text.read_text()


# --- OpenLDAP 2.7 -----------------------------------------------------------------------------------

NEW = f"cn=new,{SUFFIX}"
CHANGES = (
    f"dn: {NEW}\nchangetype: add\nobjectClass: organizationalRole\ncn: new\n\n"
    f"dn: {NEW}\nchangetype: modify\nadd: description\ndescription: changed\n"
)


def _target(made: Made) -> mdb.Target:
    """The case as the slapd at hand reads it, and what 2.7 does otherwise."""
    with closing(fresh(made.case)) as server:
        config = configuration.read(server.config_path)
        database = config.database(server.suffix)
        found = backmdb.settings(config, database, of_2_7=True)
        found = structs.replace(found, hash64=True, page_size=made.page_size)
        definitions, effects = tuple(mdb.definitions_of(config)), backmdb.schema_effects(config, database)
    return mdb.Target(found, definitions, effects, ("id2v", "ixck"), database.maxsize, server_id=0)


@pytest.mark.parametrize("name", EVERY)
def test_equal_to_what_slapadd_of_2_7_made(name: str, tmp_path: Path) -> None:
    made, ours = EVERY[name], tmp_path / "ours"
    ours.mkdir()
    rules = mdb.BuildRules("20260102030405Z", tmp_path / "rejects")
    limits = mdb.Resources(256 << 20, 2, tmp_path)
    ldif = made.case.write(tmp_path)
    mdb.build(_target(made), [ldif], ours / meta.DATA, rules, limits, Meter("load"))
    facts = meta.read_meta(ours)
    assert (facts.format, facts.page_size) == (3, made.page_size)
    assert differences(made.unpack(tmp_path / "theirs"), ours, made.case.unforeseen) == []


@pytest.mark.parametrize("engine", ["native", "slapadd"])
@pytest.mark.parametrize("name", EVERY)
def test_a_real_2_7(name: str, engine: str, tmp_path: Path) -> None:
    require_2_7()
    made = EVERY[name]
    known = made.case.write_oracle(tmp_path)
    ldif = made.case.write(tmp_path) if engine == "native" else known
    with closing(made.server()) as oracle, closing(made.server()) as ours:
        slapadd(oracle, known)
        where = ("--config", ours.config_path, "-b", ours.suffix, "--engine", engine)
        ditseed("build", ldif, *where, env={"DITSEED_TOOLS": openldap_27.tools()}).ok()
        assert differences(oracle.database_dir, ours.database_dir, made.case.unforeseen) == []
        assert ours.slapcat() == oracle.slapcat()
        with ours:
            ours.ldapmodify(CHANGES)
            assert "description: changed" in ours.slapcat()
            ours.ldapmodify(f"dn: {NEW}\nchangetype: delete\n")
            ours.stop()
            verify(ours.database_dir, "tree", Meter("verify"))
            dump = f"{openldap_27.prefix()}/bin/mdb_dump"
            told = subprocess.run([dump, "-a", ours.database_dir], capture_output=True, check=True)
            assert b"database=dn2i" in told.stdout


def test_what_format_1_has_no_room_for_is_refused(tmp_path: Path) -> None:
    there = LONG.unpack(tmp_path / "there")
    with closing(fresh(LONG.case)) as here:
        done = ditseed("migrate", there, here.database_dir, "--config", here.config_path)
        done.refused(MadeOtherwise, "the RDN is too long for the database: about 245 bytes are the most")
        assert not (here.database_dir / meta.DATA).exists()


def _here(made: Made, *lines: str) -> closing[Slapd]:
    return closing(server_with(made.case.settings, *lines))


def _there(database: Path, place: Path, newer: Slapd, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Migrated to 2.7: the slapd of here, which reads the configuration, is said to be one."""
    monkeypatch.setattr(tools, "release", lambda: (2, 7, 0))
    return migrate(MigrateOptions(database, place, newer.config_path), Progress("none"), {})


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", ALL)
def test_there_and_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, again = ALL[name], tmp_path / "again"
    first = made.unpack(tmp_path / "first")
    with _here(made) as ours, _here(made) as oracle, _here(made, "index_hash64 on") as newer:
        ditseed("migrate", first, ours.database_dir, "--config", ours.config_path).ok()
        assert meta.read_meta(ours.database_dir).format == 1
        (tmp_path / "all.ldif").write_text(ditseed("export", first, "-o", "-").ok().out)
        slapadd(oracle, tmp_path / "all.ldif")
        assert not differences(oracle.database_dir, ours.database_dir)
        facts = _there(ours.database_dir, again, newer, monkeypatch)
    assert (facts["format_before"], facts["format"]) == (1, 3)
    assert meta.read_meta(again).format == 3
    assert differences(first, again) == []


@pytest.mark.parametrize("name", ["made", "made-anonymous"])
def test_what_the_new_slapd_adds_is_expected(name: str, tmp_path: Path) -> None:
    """Entries with none, one or all of the attributes that `lastmod` brings, from a database that keeps none."""
    case, bare = BY_NAME[name], BY_NAME["made-never"]
    with closing(fresh(bare)) as old, closing(fresh(case)) as new, closing(fresh(case)) as oracle:
        slapadd(old, bare.write(tmp_path))
        where = (old.database_dir, new.database_dir, "--config", new.config_path)
        facts = ditseed("migrate", *where, "--json").ok().facts
        assert facts["compared"] == "equal"
        assert "it has no " in facts["made_again"]
        (tmp_path / "all.ldif").write_text(old.slapcat())
        slapadd(oracle, tmp_path / "all.ldif")
        assert differences(oracle.database_dir, new.database_dir, GENERATED) == []


def test_what_slapd_2_7_leaves_out_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """slapd before 2.6.11 stores attributes that it works out, where they are loaded."""
    made, again = ALL["computed"], tmp_path / "again"
    with _here(made) as old, _here(made, "index_hash64 on") as new:
        build(old, made.case.write(tmp_path)).ok()
        assert "hasSubordinates: FALSE" in ditseed("export", old.database_dir, "-o", "-").ok().out
        facts = _there(old.database_dir, again, new, monkeypatch)
    assert "which slapd works out" in facts["made_again"]
    assert differences(made.unpack(tmp_path / "first"), again) == []


@pytest.mark.long
def test_what_the_new_slapd_does_not_add_is_still_missed(tmp_path: Path) -> None:
    """A database without one of the values, in the place of the one that was made."""
    case, bare = BY_NAME["made"], BY_NAME["made-never"]
    with closing(fresh(bare)) as old, closing(fresh(case)) as new, closing(fresh(case)) as other:
        slapadd(old, bare.write(tmp_path))
        command = ("migrate", old.database_dir, new.database_dir, "--config", new.config_path)
        assert ditseed(*command, env={"DITSEED_KILL_AT": "compare.start"}).status == -9
        made = new.database_dir / ".ditseed-migrate" / "environment" / meta.DATA
        lacking = ditseed("export", made.parent, "-o", "-").ok().out.replace("\nsn: s\n", "\nsn: t\n")
        (tmp_path / "lacking.ldif").write_text(lacking)
        slapadd(other, tmp_path / "lacking.ldif")
        shutil.copyfile(other.database_dir / meta.DATA, made)
        done = ditseed(*command)
    done.refused(MdbDamaged, f"`ditseed compare {old.database_dir} {made.parent}`")


# --- all syntaxes and rules -----------------------------------------------------------------------

# Not to be loaded together, or without another server; and that which is loaded in any case.
ALONE = {"dyngroup", "back_sql", "back_perl", "back_ndb", "back_asyncmeta", "back_bdb", "back_hdb", "back_mdb"}


@pytest.mark.parametrize("suite", [None, "bullseye", "trixie"], ids=str)
def test_all_that_is_published_is_known(suite: str | None, tmp_path: Path) -> None:
    """The native engine would refuse a type that is beyond it, whether an entry has that type or not. Each syntax and
    matching rule has a row of docs/compatibility.md: tests/compat runs it against slapadd."""
    if suite:
        require(missing_chroot())
    made, ldif = chroot(suite) if suite else None, tmp_path / "top.ldif"
    ldif.write_text(top())
    modules = ((made.root if made else Path("/")) / "usr/lib/ldap").glob("*.so")
    wanted = settings(modules=tuple(sorted({path.stem for path in modules if "-2." not in path.name} - ALONE)))
    with closing(server(wanted, Installation(prefix=made.prefix) if made else None)) as target:
        build(target, ldif, chroot=made).ok()
        with target:
            names = ("ldapSyntaxes", "matchingRules")
            ((_, found),) = target.search(attributes=names, base="cn=Subschema", scope=ldap.SCOPE_BASE)
    syntaxes, rules = (b"\n".join(found[name]).decode() for name in names)
    oids, known = re.findall(r"^\( (\S+)", syntaxes, re.MULTILINE), re.findall(r"NAME '(\w+)'", rules)
    assert len(oids) > 30
    assert len(known) > 35
    assert {*oids} <= {row.oid for row in SYNTAXES}
    assert {*known} <= {row.name for row in RULES}
