"""`storage plan`: its arithmetic, its commands, and what it refuses."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from loader.errors import DisksUnequal, LoaderError, StripesImpossible, UsageProblem, VolumeTooSmall
from loader.operations.options import VolumeOptions
from loader.operations.storage import check
from loader.operations.storage.plan import Disk, Plan, plan
from loader.storage.survey import Device

GIB = 1 << 30
DISK = Device("sdb", "/dev/sdb", "disk", 8 * GIB, 0, 0, 512, 512, 512, 0, False, 131072, None, None, ())


def disks(*sizes: int) -> list[Disk]:
    return [Disk(f"/dev/DISK{number}", size * GIB) for number, size in enumerate(sizes, 1)]


def planned(sizes: tuple[int, ...] = (8, 8, 8), **wished: Any) -> Plan:
    return plan(disks(*sizes), VolumeOptions(**{"database": 4 * GIB, "memory": 8 * GIB, **wished}))


def commands(made: Plan) -> list[str]:
    return [step.command for step in made.steps]


def test_the_whole_of_three_disks() -> None:
    made = planned()
    # 8 GiB less the first MiB are 2047 extents of 4 MiB and a rest.
    assert [(leg.extents, leg.used, leg.left) for leg in made.legs] == [(2047, 2047, 0)] * 3
    assert (made.extents, made.size) == (6141, 6141 << 22)
    assert commands(made) == [
        "pvcreate --dataalignment 1024k /dev/DISK1 /dev/DISK2 /dev/DISK3",
        "vgcreate -s 4096k ldap /dev/DISK1 /dev/DISK2 /dev/DISK3",
        "lvcreate -y --wipesignatures y -i 3 -I 64k -l 6141 -n data ldap /dev/DISK1 /dev/DISK2 /dev/DISK3",
        "lvchange -r 256 ldap/data",
        "mkfs.xfs -b size=4096 -d su=64k,sw=3 -l su=64k /dev/ldap/data",
        "mkdir -p /srv/ldap",
        "mount -t xfs /dev/ldap/data /srv/ldap",
        "printf '%s\\n' '/dev/ldap/data /srv/ldap xfs defaults 0 2' >>/etc/fstab",
    ]
    assert made.notes == (check.ONE_DISK,)
    assert all(step.why for step in made.steps)
    assert any("agcount" in reason for step in made.steps for reason in step.why)


def test_a_size_is_rounded_up_to_a_whole_number_of_extents_on_each_leg() -> None:
    made = planned(size=9 * GIB + 1)  # 2304 extents and one byte: 2305, of which 3 do not divide
    assert (made.extents, [leg.used for leg in made.legs]) == (2307, [769] * 3)
    assert [leg.left for leg in made.legs] == [1278] * 3
    (step,) = [step for step in made.steps if step.command.startswith("lvcreate")]
    assert any("rounded up" in reason for reason in step.why)
    assert "three times is better" in made.notes[1]


LVCREATE = "lvcreate -y --wipesignatures y"
XFS = "mkfs.xfs -b size=4096"


@pytest.mark.parametrize(
    ("sizes", "wished", "expected"),
    [
        ((8, 8, 8), {"kind": "ext4"}, "mkfs.ext4 -b 4096 -m 0 -E stride=16,stripe_width=48 /dev/ldap/data"),
        ((8, 8, 8), {"stripe_size": 1 << 20}, f"{XFS} -d su=1024k,sw=3 -l su=256k /dev/ldap/data"),
        ((8, 8, 8), {"size": GIB - 1, "database": 1 << 20}, f"{XFS} -d su=64k,sw=3 -l su=64k /dev/ldap/data"),
        ((8, 8, 8), {"size": GIB // 2, "database": 1 << 20}, f"{XFS} /dev/ldap/data"),
        ((8, 8, 8), {"memory": GIB}, "lvchange -r 32 ldap/data"),
        ((8, 6, 8), {"stripes": 2}, f"{LVCREATE} -i 2 -I 64k -l 4094 -n data ldap /dev/DISK1 /dev/DISK3"),
        ((16,), {}, f"{LVCREATE} -l 4095 -n data ldap /dev/DISK1"),
        ((16,), {}, f"{XFS} /dev/ldap/data"),
        ((8, 10), {"unequal": True}, f"{LVCREATE} -i 2 -I 64k -l 4094 -n data ldap /dev/DISK1 /dev/DISK2"),
        ((16, 16), {"redundant": True}, f"{LVCREATE} --type raid1 -m 1 -l 4094 -n data ldap /dev/DISK1 /dev/DISK2"),
        ((16, 16), {"redundant": True}, f"{XFS} /dev/ldap/data"),
        (
            *((16, 8, 16), {"redundant": True, "stripes": 1}),
            f"{LVCREATE} --type raid1 -m 1 -l 4094 -n data ldap /dev/DISK1 /dev/DISK3",
        ),
    ],
)
def test_what_follows_from_a_wish(sizes: tuple[int, ...], wished: dict[str, Any], expected: str) -> None:
    assert expected in commands(planned(sizes, **wished))


def test_what_is_noted_left_and_quoted() -> None:
    assert planned((16,)).notes == ()
    assert "1.0 MiB" in planned(stripe_size=1 << 20).notes[1]
    assert [leg.left for leg in planned((8, 10), unequal=True).legs] == [0, 512]
    assert [leg.used for leg in planned((8, 6, 8), stripes=2).legs] == [2047, 0, 2047]
    *_, make, mount, fstab = commands(planned(mount="/srv/a b"))
    assert shlex.split(make)[-1] == shlex.split(mount)[-1] == "/srv/a b"
    assert r"/srv/a\040b" in fstab


@pytest.mark.parametrize(
    ("sizes", "wished", "error", "said"),
    [
        ((8, 8), {"stripe_size": 8 << 20}, StripesImpossible, "exceeds the extent size of 4.0 MiB"),
        ((8, 8), {"stripe_size": 3 << 16}, StripesImpossible, "not a power of two"),
        ((8, 8), {"stripe_size": 2048}, StripesImpossible, "not a power of two from 4096 on"),
        ((8, 8), {"stripes": 3}, StripesImpossible, "each stripe needs one disk, 3 in all, and there are 2"),
        ((8, 10), {}, DisksUnequal, "2.0 GiB of /dev/DISK2"),
        ((8, 8), {"database": 8 * GIB}, VolumeTooSmall, "does not hold a database of 8.0 GiB twice"),
        ((8, 8), {"size": 17 * GIB}, VolumeTooSmall, "the volume can have 16.0 GiB, 2047 extents"),
        ((0, 0), {}, VolumeTooSmall, "0 extents"),
        ((8, 8), {"size": 200 << 20, "database": 1 << 20}, VolumeTooSmall, "xfs needs 300.0 MiB"),
        ((40 << 10,), {"kind": "ext4", "database": 17 << 40}, VolumeTooSmall, "a file of ext4"),
        ((8, 8), {"group": "-a"}, UsageProblem, "--vg"),
        ((8, 8), {"volume": "a b"}, UsageProblem, "--lv"),
        ((8, 8), {"volume": "snapshot1"}, UsageProblem, "LVM reserves"),
        ((8, 8), {"volume": "pvmove"}, UsageProblem, "LVM reserves"),
        ((8, 8), {"volume": "a_wcorig"}, UsageProblem, "LVM reserves"),
        ((8, 8), {"volume": "a_rimage_0"}, UsageProblem, "LVM reserves"),
        ((8, 8), {"volume": "d" * 29}, UsageProblem, "28 characters"),
        ((1,) * 129, {}, StripesImpossible, "128 disks at most, and 129 are needed"),
        ((1,) * 66, {"redundant": True}, StripesImpossible, "64 disks at most, and 66 are needed"),
        ((8,), {"redundant": True}, StripesImpossible, "each stripe needs two disks, 2 in all"),
        ((8, 8, 8), {"redundant": True}, StripesImpossible, "3 is an odd number"),
        ((8, 8), {"mount": "srv"}, UsageProblem, "--mount"),
    ],
)
def test_refused(sizes: tuple[int, ...], wished: dict[str, Any], error: type[LoaderError], said: str) -> None:
    with pytest.raises(error, match=said):
        planned(sizes, **wished)


def test_four_disks_that_are_redundant() -> None:
    made = planned((8, 8, 8, 8), redundant=True)
    assert (made.stripes, made.extents, made.size) == (2, 4092, 4092 << 22)
    assert [(leg.extents, leg.used, leg.left) for leg in made.legs] == [(2047, 2047, 0)] * 4
    assert commands(made)[2:5] == [
        "lvcreate -y --wipesignatures y --type raid10 -m 1 -i 2 -I 64k -l 4092 -n data ldap "
        "/dev/DISK1 /dev/DISK2 /dev/DISK3 /dev/DISK4",
        "lvchange -r 256 ldap/data",
        "mkfs.xfs -b size=4096 -d su=64k,sw=2 -l su=64k /dev/ldap/data",
    ]
    assert check.ONE_DISK not in made.notes
    assert "/dev/DISK1 and /dev/DISK2; /dev/DISK3 and /dev/DISK4" in " ".join(made.steps[2].why)
    sized = planned((8, 8, 8, 8), redundant=True, size=GIB, database=1 << 20)
    assert (sized.size, [leg.used for leg in sized.legs]) == (GIB, [129] * 4)


PART = replace(DISK, kind="partition", on=("sdb",), start=1 << 20)


PARTS = [Disk(path, DISK.size, (replace(PART, name=path[5:], path=path), DISK)) for path in ("/dev/sdb1", "/dev/sdb2")]
TWICE = [Disk(path, DISK.size, (DISK,)) for path in ("/dev/sdb", "/dev/disk/by-id/one")]


@pytest.mark.parametrize(
    ("given", "wished", "error", "said"),
    [
        (TWICE[:1], {"group": "null"}, UsageProblem, "/dev/null exists"),
        (PARTS, {}, StripesImpossible, "/dev/sdb1, /dev/sdb2 are on one disk, /dev/sdb"),
        (TWICE, {}, UsageProblem, "given twice: /dev/sdb"),
    ],
)
def test_disks_that_are_refused(given: list[Disk], wished: dict[str, str], error: type[LoaderError], said: str) -> None:
    with pytest.raises(error, match=said):
        plan(given, VolumeOptions(database=GIB, memory=GIB, **wished))


def test_extents_begin_at_a_whole_stripe_of_what_is_below() -> None:
    array = replace(DISK, min_io=3 << 20)
    made = plan([Disk("/dev/sdb", array.size, (array,))], VolumeOptions(database=GIB, memory=GIB))
    assert commands(made)[0] == "pvcreate --dataalignment 3072k /dev/sdb"
    assert made.legs[0].extents == (8 * 1024 - 3) // 4
