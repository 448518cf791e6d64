"""`ditseed storage migrate`: what it refuses, who stays out of the new volume, and a rollback without the new disk.
tests/resume/test_migrate.py moves the database of a slapd, and kills at every point."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures import kerberos
from fixtures.waiting import until
from loader.errors import MigrationRefused
from loader.operations.storage import migrate as migrating
from loader.operations.storage.migrate import MoveRequest
from tests.support.command import Done, ditseed, start
from tests.support.disks import loop_device, mounted, mounting
from tests.support.nobody import NOBODY
from tests.support.processes import started
from tests.support.require import require
from tests.unit.storage.test_holders import elsewhere, environment_open

OTHER = 65534  # the account of the service
TRUE = ("--service", "true", "true")


@contextmanager
def volume(place: Path, megabytes: int = 64) -> Iterator[str]:
    """A new one, mounted on `place`."""
    with loop_device(place.with_suffix(".image"), megabytes) as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with mounting(device, place):
            yield device


@pytest.fixture
def home(var_tmp: Path) -> Path:
    """With an empty fstab."""
    (var_tmp / "fstab").touch()
    return var_tmp


def migrate(home: Path, source: Path, *more: object, say: str = "", kill: str = "", **given: Any) -> Done:
    """From `source` to home/new; the run is kept in home/state."""
    env = {"DITSEED_STATE_DIR": str(home / "state"), "DITSEED_KILL_AT": kill}
    words = ("storage", "migrate", source, home / "new", "--fstab", home / "fstab", "--watch-time", 0)
    process = start(*words, *more, env=env, stdin=subprocess.PIPE, **given)
    out, err = process.communicate(f"{say or source}\n")
    return Done(process.returncode, out, err)


@pytest.mark.long
def test_a_kdc_and_its_realm(home: Path) -> None:
    """A service that ditseed knows nothing of: its directory moves, it goes on, and back."""
    require(kerberos.missing_kerberos())
    with volume(home / "new") as device, kerberos.Realm() as realm:
        keytab = realm.keytab("host/localhost")
        service = ("--service", *realm.hand_over(home))
        before = realm.dump()
        assert "host/localhost" in before
        migrate(home, realm.home, *service, "--apply").ok()
        assert (mounted(realm.home), mounted(home / "new")) == (device, "")
        assert realm.dump() == before
        realm.ticket("host/localhost", keytab, "one")
        assert f" {realm.home} ext4 " in (home / "fstab").read_text()
        migrate(home, realm.home, *service, "--rollback", "--apply").ok()
        assert (mounted(realm.home), mounted(home / "new")) == ("", device)
        assert realm.dump() == before
        realm.ticket("host/localhost", keytab, "two")
        assert (home / "fstab").read_text() == ""


def test_what_is_wrong_is_said_before_anything_is_done(home: Path) -> None:
    (home / "old").mkdir()
    (home / "link").symlink_to(home / "old")
    large = home / "old/file"
    large.write_bytes(bytes(range(256)) * 4 * 30 * 1024)  # 30 MiB
    with volume(home / "new", 20):
        for source, more, status, said in (
            (home / "none", TRUE, 5, "no such file"),
            (large, TRUE, 3, "not a directory"),
            (home / "link", TRUE, 3, "without symbolic links"),
            (Path("old"), TRUE, 3, "an absolute path"),
            (home / "new", TRUE, 125, "are the same, or one is inside the other"),
            (home, TRUE, 125, "other file systems are mounted in it"),
            (home / "old", ("--service", "none-such stop", "true"), 3, "none-such does not exist"),
            (home / "old", ("--service", "stop 'it", "true"), 3, "no closing quotation"),
            (home / "old", ("--service", "", "true"), 3, "give two commands"),
            (home / "old", (*TRUE, "--rollback"), 125, "no migration of this directory"),
            (home / "old", TRUE, 6, "needed, "),
        ):
            done = migrate(home, source, *more, "--apply")
            assert (done.status, said in done.err) == (status, True), done.err
        assert not (home / "state/migrate").exists()
        large.write_bytes(b"less")
        done = migrate(home, home / "old", *TRUE, "--fstab", home / "none", "--apply")
        assert (done.status, "no such file" in done.err) == (5, True), done.err
        done = migrate(home, home / "old", *TRUE, "--apply", prefix=NOBODY)
        assert (done.status, "Run as root" in done.err) == (4, True), done.err
        done = migrate(home, home / "old", *TRUE, "--apply", say="yes")
        assert (done.status, "not confirmed; nothing was changed" in done.err) == (3, True)
        assert mounted(home / "old") == ""


def test_ctrl_c_and_the_same_again(home: Path) -> None:
    """Of a service that has no file open: then none can be looked for, and the plan says so."""
    old, slow = home / "old", home / "stop"
    old.mkdir()
    (old / "file").write_text("kept")
    slow.write_text(f"#!/bin/sh\ntouch {home}/stopping\nexec sleep 600\n")
    slow.chmod(0o700)
    with volume(home / "new"):
        assert "no process writes to" in migrate(home, old, *TRUE).ok().out
        env = {"DITSEED_STATE_DIR": str(home / "state")}
        words = ("storage", "migrate", old, home / "new", "--fstab", home / "fstab", "--service", slow, "true")
        process = start(*words, "--watch-time", 0, "--apply", env=env, stdin=subprocess.PIPE)
        process.stdin.write(f"{old}\n")
        process.stdin.flush()
        until((home / "stopping").exists)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert (process.returncode, "The same command resumes here" in err) == (130, True), err
        assert "The service is stopped, or being stopped" in err
        migrate(home, old, *TRUE, "--apply").ok()
        assert (mounted(old) != "", (old / "file").read_text()) == (True, "kept")
        again = migrate(home, old, *TRUE, "--apply").ok()
        assert ("is finished" in again.err, "--restart" in again.err) == (True, False)


def test_the_account_of_the_service_stays_out_of_the_new_volume(home: Path) -> None:
    """Until its copy is verified; a copy that the account has been in is made anew."""
    old, new = home / "old", home / "new"
    (old / "sub").mkdir(parents=True)
    for path in (old, old / "sub"):
        os.chown(path, OTHER, OTHER)
    stay = ["setpriv", f"--reuid={OTHER}", "--clear-groups", "sh", "-c", "cd sub && echo && cat"]
    with volume(new):
        for point in ("copy.block", "copy.recorded", "verify.middle", "verify.recorded"):
            (old / "sub/file").write_text(point)
            assert migrate(home, old, *TRUE, "--apply", kill=point).status == -signal.SIGKILL
            assert subprocess.run(stay, cwd=new, capture_output=True, check=False).returncode != 0
        os.chown(new, OTHER, OTHER)  # as after the step `unmount` was killed
        with started(stay, cwd=new) as inside:
            (old / "sub/file").write_text("last")
            done = migrate(home, old, *TRUE, "--apply")
            assert (done.status, "works in it" in done.err) == (125, True), done.err
            assert (new.stat().st_uid, list(new.iterdir())) == (0, [new / "lost+found"])
            assert os.listdir(f"/proc/{inside.pid}/cwd") == []
            inside.communicate()
        (new / "stranger").touch()
        new.chmod(0o755)
        done = migrate(home, old, *TRUE, "--apply")
        assert (done.status, "is not empty: stranger" in done.err) == (125, True), done.err
        (new / "stranger").unlink()
        migrate(home, old, *TRUE, "--apply").ok()
        assert (old.stat().st_uid, (old / "sub").stat().st_uid) == (OTHER, OTHER)
        assert (mounted(old) != "", (old / "sub/file").read_text()) == (True, "last")


def test_a_database_in_use_where_its_volume_has_another_name(home: Path) -> None:
    """As by slapd in a container, which the stop command knows nothing of: not copied, nothing unmounted."""
    (home / "other").mkdir()
    old, stop = home / "old", shlex.join(("sh", "-c", "echo not loaded; exit 5"))
    with volume(old) as device, volume(home / "new") as new:
        subprocess.run(["mount", "--bind", old, home / "other"], check=True)
        try:
            done = migrate(home, old, *TRUE, "--apply")
        finally:
            subprocess.run(["umount", home / "other"], check=True)
        assert (done.status, f"are also mounted on {home}/other" in done.err) == (125, True)
        with elsewhere(old, home / "other", *environment_open(home / "other")) as user:
            words = MoveRequest(str(old), str(home / "new"), ("true",), ("true",), "", str(home / "fstab"))
            plan = migrating.plan(words, home / "state")
            done = migrate(home, old, "--service", stop, "true", "--apply")
            assert done.status == 125
            assert "sh ended with status 5: not loaded, and python" in done.err
            assert f"(process {user.pid}) writes to it, in another mount namespace" in done.err
            assert [one.name for one in (home / "new").iterdir()] == ["lost+found"]
            # Started again after the copy was verified.
            with pytest.raises(MigrationRefused, match=f"is used again: .*process {user.pid}"):
                migrating._unmount(plan)
            assert (mounted(old), mounted(home / "new")) == (device, new)


def test_a_mount_namespace_that_keeps_the_former_volume(home: Path) -> None:
    """A container that goes on while the service in it is stopped."""
    (home / "other").mkdir()
    inside = elsewhere(home / "old", home / "other", "sh", "-c", "echo && exec cat")
    with volume(home / "old"), volume(home / "new"), inside as user:
        done = migrate(home, home / "old", *TRUE, "--apply").ok()
        assert "other mount namespaces still show the former files" in done.err
        assert f"(cat, process {user.pid})" in done.err


UNWRITABLE = {
    "remounted": ("mount -o remount,ro {home}/new", "it is mounted read-only"),
    "error": ("mount -o remount,abort {home}/new", "it is mounted read-only"),
    "device": ("blockdev --setro {device}", "its device {device} is read-only"),
    "fstab": ("echo {device} {home}/new ext4 noatime,ro 0 2 >{home}/fstab", "its line in fstab mounts it read-only"),
    "dead": ("truncate -s 0 {home}/new.image", "Input/output error"),
}


@pytest.mark.parametrize(("script", "said"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_a_volume_that_cannot_be_written_is_refused_before_the_stop(home: Path, script: str, said: str) -> None:
    (home / "old").mkdir()
    with volume(home / "new") as device:
        subprocess.run(["sh", "-c", script.format(home=home, device=device)], check=True)
        done = migrate(home, home / "old", "--service", f"touch {home}/stopped", "true", "--apply")
        subprocess.run(["blockdev", "--setrw", device], check=True)
    assert (done.status in (13, 125), said.format(device=device) in done.err) == (True, True), done.err
    assert not (home / "stopped").exists()


def test_a_volume_that_cannot_be_written_any_more(home: Path) -> None:
    """It is tried before each stop."""
    (home / "old").mkdir()
    apply = ("--service", f"touch {home}/stopped", "true", "--apply")
    with volume(home / "new"):
        assert migrate(home, home / "old", *apply, kill="stop.start").status == -signal.SIGKILL
        subprocess.run(["mount", "-o", "remount,ro", home / "new"], check=True)
        done = migrate(home, home / "old", *apply)
        assert (done.status, "[storage.read_only]" in done.err) == (15, True), done.err
        assert not (home / "stopped").exists()
        subprocess.run(["mount", "-o", "remount,rw", home / "new"], check=True)
        migrate(home, home / "old", *apply).ok()


@pytest.mark.long("False")
@pytest.mark.parametrize("is_mounted", [False, True])
def test_a_rollback_without_the_new_disk(home: Path, is_mounted: bool) -> None:
    """Its device answers no more, or is another one after a boot: the service runs on the former volume again."""
    old, new = home / "old", home / "new"
    with volume(old) as former, volume(new) as device:
        lines = f"{former} {old} ext4 noatime 0 2\n", f"{device} {new} ext4 defaults 0 2\n"
        (home / "fstab").write_text("".join(lines))
        (old / "file").write_text("kept")
        service = ("--service", "true", f"touch {home}/started")
        migrate(home, old, *service, "--apply").ok()
        (home / "started").unlink()
        if is_mounted:
            os.truncate(new.with_suffix(".image"), 0)
        else:
            subprocess.run(["umount", old], check=True)
        with open(device, "r+b", buffering=0) as raw:
            raw.write(bytes(1 << 20))  # also of the truncated one, whose superblock the page cache may still have
        done = migrate(home, old, *service, "--rollback", "--apply")
        assert (done.status, f"the new one is not mounted on {new}" in done.err) == (1, True), done.err
        assert (mounted(old), mounted(new)) == (former, "")
        assert ((old / "file").read_text(), (home / "started").exists()) == ("kept", True)
        first, comment, line = (home / "fstab").read_text().splitlines(keepends=True)
        assert (first, line) == (lines[0], f"# {lines[1]}")
        assert comment.endswith("could not be mounted when the migration was rolled back\n")
        again = migrate(home, old, *service, "--rollback", "--apply")
        assert (again.status, "no migration of this directory" in again.err) == (125, True)


@pytest.mark.long
def test_a_rollback_goes_on_with_the_disk_back(home: Path) -> None:
    """Killed while it was without: then all of fstab is as it was."""
    old, new = home / "old", home / "new"
    with volume(old) as former, volume(new) as device:
        lines = f"{former} {old} ext4 noatime 0 2\n{device} {new} ext4 defaults 0 2\n"
        (home / "fstab").write_text(lines)
        migrate(home, old, *TRUE, "--apply").ok()
        subprocess.run(["umount", old], check=True)
        with open(device, "r+b", buffering=0) as raw:
            start = raw.read(1 << 20)
            raw.seek(0)
            raw.write(bytes(len(start)))
        done = migrate(home, old, *TRUE, "--rollback", "--apply", kill="rollback.start")
        assert (done.status, "rolled back" in (home / "fstab").read_text()) == (-9, True)
        with open(device, "r+b", buffering=0) as raw:
            raw.write(start)
        migrate(home, old, *TRUE, "--rollback", "--apply").ok()
        assert (mounted(old), mounted(new)) == (former, device)
        assert (home / "fstab").read_text() == lines


# Calls that change a file or a mount, and programs that only tell.
CHANGING = re.compile(r"\b(mount|umount2|move_mount|unlink\w*|rename\w*|mkdir\w*|truncate|f?chown\w*|f?chmod\w*)\(")
TELLING = {"findmnt", "blkid", "lvs", "pvs", "wipefs", "tune2fs", "setpriv", "ditseed"}


@pytest.mark.long
def test_without_apply_nothing_is_changed(home: Path) -> None:
    """By what the kernel was asked for, with the directory and both devices named."""
    require(None if shutil.which("strace") else "strace is not installed")
    with volume(home / "old"), volume(home / "new") as device:
        (home / "old/file").write_text("kept")
        traced = ("strace", "-f", "-qq", "-y", "-e", "trace=%file,%desc,execve", "-o", home / "log")
        words = ("storage", "migrate", home / "old", home / "new", "--fstab", home / "fstab")
        env = {"DITSEED_STATE_DIR": str(home / "state")}
        runs = (
            (*words, *TRUE),
            ("storage", "check", home / "old"),
            ("storage", "plan", device, "--database-size", "1M", "--fs", "ext4"),  # is mounted
        )
        for run, status in zip(runs, (0, 1, 123), strict=True):
            done = ditseed(*run, env=env, prefix=[str(word) for word in traced])
            assert done.status == status, done.err
            calls = [line for line in (home / "log").read_text().splitlines() if " = -1 " not in line]
            started = {match[1] for line in calls if (match := re.search(r'execve\("[^"]*?([^/"]+)"', line))}
            assert started - TELLING <= {"python3", "python", "python3.11"}, started
            touched = [line for line in calls if str(home) in line or "/dev/loop" in line]
            assert touched
            wrong = [one for one in touched if CHANGING.search(one) or "O_WRONLY" in one or "O_RDWR" in one]
            assert wrong == []
