"""`ditseed storage watch` on real delays: device-mapper's, in the storage VM; and on file systems of this host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures import storage_vm
from fixtures.limits import loop_device, loop_filesystem, missing_loop_filesystem
from fixtures.waiting import until
from tests.support.command import COMMAND, Done, ditseed, start
from tests.support.require import require

Facts = dict[str, Any]

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
    require(storage_vm.missing_storage_vm())
    place = tmp_path_factory.mktemp("delayed")
    disks = [place / f"disk{number}" for number in range(3)]
    for disk in disks:
        with disk.open("wb") as file:
            file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(disks[2])], check=True)
    script = DELAYED.format(ditseed=COMMAND) + "tail -n +1 suspended check volume fs watch.err written mirror"
    ended = storage_vm.run(script, disks, modules=MODULES)
    assert ended.status == 0, (ended.out[-2000:], ended.err)
    parts = ended.out.split("==> ")[1:]
    return {name: text.strip() for name, _, text in (part.partition(" <==\n") for part in parts)}


def delays(state: Facts) -> list[str]:
    return [one["layer"] for one in state["verdict"] if one["is_delay"]]


@pytest.mark.long
@pytest.mark.alone
def test_the_delayed_leg_of_a_mirror_is_named(delayed: dict[str, str]) -> None:
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


@pytest.mark.long
@pytest.mark.alone
def test_a_leg_that_does_not_answer_is_critical_within_three_intervals(delayed: dict[str, str]) -> None:
    states = [json.loads(line) for line in delayed["mirror"].splitlines()]
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
def test_a_leg_that_is_slow_to_write_shows_in_the_write_probe_only(delayed: dict[str, str]) -> None:
    """A write to a mirror waits for both legs. No read does, so no layer is named."""
    state = json.loads(delayed["written"])
    flock, write = state["probes"]
    assert write["figures"]["davg"] > 0.045, state["told"]
    assert flock["figures"]["davg"] < write["figures"]["davg"] / 2
    assert delays(state) == []


@pytest.mark.long
@pytest.mark.alone
def test_a_volume_that_is_slow_itself_is_named(delayed: dict[str, str]) -> None:
    said = delayed["volume"].splitlines()[-1]
    assert said.startswith("verdict: /dev/mapper/slow adds ")
    assert "ext4 on /run/mnt/slow adds nothing" in said


@pytest.mark.long
@pytest.mark.alone
def test_a_slow_file_system_is_named(delayed: dict[str, str]) -> None:
    assert delays(json.loads(delayed["fs"])) == ["fs"]


def watched(*words: object) -> Facts:
    """The last line of a short watch, and its exit status is 0."""
    done = ditseed("storage", "watch", *words, "--interval", "0.05", "--json").ok()
    found: Facts = json.loads(done.out.splitlines()[-1])
    return found


def test_small_reads_that_btrfs_serves_from_its_cache_are_not_measured() -> None:
    require(missing_loop_filesystem("btrfs"))
    with loop_filesystem(128, "btrfs") as place:
        state = watched(place, "--samples", "10")
    file, device = state["layers"]
    assert file["name"] == f"btrfs on {place}"
    assert (file["size"], device["size"]) == (4096, 512)
    assert file["notes"] == ["reads of 2048 bytes come from the page cache and are not measured; of 4096 bytes instead"]
    assert file["reads"] > 0
    assert file["figures"]["emin"] > device["figures"]["emin"] / 4


def test_direct_reads_that_a_file_system_makes_ordinary_ones_are_not_measured(tmp_path: Path) -> None:
    """ext4 with data=journal takes them all from the page cache."""
    require(missing_loop_filesystem())
    with loop_filesystem(32) as place:
        subprocess.run(["umount", str(place)], check=True)
        image = place.parent / "image"
        subprocess.run(["mount", "-o", "loop,data=journal", str(image), str(place)], check=True)
        state = watched(place, "--samples", "6")
    file, device = state["layers"]
    assert (file["reads"], file["figures"], device["reads"] > 0) == (0, None, True)
    assert file["problem"] == ("the kernel counts no read from a device: they come from a cache")
    assert "not known" in state["told"]


def test_a_database_is_read_where_it_has_blocks() -> None:
    """Most of a data.mdb may be holes, which no device is asked for."""
    require(missing_loop_filesystem())
    with loop_filesystem(32) as place:
        with (place / "data.mdb").open("wb") as file:
            file.seek(4 << 20)
            file.write(b"x" * 65536)
            file.truncate(1 << 30)
        state = watched(place, "--samples", "10")
    found = state["layers"][0]
    assert found["path"] == str(place / "data.mdb")
    assert found["reads"] > 0


def test_a_device_whose_reads_fail_is_critical(tmp_path: Path) -> None:
    require(missing_loop_filesystem())
    image, state = tmp_path / "image", tmp_path / "state"
    with loop_device(image, 8) as device:
        words = ("--layer", f"disk={device}", "--interval", "0.05", "--state", state, "--json")
        process = start("storage", "watch", *words)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["layers"][0]["is_error"] is False
        os.truncate(image, 0)
        lines = (json.loads(line)["layers"][0] for line in process.stdout)
        failed = next(one for one in lines if one["is_error"])
        assert failed["problem"] == "Input/output error"
        # A read in flight is told first, and on a loaded host one may be for many such intervals.
        check = lambda: ditseed("storage", "watch", "--check", "--state", state)  # noqa: E731
        said = "the last read failed: Input/output error"
        done = until(lambda: found if said in (found := check()).out else None)
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
        process.communicate()
    assert done.status == 2


def judged_while_watched(tmp_path: Path, *words: object, reads: int) -> list[Done]:
    """What the plugin says again and again, once there were so many rounds."""
    state = tmp_path / "state"
    process = start("storage", "watch", *words, "--interval", "0.1", "--state", state, "--json")
    assert process.stdout is not None
    try:
        next(line for line in process.stdout if json.loads(line)["round"] >= reads)
        return [until(lambda: _fresh(state)) for _ in range(5)]
    finally:
        process.terminate()
        process.communicate()


def _fresh(state: Path) -> Done | None:
    """On a loaded host the state may be old for a moment."""
    check = ditseed("storage", "watch", "--check", "--state", state)
    return None if "is the watch running" in check.out else check


def test_a_layer_that_fails_from_the_beginning_is_critical(tmp_path: Path) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(32) as place:
        data = place / "data.mdb"
        data.write_bytes(os.urandom(8 << 20))
        subprocess.run(["sync", "-f", str(data)], check=True)
        os.truncate(place.parent / "image", 0)
        words = ("--layer", f"db={data}", "--layer", f"other={tmp_path}")
        for check in judged_while_watched(tmp_path, *words, reads=8):
            assert check.status == 2, check.out
            said = "db: the last read failed: it cannot be opened: Input/output error"
            assert said in check.out
            assert "reads of db fail" in check.out
            assert "_failed'=0c" in check.out


def test_reads_of_which_some_fail_are_critical_whichever_was_the_last(tmp_path: Path) -> None:
    require(missing_loop_filesystem())
    image = tmp_path / "image"
    with loop_device(image, 8) as device:
        os.truncate(image, 4 << 20)
        for check in judged_while_watched(tmp_path, "--layer", f"disk={device}", reads=40):
            assert check.status == 2, check.out
            assert "reads of disk fail" in check.out
            assert "disk takes " not in check.out


def test_a_file_system_without_a_device(tmp_path: Path) -> None:
    state = watched("/dev/shm", "--samples", "2")
    assert [one["reads"] for one in state["layers"]] == [0]
    assert state["layers"][0]["problem"] is not None
    assert state["told"].startswith("not known")


def test_what_cannot_be_watched(tmp_path: Path) -> None:
    for words, said in (
        ((), "PATH, or --layer"),
        ((tmp_path, "--layer", f"a={tmp_path}"), "PATH, or --layer"),
        (("--layer", "a"), "write NAME=PATH"),
        (("--layer", f"a={tmp_path}", "--layer", "a=/dev/null"), "the same name"),
        ((tmp_path, "-w", "3"), "-w is only for --check"),
        (("--check",), "--check takes --state FILE"),
        (("--check", "--state", "x", "--samples", "1"), "--samples is only for"),
    ):
        done = ditseed("storage", "watch", *words)
        assert (done.status, said in done.err) == (3, True), done.err
    done = ditseed("storage", "watch", "--layer", "a=/nowhere")
    assert "storage.no_such_path" in done.err


def test_the_state_is_judged_as_a_plugin_does(tmp_path: Path) -> None:
    state = tmp_path / "state"
    require(missing_loop_filesystem())
    with loop_filesystem(32) as place:
        done = ditseed(
            *("storage", "watch", place, "--samples", "6", "--interval", "0.05"),
            *("--state", state, "--metrics", tmp_path / "watch.prom"),
        ).ok()
        assert "verdict: " in done.out
        assert state.stat().st_mode & 0o777 == 0o644
        assert f'_reads_total{{layer="ext4 on {place}"}} ' in (tmp_path / "watch.prom").read_text()
    judge = ("storage", "watch", "--check", "--state")
    known = {**json.loads(state.read_text()), "interval": 3600}  # not stale
    state.write_text(json.dumps(known))
    over = ditseed(*judge, state)
    assert (over.status, "has ended" in over.out) == (3, True), over.out
    elsewhere = {**known["watcher"], "namespace": "elsewhere"}
    state.write_text(json.dumps({**known, "watcher": elsewhere}))
    well = ditseed(*judge, state, "-w", "5000", "-c", "6000")
    assert well.status == 0, well.out
    assert well.out.startswith("STORAGE WATCH OK - ")
    assert "_davg'=0.00" in well.out
    assert "s;5.000000;6.000000;0 " in well.out
    assert ditseed(*judge, state, "-w", "0.0001").status == 1
    assert ditseed(*judge, state, "-w", "0.0001", "-c", "0.0001").status == 2
    missing = ditseed(*judge, tmp_path / "none")
    assert (missing.status, missing.out.split(" - ")[0]) == (3, "STORAGE WATCH UNKNOWN")
    state.write_bytes(state.read_bytes()[:-20])
    assert ditseed(*judge, state).status == 3
