"""lock.mdb was removed while slapd runs: the live database is not replaced, nor copied while it changes."""

from __future__ import annotations

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
from tests.support.require import require_root

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def live(people_ldif: Path) -> Iterator[Slapd]:
    """A running server whose lock.mdb is gone. Nothing here may write to its database."""
    require_root()
    server = replication.provider(Settings(maxsize=1 << 30))
    server.slapadd(people_ldif, "-w")
    with server:
        (server.database_dir / "lock.mdb").unlink()
        yield server


@pytest.mark.long("build-gone")
@pytest.mark.parametrize("lock", ["gone", "another"])
@pytest.mark.parametrize("verb", ["build", "clone", "restore"])
def test_it_is_not_replaced(
    live: Slapd, stopped: Slapd, backed_up: Path, people_ldif: Path, verb: str, lock: str
) -> None:
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
        "restore": ("backup", "restore", "latest", "-R", backed_up, *config),
    }[verb]
    ditseed(*command, "--replace").refused(errors.TargetInUse, f"(slapd, process {live.pid})")
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
    ditseed(*command).refused(errors.LockUnused, f"(slapd, process {live.pid})", "systemctl restart slapd")


CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")  # no process outside of it is seen


@pytest.mark.long
def test_a_writer_that_cannot_be_seen(people_ldif: Path, tmp_path: Path) -> None:
    require_root()
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
                done.refused(errors.LockUnused, "wrote to it while ditseed read it")
    left = {path.name for path in made.rglob("*") if path.is_file()}
    assert left <= {repository.MARKER, "lock", "now.json", "run.log"}  # of the next attempt


def test_what_could_not_be_looked_at_is_said(backed_up: Path, tmp_path: Path) -> None:
    """Once, and only where there is a database to lose."""
    require_root()
    said = "the processes outside this container could not be examined"
    again = ("backup", "restore", "latest", "-R", backed_up, "--target", tmp_path / "made", "--replace")
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
