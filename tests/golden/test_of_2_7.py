"""OpenLDAP 2.7: what the core writes equals the databases of fixtures/golden/of-2.7, which slapadd of 2.7.0 made; and,
where a 2.7 is installed, what its slapadd makes now, and slapd goes on with it. `ditseed migrate` between formats: the
one equals what slapadd of here makes of the same entries, the way back the first, key by key."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import openldap_27
from fixtures.golden.case import server_with
from fixtures.golden.of_2_7 import ALL, EVERY, LONG, Made
from fixtures.golden.records import SUFFIX
from fixtures.golden.tables import GENERATED, differences
from fixtures.slapd import Slapd
from loader import backmdb
from loader.errors import MadeOtherwise, MdbDamaged
from loader.mdb import meta
from loader.mdb.verify import verify
from loader.operations.migrate import migrate
from loader.operations.options import MigrateOptions
from loader.progress import Meter, Progress
from loader.server import configuration, tools
from loader.sinks import mdb
from tests.golden.everything import BY_NAME
from tests.support.command import ditseed
from tests.support.golden import build, fresh, slapadd
from tests.support.require import require_2_7

pytestmark = pytest.mark.slapd

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
        assert done.status == MadeOtherwise.exit_status
        assert "the RDN is too long for the database: about 245 bytes are the most" in done.err
        assert not (here.database_dir / meta.DATA).exists()


def _here(made: Made, *lines: str) -> closing[Slapd]:
    return closing(server_with(made.case.settings, *lines))


def _there(database: Path, place: Path, newer: Slapd, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Migrated to 2.7: the slapd of here, which reads the configuration, is said to be one."""
    monkeypatch.setattr(tools, "release", lambda: (2, 7, 0))
    return migrate(MigrateOptions(database, place, newer.config_path), Progress("none"), {}).report()


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
    assert done.status == MdbDamaged.exit_status, done
    assert f"`ditseed compare {old.database_dir} {made.parent}`" in done.err


@pytest.mark.parametrize("name", ALL)
def test_migrated_to_a_real_2_7_and_back(name: str, tmp_path: Path) -> None:
    """From the slapd of here to a 2.7 that runs on it, and back."""
    require_2_7()
    made, env = ALL[name], {"DITSEED_TOOLS": openldap_27.tools()}
    ldif = made.case.write_oracle(tmp_path)
    with _here(made) as before, _here(made) as after:
        slapadd(before, ldif)
        with closing(made.server()) as newer, closing(made.server()) as oracle:
            where = ("--config", newer.config_path)
            facts = ditseed("migrate", before.database_dir, newer.database_dir, *where, "--json", env=env)
            assert facts.ok().facts["format"] == 3
            assert newer.slapcat() == before.slapcat()
            (tmp_path / "all.ldif").write_text(before.slapcat())
            slapadd(oracle, tmp_path / "all.ldif")
            assert differences(oracle.database_dir, newer.database_dir) == []
            newer.start()
            assert newer.slapcat() == before.slapcat()
            newer.stop()
            where = ("--config", after.config_path)
            ditseed("migrate", newer.database_dir, after.database_dir, *where).ok()
        assert after.slapcat() == before.slapcat()
