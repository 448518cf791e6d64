"""What `ditseed storage check` prints is run as it is printed, in the storage VM: the finding is gone, no harm done."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import filter as matching
from pathlib import Path

import pytest

from loader.operations import storage
from tests.integration.test_storage_check import images, partitioned
from tests.support import vm

# mend(PATH, RULE, DISK...) runs what is printed for that finding, with these disks for those that are to be filled in.
MENDING = """
import lmdb, msgspec, re
from pathlib import Path
from msgspec.structs import replace
from loader.operations.storage import check as checking

sh("mkdir -p /run/mnt && touch /run/fstab && mount --bind /run/fstab /etc/fstab")

def findings(path, rule, change=lambda situation: situation):
    situation = change(checking.situation(Path(path)))
    return [one for one in checking.judged(situation) if one.rule == rule and one.severity.rank]

def mend(path, rule, *disks, change=lambda situation: situation, before=""):
    (one,) = findings(path, rule, change)
    lines = [line for line in one.mend if not line.startswith(("ditseed ", "systemctl ", "findmnt "))]
    assert lines, one
    script = "\\n".join(lines)
    for number, disk in enumerate(disks, 1):
        script = re.sub(f"/dev/DISK{number}|DEVICE", disk, script)
    edited = re.fullmatch(r"line ([0-9]+): (.*)", script)
    if edited:
        text = Path("/run/fstab").read_text().splitlines()
        text[int(edited[1]) - 1] = edited[2]
        Path("/run/fstab").write_text("\\n".join(text) + "\\n")
    else:
        sh(before + script)
    print("mended", rule, flush=True)

def mended(path, rule, *disks, **how):
    mend(path, rule, *disks, **how)
    left = findings(path, rule)
    assert not left, left

def database(place, map_size=1 << 20):
    Path(place).mkdir(exist_ok=True)
    with lmdb.open(place, map_size=map_size) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"a", bytes(100))

def facts(**changes):
    return lambda situation: replace(situation, **changes)

{body}
"""
# Rules whose commands the VM does not run, with the reason.
NOT_RUN = {
    "nosync": "`ditseed tune` needs a slapd: tests/integration/test_tune_cmd.py",
    "maxsize.used": "`ditseed tune` needs a slapd: tests/integration/test_tune_cmd.py",
}

FILE_SYSTEMS = r"""
sh('''
mkdir "/run/mnt/a b" /run/mnt/top /run/mnt/sub
mkfs.btrfs -q /dev/ubda
mount /dev/ubda /run/mnt/top
btrfs -q subvolume create /run/mnt/top/@ldap
mount -o subvol=@ldap /dev/ubda /run/mnt/sub
mkfs.ext4 -q -b 4096 -O ^has_journal /dev/ubdb
mount -t ext4 -o nodelalloc,sync,discard /dev/ubdb "/run/mnt/a b"
''')
# The copy on btrfs keeps owner and mode, and LMDB reads it.
database("/run/mnt/sub/db")
sh("chown -R 100:101 /run/mnt/sub/db && chmod 700 /run/mnt/sub/db && chmod 600 /run/mnt/sub/db/data.mdb")
mended("/run/mnt/sub/db", "filesystem")
status = os.stat("/run/mnt/sub/db/data.mdb")
assert (status.st_uid, status.st_gid, status.st_mode) == (100, 101, 0o100600), status
assert sorted(os.listdir("/run/mnt/sub/db")) == ["data.mdb", "lock.mdb"]
with lmdb.open("/run/mnt/sub/db") as environment, environment.begin() as transaction:
    assert transaction.get(b"a") == bytes(100)
sh("mkdir /run/mnt/top/new")
mended("/run/mnt/top/new", "filesystem")

# What is added to /etc/fstab mounts the same at the next boot.
database("/run/mnt/a b/db")
mended("/run/mnt/a b", "fstab.missing")
mended("/run/mnt/sub", "fstab.missing")
print(open("/run/fstab").read())
sh('umount "/run/mnt/a b" /run/mnt/sub')
sh('mount "/run/mnt/a b" && mount /run/mnt/sub')
assert os.path.exists("/run/mnt/a b/db/data.mdb") and os.path.exists("/run/mnt/sub/db/data.mdb")
assert not findings("/run/mnt/a b", "fstab.kind")

Path("/run/fstab").write_text(Path("/run/fstab").read_text().replace("subvol=/@ldap", "subvol=/@other"))
mended("/run/mnt/sub", "fstab.subvolume")
sh("umount /run/mnt/sub && mount /run/mnt/sub")
assert os.path.exists("/run/mnt/sub/db/data.mdb")

mended("/run/mnt/a b", "filesystem.journal")
sh("tune2fs -l /dev/ubdb | grep -q has_journal")
for option, rule in (("sync", "mount.sync"), ("discard", "mount.discard"), ("nobarrier", "mount.barrier")):
    sh(f'mount -o remount,{option} "/run/mnt/a b"')
    mended("/run/mnt/a b", rule)
sh('mount -o remount,ro "/run/mnt/a b"')
mended("/run/mnt/a b", "filesystem.read_only")
for words, rule in (("ext3 defaults", "fstab.kind"), ("ext4 nobarrier", "fstab.barrier")):
    Path("/run/fstab").write_text(f"/dev/ubdb /run/mnt/a\\040b {words}\n")
    mended("/run/mnt/a b", rule)
sh('umount "/run/mnt/a b" && mount "/run/mnt/a b"')

# What needs another device.
mend("/run", "filesystem", "-f /dev/ubdc")
sh("umount '/run/mnt/a b' && mkfs.ext4 -q -F -b 1024 /dev/ubdb && mount '/run/mnt/a b'")
mend("/run/mnt/a b", "block_size", "-q -F /dev/ubdc")
sh("blockdev --setra 8192 /dev/ubdb")
mended("/run/mnt/a b", "readahead")

sh("mkfs.ext4 -q -b 4096 /dev/ubdd1 && mkdir /run/mnt/part && mount /dev/ubdd1 /run/mnt/part")
mend("/run/mnt/part", "alignment", before="umount /run/mnt/part\nsfdisk -q --delete /dev/ubdd 1\n")
assert int(Path("/sys/block/ubdd/ubdd1/start").read_text()) == 2048
"""

VOLUMES = r"""
sh('''
pvcreate -q /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd /dev/ubde
vgcreate -q packed /dev/ubda
lvcreate -q -y -Wn -l 100%FREE -n data packed
mkfs.xfs -q /dev/packed/data
mkdir /run/mnt/full /run/mnt/uneven /run/mnt/thin
mount /dev/packed/data /run/mnt/full
vgcreate -q vg /dev/ubdb /dev/ubdc
lvcreate -q -y -Wn -i 2 -I 512k -l 10 -n uneven vg
lvextend -q -i 1 -l +5 vg/uneven
mkfs.ext4 -q -b 4096 -E stride=4,stripe_width=8 /dev/vg/uneven
mount /dev/vg/uneven /run/mnt/uneven
''')
# A group without free extents.
database("/run/mnt/full/db", 700 << 20)
mended("/run/mnt/full/db", "maxsize", "/dev/ubdd")
before = os.statvfs("/run/mnt/full").f_blocks
def scarce(situation):
    return facts(space=replace(situation.space, free=0))(situation)
mend("/run/mnt/full/db", "space", change=scarce)
assert os.statvfs("/run/mnt/full").f_blocks > before
Path("/run/fstab").write_text("/dev/packed/data /run/mnt/full xfs delaylog\n")
mended("/run/mnt/full", "fstab.removed")
sh("umount /run/mnt/full && mount /run/mnt/full")

mended("/run/mnt/uneven", "stripes")
mended("/run/mnt/uneven", "readahead")
mend("/run/mnt/uneven", "volume.uneven", "/dev/ubde")
sh("lvs vg/uneven_striped && lvremove -q -y vg/uneven_striped")
# What an earlier volume left does not make lvcreate ask.
sh("lvcreate -q -y -Wn -i 2 -I 64k -l 16 -n old vg && mkfs.ext4 -q /dev/vg/old && lvremove -q -y vg/old")
mend("/run/mnt/uneven", "volume.uneven", before="lvs vg >/dev/null\n")
sh("umount /run/mnt/uneven && lvremove -q -y vg/uneven vg/uneven_striped")

# A linear volume, and stripes on partitions of one disk.
sh('''
printf "size=90MiB,type=lvm\nsize=90MiB,type=lvm\n" | sfdisk -q /dev/ubdh
pvcreate -q /dev/ubdh1 /dev/ubdh2
vgextend -q vg /dev/ubdh1 /dev/ubdh2
lvcreate -q -y -Wn -l 10 -n linear vg /dev/ubdb
lvcreate -q -y -Wn -i 2 -I 64k -l 10 -n same vg /dev/ubdh1 /dev/ubdh2
mkdir /run/mnt/linear /run/mnt/same
mkfs.ext4 -q -b 4096 /dev/vg/linear && mount /dev/vg/linear /run/mnt/linear
mkfs.ext4 -q -b 4096 /dev/vg/same && mount /dev/vg/same /run/mnt/same
''')
for name, rule in (("linear", "volume.linear"), ("same", "volume.same_disk")):
    mend("/run/mnt/" + name, rule)
    sh(f"mount /dev/vg/{name}_striped /run/mnt/{name}")
    assert not findings("/run/mnt/" + name, rule)
    sh(f"umount /run/mnt/{name} /run/mnt/{name} && lvremove -q -y vg/{name} vg/{name}_striped")
sh("vgreduce -q vg /dev/ubdh1 /dev/ubdh2")

# A thin pool that fills (in the facts), in a group that has room; then it is enlarged beyond that.
sh('''
lvcreate -q -y --type thin-pool -i 2 -I 64k -l 20 -n pool vg
lvcreate -q -y -V 400M -T vg/pool -n thin
mkfs.ext4 -q -b 4096 /dev/vg/thin
mount /dev/vg/thin /run/mnt/thin
''')
def filled(situation):
    volumes = situation.volumes
    logical = tuple(replace(one, data_percent=90.0, metadata_percent=90.0) for one in volumes.logical)
    return facts(volumes=replace(volumes, logical=logical))(situation)
def size(name):
    return checking.situation(Path("/run/mnt/thin")).volumes.named("vg", name).size
for rule, name in (("thin.data", "pool"), ("thin.metadata", "pool_tmeta")):
    before = size(name)
    mend("/run/mnt/thin", rule, change=filled)
    assert size(name) > before, (rule, before)
mended("/run/mnt/thin", "thin.overcommitted", "/dev/ubde", "/dev/ubdf")
"""

RUNS = {
    "file systems": (FILE_SYSTEMS, (300, 120, 400, 120), ("dm-mod",)),
    "volumes": (VOLUMES, (400, 300, 300, 700, 700, 700, 700, 200), ("dm-mod", "dm-thin-pool", "dm-mirror")),
}


def _printing() -> Iterator[str]:
    """Rules, as patterns, of findings with commands, from the source."""
    for path in Path(storage.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            at = {"Finding": 5, "_finding": 4}.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and at:
                mend = [*node.args[at : at + 1], *(one.value for one in node.keywords if one.arg == "mend")]
                is_passed_on = ast.unparse(node.args[1]) == "rule"  # by _finding, whose calls are looked at
                if mend and ast.unparse(mend[0]) != "()" and not is_passed_on:
                    yield (re.sub(r"\{.*?\}", "*", ast.unparse(node.args[1])).removeprefix("f").strip("'"))


def test_each_rule_with_a_command_has_a_case() -> None:
    """A new rule fails here until the VM runs what it prints, or NOT_RUN says why it does not."""
    printing = {*_printing()}
    cases = {*re.findall(r'"([a-z_.]+)"', FILE_SYSTEMS + VOLUMES)}
    assert len(printing) > 20
    assert not [rule for rule in printing if not matching([*cases, *NOT_RUN], rule)]
    assert printing - cases >= NOT_RUN.keys()


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_what_is_printed_mends_it(tmp_path: Path, name: str) -> None:
    body, sizes, modules = RUNS[name]
    disks = images(tmp_path, *sizes)
    if name == "file systems":
        partitioned(disks[3], sizes[3], 63)
    script = vm.program(MENDING.replace("{body}", body))
    vm.run(script, disks, "btrfs", "sfdisk", "thin_check", modules=modules)
