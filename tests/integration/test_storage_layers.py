"""`ditseed storage check` on layers and file systems that this host has not, made in the storage VM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures import storage_vm
from tests.integration.test_storage_check import images, partitioned, severity
from tests.support.require import require
from tests.support.vm import program

pytestmark = pytest.mark.long

Facts = dict[str, Any]

CHECKED = """
for name in {names}:
    sh("mkdir -p /run/mnt/" + name)
sh(r'''{script}''')
for name in {names}:
    print(name, ditseed("check --json /run/mnt/" + name, "found"), open("found").read().replace("\\n", " "), flush=True)
"""


def checked(script: str, names: list[str], disks: list[Path], modules: tuple[str, ...]) -> dict[str, Facts]:
    """What `check` finds on each of /run/mnt/NAME, once `script` has mounted them."""
    body = CHECKED.format(names=names, script=script)
    ended = storage_vm.run(program(body), disks, modules=modules)
    assert ended.status == 0, ended.err
    found = {}
    for line in ended.out.splitlines():
        name, status, told = line.split(" ", 2)
        found[name] = json.loads(told)
        assert found[name]["not_looked_at"] == []
        assert (status == "0") == found[name]["well"]
    return found


def what(facts: Facts, rule: str) -> str:
    (one,) = (one for one in facts["findings"] if one["rule"] == rule)
    assert one["why"]
    assert one["source"]
    return str(one["what"])


# How each is made, and what is said of it.
KINDS = {
    "reiserfs": ("mkfs.reiserfs -q -f", "critical", "removed from Linux"),
    "ocfs2": ("mkfs.ocfs2 -q -M local -N 1", "warning", "a cluster file system"),
}


def test_other_file_systems(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm(*(make.split()[0] for make, _, _ in KINDS.values())))
    script = "".join(
        f"{make} /dev/ubd{letter}\nmount -i -t {kind} /dev/ubd{letter} /run/mnt/{kind}\n"
        for letter, (kind, (make, _, _)) in zip("ab", KINDS.items(), strict=True)
    )
    modules = ("crc32_generic", "ocfs2")
    disks = images(tmp_path, 64, 200)
    found = checked(script, [*KINDS], disks, modules)
    for kind, (_, severe, said) in KINDS.items():
        facts = found[kind]
        assert facts["mount"]["kind"] == kind
        assert severity(facts, "filesystem") == [severe]
        assert said in what(facts, "filesystem")
        assert [one["kind"] for one in facts["devices"]] == ["disk"]
        assert severity(facts, "alignment") == severity(facts, "write_cache") == ["ok"]


ARRAYS = """
export MDADM_NO_UDEV=1
mdadm --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=2 /dev/ubda /dev/ubdb
mkfs.ext4 -q -b 4096 /dev/md0
mount /dev/md0 /run/mnt/raid0
mdadm --create /dev/md5 --run --assume-clean --level=5 --chunk=64 --raid-devices=3 /dev/ubdc /dev/ubdd /dev/ubde
mkfs.xfs -q /dev/md5
mount /dev/md5 /run/mnt/raid5
mdadm --create /dev/md1 --run --assume-clean --level=1 --raid-devices=2 /dev/ubdf /dev/ubdg
mkfs.ext4 -q -b 4096 -E stride=16,stripe_width=32 /dev/md1
mount -o nobarrier /dev/md1 /run/mnt/raid1
"""


def test_arrays_of_md(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm("mdadm"))
    disks = images(tmp_path, 100, 100, 700, 700, 700, 100, 100)
    found = checked(ARRAYS, ["raid0", "raid1", "raid5"], disks, ("raid0", "raid1", "raid456"))
    for level, legs in (("raid0", 2), ("raid1", 2), ("raid5", 3)):
        kinds = [one["kind"] for one in found[level]["devices"]]
        assert kinds == [f"md {level}", *["disk"] * legs]
        assert severity(found[level], "alignment") == ["ok"]
    for level in ("raid0", "raid5"):  # mkfs took the stripes over
        assert found[level]["well"]
        assert severity(found[level], "stripes") == ["ok"]
        assert found[level]["parameters"]["stripe_unit"] == 65536
        assert found[level]["parameters"]["stripe_width"] == 2 * 65536
    assert severity(found["raid0"], "volume.redundancy") == ["note"]
    assert severity(found["raid5"], "volume.redundancy") == []
    assert severity(found["raid1"], "stripes") == []
    assert severity(found["raid1"], "mount.barrier") == ["critical"]


LOGICAL = """
sed -i 's,^devices {,devices { filter=["a#^/dev/mapper/leg#"\\,"a#^/dev/ubdc1#"\\,"r#.*#"],' /run/lvm/lvm.conf
echo "0 $(blockdev --getsz /dev/ubda) delay /dev/ubda 0 0" | dmsetup create leg1
echo "0 $(blockdev --getsz /dev/ubdb) delay /dev/ubdb 0 20" | dmsetup create leg2
pvcreate -q /dev/mapper/leg1 /dev/mapper/leg2 /dev/ubdc1
vgcreate -q vg /dev/mapper/leg1 /dev/mapper/leg2
vgcreate -q odd /dev/ubdc1
lvcreate -q -y -Wn --type raid1 -m1 --nosync -L 100M -n mirror vg
mkfs.ext4 -q -b 4096 /dev/vg/mirror
mount /dev/vg/mirror /run/mnt/mirror
lvcreate -q -y --type thin-pool -i2 -I64k -L 100M -n pool vg
lvcreate -q -y -V 1500M -T vg/pool -n thin
mkfs.xfs -q /dev/vg/thin
mount /dev/vg/thin /run/mnt/thin
lvcreate -q -y -Wn -l 100%FREE -n data odd
mkfs.ext4 -q -b 4096 /dev/odd/data
echo "write through" >/sys/block/ubdc/queue/write_cache
mount -o nobarrier /dev/odd/data /run/mnt/odd
"""


def test_mirrors_thin_pools_partitions_and_caches(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm("thin_check"))
    disks = images(tmp_path, 300, 300, 0)
    partitioned(disks[2], 100, 63)
    modules = ("dm-delay", "raid1", "dm-raid", "dm-thin-pool")
    found = checked(LOGICAL, ["mirror", "thin", "odd"], disks, modules)

    mirror = found["mirror"]  # nothing is amiss but that it is not in /etc/fstab
    assert mirror["well"]
    kinds = [one["kind"] for one in mirror["devices"]]
    assert (kinds[0], sorted(kinds)) == ("lvm", ["disk"] * 2 + ["dm"] * 2 + ["lvm"] * 5)
    assert severity(mirror, "volume.linear") == severity(mirror, "volume.striped") == []

    thin = found["thin"]
    assert severity(thin, "thin.overcommitted") == ["warning"]
    assert severity(thin, "thin.data") == ["note"]
    assert severity(thin, "stripes") == ["ok"]
    assert "1.5 GiB together, the pool is 104.0 MiB" in what(thin, "thin.overcommitted")

    odd = found["odd"]
    assert severity(odd, "alignment") == ["warning"]
    assert "begins at byte 32256" in what(odd, "alignment")
    assert severity(odd, "write_cache") == []  # it has none that a power cut would lose
    assert severity(odd, "mount.barrier") == ["note"]
