"""The rules of `storage check`, on facts that were recorded from real volumes (tests/unit/storage/recorded)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from loader.cli.storage_cmd import _layers
from loader.operations.storage.check import judged
from loader.operations.storage.findings import Configured, Finding, Severity, Situation
from loader.storage.mounts import FstabEntry
from loader.storage.survey import PhysicalVolume, Segment, Volume, Volumes

RECORDED = Path(__file__).parent / "storage/recorded"


def recorded(name: str) -> Situation:
    told: dict[str, Any] = msgspec.json.decode((RECORDED / f"{name}.json").read_bytes())
    return msgspec.convert({**told, "unseen": []}, Situation)


def found(situation: Situation, rule: str) -> Finding:
    (one,) = [one for one in judged(situation) if one.rule == rule]
    return one


def severities(situation: Situation, rule: str) -> list[str]:
    return [one.severity.value for one in judged(situation) if one.rule == rule]


def changing(part: str) -> Callable[..., Situation]:
    """Returns a function that changes a part of a situation."""
    return lambda situation, **changes: replace(situation, **{part: replace(getattr(situation, part), **changes)})


with_mount, with_parameters, with_database = map(changing, ("mount", "parameters", "database"))


def with_physical(situation: Situation, *physical: PhysicalVolume) -> Situation:
    return replace(situation, volumes=Volumes(situation.volumes.logical, physical))


def with_volume(situation: Situation, change: dict[str, Any], name: str) -> Situation:
    volumes = situation.volumes
    logical = tuple(replace(one, **change) if one.name == name else one for one in volumes.logical)
    return replace(situation, volumes=Volumes(logical, volumes.physical))


LINEAR, STRIPED, EXT4, THIN = map(recorded, ("linear", "striped", "ext4", "thin"))


def of_striped(**changes: Any) -> Situation:
    """On devices that are changed below the volume."""
    top, *legs = STRIPED.devices
    return replace(STRIPED, devices=(top, *(replace(one, **changes) for one in legs)))


def encrypted_mirrors() -> Situation:
    top, *legs = STRIPED.devices
    crypts = (replace(one, kind="crypt", on=(f"md{number}",)) for number, one in enumerate(legs))
    below = (replace(top, name=f"md{number}", kind="md raid1", on=()) for number in range(3))
    return replace(STRIPED, devices=(top, *crypts, *below))


def on_partition(start: int, **changes: int) -> Situation:
    disk = STRIPED.devices[1]
    return replace(LINEAR, devices=(replace(disk, kind="partition", start=start, on=("sda",), **changes),))


def begun_at(start: int, **of_devices: int) -> Situation:
    """With the first extents there."""
    physical = (replace(one, start=start) for one in STRIPED.volumes.physical)
    devices = tuple(replace(one, **of_devices) for one in STRIPED.devices)
    return replace(with_physical(STRIPED, *physical), devices=devices)


def taken(used: int) -> Situation:
    """By a database, of the volume."""
    space = replace(LINEAR.space, free=LINEAR.space.size - used)
    return replace(with_database(LINEAR, used=used, allocated=used), space=space)


def raid10(width: int) -> Situation:
    """The device states 256 KiB: each of the two stripes twice."""
    assert isinstance(STRIPED.volume, Volume)
    segment = Segment("raid10", 4, 65536, STRIPED.volume.extents, (), 2)
    top, *others = STRIPED.devices
    situation = with_volume(STRIPED, {"segments": (segment,)}, "str")
    situation = replace(situation, devices=(replace(top, min_io=65536, opt_io=4 * 65536), *others))
    return with_parameters(situation, stripe_unit=65536, stripe_width=width * 65536)


def entry(options: str, kind: str = "xfs") -> FstabEntry:
    return FstabEntry(7, "/dev/vg/a b", "/run/mnt/lin", kind, tuple(options.split(",")), "0 2")


def in_fstab(situation: Situation, options: str, kind: str = "xfs") -> Situation:
    return replace(situation, fstab=entry(options, kind))


MIRRORED = with_volume(LINEAR, {"segments": (Segment("raid1", 2, 0, 100, (), 2),)}, "lin")
ALONE = [replace(one, disks=("/dev/sda",)) for one in LINEAR.volumes.physical]
BTRFS = with_mount(LINEAR, kind="btrfs")
SUBVOLUME = with_mount(LINEAR, kind="btrfs", root="/@ldap", options=("rw", "subvolid=256", "subvol=/@ldap"))
BIND = with_mount(LINEAR, root="/db a", target="/srv/ldap")
UNJOURNALED = with_parameters(EXT4, journal=False)
BARELY = with_mount(EXT4, options=("rw", "nobarrier"))


@pytest.mark.parametrize(
    ("situation", "rule", "expected"),
    [
        (with_physical(LINEAR, *ALONE), "volume.linear", "ok"),
        (with_physical(LINEAR, *LINEAR.volumes.physical[:1]), "volume.linear", "ok"),
        (STRIPED, "volume.linear", ""),
        (STRIPED, "volume.striped", "ok"),
        (STRIPED, "volume.stripe_size", "note"),
        (EXT4, "volume.stripe_size", "ok"),
        (MIRRORED, "volume.linear", ""),
        (MIRRORED, "volume.striped", ""),
        (THIN, "volume.redundancy", ""),  # on one disk
        (STRIPED, "write_cache", "ok"),
        (of_striped(write_cache="write through"), "write_cache", ""),  # a power cut loses nothing
        (of_striped(kind="md raid1"), "volume.redundancy", ""),
        (of_striped(kind="md raid0"), "volume.redundancy", "note"),
        (encrypted_mirrors(), "volume.redundancy", ""),
        (raid10(2), "stripes", "ok"),
        (raid10(4), "stripes", "ok"),
        (raid10(3), "stripes", "warning"),
        (STRIPED, "stripes", "ok"),
        (THIN, "stripes", "ok"),  # chunks of a pool are no stripes
        (LINEAR, "stripes", ""),
        (with_volume(THIN, {"data_percent": 40.0}, "pool"), "thin.data", "note"),
        (with_volume(THIN, {"data_percent": 81.25}, "pool"), "thin.data", "warning"),
        (with_volume(THIN, {"data_percent": 97.0}, "pool"), "thin.data", "critical"),
        (with_volume(THIN, {"data_percent": 97.0}, "pool"), "thin.metadata", "ok"),
        # Readahead counts when the database exceeds memory; ext4 has 384 KiB, linear 128.
        (with_database(STRIPED, used=1 << 40), "readahead", "warning"),
        (with_database(STRIPED, used=1 << 20), "readahead", "note"),
        (with_database(EXT4, used=1 << 40), "readahead", "note"),
        (with_database(EXT4, used=1 << 20), "readahead", "ok"),
        (with_database(LINEAR, used=1 << 40), "readahead", "ok"),
        (with_database(LINEAR, used=1 << 40), "memory", "note"),
        (with_database(LINEAR, used=1 << 20), "memory", "ok"),
        (replace(BTRFS, no_cow=True), "filesystem", "ok"),
        (EXT4, "filesystem.journal", ""),
        (UNJOURNALED, "filesystem.journal", "warning"),
        (with_mount(UNJOURNALED, kind="ext2"), "filesystem.journal", ""),
        (STRIPED, "block_size", "ok"),
        (LINEAR, "fstab.missing", "note"),
        (in_fstab(LINEAR, "defaults", "ext4"), "fstab.kind", "warning"),
        (in_fstab(LINEAR, "defaults", "auto"), "fstab.kind", ""),
        (replace(BIND, fstab=replace(entry("bind", "none"), target="/srv/ldap")), "fstab.kind", ""),
        (in_fstab(SUBVOLUME, "noatime,subvol=@ldap", "btrfs"), "fstab.subvolume", ""),
        (in_fstab(SUBVOLUME, "subvolid=256", "btrfs"), "fstab.subvolume", ""),
        (in_fstab(SUBVOLUME, "noatime", "btrfs"), "fstab.subvolume", "warning"),
        (in_fstab(SUBVOLUME, "subvol=/@other,noatime", "btrfs"), "fstab.subvolume", "warning"),
        (in_fstab(LINEAR, "noatime,nobarrier"), "fstab.barrier", ""),
        (in_fstab(EXT4, "barrier=0", "ext4"), "fstab.barrier", "critical"),
        (with_mount(EXT4, options=("rw", "sync")), "mount.sync", "warning"),
        (with_mount(EXT4, options=("rw", "data=journal")), "mount.data=journal", "warning"),
        (with_mount(EXT4, options=("rw", "data=writeback")), "mount.data=writeback", "warning"),
        (with_mount(EXT4, options=("rw", "sync")), "mount.options", ""),
        (on_partition(63 * 512), "alignment", "warning"),
        (on_partition(1 << 20), "alignment", "ok"),
        (on_partition(1 << 20, alignment_offset=3584), "alignment", "warning"),
        (on_partition(1 << 20, min_io=3 << 20), "alignment", "warning"),
        (begun_at(196608), "alignment", "ok"),
        (begun_at(196608, min_io=1 << 20), "alignment", "warning warning warning"),
        (taken(500 << 20), "space", "ok"),
        (taken(1200 << 20), "space", "note"),
        (taken(1700 << 20), "space", "warning"),
        (LINEAR, "maxsize", "ok"),
        (LINEAR, "maxsize.used", ""),
        (with_database(LINEAR, used=1000 << 20), "maxsize.used", "warning"),
    ],
)
def test_severity(situation: Situation, rule: str, expected: str) -> None:
    assert severities(situation, rule) == expected.split()


# --- logical volumes ---------------------------------------------------------------------------


def test_a_linear_volume_is_told_with_its_shares_and_the_command_that_mends_it() -> None:
    one = found(LINEAR, "volume.linear")
    assert one.severity is Severity.WARNING
    assert "77 % on /dev/ubda, 23 % on /dev/ubdb" in one.what
    # ubda has too few free extents for a third, or a half, of it.
    assert one.mend[0] == ("lvcreate -y --wipesignatures y -i 2 -I 64k -l 768 -n lin_striped vg /dev/ubdb /dev/ubdc")
    segment = Segment("linear", 1, 0, 100, (("/dev/ubda", 100),))
    one = found(with_volume(LINEAR, {"segments": (segment,)}, "lin"), "volume.linear")
    assert one.what == "linear: all of its 100 extents are on /dev/ubda, one of 3 physical volumes of the group"


def test_over_which_disks_a_linear_volume_is_striped() -> None:
    """Not over partitions of one disk; without free extents new disks are asked for."""
    one, *others = every = LINEAR.volumes.physical
    shared = (replace(other, disks=("/dev/sda",)) for other in others)
    roomy = with_physical(LINEAR, replace(one, used=0, disks=("/dev/sdb",)), *shared)
    create = found(roomy, "volume.linear").mend[0]
    assert " -i 2 " in create
    assert len([word for word in create.split() if word in ("/dev/ubdb", "/dev/ubdc")]) == 1
    full = with_physical(LINEAR, *(replace(each, used=each.extents) for each in every))
    comment, extend, create, _ = found(full, "volume.linear").mend
    assert "1.0 GiB or more" in comment
    assert extend == "vgextend vg /dev/DISK1 /dev/DISK2 /dev/DISK3"
    assert create.startswith("lvcreate -y --wipesignatures y -i 3 -I 64k -l 768 -n lin_striped vg /dev/DISK1")


def test_a_volume_of_which_one_disk_loses_all() -> None:
    for situation in (LINEAR, STRIPED, EXT4):
        assert "One failed disk loses the whole file system" in found(situation, "volume.redundancy").why
    top, *legs = STRIPED.devices
    array = replace(top, kind="md raid0", path="/dev/md0")
    alone = replace(STRIPED, devices=(array, *legs), volumes=Volumes())
    assert found(alone, "volume.redundancy").subject == "/dev/md0"


def test_what_a_volume_stands_on_is_shown_as_a_tree() -> None:
    database, file_system, volume, *disks = _layers(STRIPED)
    assert database.startswith("/run/mnt/str/db/data.mdb  ")
    assert file_system.startswith("└─ xfs on /run/mnt/str  ")
    assert volume.startswith(
        "   └─ /dev/mapper/vg-str  lvm, 1.5 GiB, striped, 125 extents on /dev/ubda, 125 extents on /dev/ubdb,"
    )
    assert [disk.partition("  disk, 3.0 GiB")[0].strip() for disk in disks] == [
        *("├─ /dev/ubda", "├─ /dev/ubdb", "└─ /dev/ubdc")
    ]


def test_a_linear_tail_of_a_striped_volume_and_legs_on_one_disk() -> None:
    assert isinstance(STRIPED.volume, Volume)
    tail = Segment("linear", 1, 0, 40, (("/dev/ubdc", 40),))
    one = found(with_volume(STRIPED, {"segments": (*STRIPED.volume.segments, tail)}, "str"), "volume.uneven")
    assert one.severity is Severity.WARNING
    assert one.what.startswith("40 of its 415 extents have fewer than 3 stripes")
    top, *legs = STRIPED.devices
    disk = replace(legs[0], name="sda", path="/dev/sda")
    parts = tuple(replace(one, kind="partition", on=("sda",)) for one in legs)
    told = found(replace(STRIPED, devices=(top, *parts, disk)), "volume.same_disk").what
    assert "/dev/ubda, /dev/ubdb, /dev/ubdc are partitions of one disk, /dev/sda" in told


def test_a_thin_pool_that_promises_more_than_it_has() -> None:
    one = found(THIN, "thin.overcommitted")
    assert one.what == "its thin volumes are 8.0 GiB together, the pool is 400.0 MiB"
    lacking, vgextend, lvextend = one.mend
    assert lacking.startswith("# thick lacks free extents: add disks of ")
    assert (vgextend, lvextend) == ("vgextend thick /dev/DISK1", "lvextend -l +1948 thick/pool")


# --- readahead and memory ----------------------------------------------------------------------


def test_readahead_is_mended_where_it_is_set() -> None:
    situation = with_database(STRIPED, used=1 << 40)
    one = found(situation, "readahead")
    assert one.mend == ("lvchange -r 32 vg/str",)
    assert "nordahead" in one.why
    disk = replace(situation.devices[1], read_ahead=8 << 20)
    one = found(replace(situation, devices=(disk,)), "readahead")
    assert one.mend[0] == "blockdev --setra 32 /dev/ubda"


def test_what_is_configured_counts() -> None:
    situation = with_database(STRIPED, used=1 << 40)
    told = Configured("/etc/ldap/slapd.d", "dc=example,dc=com", 8 << 40, False, ("NoRdAhead",))
    loose = replace(told, nosync=True, env_flags=("nosync",))
    for configured, ahead, nosync in ((told, ["ok"], []), (loose, ["warning"], ["warning"])):
        known = replace(situation, configured=configured)
        assert (severities(known, "readahead"), severities(known, "nosync")) == (ahead, nosync)
        assert "map size 8.0 TiB" in found(known, "maxsize").what


# --- file systems and mounts -------------------------------------------------------------------


KINDS = {
    "critical": ("nfs4", "cifs", "fuse.sshfs", "reiserfs", "tmpfs"),
    "warning": ("ocfs2", "gfs2", "fuse.ntfs", "btrfs", "zfs", "ext2", "overlay"),
    "note": ("bcachefs",),
    "ok": ("ext3", "ext4", "xfs"),
}


@pytest.mark.parametrize(("kind", "severity"), [(kind, severity) for severity in KINDS for kind in KINDS[severity]])
def test_kinds_of_file_systems(kind: str, severity: str) -> None:
    one = found(with_mount(LINEAR, kind=kind), "filesystem")
    assert one.severity.value == severity
    assert one.what.startswith(kind)
    assert severity == "ok" or (one.why and one.source)


def test_what_is_printed() -> None:
    """By rules of the file system and of its mount."""
    assert found(BTRFS, "filesystem").mend[1] == "chattr +C /run/mnt/lin/db"
    empty = replace(replace(BTRFS, path="/srv/a b"), database=None)
    assert found(empty, "filesystem").mend == ("chattr +C '/srv/a b'",)
    for kind, said in (("reiserfs", "removed from Linux"), ("ocfs2", "a cluster file system")):
        assert said in found(with_mount(LINEAR, kind=kind), "filesystem").what
    assert "begins at byte 32256" in found(on_partition(63 * 512), "alignment").what
    root = found(with_mount(UNJOURNALED, target="/"), "filesystem.journal")
    assert root.mend[0] == "tune2fs -O has_journal /dev/mapper/vg-fine"
    one = found(with_mount(EXT4, options=("ro",), target="/a b"), "filesystem.read_only")
    assert one.mend == ("mount -o remount,rw '/a b'",)
    one = found(EXT4, "block_size")
    assert (one.severity, one.what) == (Severity.WARNING, "blocks of 1024 bytes, pages of 4096")
    one = found(EXT4, "stripes")
    mend = ("tune2fs -E stride=64,stripe_width=192 /dev/mapper/vg-fine",)
    assert (one.severity, one.mend) == (Severity.WARNING, mend)
    one = found(with_parameters(STRIPED, stripe_unit=0, stripe_width=0), "stripes")
    assert (one.severity, one.mend[1]) == (Severity.WARNING, "mkfs.xfs -d su=4194304,sw=3 DEVICE")
    assert found(raid10(3), "stripes").mend[1] == "mkfs.xfs -d su=65536,sw=2 DEVICE"
    assert found(BIND, "fstab.missing").mend == ()
    (line,) = found(SUBVOLUME, "fstab.missing").mend
    assert shlex.split(line)[2].endswith(" btrfs subvol=/@ldap 0 0")
    one = found(in_fstab(SUBVOLUME, "subvol=/@other,noatime", "btrfs"), "fstab.subvolume")
    assert one.mend[0].endswith(" btrfs noatime,subvol=/@ldap 0 2")
    # Options that xfs no longer knows.
    one = found(in_fstab(LINEAR, "noatime,nobarrier,ihashsize=8"), "fstab.removed")
    assert one.severity is Severity.CRITICAL
    assert one.mend[0] == r"line 7: /dev/vg/a\040b /run/mnt/lin xfs noatime 0 2"
    assert "4.19" in one.why


def test_barriers_that_are_off() -> None:
    one = found(BARELY, "mount.barrier")
    assert one.severity is Severity.CRITICAL
    assert "/dev/ubda, /dev/ubdb, /dev/ubdc" in one.why
    devices = tuple(replace(one, write_cache="write through") for one in BARELY.devices)
    assert severities(replace(BARELY, devices=devices), "mount.barrier") == ["note"]


def test_a_map_larger_than_the_volume() -> None:
    one = found(EXT4, "maxsize")
    assert one.severity is Severity.WARNING
    # ubda has no free extents, so lvextend alone would fail.
    comment, vgextend, lvextend, lower = one.mend
    assert comment.startswith("# vg lacks free extents: add disks of ")
    assert vgextend == "vgextend vg /dev/DISK1"
    assert lvextend.startswith("lvextend -r -i 3 -l +")
    assert "--maxsize 484M" in lower
    roomy = with_physical(EXT4, *(replace(one, used=0) for one in EXT4.volumes.physical))
    assert found(roomy, "maxsize").mend == (lvextend, lower)


def test_the_worst_comes_first_and_every_fault_is_explained() -> None:
    situation = with_mount(EXT4, options=("rw", "nobarrier", "discard"))
    ranks = [one.severity.rank for one in judged(situation)]
    assert ranks == sorted(ranks, reverse=True)
    for one in judged(situation):
        assert one.severity is Severity.OK or (one.why and one.source), one.rule
        for line in one.mend:
            shlex.split(line)
