"""`ditseed storage watch` on real delays: device-mapper's, in the storage VM; on file systems of this host; its probes,
each on the real thing; the chart on a terminal, the unit of systemd."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from fixtures import storage_vm
from fixtures.waiting import until
from loader.operations.options import WatchOptions
from loader.operations.storage.verdict import Layer
from loader.operations.storage.watch import Target, Watch
from loader.storage.probes import FileLock
from tests.integration.test_storage_check import images
from tests.support import vm
from tests.support.command import COMMAND, Done, ditseed, start
from tests.support.disks import loop_device, loop_filesystem
from tests.support.nobody import NOBODY
from tests.support.require import require
from tests.support.terminal import on_terminal

Facts = dict[str, Any]
UNITS = Path(__file__).parents[2] / "bin/packaging/systemd"

# A mirror whose second leg takes 20 ms to read; a volume that is slow itself, with a file system on it. dm-delay waits
# for a tick of the VM's clock (10 ms): an interval of whole ticks would delay one layer more than another each time.
DELAYED = """
set -e
sed -i '/^devices/ s#}}# filter=["a|^/dev/mapper/leg|","r|.*|"] }}#' /run/lvm/lvm.conf
echo "0 131072 linear /dev/ubda 0" | dmsetup create leg1
echo "0 131072 delay /dev/ubdb 0 20 /dev/ubdb 0 0" | dmsetup create leg2
echo "0 131072 delay /dev/ubdc 0 20 /dev/ubdc 0 0" | dmsetup create slow
vgcreate -q -s 1M vg /dev/mapper/leg1 /dev/mapper/leg2
lvcreate -q -y -Wn --type raid1 -m 1 --nosync -L 32M -n ldap vg
mkfs.ext2 -q /dev/vg/ldap
mkdir -p /run/mnt/mirror /run/mnt/slow
mount -t ext2 /dev/vg/ldap /run/mnt/mirror
mount -t ext4 /dev/mapper/slow /run/mnt/slow
watch="{ditseed} storage watch"
: >mirror
$watch /run/mnt/mirror --interval 0.103 --state /run/state --json >mirror 2>watch.err & pid=$!
$watch /run/mnt/slow --interval 0.103 --samples 10 >volume
$watch --layer fs=/run/mnt/slow --layer disk=/dev/ubdc --interval 0.103 --samples 10 --json | tail -n 1 >fs
while [ "$(wc -l <mirror)" -lt 30 ]; do sleep 0.5; done
dmsetup suspend --noflush --nolockfs leg2
date +%s.%N >suspended
status=0; $watch --check --state /run/state >check || status=$?
echo "exit status $status" >>check
dmsetup resume leg2
kill -TERM $pid
wait $pid || echo "watch ended with $?" >>check
dmsetup suspend --noflush --nolockfs leg2
echo "0 131072 delay /dev/ubdb 0 0 /dev/ubdb 0 50" | dmsetup load leg2
dmsetup resume leg2
$watch /run/mnt/mirror --probe write --probe flock --interval 0.203 --samples 12 --json | tail -n 1 >written
"""
MODULES = (
    *("dm-mod", "dm-delay", "async_tx", "async_memcpy", "async_xor", "async_pq"),
    *("async_raid6_recov", "md-mod", "raid456", "raid10", "raid1", "dm-raid"),
)


@pytest.fixture(scope="module")
def delayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each watch printed, by the name of its file."""
    place = tmp_path_factory.mktemp("delayed")
    disks = images(place, 64, 64, 64)
    subprocess.run(["mkfs.ext4", "-q", str(disks[2])], check=True)
    script = DELAYED.format(ditseed=COMMAND) + "tail -n +1 suspended check volume fs watch.err written mirror"
    parts = vm.run(script, disks, modules=MODULES).split("==> ")[1:]
    return {name: text.strip() for name, _, text in (part.partition(" <==\n") for part in parts)}


def delays(state: Facts) -> list[str]:
    return [one["layer"] for one in state["verdict"] if one["is_delay"]]


@pytest.mark.long
@pytest.mark.alone
def test_a_leg_of_a_mirror_that_is_delayed_or_does_not_answer_is_named(delayed: dict[str, str]) -> None:
    states = [json.loads(line) for line in delayed["mirror"].splitlines()]
    known = states[29]
    names = [one["name"] for one in known["layers"]]
    assert names == [
        *("ext2 on /run/mnt/mirror", "/dev/mapper/vg-ldap", "/dev/mapper/leg1"),
        *("/dev/mapper/leg2", "/dev/ubda", "/dev/ubdb"),
    ]
    assert [one["size"] for one in known["layers"]] == [512] * 6
    assert delays(known) == ["/dev/mapper/leg2"], known["told"]
    added = {one["layer"]: one for one in known["verdict"]}
    assert 0.015 < added["/dev/mapper/leg2"]["seconds"] < 0.06
    assert "/dev/mapper/leg2 adds " in known["told"]
    assert "/dev/mapper/vg-ldap adds nothing" in known["told"]
    assert "ext2 on /run/mnt/mirror adds nothing" in known["told"]
    assert delayed["watch.err"] == ""

    # It is critical within three intervals that it does not answer.
    since = [one for one in states if one["written"] > float(delayed["suspended"])]
    hung = [one for one in since if "/dev/mapper/leg2 does not answer" in one["told"]]
    assert since.index(hung[0]) <= 3
    check = delayed["check"].splitlines()
    assert check[0].startswith("STORAGE WATCH CRITICAL - ")
    assert "/dev/mapper/leg2: a read is in flight for" in check[0]  # and what read from that leg
    assert check[-2:] == ["exit status 2", "watch ended with 143"]
    assert states[-1]["layers"][4]["reads"] > hung[0]["layers"][4]["reads"]  # a disk goes on


@pytest.mark.long
@pytest.mark.alone
def test_what_is_slow_to_write_or_slow_itself(delayed: dict[str, str]) -> None:
    """A write to a mirror waits for both legs. No read does, so no layer is named."""
    state = json.loads(delayed["written"])
    flock, write = state["probes"]
    assert write["figures"]["davg"] > 0.045, state["told"]
    assert flock["figures"]["davg"] < write["figures"]["davg"] / 2
    assert delays(state) == []
    said = delayed["volume"].splitlines()[-1]
    assert said.startswith("verdict: /dev/mapper/slow adds ")
    assert "ext4 on /run/mnt/slow adds nothing" in said
    assert delays(json.loads(delayed["fs"])) == ["fs"]


def watched(*words: object, prefix: tuple[str, ...] = ()) -> Facts:
    """The last line of a short watch, and its exit status is 0."""
    done = ditseed("storage", "watch", *words, "--interval", "0.05", "--json", prefix=prefix).ok()
    found: Facts = json.loads(done.out.splitlines()[-1])
    return found


def test_small_reads_that_btrfs_serves_from_its_cache_are_not_measured() -> None:
    with loop_filesystem(128, "btrfs") as place:
        state = watched(place, "--samples", "10")
    file, device = state["layers"]
    assert file["name"] == f"btrfs on {place}"
    assert (file["size"], device["size"]) == (4096, 512)
    assert file["notes"] == ["reads of 2048 bytes come from the page cache and are not measured; of 4096 bytes instead"]
    assert file["reads"] > 0
    assert file["figures"]["emin"] > device["figures"]["emin"] / 4


def test_direct_reads_that_a_file_system_makes_ordinary_ones_are_not_measured() -> None:
    """ext4 with data=journal takes them all from the page cache."""
    with loop_filesystem(32) as place:
        subprocess.run(["umount", place], check=True)
        subprocess.run(["mount", "-o", "loop,data=journal", place.parent / "image", place], check=True)
        state = watched(place, "--samples", "6")
    file, device = state["layers"]
    assert (file["reads"], file["figures"], device["reads"] > 0) == (0, None, True)
    assert file["problem"] == "the kernel counts no read from a device: they come from a cache"
    assert "not known" in state["told"]


def test_a_database_is_read_where_it_has_blocks() -> None:
    """Most of a data.mdb may be holes, which no device is asked for."""
    with loop_filesystem(32) as place:
        with (place / "data.mdb").open("wb") as file:
            file.seek(4 << 20)
            file.write(b"x" * 65536)
            file.truncate(1 << 30)
        found = watched(place, "--samples", "10")["layers"][0]
    assert (found["path"], found["reads"] > 0) == (str(place / "data.mdb"), True)


def judged(state: Path, *more: object, prefix: tuple[str, ...] = ()) -> Done:
    return ditseed("storage", "watch", "--check", "--state", state, *more, prefix=prefix)


def told(state: Path, said: str) -> int:
    """The status, once it says so: on a loaded host a state may be old, and a read in flight, for a moment."""
    return until(lambda: found if said in (found := judged(state)).out else None).status


def test_a_watch_that_is_stopped_and_a_device_whose_reads_fail(tmp_path: Path) -> None:
    image, state = tmp_path / "image", tmp_path / "state"
    with loop_device(image, 8) as device:
        words = ("--layer", f"disk={device}", "--interval", "0.05", "--state", state, "--json")
        process = start("storage", "watch", *words)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["layers"][0]["is_error"] is False
        assert told(state, "STORAGE WATCH OK - ") == 0
        assert judged(state, prefix=NOBODY).status == 3  # directories of pytest are closed to others
        process.send_signal(signal.SIGSTOP)
        assert told(state, "STORAGE WATCH UNKNOWN - ") == 3
        assert "is the watch running" in judged(state).out
        process.send_signal(signal.SIGCONT)
        os.truncate(image, 0)
        lines = (json.loads(line)["layers"][0] for line in process.stdout)
        failed = next(one for one in lines if one["is_error"])
        assert failed["problem"] == "Input/output error"
        assert told(state, "the last read failed: Input/output error") == 2
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
        process.communicate()


def test_a_layer_that_fails_from_the_beginning_is_critical(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with loop_filesystem(32) as place:
        data = place / "data.mdb"
        data.write_bytes(os.urandom(8 << 20))
        subprocess.run(["sync", "-f", str(data)], check=True)
        os.truncate(place.parent / "image", 0)
        words = ("--layer", f"db={data}", "--layer", f"other={tmp_path}", "--interval", "0.1", "--state", state)
        process = start("storage", "watch", *words)
        assert told(state, "db: the last read failed: it cannot be opened: Input/output error") == 2
        assert told(state, "reads of db fail") == 2
        assert "_failed'=0c" in judged(state).out
        process.kill()
        process.communicate()
    assert told(state, "is the watch running?") == 3


def test_a_file_system_without_a_device() -> None:
    state = watched("/dev/shm", "--samples", "2", "--probe", "write")
    assert [one["reads"] for one in state["layers"]] == [0]
    assert state["layers"][0]["problem"] is not None
    assert state["told"].startswith("not known")
    (write,) = state["probes"]
    assert (write["reads"], write["figures"]) == (0, None)
    assert "no direct writes" in write["problem"] or "no write to a device" in write["problem"]


def test_what_cannot_be_watched(tmp_path: Path) -> None:
    for words, said in (
        ((), "PATH, or --layer"),
        ((tmp_path, "--layer", f"a={tmp_path}"), "PATH, or --layer"),
        (("--layer", "a"), "write NAME=PATH"),
        (("--layer", f"a={tmp_path}", "--layer", "a=/dev/null"), "the same name"),
        ((tmp_path, "-w", "3"), "-w is only for --check"),
        (("--check",), "--check takes --state FILE"),
        (("--check", "--state", "x", "--samples", "1"), "--samples is only for"),
        (("--layer", "a=/dev/null", "--probe", "write"), "--probe write needs a directory"),
        (("--layer", f"write in {tmp_path}={tmp_path}", "--probe", "write"), "is the name of a probe"),
    ):
        done = ditseed("storage", "watch", *words)
        assert (done.status, said in done.err) == (3, True), done.err
    assert "storage.no_such_path" in ditseed("storage", "watch", "--layer", "a=/nowhere").err


def test_the_state_is_judged_as_a_plugin_does(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with loop_filesystem(32) as place:
        words = ("--probe", "flock", "--probe", "write", "--samples", "8", "--interval", "0.05")
        before = sorted(place.iterdir())
        done = ditseed("storage", "watch", place, *words, "--state", state, "--metrics", tmp_path / "watch.prom").ok()
        assert sorted(place.iterdir()) == before
    assert "verdict: " in done.out
    assert state.stat().st_mode & 0o777 == 0o644
    metrics = (tmp_path / "watch.prom").read_text()
    assert f'_reads_total{{layer="ext4 on {place}"}} ' in metrics
    assert f'_davg_seconds{{layer="write in {place}"}} ' in metrics
    found = json.loads(state.read_text())
    assert [one["name"].split()[0] for one in found["probes"]] == ["flock", "write"]
    assert all(one["reads"] > 0 and one["figures"]["emax"] > 0 for one in found["probes"]), found["probes"]
    assert found["probes"][1]["size"] == 4096
    assert {one["layer"] for one in found["verdict"]} == {one["name"] for one in found["layers"]}
    state.write_text(json.dumps({**found, "interval": 3600}))  # not stale
    well = judged(state, "-w", "5000", "-c", "6000").ok().out
    assert re.match(r"STORAGE WATCH OK - .*_davg'=0\.00\d*s;5\.000000;6\.000000;0 ", well)
    assert judged(state, "-w", "0.0001").status == 1
    assert judged(state, "-w", "0.0001", "-c", "0.0001").status == 2


# The stack of which the I/O timing watch was first told: OCFS2 (here on one host) on a mirrored volume.
CLUSTERED = """
set -e
sed -i '/^devices/ s#}# filter=["a|^/dev/mapper/leg|","r|.*|"] }#' /run/lvm/lvm.conf
echo "0 1048576 linear /dev/ubda 0" | dmsetup create leg1
echo "0 1048576 delay /dev/ubdb 0 20 /dev/ubdb 0 0" | dmsetup create leg2
vgcreate -q -s 1M vg /dev/mapper/leg1 /dev/mapper/leg2
lvcreate -q -y -Wn --type raid1 -m 1 --nosync -L 400M -n ldap vg
mkfs.ocfs2 -q -M local -N 1 /dev/vg/ldap </dev/null >/dev/null
mkdir -p /run/mnt/ocfs2
mount -t ocfs2 /dev/vg/ldap /run/mnt/ocfs2
COMMAND storage watch /run/mnt/ocfs2 --probe write --probe flock --interval 0.203 --samples 30 --json | tail -n 1 >last
ls -A /run/mnt/ocfs2 >>last
cat last
"""
OCFS2 = ("configfs", "jbd2", "quota_tree", "ocfs2_nodemanager", "ocfs2_dlm", "ocfs2_stackglue", "ocfs2")


@pytest.mark.long
def test_ocfs2_on_a_mirror_adds_nothing(tmp_path: Path) -> None:
    have = [name for name in OCFS2 if list(storage_vm.MODULES.rglob(f"{name}.ko"))]
    script = CLUSTERED.replace("COMMAND", str(COMMAND))
    *_, last, left = vm.run(script, images(tmp_path, 512, 512), "mkfs.ocfs2", modules=(*MODULES, *have)).splitlines()
    state = json.loads(last)
    assert state["layers"][0]["name"] == "ocfs2 on /run/mnt/ocfs2"
    assert delays(state) == ["/dev/mapper/leg2"], state["told"]
    assert "ocfs2 on /run/mnt/ocfs2 adds nothing" in state["told"]
    assert all(one["reads"] > 0 for one in state["probes"]), state["probes"]
    assert left == "lost+found"  # of the files of the probes nothing


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


def test_a_terminal_shows_a_table_while_it_runs(tmp_path: Path) -> None:
    words = ("storage", "watch", "--layer", f"fs={tmp_path}", "--interval", "0.1", "--samples", "6")
    status, text = on_terminal(*words, stream="stdout")
    assert status == 0
    assert text.count("milliseconds") > 2  # drawn more than once, then printed at the end
    _, dumb = on_terminal(*words, stream="stdout", env={"TERM": "dumb"})
    assert "\x1b" not in dumb
    assert dumb.count("milliseconds") == 1


def test_systemd_takes_all_our_units(tmp_path: Path) -> None:
    require(None if shutil.which("systemd-analyze") else "systemd-analyze is not installed")
    for path in UNITS.iterdir():
        text = re.sub(r"^(Exec\w+=)(/usr/bin/)?ditseed", r"\1/bin/true", path.read_text(), flags=re.M)
        (tmp_path / path.name.replace("@", "@var-lib-ldap")).write_text(text)
    units = sorted(tmp_path.iterdir())
    assert len(units) == 4
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert (done.returncode, "ditseed-" in done.stderr) == (0, False), done.stderr


def test_the_unit_leaves_what_the_watch_needs() -> None:
    """Its options are the command's, its capabilities suffice: a data.mdb of another account is read, in real time."""
    require(None if shutil.which("setpriv") else "setpriv is not installed")
    text = (UNITS / "ditseed-watch@.service").read_text()
    words = text.partition("CapabilityBoundingSet=")[2].splitlines()[0].split()
    kept = ",".join(f"+{word.removeprefix('CAP_').lower()}" for word in words)
    with loop_filesystem(32) as place:
        (place / "data.mdb").write_bytes(os.urandom(1 << 20))
        for one in (place / "data.mdb", place):
            os.chown(one, 65534, 65534)
            one.chmod(0o700 if one is place else 0o600)
        os.sync()
        bound = ("setpriv", "--no-new-privs", f"--bounding-set=-all,{kept}", "--inh-caps=-all")
        state = watched(place, "--samples", "8", prefix=bound)
    assert [one["reads"] > 0 for one in state["layers"]] == [True, True], state
    assert [one["notes"] for one in state["layers"]] == [[], []]
