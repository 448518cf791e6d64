"""Backups of entries instead of pages: taken beside a writer, restored for another configuration and data format."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.slapd import Slapd
from loader.errors import BackupDamaged, EmptyInput, UsageProblem
from loader.operations.backup import repository
from tests.support.backups import flip, only
from tests.support.command import Done, ditseed
from tests.support.keys import generated

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def repo(stopped: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one backup. Read it only."""
    made = tmp_path_factory.mktemp("ldif") / "repo"
    run(stopped, made).ok()
    return made


def run(server: Slapd, repo: Path, *words: object) -> Done:
    where = ("--config", server.config_path, "-R", repo)
    return ditseed("backup", "run", "--init", *where, "--kind", "ldif", *words)


def restore(repo: Path, server: Slapd, *words: object) -> Done:
    where = ("-R", repo, "--config", server.config_path)
    return ditseed("backup", "restore", "latest", *where, *words)


def test_restored_it_is_the_same_database(stopped: Slapd, repo: Path) -> None:
    """For a configuration with other indexes, which no copy of the pages would fit."""
    other = replace(stopped.settings, indexes=("objectClass,uid eq", "cn eq,sub"))
    with closing(Slapd(other)) as target:
        assert restore(repo, target, "--json").ok().facts["entries"] == only(repo).entries == 1029
        target.own_files()
        assert target.slapcat() == stopped.slapcat()
        checked = ("verify", target.database_dir, "--config", target.config_path)
        ditseed(*checked, "--verify", "indexes").ok()


def test_an_empty_database_is_refused(tmp_path: Path) -> None:
    """Nothing could be restored from it."""
    with closing(replication.provider()) as empty:
        empty.start()
        empty.stop()
        done = run(empty, tmp_path / "repo")
    assert done.status == EmptyInput.exit_status
    assert not repository.listing(tmp_path / "repo").backups


@pytest.mark.long
def test_each_verb(stopped: Slapd, repo: Path, scratch: Path, tmp_path: Path) -> None:
    shown = ditseed("backup", "show", "latest", "-R", repo).ok().out
    assert "kind" in shown
    assert "ldif" in shown
    ditseed("backup", "verify", "-R", repo).ok()
    drilled = ditseed("backup", "drill", "latest", "-R", repo, "--tmp", scratch).ok()
    assert "good" in drilled.out
    dn = f"ou=people,{stopped.suffix}"
    found = ditseed("backup", "extract", "latest", "-R", repo, "--dn", dn, "--tmp", scratch).ok()
    assert found.out.startswith(f"dn: {dn}\n")
    assert not list(scratch.iterdir())
    look = tmp_path / "look"
    ditseed("backup", "restore", "latest", "-R", repo, "--target", look).ok()
    ditseed("compare", look, stopped.database_dir).ok()


@pytest.mark.long
def test_slapadd_reads_it(stopped: Slapd, repo: Path) -> None:
    """Without ditseed."""
    packed = repo / only(repo).id / "data.ldif.zst"
    text = subprocess.run(["zstd", "-dcq", packed], capture_output=True, check=True).stdout
    with closing(Slapd(stopped.settings)) as target:
        target.slapadd(text.decode())
        assert target.slapcat() == stopped.slapcat()


@pytest.mark.long
def test_beside_a_writer_encrypted_and_throttled(people_ldif: Path, tmp_path: Path) -> None:
    key = generated(tmp_path / "key")
    with closing(replication.provider()) as server, closing(Slapd(server.settings)) as target:
        server.slapadd(people_ldif, "-w")
        server.start()
        with Churn(server, rate=200.0) as churn:
            churn.wait_for(20)
            run(server, tmp_path / "repo", "--recipient", key.public, "--throttle", "1M").ok()
        (directory,) = (tmp_path / "repo").glob("*Z-*")
        assert {one.name for one in directory.iterdir()} == {"config.ldif.age", "data.ldif.zst.age", "manifest.json"}
        told = restore(tmp_path / "repo", target, "--identity", key.path, "--json").ok().facts
        assert told["entries"] >= 1029
        ditseed("verify", target.database_dir, "--config", target.config_path).ok()


@pytest.mark.long
def test_a_flipped_bit(repo: Path, stopped: Slapd, tmp_path: Path) -> None:
    damaged = shutil.copytree(repo, tmp_path / "repo")
    flip(damaged / only(repo).id / "data.ldif.zst")
    assert ditseed("backup", "verify", "-R", damaged).status == 1
    with closing(Slapd(stopped.settings)) as target:
        assert restore(damaged, target).status == BackupDamaged.exit_status
        assert not (target.database_dir / "data.mdb").exists()


@pytest.mark.long
def test_killed(repo: Path, stopped: Slapd, tmp_path: Path) -> None:
    killed = {"DITSEED_KILL_AT": "load.unrecorded"}
    with closing(Slapd(stopped.settings)) as target:
        where = ("-R", repo, "--config", target.config_path)
        assert ditseed("backup", "restore", "latest", *where, env=killed).status == -9
        restore(repo, target).ok()
        assert {one.name for one in target.database_dir.iterdir()} == {"data.mdb"}
        assert target.slapcat() == stopped.slapcat()


@pytest.mark.rows(1)
@pytest.mark.parametrize("other", ["--all-databases", "--incremental"])
def test_what_is_refused(stopped: Slapd, tmp_path: Path, other: str) -> None:
    assert run(stopped, tmp_path / "repo", other).status == UsageProblem.exit_status
    assert not (tmp_path / "repo").exists()
