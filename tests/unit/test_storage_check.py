"""The rules of `storage check`, on facts that were recorded from real volumes (tests/unit/storage/recorded)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from loader.operations.storage.check import judged
from loader.operations.storage.findings import Configured, Database, Finding, Severity, Situation
from loader.storage.mounts import FstabEntry
from loader.storage.survey import Facts, PhysicalVolume, Segment, Volume, Volumes

RECORDED = Path(__file__).parent / "storage/recorded"


def recorded(name: str) -> Situation:
    told: dict[str, Any] = msgspec.json.decode((RECORDED / f"{name}.json").read_bytes())
    facts = msgspec.convert({**told, "unseen": []}, Facts)
    database = msgspec.convert(told["database"], Database | None)  # type: ignore[arg-type]
    return Situation(facts, told["memory"], database)


def found(situation: Situation, rule: str) -> Finding:
    (one,) = [one for one in judged(situation) if one.rule == rule]
    return one


def severities(situation: Situation, rule: str) -> list[str]:
    return [one.severity.value for one in judged(situation) if one.rule == rule]


def with_facts(situation: Situation, **changes: Any) -> Situation:
    return replace(situation, facts=replace(situation.facts, **changes))


def with_mount(situation: Situation, **changes: Any) -> Situation:
    return with_facts(situation, mount=replace(situation.facts.mount, **changes))


def with_parameters(situation: Situation, **changes: Any) -> Situation:
    assert situation.facts.parameters is not None
    return with_facts(situation, parameters=replace(situation.facts.parameters, **changes))


def with_physical(situation: Situation, *physical: PhysicalVolume) -> Situation:
    return with_facts(situation, volumes=Volumes(situation.facts.volumes.logical, physical))


def with_database(situation: Situation, **changes: Any) -> Situation:
    assert situation.database is not None
    return replace(situation, database=replace(situation.database, **changes))


def with_volume(situation: Situation, change: dict[str, Any], name: str) -> Situation:
    volumes = situation.facts.volumes
    logical = tuple(replace(one, **change) if one.name == name else one for one in volumes.logical)
    return with_facts(situation, volumes=Volumes(logical, volumes.physical))


# --- logical volumes ---------------------------------------------------------------------------


def test_a_linear_volume_is_told_with_its_shares_and_the_command_that_mends_it() -> None:
    one = found(recorded("linear"), "volume.linear")
    assert one.severity is Severity.WARNING
    assert "77 % on /dev/ubda, 23 % on /dev/ubdb" in one.what
    # ubda has too few free extents for a third, or a half, of it.
    assert one.mend[0] == ("lvcreate -y --wipesignatures y -i 2 -I 64k -l 768 -n lin_striped vg /dev/ubdb /dev/ubdc")


def test_one_leg_that_holds_all() -> None:
    segment = Segment("linear", 1, 0, 100, (("/dev/ubda", 100),))
    one = found(with_volume(recorded("linear"), {"segments": (segment,)}, "lin"), "volume.linear")
    assert one.what == "linear: all of its 100 extents are on /dev/ubda, one of 3 physical volumes of the group"


def test_over_which_disks_a_linear_volume_is_striped() -> None:
    """Not over partitions of one disk; without free extents new disks are asked for."""
    situation = recorded("linear")
    one, *others = every = situation.facts.volumes.physical
    shared = (replace(other, disks=("/dev/sda",)) for other in others)
    roomy = with_physical(situation, replace(one, used=0, disks=("/dev/sdb",)), *shared)
    create = found(roomy, "volume.linear").mend[0]
    assert " -i 2 " in create
    assert len([word for word in create.split() if word in ("/dev/ubdb", "/dev/ubdc")]) == 1
    for alone in ((replace(each, disks=("/dev/sda",)) for each in every), every[:1]):
        assert severities(with_physical(situation, *alone), "volume.linear") == ["ok"]
    full = with_physical(situation, *(replace(each, used=each.extents) for each in every))
    comment, extend, create, _ = found(full, "volume.linear").mend
    assert "1.0 GiB or more" in comment
    assert extend == "vgextend vg /dev/DISK1 /dev/DISK2 /dev/DISK3"
    assert create.startswith("lvcreate -y --wipesignatures y -i 3 -I 64k -l 768 -n lin_striped vg /dev/DISK1")


def test_striped_volumes_are_told_from_linear_ones() -> None:
    assert severities(recorded("striped"), "volume.linear") == []
    assert severities(recorded("striped"), "volume.striped") == ["ok"]
    assert severities(recorded("striped"), "volume.stripe_size") == ["note"]
    assert severities(recorded("ext4"), "volume.stripe_size") == ["ok"]


def test_a_volume_of_which_one_disk_loses_all() -> None:
    for name in ("linear", "striped", "ext4"):
        assert "One failed disk loses the whole file system" in (found(recorded(name), "volume.redundancy").why)
    assert severities(recorded("thin"), "volume.redundancy") == []  # on one disk
    situation = recorded("striped")
    top, *legs = situation.facts.devices
    for kind, expected in (("md raid1", []), ("md raid0", ["note"])):
        arrays = (replace(one, kind=kind) for one in legs)
        of_kind = with_facts(situation, devices=(top, *arrays))
        assert severities(of_kind, "volume.redundancy") == expected
    mirrors = (replace(one, kind="crypt", on=(f"md{number}",)) for number, one in enumerate(legs))
    below = (replace(top, name=f"md{number}", kind="md raid1", on=()) for number in range(3))
    encrypted = with_facts(situation, devices=(top, *mirrors, *below))
    assert severities(encrypted, "volume.redundancy") == []
    array = replace(top, kind="md raid0", path="/dev/md0")
    alone = with_facts(situation, devices=(array, *legs), volumes=Volumes())
    assert found(alone, "volume.redundancy").subject == "/dev/md0"


def test_copies_are_no_stripes_of_raid10() -> None:
    """The device states 256 KiB: each of the two stripes twice."""
    situation = recorded("striped")
    assert isinstance(situation.facts.volume, Volume)
    segment = Segment("raid10", 4, 65536, situation.facts.volume.extents, (), 2)
    situation = with_volume(situation, {"segments": (segment,)}, "str")
    top, *others = situation.facts.devices
    situation = with_facts(situation, devices=(replace(top, min_io=65536, opt_io=4 * 65536), *others))
    for width, expected in ((2, "ok"), (4, "ok"), (3, "warning")):
        made = with_parameters(situation, stripe_unit=65536, stripe_width=width * 65536)
        assert severities(made, "stripes") == [expected]
    assert found(made, "stripes").mend[1] == "mkfs.xfs -d su=65536,sw=2 DEVICE"


def test_a_linear_tail_of_a_striped_volume() -> None:
    situation = recorded("striped")
    assert isinstance(situation.facts.volume, Volume)
    tail = Segment("linear", 1, 0, 40, (("/dev/ubdc", 40),))
    situation = with_volume(situation, {"segments": (*situation.facts.volume.segments, tail)}, "str")
    one = found(situation, "volume.uneven")
    assert one.severity is Severity.WARNING
    assert one.what.startswith("40 of its 415 extents have fewer than 3 stripes")


def test_legs_on_one_disk() -> None:
    situation = recorded("striped")
    top, *legs = situation.facts.devices
    disk = replace(legs[0], name="sda", path="/dev/sda")
    parts = tuple(replace(one, kind="partition", on=("sda",)) for one in legs)
    situation = with_facts(situation, devices=(top, *parts, disk))
    assert "/dev/ubda, /dev/ubdb, /dev/ubdc are partitions of one disk, /dev/sda" in (
        found(situation, "volume.same_disk").what
    )


@pytest.mark.parametrize(("percent", "severity"), [(40.0, "note"), (81.25, "warning"), (97.0, "critical")])
def test_a_thin_pool_that_fills(percent: float, severity: str) -> None:
    situation = with_volume(recorded("thin"), {"data_percent": percent}, "pool")
    assert severities(situation, "thin.data") == [severity]
    assert severities(situation, "thin.metadata") == ["ok"]


def test_a_thin_pool_that_promises_more_than_it_has() -> None:
    one = found(recorded("thin"), "thin.overcommitted")
    assert one.what == "its thin volumes are 8.0 GiB together, the pool is 400.0 MiB"
    lacking, vgextend, lvextend = one.mend
    assert lacking.startswith("# thick lacks free extents: add disks of ")
    assert (vgextend, lvextend) == ("vgextend thick /dev/DISK1", "lvextend -l +1948 thick/pool")


# --- readahead and memory ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "used", "expected"),
    [
        ("striped", 1 << 40, "warning"),
        ("striped", 1 << 20, "note"),
        ("ext4", 1 << 40, "note"),  # 384 KiB
        ("ext4", 1 << 20, "ok"),
        ("linear", 1 << 40, "ok"),  # 128 KiB
    ],
)
def test_readahead_counts_when_the_database_exceeds_memory(name: str, used: int, expected: str) -> None:
    situation = with_database(recorded(name), used=used)
    assert severities(situation, "readahead") == [expected]
    assert severities(situation, "memory") == ["note" if used > 1 << 30 else "ok"]


def test_readahead_is_mended_where_it_is_set() -> None:
    situation = with_database(recorded("striped"), used=1 << 40)
    one = found(situation, "readahead")
    assert one.mend == ("lvchange -r 32 vg/str",)
    assert "nordahead" in one.why
    disk = replace(situation.facts.devices[1], read_ahead=8 << 20)
    one = found(with_facts(situation, devices=(disk,)), "readahead")
    assert one.mend[0] == "blockdev --setra 32 /dev/ubda"


def test_what_is_configured_counts() -> None:
    situation = with_database(recorded("striped"), used=1 << 40)
    told = Configured("/etc/ldap/slapd.d", "dc=example,dc=com", 8 << 40, False, ("NoRdAhead",))
    loose = replace(told, nosync=True, env_flags=("nosync",))
    for configured, ahead, nosync in ((told, ["ok"], []), (loose, ["warning"], ["warning"])):
        known = replace(situation, configured=configured)
        assert (severities(known, "readahead"), severities(known, "nosync")) == (ahead, nosync)
        assert "map size 8.0 TiB" in found(known, "maxsize").what


# --- file systems ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("nfs4", "critical"),
        ("cifs", "critical"),
        ("fuse.sshfs", "critical"),
        ("ocfs2", "warning"),
        ("gfs2", "warning"),
        ("fuse.ntfs", "warning"),
        ("btrfs", "warning"),
        ("zfs", "warning"),
        ("reiserfs", "critical"),
        ("ext2", "warning"),
        ("tmpfs", "critical"),
        ("overlay", "warning"),
        ("bcachefs", "note"),
        ("ext3", "ok"),
        ("ext4", "ok"),
        ("xfs", "ok"),
    ],
)
def test_kinds_of_file_systems(kind: str, severity: str) -> None:
    one = found(with_mount(recorded("linear"), kind=kind), "filesystem")
    assert one.severity.value == severity
    assert one.what.startswith(kind)
    assert severity == "ok" or (one.why and one.source)


def test_btrfs_without_copy_on_write_is_fine() -> None:
    situation = with_mount(recorded("linear"), kind="btrfs")
    assert severities(with_facts(situation, no_cow=True), "filesystem") == ["ok"]
    assert found(situation, "filesystem").mend[1] == "chattr +C /run/mnt/lin/db"
    empty = replace(with_facts(situation, path="/srv/a b"), database=None)
    assert found(empty, "filesystem").mend == ("chattr +C '/srv/a b'",)


def test_a_journal_that_is_lacking() -> None:
    assert severities(recorded("ext4"), "filesystem.journal") == []
    without = with_parameters(recorded("ext4"), journal=False)
    assert severities(without, "filesystem.journal") == ["warning"]
    assert severities(with_mount(without, kind="ext2"), "filesystem.journal") == []
    root = found(with_mount(without, target="/"), "filesystem.journal")
    assert root.mend[0] == "tune2fs -O has_journal /dev/mapper/vg-fine"


def test_a_block_smaller_than_a_page() -> None:
    one = found(recorded("ext4"), "block_size")
    assert (one.severity, one.what) == (Severity.WARNING, "blocks of 1024 bytes, pages of 4096")
    assert severities(recorded("striped"), "block_size") == ["ok"]


def test_stripes_of_another_size() -> None:
    one = found(recorded("ext4"), "stripes")
    mend = ("tune2fs -E stride=64,stripe_width=192 /dev/mapper/vg-fine",)
    assert (one.severity, one.mend) == (Severity.WARNING, mend)
    one = found(with_parameters(recorded("striped"), stripe_unit=0, stripe_width=0), "stripes")
    assert (one.severity, one.mend[1]) == (Severity.WARNING, "mkfs.xfs -d su=4194304,sw=3 DEVICE")
    for name, expected in (("striped", ["ok"]), ("thin", ["ok"]), ("linear", [])):  # chunks of a pool are no stripes
        assert severities(recorded(name), "stripes") == expected


# --- mounts ------------------------------------------------------------------------------------


def entry(options: str, kind: str = "xfs") -> FstabEntry:
    return FstabEntry(7, "/dev/vg/a b", "/run/mnt/lin", kind, tuple(options.split(",")), "0 2")


def test_an_option_that_xfs_no_longer_knows() -> None:
    situation = with_facts(recorded("linear"), fstab=entry("noatime,nobarrier,ihashsize=8"))
    one = found(situation, "fstab.removed")
    assert one.severity is Severity.CRITICAL
    assert one.mend[0] == r"line 7: /dev/vg/a\040b /run/mnt/lin xfs noatime 0 2"
    assert "4.19" in one.why
    assert severities(situation, "fstab.barrier") == []


def test_other_kinds_in_fstab() -> None:
    linear = recorded("linear")
    assert severities(with_facts(linear, fstab=entry("defaults", "ext4")), "fstab.kind") == ["warning"]
    assert severities(with_facts(linear, fstab=entry("defaults", "auto")), "fstab.kind") == []
    assert severities(linear, "fstab.missing") == ["note"]


def test_bind_mounts_and_subvolumes_in_fstab() -> None:
    linear = recorded("linear")
    bind = with_mount(linear, root="/db a", target="/srv/ldap")
    assert found(bind, "fstab.missing").mend == ()
    planned = replace(entry("bind", "none"), target="/srv/ldap")
    assert severities(with_facts(bind, fstab=planned), "fstab.kind") == []

    options = ("rw", "subvolid=256", "subvol=/@ldap")
    subvolume = with_mount(linear, kind="btrfs", root="/@ldap", options=options)
    (line,) = found(subvolume, "fstab.missing").mend
    assert shlex.split(line)[2].endswith(" btrfs subvol=/@ldap 0 0")
    for said, expected in (
        ("noatime,subvol=@ldap", []),
        ("subvolid=256", []),
        ("noatime", ["warning"]),
        ("subvol=/@other,noatime", ["warning"]),
    ):
        situation = with_facts(subvolume, fstab=entry(said, "btrfs"))
        assert severities(situation, "fstab.subvolume") == expected
        if expected:
            mend = found(situation, "fstab.subvolume").mend[0]
            assert mend.endswith(" btrfs noatime,subvol=/@ldap 0 2")


def test_barriers_that_are_off() -> None:
    ext4 = with_mount(recorded("ext4"), options=("rw", "nobarrier"))
    one = found(ext4, "mount.barrier")
    assert one.severity is Severity.CRITICAL
    assert "/dev/ubda, /dev/ubdb, /dev/ubdc" in one.why
    devices = tuple(replace(one, write_cache="write through") for one in ext4.facts.devices)
    protected = with_facts(ext4, devices=devices)
    assert severities(protected, "mount.barrier") == ["note"]
    planned = with_facts(recorded("ext4"), fstab=entry("barrier=0", "ext4"))
    assert severities(planned, "fstab.barrier") == ["critical"]


@pytest.mark.parametrize("option", ["sync", "data=journal", "data=writeback"])
def test_harmful_options(option: str) -> None:
    situation = with_mount(recorded("ext4"), options=("rw", option))
    assert severities(situation, f"mount.{option}") == ["warning"]
    assert severities(situation, "mount.options") == []


def test_a_mount_that_is_read_only() -> None:
    situation = with_mount(recorded("ext4"), options=("ro",), target="/a b")
    assert found(situation, "filesystem.read_only").mend == ("mount -o remount,rw '/a b'",)


# --- devices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "changes", "expected"),
    [
        (63 * 512, {}, ["warning"]),
        (1 << 20, {}, ["ok"]),
        (1 << 20, {"alignment_offset": 3584}, ["warning"]),
        (1 << 20, {"min_io": 3 << 20}, ["warning"]),
    ],
)
def test_alignment(start: int, changes: dict[str, int], expected: list[str]) -> None:
    disk = recorded("striped").facts.devices[1]
    part = replace(disk, kind="partition", start=start, on=("sda",), **changes)
    assert severities(with_facts(recorded("linear"), devices=(part,)), "alignment") == expected


def test_the_first_extent_of_a_physical_volume() -> None:
    situation = recorded("striped")
    physical = (replace(one, start=196608) for one in situation.facts.volumes.physical)
    situation = with_physical(situation, *physical)
    assert severities(situation, "alignment") == ["ok"]
    coarse = [replace(one, min_io=1 << 20) for one in situation.facts.devices]
    assert severities(with_facts(situation, devices=tuple(coarse)), "alignment") == ["warning"] * 3


# --- space -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("used", "expected"), [(500 << 20, "ok"), (1200 << 20, "note"), (1700 << 20, "warning")])
def test_twice_or_three_times_the_database(used: int, expected: str) -> None:
    situation = with_database(recorded("linear"), used=used, allocated=used)
    space = replace(situation.facts.space, free=situation.facts.space.size - used)
    assert severities(with_facts(situation, space=space), "space") == [expected]


def test_a_map_larger_than_the_volume_or_nearly_full() -> None:
    situation = recorded("ext4")
    one = found(situation, "maxsize")
    assert one.severity is Severity.WARNING
    # ubda has no free extents, so lvextend alone would fail.
    comment, vgextend, lvextend, lower = one.mend
    assert comment.startswith("# vg lacks free extents: add disks of ")
    assert vgextend == "vgextend vg /dev/DISK1"
    assert lvextend.startswith("lvextend -r -i 3 -l +")
    assert "--maxsize 484M" in lower
    roomy = with_physical(situation, *(replace(one, used=0) for one in situation.facts.volumes.physical))
    assert found(roomy, "maxsize").mend == (lvextend, lower)
    linear = recorded("linear")
    assert (severities(linear, "maxsize"), severities(linear, "maxsize.used")) == (["ok"], [])
    assert severities(with_database(linear, used=1000 << 20), "maxsize.used") == ["warning"]


def test_the_worst_comes_first_and_every_fault_is_explained() -> None:
    situation = with_mount(recorded("ext4"), options=("rw", "nobarrier", "discard"))
    ranks = [one.severity.rank for one in judged(situation)]
    assert ranks == sorted(ranks, reverse=True)
    for one in judged(situation):
        assert one.severity is Severity.OK or (one.why and one.source), one.rule
        for line in one.mend:
            shlex.split(line)
