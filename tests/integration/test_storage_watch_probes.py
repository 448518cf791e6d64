"""The probes of `storage watch` beside the layers, each on the real thing: a lock that is held, a file system
without durable writes; and the chart on a terminal, the unit of systemd."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from fixtures.limits import loop_filesystem, missing_loop_filesystem
from loader.operations.storage.verdict import Layer
from loader.operations.storage.watch import Target, Watch, WatchOptions
from loader.storage.probes import FileLock
from tests.support.command import ditseed
from tests.support.require import require
from tests.support.terminal import on_terminal

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "bin/packaging/systemd/ditseed-watch@.service"
Facts = dict[str, Any]


def by_name(state: Facts) -> dict[str, Facts]:
    return {one["name"].split()[0]: one for one in state["probes"]}


def test_probes_stand_beside_the_layers_and_leave_nothing_behind(tmp_path: Path) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(64) as place:
        before = sorted(place.iterdir())
        done = ditseed(
            *("storage", "watch", place, "--probe", "flock", "--probe", "write", "--json"),
            *("--interval", "0.1", "--samples", "8", "--metrics", tmp_path / "a.prom"),
        ).ok()
        assert sorted(place.iterdir()) == before
    state = json.loads(done.out.splitlines()[-1])
    found = by_name(state)
    assert list(found) == ["flock", "write"]
    assert all(one["reads"] > 0 and one["figures"]["emax"] > 0 for one in found.values()), found
    assert found["write"]["size"] == 4096
    assert {one["layer"] for one in state["verdict"]} == {one["name"] for one in state["layers"]}
    assert f'_davg_seconds{{layer="write in {place}"}} ' in (tmp_path / "a.prom").read_text()


def test_writes_that_reach_no_device_are_not_measured() -> None:
    words = ("--probe", "write", "--interval", "0.05", "--samples", "2", "--json")
    done = ditseed("storage", "watch", "/dev/shm", *words).ok()
    found = by_name(json.loads(done.out.splitlines()[-1]))["write"]
    assert (found["reads"], found["figures"]) == (0, None)
    assert "no direct writes" in found["problem"] or "no write to a device" in found["problem"]


def test_a_lock_that_is_not_had_in_time(tmp_path: Path) -> None:
    """Whoever holds it: to the probe that is a system in which flock() waits."""
    lock = FileLock(tmp_path)
    descriptor = os.open(f"/proc/self/fd/{lock._descriptor}", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    target = Target(Layer("flock", str(tmp_path)), lambda: lock, limit=0.2)
    with Watch((), WatchOptions(interval=0.1, samples=200), (target,)) as watch:
        rounds = watch.rounds()
        hung = next(one for one in rounds if "flock does not end" in one.told)
        threading.Timer(0.05, os.close, (descriptor,)).start()
        ended = next(one for one in rounds if one.probes[0].in_flight_since is None)
    assert hung.probes[0].figures is None
    assert ended.probes[0].figures is not None
    assert ended.probes[0].figures.emax > 0.2


def test_what_is_for_probes_only(tmp_path: Path) -> None:
    layer = ("--layer", f"write in {tmp_path}={tmp_path}")
    for words, said in (
        (("--layer", "a=/dev/null", "--probe", "write"), "--probe write needs a directory"),
        ((*layer, "--probe", "write"), "is the name of a probe"),
    ):
        done = ditseed("storage", "watch", *words)
        assert (done.status, said in done.err) == (3, True), done.err


def test_a_terminal_shows_a_table_while_it_runs(tmp_path: Path) -> None:
    words = ("storage", "watch", "--layer", f"fs={tmp_path}", "--interval", "0.1", "--samples", "6")
    status, text = on_terminal(*words, stream="stdout")
    assert status == 0
    assert text.count("milliseconds") > 2  # drawn more than once, then printed at the end
    _, dumb = on_terminal(*words, stream="stdout", env={"TERM": "dumb"})
    assert "\x1b" not in dumb
    assert dumb.count("milliseconds") == 1


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    require(None if shutil.which("systemd-analyze") else "systemd-analyze is not installed")
    text = UNIT.read_text().replace("/usr/bin/ditseed", "/bin/true")
    unit = tmp_path / "ditseed-watch@var-lib-ldap.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_leaves_what_the_watch_needs() -> None:
    """Its options are the command's, its capabilities suffice: a data.mdb of another account is read, in real time."""
    require(missing_loop_filesystem())
    require(None if shutil.which("setpriv") else "setpriv is not installed")
    words = UNIT.read_text().partition("CapabilityBoundingSet=")[2].splitlines()[0].split()
    kept = ",".join(f"+{word.removeprefix('CAP_').lower()}" for word in words)
    with loop_filesystem(32) as place:
        (place / "data.mdb").write_bytes(os.urandom(1 << 20))
        for one in (place / "data.mdb", place):
            os.chown(one, 65534, 65534)
            one.chmod(0o700 if one is place else 0o600)
        os.sync()
        bound = ("setpriv", "--no-new-privs", f"--bounding-set=-all,{kept}", "--inh-caps=-all")
        samples = ("--interval", "0.05", "--samples", "8", "--json")
        done = ditseed("storage", "watch", place, *samples, prefix=bound).ok()
    state = json.loads(done.out.splitlines()[-1])
    assert [one["reads"] > 0 for one in state["layers"]] == [True, True], state
    assert [one["notes"] for one in state["layers"]] == [[], []]
