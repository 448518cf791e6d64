"""`clone` on real databases: beside a busy slapd, from sparse files, onto full disks, and killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader.errors import (
    LoaderError,
    Locked,
    MdbDamaged,
    NoSpace,
    NoSuchPath,
    NotLmdb,
    NotPermitted,
    TargetInUse,
    TargetNotEmpty,
    UsageProblem,
)
from loader.mdb import contents, copy, meta
from loader.operations.clone import CloneOptions, CloneReport, clone, plan
from loader.operations.publish import WORKSHOP
from loader.progress import Progress
from loader.run.log import exclusive
from loader.storage import files
from loader.units import parse_size
from tests.support import nobody
from tests.support.command import ditseed, start
from tests.support.lag import oldest_lag
from tests.support.require import require
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

NOBODY = 65534


def run(source: Path, target: Path, **options: object) -> CloneReport:
    return clone(CloneOptions(source, target, **options), Progress("none"))  # type: ignore[arg-type]


def content(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Every file as it stands; what is new or written to is not the same."""
    found = ((path.name, path.stat()) for path in directory.iterdir())
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found}


# --- what it makes --------------------------------------------------------------------------------


def test_the_clone_is_the_same_database(stopped: Slapd, other: Slapd) -> None:
    report = run(stopped.database_dir, other.database_dir)
    assert [path.name for path in other.database_dir.iterdir()] == ["data.mdb"]
    assert_same(stopped, other)
    assert report.entries == 1029
    assert report.suffixes == ("dc=example,dc=com",)
    assert list(report.context_csns) == contents.context_csns(stopped.database_dir)
    assert len(report.context_csns) == 1
    assert report.verified == "pages"
    with other:
        assert len(other.search()) == report.entries


def test_a_sparse_source_takes_only_what_it_holds(stopped: Slapd, tmp_path: Path) -> None:
    report = run(stopped.database_dir, tmp_path / "clone")
    assert report.source_apparent == parse_size("10G")
    assert report.target_apparent == meta.read_meta(stopped.database_dir).used < parse_size("20M")
    assert report.target_allocated <= report.source_allocated + 65536
    assert meta.read_meta(tmp_path / "clone").map_size == parse_size("10G")


def test_beside_a_busy_server(people_ldif: Path, tmp_path: Path) -> None:
    server = replication.provider()
    server.slapadd(people_ldif)
    with server, Churn(server, rate=500) as churn:
        for verify in ("none", "quick", "pages"):
            churn.wait_for(churn.changes() + 100)
            target = tmp_path / verify
            report = run(server.database_dir, target, verify=verify)
            assert _slapcat_entries(server, target) == report.entries
        assert oldest_lag(server.database_dir) == 0
        churn.stop()
        final = run(server.database_dir, tmp_path / "final")
        assert final.entries == len(server.search())


def _slapcat_entries(like: Slapd, directory: Path) -> int:
    """slapd's own reading of a clone."""
    reader = Slapd(like.settings)
    try:
        shutil.copy(directory / "data.mdb", reader.database_dir / "data.mdb")
        return reader.slapcat().count("\ndn:") + 1
    finally:
        reader.close()


def test_a_source_on_a_read_only_mount(stopped: Slapd, tmp_path: Path) -> None:
    """A snapshot of a file system, for instance, with the lock.mdb that slapd left."""
    require(None if os.geteuid() == 0 else "mounts, which needs root")
    kept = tmp_path / "kept"
    kept.mkdir()
    run(stopped.database_dir, kept)
    (kept / "lock.mdb").touch()
    subprocess.run(["mount", "--bind", "-o", "ro", kept, kept], check=True)
    try:
        for more in ({}, {"compact": True}):
            report = run(kept, tmp_path / f"clone{len(more)}", **more)
            assert report.entries == 1029
        ditseed("backup", "run", "--init", "-R", tmp_path / "repo", "--from", kept).ok()
    finally:
        subprocess.run(["umount", kept], check=True)


def test_owner_and_mode(stopped: Slapd, tmp_path: Path) -> None:
    """The directory says whose it is, the source how secret."""
    require(None if os.geteuid() == 0 else "gives files to another user, which needs root")
    target = tmp_path / "clone"
    target.mkdir()
    os.chown(target, NOBODY, NOBODY)
    run(stopped.database_dir, target)
    status = (target / "data.mdb").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (NOBODY, NOBODY, 0o600)


def test_a_directory_that_is_not_there_is_made_private(stopped: Slapd, tmp_path: Path) -> None:
    run(stopped.database_dir, tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_replace(stopped: Slapd, other: Slapd, tmp_path: Path) -> None:
    other.slapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    other.start()
    other.stop()
    with pytest.raises(TargetNotEmpty):
        run(stopped.database_dir, other.database_dir)
    assert other.slapcat().count("\ndn:") == 0
    run(stopped.database_dir, other.database_dir, replace=True)
    assert_same(stopped, other)


# --- what it refuses, and that nothing is changed by it -----------------------------------------


def test_a_target_in_use(stopped: Slapd, other: Slapd) -> None:
    other.slapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    with other:
        before = content(other.database_dir)
        with pytest.raises(TargetInUse, match="slapd"):
            run(stopped.database_dir, other.database_dir, replace=True)
        assert content(other.database_dir) == before
        assert len(other.search()) == 1


def test_places_that_are_none(stopped: Slapd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    source = stopped.database_dir
    cases: list[tuple[Path, Path, type[LoaderError]]] = [
        (tmp_path / "nowhere", tmp_path / "clone", NoSuchPath),
        (tmp_path / "empty", tmp_path / "clone", NoSuchPath),
        (tmp_path / "file", tmp_path / "clone", NotLmdb),
        (source / "data.mdb", tmp_path / "clone", NotLmdb),
        (source, tmp_path / "file", UsageProblem),
        (source, source, UsageProblem),
    ]
    for wrong_source, wrong_target, error in cases:
        with pytest.raises(error):
            run(wrong_source, wrong_target, replace=True)
        with pytest.raises(error):
            plan(CloneOptions(wrong_source, wrong_target, replace=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]
    assert not list((tmp_path / "empty").iterdir())


@pytest.mark.parametrize("keep", [0.9, 0.4, 0.001])
def test_a_damaged_source(stopped: Slapd, tmp_path: Path, keep: float) -> None:
    source = tmp_path / "source"
    run(stopped.database_dir, source)
    os.truncate(source / "data.mdb", int(meta.read_meta(source).used * keep))
    for verify in ("quick", "pages"):
        with pytest.raises(MdbDamaged):
            run(source, tmp_path / "clone", verify=verify)
        assert not (tmp_path / "clone").exists()


def test_a_small_disk(stopped: Slapd) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(4) as disk:
        with pytest.raises(NoSpace, match="needed"):
            run(stopped.database_dir, disk / "clone")
        assert not (disk / "clone").exists()


def test_a_disk_that_fills_up_meanwhile(stopped: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    """By somebody else, once there was found to be room."""
    require(missing_loop_filesystem())
    enough = copy.require_space
    with loop_filesystem(32) as disk:
        target = disk / "clone"

        def enough_until_now(*asked: Path) -> int:
            found = enough(*asked)
            _fill(disk)
            return found

        monkeypatch.setattr(copy, "require_space", enough_until_now)
        with pytest.raises(NoSpace, match=str(target)):
            run(stopped.database_dir, target)
        assert (disk / "filler").exists()
        assert not target.exists()


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb") as file:
        free = os.statvfs(disk)
        for size in (free.f_bavail * free.f_frsize, 1 << 20, 1 << 16, free.f_frsize):
            _take(file.fileno(), size)


def _take(descriptor: int, size: int) -> None:
    """Pieces of that size, until one does not fit."""
    try:
        while True:
            os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, size)
    except OSError:
        return


@pytest.mark.parametrize(("place", "mode"), [("source", 0o000), ("source/data.mdb", 0o600), ("target", 0o755)])
def test_without_permission(stopped: Slapd, short_tmp: Path, place: str, mode: int) -> None:
    require(None if os.geteuid() == 0 else "becomes another user, which needs root")
    short_tmp.chmod(0o755)
    source, target = short_tmp / "source", short_tmp / "target"
    source.mkdir(mode=0o755)
    target.mkdir(mode=0o777)
    run(stopped.database_dir, short_tmp / "copy")
    (short_tmp / "copy" / "data.mdb").rename(source / "data.mdb")
    (source / "data.mdb").chmod(0o644)
    (short_tmp / place).chmod(mode)
    error = _error_as_nobody(source, target)
    assert error == NotPermitted.code
    assert not list(target.iterdir())


def _error_as_nobody(source: Path, target: Path) -> str:
    """The code of the error that `clone` ends with when an ordinary user calls it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        nobody.become()
        try:
            run(source, target)
        except LoaderError as error:
            os.write(writer, error.code.encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    return os.read(reader, 1000).decode()


def test_one_at_a_time(stopped: Slapd, tmp_path: Path) -> None:
    target = tmp_path / "clone"
    (target / WORKSHOP).mkdir(parents=True)
    busy = exclusive(target / WORKSHOP / "lock")
    with busy, pytest.raises(Locked, match=str(os.getpid())):
        run(stopped.database_dir, target)
    run(stopped.database_dir, target)
    assert [path.name for path in target.iterdir()] == ["data.mdb"]


def test_what_a_killed_run_left_is_not_in_the_way(stopped: Slapd) -> None:
    require(missing_loop_filesystem())
    used = meta.read_meta(stopped.database_dir).used
    with loop_filesystem(64) as disk:
        target = disk / "clone"
        (target / WORKSHOP).mkdir(parents=True)
        (disk / "filler").write_bytes(bytes(files.free_bytes(disk) - used - (1 << 20)))
        (target / WORKSHOP / "data.mdb.partial").write_bytes(bytes(used - 4096))
        assert plan(CloneOptions(stopped.database_dir, target)).free > used
        run(stopped.database_dir, target)
        assert [path.name for path in target.iterdir()] == ["data.mdb"]


# --- interrupted --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["clone.copied", "publish.middle"])
def test_killed_then_run_again(stopped: Slapd, other: Slapd, point: str) -> None:
    other.slapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    before = other.slapcat()
    command = ("clone", stopped.database_dir, other.database_dir, "--replace")
    assert ditseed(*command, env={"DITSEED_KILL_AT": point}).status == -signal.SIGKILL
    assert other.slapcat() == before
    ditseed(*command).ok()
    assert_same(stopped, other)
    assert not list(other.database_dir.glob("*partial*"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_ended_while_it_copies(stopped: Slapd, other: Slapd, number: signal.Signals, status: int) -> None:
    command = ("clone", stopped.database_dir, other.database_dir, "--verify", "quick")
    for _ in range(20):  # it may be done before the signal comes
        process = start(*command)
        until(lambda: (other.database_dir / WORKSHOP / "data.mdb.partial").exists())
        process.send_signal(number)
        process.communicate()
        if process.returncode != 0:
            break
        (other.database_dir / "data.mdb").unlink()
    assert process.returncode == status
    assert not (other.database_dir / "data.mdb").exists()
    if number != signal.SIGKILL:
        assert not list(other.database_dir.iterdir())
    ditseed(*command).ok()
    assert_same(stopped, other)
