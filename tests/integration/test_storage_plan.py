"""`ditseed storage plan`: its script, run as printed in the storage VM, leaves `storage check` nothing to find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_storage_check import images, run
from tests.support import vm
from tests.support.command import ditseed
from tests.support.disks import loop_device, mounting

PLANNED = """
sh("touch /run/fstab && mount --bind /run/fstab /etc/fstab")
for number, (kind, place, disks, options, _) in enumerate({volumes}):
    words = f"plan {{disks}} --database-size 20M --vg vg{{number}} --fs {{kind}} --mount '{{place}}' {{options}}"
    assert ditseed(words, "plan.sh") == 0, open("plan.sh").read()
    sh("sh -e plan.sh")
    sh(f"umount '{{place}}' && mount '{{place}}'")  # as the next boot does
    print(ditseed(f"check '{{place}}' --json", "found"), open("found").read().replace("\\n", " "), flush=True)
print(ditseed("plan /dev/ubda --database-size 1G", "refused"), open("refused").read())
print(open("/run/fstab").read())
# A file is written, one disk of each redundant pair is emptied, and the file is read again.
sh("head -c 10000000 /dev/urandom >/run/mnt/raid10/file && cp /run/mnt/raid10/file /run/mnt/raid1/file && sync")
sh("sha256sum /run/mnt/raid*/file && umount /run/mnt/raid10 /run/mnt/raid1 && vgchange -an vg2 vg3")
for disk in ("ubdh", "ubdi", "ubdk"):
    sh(f"dd if=/dev/zero of=/dev/{{disk}} bs=1M count=700 conv=notrunc 2>&1 | tail -1")
sh("vgchange -ay --activationmode degraded vg2 vg3; mount /run/mnt/raid10 && mount /run/mnt/raid1")
sh("sha256sum /run/mnt/raid*/file | cut -c-64 | uniq >sums")
print("read again", len(open("sums").read().split()))
"""
# Kind, mount point, disks, options, bytes of all stripes of the file system; xfs takes stripes from 1 GiB on.
PLANS = [
    ("xfs", "/run/mnt/xfs", "/dev/ubda /dev/ubdb /dev/ubdc", "--memory 1G", 3 * 65536),
    ("ext4", "/run/mnt/ext 4", "/dev/ubdd /dev/ubde /dev/ubdf", "--memory 16M", 3 * 65536),
    ("xfs", "/run/mnt/raid10", "/dev/ubdg /dev/ubdh /dev/ubdi /dev/ubdj", "--memory 1G --redundant", 2 * 65536),
    ("ext4", "/run/mnt/raid1", "/dev/ubdk /dev/ubdl", "--memory 16M --redundant", 0),
]


@pytest.mark.long
def test_its_script_makes_volumes_that_check_finds_nothing_in(tmp_path: Path) -> None:
    """Redundant ones survive the loss of a disk of each pair."""
    disks = images(tmp_path, 360, 360, 360, 120, 120, 120, 560, 560, 560, 560, 120, 120)
    printed = vm.run(vm.program(PLANNED.format(volumes=PLANS)), disks, modules=("dm-mod", "raid1", "raid10", "dm-raid"))
    *found, refused = printed.splitlines()[: len(PLANS) + 1]
    assert refused.startswith("123 ")
    assert "/dev/ubda is a physical volume of LVM already [storage.disk_in_use]" in refused
    assert "read again 1\n" in printed
    for number, (line, (kind, place, _, options, width)) in enumerate(zip(found, PLANS, strict=True)):
        facts = json.loads(line.partition(" ")[2])
        assert facts["mount"]["kind"] == kind
        assert facts["not_looked_at"] == []
        findings = {one["rule"]: one["severity"] for one in facts["findings"]}
        assert findings.pop("volume.redundancy", "ok") == ("ok" if "--redundant" in options else "note")
        assert findings.pop("filesystem") == "ok"
        assert set(findings.values()) == {"ok"}, findings
        if "--redundant" not in options:
            assert {"volume.striped", "volume.stripe_size", "stripes", "alignment", "block_size"} <= set(findings)
        if width:
            assert facts["parameters"]["stripe_width"] == width
            assert facts["devices"][0]["read_ahead"] == (131072 if "1G" in options else 16384)
        if place.endswith("raid1"):
            assert sorted(device["kind"] for device in facts["devices"]) == ["disk"] * 2 + ["lvm"] * 5
        word = place.replace(" ", r"\040")
        assert f"/dev/vg{number}/data {word} {kind} defaults 0 2\n" in printed


NAMES = """
sh("pvcreate -q /dev/ubda && vgcreate -q ldap /dev/ubda")
for name in {names}:
    taken = os.system(f"lvcreate -q -y -Wn -l 1 -n {{name}} ldap >>said 2>&1")
    refused = ditseed(f"plan 1G --database-size 100M --vg ldap --lv {{name}}", "said")
    print(name, taken == 0, refused == 0, flush=True)
sh("vgremove -q -y -f ldap")
for group, volume in {lengths}:
    sh(f"vgcreate -q {{group}} /dev/ubda")
    taken = os.system(f"lvcreate -q -y -Wn -l 1 -n {{volume}} {{group}} >>said 2>&1")
    refused = ditseed(f"plan 1G --database-size 100M --vg {{group}} --lv {{volume}}", "said")
    print(len(group) + len(volume), taken == 0, refused == 0, flush=True)
    sh(f"vgremove -q -y -f {{group}}")
"""
LVM_KEEPS = (
    "snapshot1 pvmove0 a_cdata a_cmeta a_corig a_cpool_x a_cvol a_imeta a_iorig a_mimage a_mlog a_pmspare "
    "a_rimage_0 a_rmeta_0 a_tdata a_tmeta a_vdata a_vorigin a_wcorig"
)


@pytest.mark.long
def test_plan_takes_the_names_that_lvm_takes(tmp_path: Path) -> None:
    names = [*LVM_KEEPS.split(), "a_snapshot", "a_pool", "_a"]
    lengths = [("v-" * 14, "d" * 28)]  # the longest that plan takes
    script = NAMES.format(names=names, lengths=lengths)
    told = [line.split() for line in vm.run(vm.program(script), images(tmp_path, 100)).splitlines()]
    assert len(told) == len(names) + len(lengths)
    assert [name for name, of_lvm, _ in told if of_lvm == "True"] == [*names[-3:], "56"]
    assert all(of_lvm == of_plan for _, of_lvm, of_plan in told), told


def test_a_disk_that_holds_something_is_refused(tmp_path: Path) -> None:
    with loop_device(tmp_path / "image", 64) as device:
        asked = ("storage", "plan", device, "--database-size", "16M", "--fs", "ext4", "--json")
        facts = ditseed(*asked).facts
        assert facts["legs"] == [{"disk": device, "extents": 15, "used": 15, "left": 0}]
        assert facts["steps"][0]["command"] == f"pvcreate --dataalignment 1024k {device}"
        run("mkfs.ext4", "-q", device)
        held = ditseed(*asked)
        assert (held.status, held.facts["error"]["code"]) == (123, "storage.disk_in_use")
        assert "holds a signature (ext4)" in held.err
        with mounting(device, tmp_path / "mount"):
            assert f"is mounted on {tmp_path}/mount" in ditseed(*asked).err
            run("wipefs", "--all", "--force", device)  # the kernel knows what wipefs does not see
            assert "is mounted on" in ditseed(*asked).err


def test_what_is_no_disk() -> None:
    assert "storage.no_such_path" in ditseed("storage", "plan", "/dev/none", "--database-size", "1G").err
    odd = ditseed("storage", "plan", "/dev/null", "--database-size", "1G")
    assert (odd.status, "/dev/null is not a block device" in odd.err) == (3, True)
    assert ditseed("storage", "plan", "9G", "--database-size", "0").status == 3
    assert "not a size" in ditseed("storage", "plan", "sdb", "--database-size", "1G").err


def test_a_plan_on_paper_is_a_script_of_sh() -> None:
    done = ditseed("storage", "plan", "300G", "300G", "--database-size", "100G", "--memory", "64G")
    assert done.status == 0, done.err
    assert run("sh", "-n", "-c", done.out).returncode == 0
    assert "#   /dev/DISK2: 76799 extents of 4.0 MiB, 76799 used, 0 left\n" in done.out
    assert "\nlvchange -r 32 ldap/data\n" in done.out
