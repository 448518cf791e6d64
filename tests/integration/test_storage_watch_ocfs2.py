"""`storage watch` on OCFS2, which makes no nameless files, and whose locks are those of a cluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fixtures import storage_vm
from tests.integration.test_storage_watch import MODULES, delays
from tests.support.command import COMMAND
from tests.support.require import require

pytestmark = pytest.mark.long

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


def test_ocfs2_on_a_mirror_adds_nothing(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm())
    require(None if shutil.which("mkfs.ocfs2") else "mkfs.ocfs2 (ocfs2-tools) is not installed")
    disks = [tmp_path / f"disk{number}" for number in range(2)]
    for disk in disks:
        with disk.open("wb") as file:
            file.truncate(512 << 20)
    have = [name for name in OCFS2 if list(storage_vm.MODULES.rglob(f"{name}.ko"))]
    ended = storage_vm.run(CLUSTERED.replace("COMMAND", str(COMMAND)), disks, modules=(*MODULES, *have))
    assert ended.status == 0, (ended.out[-2000:], ended.err)
    *_, last, left = ended.out.splitlines()
    state = json.loads(last)
    assert state["layers"][0]["name"] == "ocfs2 on /run/mnt/ocfs2"
    assert delays(state) == ["/dev/mapper/leg2"], state["told"]
    assert "ocfs2 on /run/mnt/ocfs2 adds nothing" in state["told"]
    assert all(one["reads"] > 0 for one in state["probes"]), state["probes"]
    assert left == "lost+found"  # of the files of the probes nothing
