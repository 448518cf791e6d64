"""`suffix ""` in a configuration, beside a database with a longer suffix: every verb that works on files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.case import settings
from fixtures.golden.records import top, unit
from fixtures.golden.tables import differences
from fixtures.slapd import Form, Slapd
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

INNER = "ou=inner,dc=com"
LDIF = top("dc=com") + unit("ou=people,dc=com") + top("o=Other")
FOREIGN = unit(INNER)


@pytest.fixture
def server(form: Form, tmp_path: Path) -> Iterator[Slapd]:
    other = tmp_path / "other"
    other.mkdir()
    lines = ("database mdb", f"suffix {INNER}", f"rootdn cn=x,{INNER}", f"directory {other}")
    wanted = settings("objectClass,ou eq", suffix="", top_lines=lines)
    with closing(Slapd(wanted, form=form)) as made:
        yield made


@pytest.mark.parametrize("engine", ["native", "slapadd"])
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


@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_entries_of_the_other_database_are_its_own(server: Slapd, engine: str, tmp_path: Path) -> None:
    ldif, where = tmp_path / "in.ldif", ("--config", server.config_path, "-b", "")
    ldif.write_text(LDIF + FOREIGN)
    command = ["slapadd", "-q", *server.config_arguments, "-b", "", "-l", str(ldif)]
    assert subprocess.run(command, capture_output=True, check=False).returncode
    done = ditseed("build", ldif, *where, "--engine", engine, "--replace")
    assert done.status == 46
    assert INNER in done.err


@pytest.mark.long
def test_read_copied_tuned_and_backed_up(server: Slapd, tmp_path: Path) -> None:
    where, repo = ("--config", server.config_path, "-b", ""), tmp_path / "repo"
    server.slapadd(LDIF)
    ditseed("clone", server.database_dir, tmp_path / "copy").ok()
    ditseed("compare", server.config_path, tmp_path / "copy", "-b", "").ok()
    ditseed("migrate", tmp_path / "copy", tmp_path / "made", *where).ok()
    assert not differences(server.database_dir, tmp_path / "made", frozenset())
    done = ditseed("export", server.database_dir, "-b", "", "-o", tmp_path / "out").ok()
    assert "entries     3\n" in done.out
    apply = ("--apply",) if server.form == "config" else ()
    ditseed("tune", "maxsize", *where, "--maxsize", "100M", *apply).ok()
    ditseed("tune", "indexes", *where, "--add", "cn eq", *apply).ok()
    ditseed("backup", "run", "--init", *where, "--repo", repo).ok()
    ditseed("backup", "restore", "latest", *where, "--repo", repo, "--replace").ok()
    ditseed("verify", *where, "--verify", "indexes").ok()
