"""Faults while backups are made and tried: killed at each point, a disk that fills, a repository that goes away."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader.errors import LoaderError, NoSpace, SystemFailed
from loader.operations.backup import drill, pack, repository
from loader.operations.backup import drill as verifying
from loader.operations.backup import run as taking
from loader.operations.backup.check import Limits, Status, check
from loader.operations.backup.drill import DrillOptions, VerifyOptions
from loader.operations.backup.manifest import VERIFIED
from loader.operations.backup.pack import Packing
from loader.operations.backup.run import BackupOptions
from loader.progress import Progress
from loader.storage import files
from tests.support.command import ditseed, start
from tests.support.require import require
from tests.support.stopping import Stopping

pytestmark = pytest.mark.slapd
QUIET = Progress("none")
STEPS = ("look", "copy", "manifest", "publish", "prune")
POINTS = ("start", "unrecorded", "recorded")


@pytest.fixture(scope="module")
def server(people_ldif: Path) -> Iterator[Slapd]:
    """With 1,029 entries; stopped."""
    with closing(replication.provider()) as made:
        made.slapadd(people_ldif, "-w")
        yield made


@pytest.fixture(scope="module")
def first(server: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one backup. Copy it."""
    home = tmp_path_factory.mktemp("first") / "repo"
    taking.run(BackupOptions(home, server.config_path), QUIET)
    return home


@pytest.fixture
def repo(first: Path, tmp_path: Path) -> Path:
    return shutil.copytree(first, tmp_path / "repo")


def assert_all_good(repo: Path) -> list[str]:
    """Every backup that is listed, and there is one; IDs."""
    listed = repository.listing(repo)
    assert not listed.broken
    assert all(one.is_good for one in verifying.verify(VerifyOptions(repo), QUIET))
    for told in repo.glob(f"*/{VERIFIED}"):
        told.unlink()  # or `prune` would keep it as one that was proven good
    assert listed.backups
    return [one.id for one in listed.backups]


@pytest.mark.rows(1)
@pytest.mark.parametrize("point", ["copy.middle", *(f"{step}.{point}" for step in STEPS for point in POINTS)])
def test_run_killed(server: Slapd, repo: Path, point: str) -> None:
    (before,) = assert_all_good(repo)
    command = ("backup", "run", "--init", "--config", server.config_path, "-R", repo, "--keep-last", 1)
    assert ditseed(*command, env={"DITSEED_KILL_AT": point}).status == -signal.SIGKILL
    left = assert_all_good(repo)
    assert before in left or len(left) == 1
    ditseed(*command).ok()
    assert not repository.unfinished_backups(repo)
    (after,) = assert_all_good(repo)
    assert after not in (before, *left)


@pytest.mark.rows(1)
@pytest.mark.parametrize("point", ["drill.restored", "drill.started"])
def test_drill_killed(repo: Path, scratch: Path, point: str) -> None:
    command = ("backup", "drill", "latest", "-R", repo, "--tmp", scratch)
    assert ditseed(*command, env={"DITSEED_KILL_AT": point}).status == -signal.SIGKILL
    (one,) = repository.listing(repo).backups
    assert repository.proofs(repo, one).drill is None
    (left,) = scratch.iterdir()
    _await_nobody_uses(left)
    ditseed(*command).ok()
    assert not list(scratch.iterdir())


def _await_nobody_uses(place: Path) -> None:
    """The kernel ends the drill's slapd with the drill."""
    until(lambda: not any(_uses(entry, place) for entry in Path("/proc").glob("[0-9]*")))


def _uses(process: Path, place: Path) -> bool:
    try:
        return str(place).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


# --- while it copies -----------------------------------------------------------------------------


def in_the_middle(monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    """`fault` happens once, behind the first piece that is stored; pieces are small, so that others follow."""
    happened: list[object] = []

    def happen(point: str) -> None:
        if point == "copy.middle" and not happened:
            happened.append(fault())

    monkeypatch.setattr(pack, "PIECE", 64 << 10)
    monkeypatch.setattr(pack, "killpoint", happen)


@pytest.mark.rows(1)
@pytest.mark.parametrize("looks", [True, False])
def test_the_disk_fills(server: Slapd, monkeypatch: pytest.MonkeyPatch, looks: bool) -> None:
    """Noticed before the next piece is written; or by the write itself, where the room goes just then."""
    require(missing_loop_filesystem())
    with loop_filesystem(8) as disk:
        repo, filler = disk / "repo", disk / "filler"
        asked = BackupOptions(repo, server.config_path, packing=Packing())
        taking.run(BackupOptions(repo, server.config_path), QUIET)

        def fill() -> None:
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while True:  # into what is reserved for root too
                    file.write(bytes(4 << 10))
                    os.fsync(file.fileno())
            if not looks:
                monkeypatch.setattr(files, "require_space", lambda *told: None)

        with monkeypatch.context() as changed:
            in_the_middle(changed, fill)
            with pytest.raises(NoSpace):
                taking.run(asked, QUIET)
        assert len(assert_all_good(repo)) == 1
        assert not repository.unfinished_backups(repo)
        filler.unlink()
        monkeypatch.undo()
        taking.run(asked, QUIET)
        assert len(assert_all_good(repo)) == 2


@pytest.mark.rows(1)
@pytest.mark.parametrize("how", ["moved", "removed"])
def test_the_repository_goes_away(server: Slapd, repo: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    asked, away = BackupOptions(repo, server.config_path), repo.with_name("away")

    def vanish() -> None:
        repo.rename(away)
        if how == "removed":
            shutil.rmtree(away)

    with monkeypatch.context() as changed:
        in_the_middle(changed, vanish)
        with pytest.raises(LoaderError):
            taking.run(asked, QUIET)
        if how == "moved":  # it is held open: the backup goes where the repository has gone
            away.rename(repo)
            assert len(assert_all_good(repo)) == 2
    taking.run(asked, QUIET)
    assert not repository.unfinished_backups(repo)
    assert len(assert_all_good(repo)) == (3 if how == "moved" else 1)


def test_throttled(server: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "PIECE", 64 << 10)
    rate = 4 << 20
    asked = BackupOptions(tmp_path, server.config_path, packing=Packing(throttle=rate))
    started = time.monotonic()
    made = taking.run(asked, QUIET)
    assert time.monotonic() - started > (made.data_bytes - 8192) / rate


@pytest.mark.long
def test_the_repository_is_unmounted_meanwhile(server: Slapd) -> None:
    """umount -l leaves the open directory usable, but the backup is not where the operator looks for it."""
    require(missing_loop_filesystem())
    with loop_filesystem(20) as disk:
        command = ("backup", "run", "--init", "--from", server.database_dir, "-R", disk)
        process = start(*command, env={"DITSEED_STOP_AT": "copy.middle"})
        stopped = Stopping(process)
        stopped.wait_for_stop()
        subprocess.run(["umount", "-l", disk], check=True)
        try:
            stopped.go_on()
            _, err = process.communicate()
        finally:
            subprocess.run(["mount", "-o", "loop", disk.with_name("image"), disk], check=True)
    assert (process.returncode, "was unmounted or moved" in err) == (SystemFailed.exit_status, True)


# --- what was damaged afterwards -------------------------------------------------------------------


def test_a_flipped_configuration(server: Slapd, repo: Path) -> None:
    (one,) = repository.listing(repo).backups
    path = repo / one.id / "config.ldif"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    (found,) = verifying.verify(VerifyOptions(repo), QUIET)
    assert "config.ldif" in found.problem
    assert "config.ldif" in drill.drill(DrillOptions(repo, "latest"), QUIET)[0].problem
    tried = DrillOptions(repo, "latest", config_path=server.config_path)
    assert drill.drill(tried, QUIET)[0].is_good
    done = ditseed("backup", "extract", "latest", "-R", repo, "--filter", "(ou=*)")
    assert (done.status, "config.ldif" in done.err) == (63, True)


def test_a_disk_that_fails(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(repository, "listing", failing)
    line = check(repo, Limits(3600)).line()
    assert line.startswith(f"BACKUP UNKNOWN - {repo}: Input/output error |")


def test_age_of_the_last_verification(repo: Path) -> None:
    asked = Limits(3600, verify_age=3600)
    before = check(repo, asked)
    assert (before.status, before.reason) == (Status.WARNING, "no backup was ever verified")
    verifying.verify(VerifyOptions(repo), QUIET)
    found = check(repo, asked)
    assert (found.status, "verify_age=" in found.line()) == (Status.OK, True)
    assert check(repo, Limits(3600, verify_age=-1)).status is Status.WARNING
