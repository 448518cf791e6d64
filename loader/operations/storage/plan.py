"""A file system for a planned volume: mkfs, mount and fstab, with the reason of each number, and the limits of each
kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import lcm
from shlex import quote
from typing import Annotated

import msgspec
from click import Choice, IntRange

from loader import resources, units
from loader.declared import Size
from loader.errors import DisksUnequal, StripesImpossible, UsageProblem, VolumeTooSmall
from loader.operations.storage import commands, rules
from loader.operations.storage.commands import PAGE, STRIPE, XFS_MINIMUM
from loader.operations.storage.rules import XFS_LEAST
from loader.storage.devices import Device

KINDS = ("xfs", "ext4", "ext3", "ext2")
_LOG_UNIT = 256 * 1024  # bytes: the largest of XFS
_LARGEST = dict.fromkeys(("ext3", "ext2"), ((1 << 32) - 1) * PAGE)  # bytes: 32 bits number the blocks
# Bytes in blocks of 4096 bytes: of a file.
_LARGEST_FILE = {"xfs": 8 << 60, "ext4": 16 << 40, "ext3": 2 << 40, "ext2": 2 << 40}


class Step(msgspec.Struct, frozen=True):
    """A command of the shell, and the reason of each of its numbers."""

    command: str
    why: tuple[str, ...]


class Stripes(msgspec.Struct, frozen=True):
    """Of a volume, in bytes; a `count` of 1 is none."""

    unit: int
    count: int
    size: int


def require_room(size: int, database: int, kind: str) -> None:
    """Raises VolumeTooSmall."""
    if size - size // 20 < 2 * database:
        raise VolumeTooSmall(
            reason=f"a volume of {units.size(size)}, of which 5 % are counted for the file system itself, does not "
            f"hold a database of {units.size(database)} twice: a build, a restore or a copy is made beside it"
        )
    if kind == "xfs" and size < XFS_MINIMUM:
        raise VolumeTooSmall(reason=f"xfs needs {units.size(XFS_MINIMUM)}, the volume has {units.size(size)}")
    if size > (most := _LARGEST.get(kind, size)):
        raise UsageProblem(
            reason=f"--fs: {kind} takes at most {units.size(most)} with blocks of {PAGE} bytes, and the volume has "
            f"{units.size(size)}; take ext4 or xfs, or a --volume-size of less than that"
        )
    if database > _LARGEST_FILE[kind]:
        raise VolumeTooSmall(
            reason=f"a file of {kind} can have {units.size(_LARGEST_FILE[kind])}, and data.mdb is one file"
        )


def steps(kind: str, device: str, mount: str, stripes: Stripes) -> Iterator[Step]:
    yield _xfs(device, stripes) if kind == "xfs" else _ext(kind, device, stripes)
    yield Step(f"mkdir -p {quote(mount)}", ("The mount point; not the directory of a database in use.",))
    yield Step(
        f"mount -t {kind} {device} {quote(mount)}",
        (
            "No options: barriers are on by default and must stay on (xfs with nobarrier does not mount "
            "since Linux 4.19), and a weekly fstrim does what discard would do at every write.",
        ),
    )
    yield Step(
        commands.add_to_fstab(device, mount, kind),
        ("The same at the next boot; without the line slapd would find an empty directory.",),
    )


def notes(kind: str) -> Iterator[str]:
    if kind == "ext3":
        yield "ext3 is a legacy format, which the driver of ext4 serves; ext4 has extents, and files above 2 TiB."
    elif kind in rules.KNOWN:
        _, what, why, _ = rules.KNOWN[kind]
        yield f"{kind}: {what}. {why}"


def _xfs(device: str, stripes: Stripes) -> Step:
    options, why = [f"-b size={PAGE}"], [_block()]
    if stripes.count > 1 and stripes.size >= XFS_LEAST:
        log = min(stripes.unit, _LOG_UNIT)
        options += [f"-d su={stripes.unit // 1024}k,sw={stripes.count}", f"-l su={log // 1024}k"]
        why += [
            "su and sw: the stripe size and the number of stripes, so that files begin where a stripe does.",
            f"-l su: writes of the log in whole stripes; at most {units.size(_LOG_UNIT)}. Its size is left to "
            "mkfs.xfs: a database is one file and changes few metadata.",
        ]
    elif stripes.count > 1:
        why.append("mkfs.xfs takes no stripes below 1 GiB.")
    why.append(
        "agcount is left to mkfs.xfs: more allocation groups serve many files that are written at once; LMDB has one "
        "file and one writer."
    )
    return Step(f"mkfs.xfs {' '.join(options)} {device}", tuple(why))


def _ext(kind: str, device: str, stripes: Stripes) -> Step:
    options = [f"-b {PAGE}", "-m 0"]
    why = [_block(), "-m 0: no 5 % kept back for root, as which slapd does not run."]
    if stripes.count > 1:
        stride = stripes.unit // PAGE
        options.append(f"-E stride={stride},stripe_width={stride * stripes.count}")
        why.append(f"stride: {units.size(stripes.unit)} in blocks; stripe_width: {stride} x {stripes.count} stripes.")
    if kind != "ext2":
        why.append("The size of the journal is left to mke2fs: a database is one file and changes few metadata.")
    return Step(f"mkfs.{kind} {' '.join(options)} {device}", tuple(why))


def _block() -> str:
    return f"Blocks of {PAGE} bytes are pages of LMDB: each page is one block."


# --- plan ------------------------------------------------------------------------------------------------------------
#
# `storage plan`: the commands that make a volume for a database, each with the reason of its numbers. Runs nothing.


EXTENT = 4 << 20  # bytes: vgcreate's own default
_SECTOR = 512
_LVM_NAME = re.compile(r"[\w+.][\w+.-]{0,62}", re.ASCII)
# lvm(8), VALID NAMES, and those that lvcreate 2.03 refuses besides.
_RESERVED = re.compile(
    r"^(snapshot|pvmove)|_((c|i|wc)orig|cdata|cmeta|cpool|cvol|imeta|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata"
    r"|vorigin)"
)
_LONGEST_NAME = 124  # characters of both names, with hyphens doubled
_OWN_NAME = len("_rimage_63")  # characters: what LVM appends for the parts of a raid volume
_MOST_STRIPES, _MOST_IMAGES = 128, 64  # of lvcreate: striped, raid10
_RAID_METADATA = 512 * 1024  # bytes on each leg: superblock, and a bitmap of at most 2^21 bits


class Disk(msgspec.Struct, frozen=True):
    """`devices`: itself and those below it; none of a disk on paper. `size` in bytes."""

    path: str
    size: int
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Sizes in bytes. `stripes` and `size`: None for as many disks, and as much of them, as there are.

    `redundant`: each stripe on two disks.
    """

    database: Annotated[int, "--database-size", Size(), "Size of the database."]
    kind: Annotated[str, "--fs", Choice(KINDS), "File system."] = "xfs"
    stripes: Annotated[
        int | None, IntRange(1), "Number of stripes (default: one on each disk, or on each two with --redundant)."
    ] = None
    stripe_size: Annotated[int, Size(), {"show_default": False}, "Stripe size (default: 64K)."] = STRIPE
    extent_size: Annotated[int, Size(), {"show_default": False}, "Extent size (default: 4M)."] = EXTENT
    size: Annotated[int | None, "--volume-size", Size(), "Size of the volume (default: all of the disks)."] = None
    memory: Annotated[int, Size(), {"required": False}, "Memory of the server (default: of this host)."] = field(
        default_factory=resources.memory
    )
    group: Annotated[str, "--vg", "Name of the volume group."] = "ldap"
    volume: Annotated[str, "--lv", "Name of the logical volume."] = "data"
    mount: Annotated[str, "Mount point."] = "/srv/ldap"
    unequal: Annotated[bool, "Do without what larger disks have more than the smallest."] = False
    redundant: Annotated[bool, "Keep everything on two disks: raid10 on 4 disks or more, a mirror (raid1) on 2."] = (
        False
    )

    @property
    def copies(self) -> int:
        """Of everything, each on another disk."""
        return 2 if self.redundant else 1

    @property
    def raid_extents(self) -> int:
        """What LVM keeps on each leg for itself."""
        return -(-_RAID_METADATA // self.extent_size) if self.redundant else 0


class Leg(msgspec.Struct, frozen=True):
    """Extents: of the disk, those that the volume takes, and those that it leaves."""

    disk: str
    extents: int
    used: int
    left: int


class Plan(msgspec.Struct, frozen=True):
    """`size` and sizes of stripes and extents in bytes; `read_ahead` in sectors of 512 bytes."""

    wishes: Wishes
    stripes: int
    legs: tuple[Leg, ...]
    extents: int
    size: int
    read_ahead: int
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def plan(disks: Sequence[Disk], wishes: Wishes) -> Plan:
    """Raises DisksUnequal, StripesImpossible, UsageProblem, VolumeTooSmall."""
    _require_names(disks, wishes)
    stripes = wishes.stripes or max(1, len(disks) // wishes.copies)
    _require_stripes(disks, stripes, wishes)
    legs = _legs(disks, stripes, wishes)
    extents = stripes * (max(leg.used for leg in legs) - wishes.raid_extents)
    size = extents * wishes.extent_size
    require_room(size, wishes.database, wishes.kind)
    sectors = commands.FEW_SECTORS if wishes.database > wishes.memory else rules.USUAL_READAHEAD // _SECTOR
    return Plan(
        wishes=wishes,
        stripes=stripes,
        legs=legs,
        extents=extents,
        size=size,
        read_ahead=sectors,
        steps=tuple(_steps(disks, wishes, legs, extents, sectors)),
        notes=tuple(_notes(disks, wishes, stripes, size)),
    )


def _require_names(disks: Sequence[Disk], wishes: Wishes) -> None:
    for option, name in (("--vg", wishes.group), ("--lv", wishes.volume)):
        if not _LVM_NAME.fullmatch(name) or name in (".", ".."):
            raise UsageProblem(reason=f"{option}: {name!r} is not a name that LVM takes")
    if reserved := _RESERVED.search(wishes.volume):
        raise UsageProblem(reason=f"--lv: {wishes.volume!r} is a name that LVM keeps for itself ({reserved[0]})")
    both = len(f"{wishes.group}{wishes.volume}".replace("-", "--"))
    longest = _LONGEST_NAME - (_OWN_NAME if wishes.redundant else 0)
    if both > longest:
        raise UsageProblem(
            reason=f"--vg and --lv have {both} characters together (LVM doubles hyphens), and {longest} is the most"
        )
    if any(one.devices for one in disks) and os.path.lexists(f"/dev/{wishes.group}"):
        raise UsageProblem(reason=f"--vg: /dev/{wishes.group} exists, so vgcreate refuses the name; choose another one")
    if not wishes.mount.startswith("/") or not wishes.mount.isprintable():
        raise UsageProblem(reason=f"--mount: {wishes.mount!r} is not an absolute path")
    names = [one.devices[0].path if one.devices else one.path for one in disks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageProblem(reason=f"given twice: {', '.join(twice)}")


def _require_stripes(disks: Sequence[Disk], stripes: int, wishes: Wishes) -> None:
    unit, extent = wishes.stripe_size, wishes.extent_size
    for what, size in (("stripe size", unit), ("extent size", extent)):
        if size < PAGE or size & (size - 1):
            raise StripesImpossible(reason=f"the {what} of {size} bytes is not a power of two of {PAGE} bytes or more")
    if unit > extent:
        raise StripesImpossible(
            reason=f"the stripe size of {units.size(unit)} exceeds the extent size of {units.size(extent)}; "
            "lvcreate would reduce it and go on"
        )
    needed, each = stripes * wishes.copies, "two disks" if wishes.redundant else "one disk"
    if needed > len(disks):
        raise StripesImpossible(reason=f"each stripe needs {each}, {needed} in all, and there are {len(disks)}")
    if wishes.redundant and wishes.stripes is None and len(disks) % 2:
        raise StripesImpossible(
            reason=f"--redundant pairs the disks, and {len(disks)} is an odd number; leave one out, or say --stripes "
            f"{stripes} to leave the smallest one in the group"
        )
    most = _MOST_IMAGES if wishes.redundant else _MOST_STRIPES
    if needed > most:
        raise StripesImpossible(reason=f"lvcreate takes {most} disks at most, and {needed} are needed")
    known = {one.path: one for disk in disks for one in disk.devices}
    shared = commands.on_one_disk([one.devices[0].path for one in disks if one.devices], [*known.values()])
    for disk, parts in shared.items():
        raise StripesImpossible(reason=f"{', '.join(parts)} are on one disk, {disk}")


def _legs(disks: Sequence[Disk], stripes: int, wishes: Wishes) -> tuple[Leg, ...]:
    """What the volume takes of each disk: as many extents of each leg, which are the largest disks.

    `stripes`: without their copies.
    """
    start, extent = _start(disks), wishes.extent_size
    counts = {disk.path: max(0, disk.size - start) // extent for disk in disks}
    largest = sorted(disks, key=lambda one: -counts[one.path])[: stripes * wishes.copies]
    on = {disk.path for disk in largest}
    least = min(counts[path] for path in on)
    more = {path: counts[path] - least for path in counts if path in on and counts[path] > least}
    if more and not wishes.unequal:
        lost = (f"{units.size(count * extent)} of {path}" for path, count in more.items())
        raise DisksUnequal(lost=", ".join(lost))
    own = wishes.raid_extents
    each = least if wishes.size is None else -(-wishes.size // (extent * stripes)) + own
    if each > least or each <= own:
        most = units.size(max(0, least - own) * extent * stripes)
        raise VolumeTooSmall(reason=f"the volume can have {most}, {least} extents on each of {len(on)} disks")
    taken = {path: each if path in on else 0 for path in counts}
    return tuple(Leg(path, count, taken[path], count - taken[path]) for path, count in counts.items())


def _start(disks: Sequence[Disk]) -> int:
    """Where the first extent begins: a whole mebibyte, and a whole stripe of what is below."""
    below = (disk.devices[0].min_io for disk in disks if disk.devices)
    return lcm(rules.ALIGNED, *(one for one in below if one))


def _steps(disks: Sequence[Disk], wishes: Wishes, legs: Sequence[Leg], total: int, sectors: int) -> Iterator[Step]:
    names = " ".join(quote(disk.path) for disk in disks)
    extent, start = units.size(wishes.extent_size), _start(disks)
    yield Step(
        f"pvcreate --dataalignment {start // 1024}k {names}",
        (f"The first extent begins at {units.size(start)}, a whole number of stripes, sectors and flash pages.",),
    )
    yield Step(
        f"vgcreate -s {wishes.extent_size // 1024}k {wishes.group} {names}",
        (f"Extents of {extent}: the unit of every size in LVM, and the largest stripe size that it takes.",),
    )
    used = [leg for leg in legs if leg.used]
    stripes, on = len(used) // wishes.copies, [leg.disk for leg in used]
    lvcreate = commands.lvcreate(wishes.group, wishes.volume, total, wishes.stripe_size, on, wishes.copies)
    yield Step(lvcreate, tuple(_of_volume(wishes, used, total)))
    yield Step(
        commands.read_ahead(wishes.group, wishes.volume, sectors),
        tuple(_of_read_ahead(wishes, 1 if stripes == 1 else len(used), sectors)),
    )
    device = f"/dev/{wishes.group}/{wishes.volume}"
    size = total * wishes.extent_size
    yield from steps(wishes.kind, device, wishes.mount, Stripes(wishes.stripe_size, stripes, size))


def _of_volume(wishes: Wishes, used: Sequence[Leg], total: int) -> Iterator[str]:
    extent = units.size(wishes.extent_size)
    count = len(used)
    size = units.size(total * wishes.extent_size)
    yield "-y --wipesignatures y: what an earlier volume left on these extents is wiped; lvcreate would ask, and stop."
    if count == 1:
        yield f"-l {total}: extents of {extent}, {size}. One disk: there is nothing to stripe over."
        return
    if wishes.redundant:
        yield from _of_copies(wishes, used, total)
        return
    yield f"-i {count}: one stripe on each disk, so that all of them serve reads and writes."
    if wishes.size is not None:
        yield (
            f"{units.size(wishes.size)} in extents of {extent} are {-(-wishes.size // wishes.extent_size)}; rounded up "
            f"to a whole number on each of {count} disks: {total}."
        )
    yield f"-l {total}: {count} disks x {used[0].used} extents of {extent} = {size}."
    yield _of_stripe_size(wishes, extent)


def _of_copies(wishes: Wishes, used: Sequence[Leg], total: int) -> Iterator[str]:
    extent, stripes = units.size(wishes.extent_size), len(used) // 2
    pairs = [f"{one.disk} and {two.disk}" for one, two in zip(used[::2], used[1::2], strict=True)]
    yield (
        f"--type {'raid10' if stripes > 1 else 'raid1'} -m 1: the disks of a pair hold the same: "
        f"{'; '.join(pairs)}. One disk of each pair may fail; then replace it (lvconvert --repair). "
        "Name the disks in such an order that the two of a pair are on different controllers or shelves."
    )
    yield (
        "LVM copies the first disk of each pair to the second in the background, while the volume is in use already "
        "(lvs -o name,sync_percent)."
    )
    yield (
        f"-l {total}: {stripes} x {total // stripes} extents of {extent} = "
        f"{units.size(total * wishes.extent_size)}; of each disk LVM takes {wishes.raid_extents} more for itself."
    )
    if stripes > 1:
        yield (
            f"-i {stripes}: one stripe on each pair, so that all disks serve reads. The device states both copies as "
            "stripes; mkfs.xfs remarks that its stripe width is another."
        )
        yield _of_stripe_size(wishes, extent)


def _of_stripe_size(wishes: Wishes, extent: str) -> str:
    return (
        f"-I {wishes.stripe_size // 1024}k: a power of two, at most an extent ({extent}). 64 KiB to 256 KiB keep a "
        f"page of {PAGE} bytes on one disk and spread random reads as well as larger stripes. 4 MiB, the most that LVM "
        "takes by default, helps copies of large files, but LVM derives the readahead from it, and the log of XFS "
        "cannot follow beyond 256 KiB."
    )


def _of_read_ahead(wishes: Wishes, stripes: int, sectors: int) -> Iterator[str]:
    if stripes > 1:
        by_itself = units.size(2 * stripes * wishes.stripe_size)
        yield f"LVM by itself would read ahead twice the stripe width, {by_itself}, for each page that memory lacks."
    told = f"{sectors} sectors are {units.size(sectors * _SECTOR)}"
    database, memory = units.size(wishes.database), units.size(wishes.memory)
    if wishes.database > wishes.memory:
        yield f"{told}: the database ({database}) exceeds memory ({memory}), so pages are read at random."
    else:
        yield f"{told}, as the kernel gives a disk: the database ({database}) fits into memory ({memory})."


def _notes(disks: Sequence[Disk], wishes: Wishes, stripes: int, size: int) -> Iterator[str]:
    if stripes > 1 and not wishes.redundant:
        yield rules.ONE_DISK
    if size < 3 * wishes.database:
        yield f"{size / wishes.database:.1f} times the database: enough for a copy beside it; three times is better."
    if wishes.stripe_size >= rules.LARGE_STRIPE:
        yield (
            f"Stripes of {units.size(wishes.stripe_size)} spread random reads no better than {units.size(STRIPE)}: see "
            "lvcreate."
        )
    yield from notes(wishes.kind)
    for disk in disks:
        for found in rules.alignment(disk.devices[0], None) if disk.devices else ():
            yield f"{found.subject}: {found.what}. {found.why}"
