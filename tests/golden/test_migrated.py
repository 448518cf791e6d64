"""`ditseed migrate` between formats: databases of fixtures/golden/of-2.7, which slapadd of 2.7.0 made, to the slapd at
hand and back. Key by key: the one equals what slapadd of here makes of the same entries, the other the first."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.golden.case import server
from fixtures.golden.of_2_7 import ALL, Made
from fixtures.golden.tables import GENERATED, differences
from fixtures.slapd import Slapd
from loader.errors import MdbDamaged
from loader.mdb import meta
from loader.operations.migrate import MigrateOptions, migrate
from loader.progress import Progress
from loader.server import tools
from tests.golden.everything import BY_NAME
from tests.support.command import ditseed
from tests.support.golden import build, fresh, slapadd

pytestmark = pytest.mark.slapd


@contextmanager
def _here(made: Made, *lines: str) -> Iterator[Slapd]:
    wanted = made.case.settings
    more = (*wanted.global_lines, *lines)
    with closing(server(dataclasses.replace(wanted, global_lines=more))) as found:
        yield found


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", ALL)
def test_there_and_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way back the configuration is read by the slapd of here, and said to be one of 2.7."""
    made, again = ALL[name], tmp_path / "again"
    first = made.unpack(tmp_path / "first")
    with _here(made) as ours, _here(made) as oracle, _here(made, "index_hash64 on") as newer:
        ditseed("migrate", first, ours.database_dir, "--config", ours.config_path).ok()
        assert meta.read_meta(ours.database_dir).format == 1
        (tmp_path / "all.ldif").write_text(ditseed("export", first, "-o", "-").ok().out)
        slapadd(oracle, tmp_path / "all.ldif")
        assert not differences(oracle.database_dir, ours.database_dir)
        monkeypatch.setattr(tools, "release", lambda: (2, 7, 0))
        options = MigrateOptions(ours.database_dir, again, newer.config_path)
        facts = migrate(options, Progress("none"), {}).report()
    assert (facts["format_before"], facts["format"]) == (1, 3)
    assert meta.read_meta(again).format == 3
    found = differences(first, again)
    assert not found, "\n".join(found)


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
        found = differences(oracle.database_dir, new.database_dir, GENERATED)
        assert not found, "\n".join(found)


def test_what_slapd_2_7_leaves_out_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """slapd before 2.6.11 stores attributes that it works out, where they are loaded."""
    made, again = ALL["computed"], tmp_path / "again"
    with _here(made) as old, _here(made, "index_hash64 on") as new:
        build(old, made.case.write(tmp_path)).ok()
        assert "hasSubordinates: FALSE" in ditseed("export", old.database_dir, "-o", "-").ok().out
        monkeypatch.setattr(tools, "release", lambda: (2, 7, 0))
        options = MigrateOptions(old.database_dir, again, new.config_path)
        facts = migrate(options, Progress("none"), {}).report()
    assert "which slapd works out" in facts["made_again"]
    found = differences(made.unpack(tmp_path / "first"), again)
    assert not found, "\n".join(found)


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
def test_a_real_2_7(name: str, tmp_path: Path) -> None:
    """From the slapd of here to a 2.7 that runs on it, and back."""
    reason = openldap_27.missing()
    if reason:  # in CI, too: no distribution has it
        pytest.skip(reason)
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
            found = differences(oracle.database_dir, newer.database_dir)
            assert not found, "\n".join(found)
            newer.start()
            assert newer.slapcat() == before.slapcat()
            newer.stop()
            where = ("--config", after.config_path)
            ditseed("migrate", newer.database_dir, after.database_dir, *where).ok()
        assert after.slapcat() == before.slapcat()
