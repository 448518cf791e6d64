"""Backups of entries instead of pages: taken beside a writer, restored for another configuration and data format."""

from __future__ import annotations

import shutil
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.slapd import Slapd
from loader.errors import BackupDamaged
from tests.support.backups import backup, flip, only
from tests.support.command import ditseed
from tests.support.keys import generated

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def repo(stopped: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one backup. Read it only."""
    made = tmp_path_factory.mktemp("ldif") / "repo"
    backup("run", made, "--init", "--config", stopped.config_path, "--kind", "ldif").ok()
    return made


def test_restored_it_is_the_same_database(stopped: Slapd, repo: Path) -> None:
    """For a configuration with other indexes, which no copy of the pages would fit."""
    other = replace(stopped.settings, indexes=("objectClass,uid eq", "cn eq,sub"))
    with closing(Slapd(other)) as target:
        done = backup("restore", repo, "latest", "--config", target.config_path, "--json").ok()
        assert done.facts["entries"] == only(repo).entries == 1029
        target.own_files()
        assert target.slapcat() == stopped.slapcat()
        checked = ("verify", target.database_dir, "--config", target.config_path)
        ditseed(*checked, "--verify", "indexes").ok()


@pytest.mark.long
def test_each_verb(stopped: Slapd, repo: Path, scratch: Path, tmp_path: Path) -> None:
    shown = backup("show", repo, "latest").ok().out
    assert "kind" in shown
    assert "ldif" in shown
    backup("verify", repo).ok()
    assert "good" in backup("drill", repo, "latest", "--tmp", scratch).ok().out
    dn = f"ou=people,{stopped.suffix}"
    found = backup("extract", repo, "latest", "--dn", dn, "--tmp", scratch).ok()
    assert found.out.startswith(f"dn: {dn}\n")
    assert not list(scratch.iterdir())
    backup("restore", repo, "latest", "--target", tmp_path / "look").ok()
    ditseed("compare", tmp_path / "look", stopped.database_dir).ok()


@pytest.mark.long
def test_beside_a_writer_encrypted_and_throttled(people_ldif: Path, tmp_path: Path) -> None:
    key, repo = generated(tmp_path / "key"), tmp_path / "repo"
    with closing(replication.provider()) as server, closing(Slapd(server.settings)) as target:
        server.slapadd(people_ldif, "-w")
        server.start()
        more = ("--kind", "ldif", "--recipient", key.public, "--throttle", "1M")
        with Churn(server, rate=200.0) as churn:
            churn.wait_for(20)
            backup("run", repo, "--init", "--config", server.config_path, *more).ok()
        (directory,) = repo.glob("*Z-*")
        assert {one.name for one in directory.iterdir()} == {"config.ldif.age", "data.ldif.zst.age", "manifest.json"}
        into = ("--config", target.config_path, "--identity", key.path)
        assert backup("restore", repo, "latest", *into, "--json").ok().facts["entries"] >= 1029
        ditseed("verify", target.database_dir, "--config", target.config_path).ok()


@pytest.mark.long
def test_damaged_then_killed(repo: Path, stopped: Slapd, tmp_path: Path) -> None:
    damaged = shutil.copytree(repo, tmp_path / "repo")
    flip(damaged / only(repo).id / "data.ldif.zst")
    assert backup("verify", damaged).status == 1
    with closing(Slapd(stopped.settings)) as target:
        into = ("latest", "--config", target.config_path)
        assert backup("restore", damaged, *into).status == BackupDamaged.exit_status
        assert not (target.database_dir / "data.mdb").exists()
        assert backup("restore", repo, *into, DITSEED_KILL_AT="load.unrecorded").status == -signal.SIGKILL
        backup("restore", repo, *into).ok()
        assert {one.name for one in target.database_dir.iterdir()} == {"data.mdb"}
        assert target.slapcat() == stopped.slapcat()
