"""`ditseed storage plan`: its script, run as printed in the storage VM, leaves `storage check` nothing to find."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fixtures import storage_vm
from fixtures.limits import missing_loop_filesystem
from tests.integration.test_storage_check import loop_device, mounted, run
from tests.support.command import ditseed
from tests.support.require import require

# One interpreter for all commands: to start it takes seconds in the VM.
PLANNED = """
touch /run/fstab
mount --bind /run/fstab /etc/fstab
exec {python} - <<'END'
import os, shlex, sys
import loader.cli, loader.cli.storage_cmd

def ditseed(words, out):
    child = os.fork()
    if not child:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1), os.dup2(descriptor, 2)
        sys.argv = ["ditseed", "storage", *shlex.split(words)]
        loader.cli.main()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def sh(command):
    assert os.system(command + " >&2") == 0, command

three = "plan /dev/ubda /dev/ubdb /dev/ubdc --database-size 300M --memory 1G --mount /run/mnt/xfs"
assert ditseed(three, "xfs.sh") == 0
other = "plan /dev/ubdd /dev/ubde /dev/ubdf --database-size 100M --memory 64M --vg two --fs ext4"
assert ditseed(other + " --mount '/run/mnt/ext 4'", "ext.sh") == 0
sh("sh -e xfs.sh")
sh("sh -e ext.sh")
sh("umount /run/mnt/xfs && mount /run/mnt/xfs")
found = ditseed("check /run/mnt/xfs --json", "xfs"), ditseed("check '/run/mnt/ext 4' --json", "ext")
refused = ditseed("plan /dev/ubda --database-size 1G", "refused")
print(found, refused, flush=True)
os.system("cat /run/fstab refused xfs; echo ==; cat ext")
END
"""


def test_its_script_makes_volumes_that_check_finds_nothing_in(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm())
    images = [tmp_path / f"disk{number}" for number in range(6)]
    for number, image in enumerate(images):
        with image.open("wb") as file:  # xfs takes stripes from 1 GiB on
            file.truncate((360 if number < 3 else 120) << 20)
    ended = storage_vm.run(PLANNED.format(python=sys.executable), images)
    assert ended.status == 0, ended.err
    said, _, told = ended.out.partition("{")
    assert said.startswith("(0, 0) 123\n"), ended.out
    assert "/dev/ldap/data /run/mnt/xfs xfs defaults 0 2\n" in said
    assert r"/dev/two/data /run/mnt/ext\0404 ext4 defaults 0 2" in said
    assert "/dev/ubda is a physical volume of LVM already [storage.disk_in_use]" in said
    for text, sectors in zip(("{" + told).split("==\n"), (256, 32), strict=True):
        facts = json.loads(text)
        assert facts["not_looked_at"] == []
        rules = {one["rule"]: one["severity"] for one in facts["findings"]}
        assert rules["volume.striped"] == rules["stripes"] == rules["block_size"] == "ok"
        assert rules["alignment"] == rules["volume.stripe_size"] == "ok"
        assert "fstab.missing" not in rules
        assert facts["parameters"]["stripe_width"] == 3 * 65536
        assert facts["devices"][0]["read_ahead"] == sectors * 512


def test_a_disk_that_holds_something_is_refused(tmp_path: Path) -> None:
    require(missing_loop_filesystem())
    with loop_device(tmp_path / "image", 64) as device:
        asked = ("storage", "plan", device, "--database-size", "16M", "--fs", "ext4", "--json")
        facts = ditseed(*asked).facts
        assert facts["legs"] == [{"disk": device, "extents": 15, "used": 15, "left": 0}]
        assert facts["steps"][0]["command"] == f"pvcreate --dataalignment 1024k {device}"
        run("mkfs.ext4", "-q", device)
        held = ditseed(*asked)
        assert (held.status, held.facts["error"]["code"]) == (123, "storage.disk_in_use")
        assert "holds a signature (ext4)" in held.err
        with mounted(device, tmp_path / "mount"):
            assert f"is mounted on {tmp_path}/mount" in ditseed(*asked).err
            run("wipefs", "--all", "--force", device)  # the kernel knows what wipefs does not see
            assert "is mounted on" in ditseed(*asked).err


def test_what_is_no_disk() -> None:
    assert (
        "storage.no_such_path"
        in ditseed("storage", "plan", "/dev/none", "--database-size", "1G").err
    )
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
