"""`ditseed storage check` on real volumes: loop devices of this host, and logical volumes in the storage VM."""

from __future__ import annotations

import json
import os
import shlex
import struct
import subprocess
from pathlib import Path
from typing import Any

import lmdb
import pytest

from fixtures import storage_vm
from loader.storage import files
from tests.support import vm
from tests.support.command import COMMAND, ditseed
from tests.support.disks import loop_device, mounting
from tests.support.require import require

Facts = dict[str, Any]


def of_rule(facts: Facts, rule: str) -> list[Facts]:
    return [one for one in facts["findings"] if one["rule"] == rule]


def severity(facts: Facts, rule: str) -> list[str]:
    return [one["severity"] for one in of_rule(facts, rule)]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_database(directory: Path, map_size: int) -> None:
    directory.mkdir(exist_ok=True)
    with lmdb.open(str(directory), map_size=map_size) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"a", bytes(100))


def test_ext4_with_barriers_off_and_small_blocks(tmp_path: Path) -> None:
    """Each command that mends something online is run as it is printed, and the finding is gone."""
    with loop_device(tmp_path / "image", 64) as device:
        run("mkfs.ext4", "-q", "-b", "1024", device)
        with mounting(device, tmp_path / "mount", "-o", "nobarrier,discard") as place:
            make_database(place / "db", 1 << 30)
            done = ditseed("storage", "check", place / "db", "--json")
            assert done.status == 1
            facts = done.facts
            assert facts["well"] is False
            database = facts["database"]
            assert (database["path"], database["map_size"]) == (str(place / "db/data.mdb"), 1 << 30)
            assert [(one["kind"], one["file"]) for one in facts["devices"]] == [("loop", str(tmp_path / "image"))]
            assert facts["findings"][0]["rule"] == "mount.barrier"
            told = {"mount.barrier": "critical", "block_size": "warning", "maxsize": "warning", "fstab.missing": "note"}
            assert {rule: severity(facts, rule) for rule in told} == {rule: [one] for rule, one in told.items()}
            for rule in ("mount.barrier", "mount.discard"):
                subprocess.run(shlex.split(of_rule(facts, rule)[0]["mend"][0]), check=True)
            mended = ditseed("storage", "check", place / "db/data.mdb", "--json").facts
            assert severity(mended, "mount.barrier") == severity(mended, "mount.discard") == []

            shown = ditseed("storage", "check", place / "db")
            assert shown.status == 1
            first, second, third, *_ = shown.out.splitlines()
            assert first.startswith(f"{place}/db/data.mdb  12.0 KiB in use")
            assert second.startswith(f"└─ ext4 on {place}  ")
            assert third.startswith(f"   └─ {device}  loop, 64.0 MiB, shows {tmp_path}/image")
            assert "WARNING  " in shown.out


def test_an_fstab_that_the_next_mount_refuses(tmp_path: Path) -> None:
    """The kernel does refuse it; the line that is printed is one that it mounts."""
    fstab, place = tmp_path / "fstab", tmp_path / "mount"
    with loop_device(tmp_path / "image", 320) as device:
        run("mkfs.xfs", "-q", device)
        fstab.write_text(f"# one\n{device} {place} xfs noatime,nobarrier 0 2\n")
        with mounting(device, place):
            bound = ("unshare", "--mount", "sh", "-c")
            script = 'mount --bind "$0" /etc/fstab && exec "$@"'
            done = ditseed("storage", "check", place, "--json", prefix=(*bound, script, str(fstab)))
            facts = done.facts
            assert done.status == 1
            assert severity(facts, "fstab.removed") == ["critical"]
            assert severity(facts, "block_size") == ["ok"]
            assert severity(facts, "filesystem") == ["ok"]
            assert facts["parameters"]["block"] == 4096
            assert facts["database"] is None
            assert facts["not_looked_at"] == []
        place_again = ("mount", "--fstab", str(fstab), str(place))
        assert run(*place_again).returncode != 0
        line = of_rule(facts, "fstab.removed")[0]["mend"][0].partition("line 2: ")[2]
        assert line == f"{device} {place} xfs noatime 0 2"
        fstab.write_text(line + "\n")
        assert run(*place_again).returncode == 0
        run("umount", str(place))


def test_what_is_no_place_for_a_database(tmp_path: Path) -> None:
    assert ditseed("storage", "check", "/proc/self", "--json").status == 0  # a note: unknown
    assert "storage.no_such_path" in ditseed("storage", "check", tmp_path / "none").err
    odd = ditseed("storage", "check", "/dev/null")
    assert (odd.status, "neither a directory nor a regular file" in odd.err) == (3, True)
    (tmp_path / "data.mdb").write_bytes(b"no database")
    damaged = ditseed("storage", "check", tmp_path, "--json").facts
    assert damaged["database"]["map_size"] is None
    assert "not a 64-bit LMDB database" in damaged["not_looked_at"][-1]["why"]


@pytest.mark.slapd
def test_the_database_of_a_configuration(tmp_path: Path) -> None:
    make_database(tmp_path / "db", 1 << 30)
    config = tmp_path / "slapd.conf"
    head = "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\n"
    database = f'suffix "dc=example,dc=com"\ndirectory {tmp_path}/db\nmaxsize {2 << 30}\nenvflags nosync nordahead\n'
    config.write_text(head + database)
    done = ditseed("storage", "check", "--config", config, "--json")
    assert done.status == 1, done.err
    assert done.facts["path"] == str(tmp_path / "db/data.mdb")
    assert done.facts["configured"]["maxsize"] == 2 << 30
    assert severity(done.facts, "nosync") == ["warning"]
    both = ditseed("storage", "check", tmp_path, "--config", config)
    assert (both.status, "not both" in both.err) == (3, True)
    assert ditseed("storage", "check").status == 3


def images(home: Path, *sizes: int) -> list[Path]:
    """Empty disks of as many megabytes."""
    disks = [home / f"disk{number}" for number in range(len(sizes))]
    for disk, size in zip(disks, sizes, strict=True):
        disk.touch()
        os.truncate(disk, size << 20)
    return disks


def partitioned(disk: Path, megabytes: int, start: int) -> None:
    """One partition to the end of the disk, from that sector on."""
    sectors = (megabytes << 11) - start
    record = struct.pack("<B3sB3sII", 0, bytes(3), 0x8E, bytes(3), start, sectors)
    disk.write_bytes(bytes(446) + record + bytes(48) + b"\x55\xaa")
    os.truncate(disk, megabytes << 20)


@pytest.mark.long
def test_the_vm_leaves_temporary_directories_of_this_host_alone() -> None:
    """Locks of this host are not seen in there: ditseed would take each directory for one that a killed run left."""
    require(storage_vm.missing_storage_vm())
    with files.temporary_directory("kept") as place:
        done = storage_vm.run(f"{COMMAND} storage check /run", [], modules=[])
        assert "/run" in done.out, done
        assert place.is_dir()


ARRAYS = """
sh("cd /run && mkdir -p mnt/raid0 mnt/raid1 mnt/raid5")
sh('''
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
''')
for level in ("raid0", "raid1", "raid5"):
    print(ditseed("check --json /run/mnt/" + level, "found"), open("found").read().replace("\\n", " "), flush=True)
"""


@pytest.mark.long
def test_arrays_of_md(tmp_path: Path) -> None:
    disks, modules = images(tmp_path, 100, 100, 700, 700, 700, 100, 100), ("raid0", "raid1", "raid456")
    printed = vm.run(vm.program(ARRAYS), disks, "mdadm", modules=modules).splitlines()
    found = {}
    for line, (level, legs) in zip(printed, (("raid0", 2), ("raid1", 2), ("raid5", 3)), strict=True):
        status, _, report = line.partition(" ")
        found[level] = facts = json.loads(report)
        assert facts["not_looked_at"] == []
        assert (status == "0") == facts["well"]
        assert [one["kind"] for one in facts["devices"]] == [f"md {level}", *["disk"] * legs]
        assert severity(facts, "alignment") == ["ok"]
    for level in ("raid0", "raid5"):  # mkfs took the stripes over
        assert found[level]["well"]
        assert severity(found[level], "stripes") == ["ok"]
        assert found[level]["parameters"]["stripe_unit"] == 65536
        assert found[level]["parameters"]["stripe_width"] == 2 * 65536
    assert severity(found["raid0"], "volume.redundancy") == ["note"]
    assert severity(found["raid5"], "volume.redundancy") == []
    assert severity(found["raid1"], "stripes") == []
    assert severity(found["raid1"], "mount.barrier") == ["critical"]
