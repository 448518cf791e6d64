"""`ditseed storage migrate` of a real slapd's database between loop devices: killed, resumed, rolled back."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.limits import missing_loop_filesystem
from fixtures.slapd import Slapd
from loader.operations.storage.migrate import STEPS
from tests.support.command import Done, ditseed, piped
from tests.support.disks import loop_device, mounted
from tests.support.require import require

pytestmark = pytest.mark.slapd

POINTS = [
    *(f"{step}.{at}" for step in STEPS for at in ("start", "unrecorded", "recorded")),
    *("copy.block", "verify.middle", "unmount.between"),
]
KINDS = {True: "xfs", False: "ext4"}  # of the new volume, for the rows "volume" and "directory"
BACK = [f"rollback.{name}" for name in ("stop", "fstab", "unmount", "mount", "start", "watch", "end")]


@dataclass(frozen=True)
class Place:
    """A slapd whose database directory is a volume (or, not `is_volume`, an ordinary directory), and an empty one.

    `lines`, `before`: what `fstab` and slapd have at first."""

    server: Slapd
    target: Path
    devices: dict[str, str]
    fstab: Path
    lines: str
    state: Path
    before: str
    is_volume: bool

    @property
    def source(self) -> Path:
        return self.server.database_dir

    def run(self, *more: str, kill: str = "", confirmed: str | None = None, begin: str | None = None) -> Done:
        """`begin`: another command than the one that starts the service."""
        env = {"DITSEED_STATE_DIR": str(self.state), "DITSEED_KILL_AT": kill}
        service = (self.server.home / "stop", begin or self.server.home / "start")
        words = ("storage", "migrate", self.source, self.target, "--fstab", self.fstab, "--service", *service)
        answer = f"{self.source if confirmed is None else confirmed}\n".encode()
        return piped(answer, *words, "-H", self.server.ldapi_uri, "--watch-time", "0", *more, env=env)

    def require_new(self) -> None:
        assert mounted(self.source) == self.devices["new"]
        assert mounted(self.target) == ""
        self.require_equal()
        line = self.fstab.read_text().splitlines()[-1 if not self.is_volume else 3]
        assert line.split()[1:3] == [str(self.source), KINDS[self.is_volume]], self.fstab.read_text()

    def require_old(self) -> None:
        assert mounted(self.source) == (self.devices["old"] if self.is_volume else "")
        assert mounted(self.target) == self.devices["new"]
        assert self.fstab.read_text() == self.lines
        self.require_equal()

    def empty_target(self) -> None:
        """Which a rollback leaves as it is."""
        subprocess.run(["find", self.target, "-mindepth", "1", "-delete"], check=True)

    def require_equal(self) -> None:
        assert self.server.answers()
        assert self.server.slapcat() == self.before


def control(server: Slapd) -> None:
    """Scripts that stop and start that slapd, as a unit's would; a second start does nothing."""
    pid, command = server.home / "pid", shlex.join(server._command())
    for name, text in (
        ("stop", f'pid=$(cat {pid} 2>/dev/null) && kill "$pid" 2>/dev/null || exit 1\n'
        'while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done'),
        ("start", f'kill -0 "$(cat {pid} 2>/dev/null)" 2>/dev/null && exit 0\n'
        f"PATH=$PATH:/usr/sbin {command} >/dev/null 2>&1 &\necho $! >{pid}"),
    ):  # fmt: skip
        (server.home / name).write_text(f"#!/bin/sh\n{text}\n")
        (server.home / name).chmod(0o700)


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """Where only root can rename things, as in every /var/tmp."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture(params=["volume", "directory"])
def place(request: pytest.FixtureRequest, short_tmp: Path, people_ldif: Path) -> Iterator[Place]:
    is_volume = request.param == "volume"
    target, fstab = short_tmp / "new", short_tmp / "fstab"
    target.mkdir()
    os.chmod(short_tmp, 0o755)
    require(missing_loop_filesystem(KINDS[is_volume]))
    with loop_device(short_tmp / "a", 64) as old, loop_device(short_tmp / "b", 320) as new:
        for kind, device in (("ext4", old), (KINDS[is_volume], new)):
            subprocess.run([f"mkfs.{kind}", "-q", device], check=True)
        server = Slapd(directory=short_tmp / "s")
        try:
            if is_volume:
                subprocess.run(["mount", old, server.database_dir], check=True)
                os.chmod(server.database_dir, 0o750)
            subprocess.run(["mount", new, target], check=True)
            server.slapadd(people_ldif)
            line = f"{old} {server.database_dir} ext4 noatime,nofail 0 2\n" if is_volume else ""
            fstab.write_text(f"# a comment\n{line}")
            control(server)
            subprocess.run([server.home / "start"], check=True)
            wait(server)
            devices, at_first = {"old": old, "new": new}, (fstab.read_text(), short_tmp / "state", server.slapcat())
            yield Place(server, target, devices, fstab, *at_first, is_volume)
        finally:
            subprocess.run([server.home / "stop"], check=False)
            for path in (server.database_dir, server.database_dir, target, target):
                subprocess.run(["umount", path], capture_output=True, check=False)


def wait(server: Slapd) -> None:
    while not server.answers():
        pass


@pytest.mark.long
def test_it_moves_and_goes_back(place: Place) -> None:
    dry = place.run().ok()
    assert all(words in dry.out for words in ("umount", f"mount -t {KINDS[place.is_volume]}", "Nothing was changed"))
    refused = place.run("--apply", confirmed="yes")
    assert (refused.status, "not confirmed" in refused.err) == (3, True)
    place.require_old()
    mode = place.source.stat().st_mode
    place.run("--apply").ok()
    place.require_new()
    assert place.source.stat().st_mode == mode
    assert "finished" in place.run("--apply").ok().err
    place.run("--rollback", "--apply").ok()
    place.require_old()


@pytest.mark.rows(0, "volume")
def test_a_slash_at_the_end_and_a_dry_run_of_what_was_begun(place: Place) -> None:
    """As the completion of a shell leaves it: it is the same place, also in fstab."""
    words = ("storage", "migrate", f"{place.source}/", f"{place.target}/", "--fstab", place.fstab)
    env = {"DITSEED_STATE_DIR": str(place.state)}
    shown = ditseed(*words, "--service", "true", "true", env=env)
    assert f"umount {place.target}\n" in shown.ok().out
    assert ("- /dev/" in shown.out) == place.is_volume  # the line of the old volume is found
    assert place.run("--apply", kill="copy.recorded").status == -9
    assert "finished so far: preflight, stop, copy\n" in place.run().ok().out
    place.run("--rollback", "--apply").ok()
    place.require_old()


@pytest.mark.rows(1)
def test_whoever_ends_it_is_told_that_the_service_is_stopped(place: Place) -> None:
    failed = place.run("--apply", begin="false")
    assert (failed.status, "The service is stopped" in failed.err) == (8, True)
    place.run("--apply").ok()
    place.require_new()


def test_others_use_it(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=place.source) as stranger:
        done = place.run("--apply")
        stranger.kill()
    assert (done.status, f"sleep (process {stranger.pid}) works in it" in done.err) == (125, True)
    (place.target / "file").touch()
    assert "not empty: file" in place.run().err


@pytest.mark.rows(0, "directory-unmount.recorded")
@pytest.mark.parametrize("point", POINTS)
def test_killed_rolled_back_killed_again_and_finished(place: Place, point: str) -> None:
    assert place.run("--apply", kill=point).status == -9
    back = place.run("--rollback", "--apply")
    if point in ("preflight.start", "preflight.unrecorded"):  # nothing was changed
        assert (back.status, "no migration" in back.err) == (125, True)
    else:
        back.ok()
    wait(place.server)
    place.require_old()
    place.empty_target()
    assert place.run("--apply", kill=point).status == -9
    place.run("--apply").ok()
    place.require_new()


@pytest.mark.long
def test_a_rollback_is_killed(place: Place) -> None:
    for point in BACK:
        place.run("--apply").ok()
        assert place.run("--rollback", "--apply", kill=point).status == -9
        assert "give --rollback" in place.run("--apply").err.lower()
        place.run("--rollback", "--apply").ok()
        wait(place.server)
        place.require_old()
        place.empty_target()


@pytest.mark.rows(1)
@pytest.mark.parametrize("point", ["verify.recorded", "unmount.recorded"])
def test_what_was_written_after_the_copy_is_copied_too(place: Place, point: str) -> None:
    """As after a power cut: the boot mounts what fstab names, and starts the service."""
    assert place.run("--apply", kill=point).status == -9
    if place.is_volume and point == "unmount.recorded":
        subprocess.run(["mount", place.devices["old"], place.source], check=True)
    subprocess.run([place.server.home / "start"], check=True)
    wait(place.server)
    suffix = place.server.suffix
    place.server.ldapmodify(f"dn: {suffix}\nchangetype: modify\nreplace: o\no: Changed\n")
    place.run("--apply").ok()
    assert mounted(place.source) == place.devices["new"]
    assert "o: Changed\n" in place.server.slapcat()


@pytest.mark.rows(0, "volume")
def test_a_copy_that_differs_is_not_taken(place: Place) -> None:
    """Then it is made again."""
    assert place.run("--apply", kill="copy.recorded").status == -9
    file = place.target / "data.mdb"
    times = file.stat()
    with file.open("r+b") as changed:
        changed.seek(20000)
        changed.write(b"other")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    refused = place.run("--apply")
    assert (refused.status, "the copy differs" in refused.err) == (125, True)
    place.run("--apply").ok()
    place.require_new()
