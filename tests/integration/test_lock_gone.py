"""lock.mdb was removed while slapd runs: the live database is not replaced, nor copied while it changes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import errors
from loader.operations.backup import repository
from tests.support.command import ditseed
from tests.support.require import require

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def live(people_ldif: Path) -> Iterator[Slapd]:
    """A running server whose lock.mdb is gone. Nothing here may write to its database."""
    require(None if os.geteuid() == 0 else "looks at the processes of other accounts")
    server = replication.provider(Settings(maxsize=1 << 30))
    server.slapadd(people_ldif, "-w")
    with server:
        (server.database_dir / "lock.mdb").unlink()
        yield server


@pytest.fixture(scope="module")
def repo(stopped: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("backups")
    ditseed("backup", "run", "--init", "-R", place, "--config", stopped.config_path).ok()
    return place


@pytest.mark.long("build-gone")
@pytest.mark.parametrize("lock", ["gone", "another"])
@pytest.mark.parametrize("verb", ["build", "clone", "restore"])
def test_it_is_not_replaced(live: Slapd, stopped: Slapd, repo: Path, people_ldif: Path, verb: str, lock: str) -> None:
    """`another`: a tool that opened the database meanwhile has made one."""
    there = live.database_dir / "lock.mdb"
    there.unlink(missing_ok=True)
    if lock == "another":
        there.touch()
    before = (live.database_dir / "data.mdb").stat().st_ino
    config = ("--config", live.config_path, "-b", live.suffix)
    command = {
        "build": ("build", people_ldif, *config, "--restart"),
        "clone": ("clone", stopped.database_dir, live.database_dir),
        "restore": ("backup", "restore", "latest", "-R", repo, *config),
    }[verb]
    done = ditseed(*command, "--replace")
    assert done.status == errors.TargetInUse.exit_status, done.err
    assert f"(slapd, process {live.pid})" in done.err
    assert (live.database_dir / "data.mdb").stat().st_ino == before


@pytest.mark.parametrize("verb", ["backup", "clone", "send", "export", "verify"])
def test_it_is_not_copied(live: Slapd, tmp_path: Path, verb: str) -> None:
    """The slot that LMDB would give us is in a file that slapd does not look at."""
    (live.database_dir / "lock.mdb").unlink(missing_ok=True)
    command = {
        "backup": ("backup", "run", "--init", "-R", tmp_path / "repo", "--config", live.config_path),
        "clone": ("clone", live.database_dir, tmp_path / "clone"),
        "send": ("clone", live.database_dir, "-"),
        "export": ("export", live.database_dir, "-o", tmp_path / "export"),
        "verify": ("verify", live.database_dir),
    }[verb]
    done = ditseed(*command)
    assert done.status == errors.LockUnused.exit_status, done.err
    assert f"(slapd, process {live.pid})" in done.err
    assert "systemctl restart slapd" in done.err


CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")  # no process outside of it is seen


@pytest.mark.long
def test_a_writer_that_cannot_be_seen(people_ldif: Path, tmp_path: Path) -> None:
    require(None if os.geteuid() == 0 else "needs namespaces")
    server, made = replication.provider(), tmp_path / "made"
    server.slapadd(people_ldif)
    with server:
        (server.database_dir / "lock.mdb").unlink()
        with Churn(server, rate=500) as churn:
            for command in (
                ("clone", server.database_dir, made / "clone"),
                ("backup", "run", "--init", "-R", made / "repo", "--config", server.config_path),
            ):
                churn.wait_for(churn.changes() + 10)
                done = ditseed(*command, prefix=CONTAINER)
                assert done.status == errors.LockUnused.exit_status, done.err
                assert "wrote to it while ditseed read it" in done.err
    left = {path.name for path in made.rglob("*") if path.is_file()}
    assert left <= {repository.MARKER, "lock", "now.json", "run.log"}  # of the next attempt


def test_what_could_not_be_looked_at_is_said(repo: Path, stopped: Slapd, tmp_path: Path) -> None:
    """Once, and only where there is a database to lose."""
    require(None if os.geteuid() == 0 else "needs namespaces")
    said = "the processes outside this container could not be examined"
    again = ("backup", "restore", "latest", "-R", repo, "--target", tmp_path / "made", "--replace")
    for first, inside, times in ((True, CONTAINER, 0), (False, CONTAINER, 1), (False, (), 0)):
        assert (tmp_path / "made").exists() is not first
        assert ditseed(*again, prefix=inside).ok().err.count(said) == times


def test_a_process_that_copies_the_file_uses_nothing(stopped: Slapd, other: Slapd) -> None:
    ditseed("clone", stopped.database_dir, other.database_dir).ok()
    with (other.database_dir / "data.mdb").open("rb") as file:
        reader = subprocess.Popen(["sleep", "60"], stdin=file)
    try:
        ditseed("clone", stopped.database_dir, other.database_dir, "--replace").ok()
    finally:
        reader.kill()
        reader.wait()
