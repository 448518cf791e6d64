"""`storage plan`: prints the commands that create a volume and a file system for a database, and why; runs none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from math import lcm
from shlex import quote

import msgspec

from loader import units
from loader.errors import DisksUnequal, LoaderError, StripesImpossible, UsageProblem, VolumeTooSmall
from loader.operations.options import FILE_SYSTEMS, STRIPE, VolumeOptions
from loader.operations.storage import check, commands
from loader.operations.storage.check import XFS_LEAST
from loader.operations.storage.commands import PAGE, XFS_MINIMUM
from loader.storage.survey import Device

EXTENT = 4 << 20  # bytes; the default of vgcreate
_SECTOR = 512
_LOG_UNIT = 256 * 1024  # bytes; the largest stripe unit of an XFS log
_LARGEST_FILE = dict(zip(FILE_SYSTEMS, (8 << 60, 16 << 40), strict=True))  # bytes, for a block size of 4096 bytes
# At most 28 characters, so that two names are short enough although LVM doubles hyphens and appends "_rimage_63".
_LVM_NAME = re.compile(r"[\w+.][\w+.-]{0,27}", re.ASCII)
# Names that are reserved (lvm(8), VALID NAMES), and further names that lvcreate 2.03 refuses.
_RESERVED = re.compile(
    r"^(snapshot|pvmove)|_((c|i|wc)orig|cdata|cmeta|cpool|cvol|imeta|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata"
    r"|vorigin)"
)
_MOST_STRIPES, _MOST_IMAGES = 128, 64  # most disks that lvcreate accepts for striped, raid10


class Disk(msgspec.Struct, frozen=True):
    """`size`: bytes. `devices`: the disk's block device and those below it; empty if only the size is given."""

    path: str
    size: int
    devices: tuple[Device, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """A shell command, and the reasons for its numbers."""

    command: str
    why: tuple[str, ...]


class Leg(msgspec.Struct, frozen=True):
    """A disk, with its number of extents. `used`: extents of the volume. `left`: extents that remain free."""

    disk: str
    extents: int
    used: int
    left: int


class Plan(msgspec.Struct, frozen=True):
    """`size`: bytes. `read_ahead`: sectors of 512 bytes."""

    options: VolumeOptions
    stripes: int
    legs: tuple[Leg, ...]
    extents: int
    size: int
    read_ahead: int
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


def plan(disks: Sequence[Disk], options: VolumeOptions) -> Plan:
    """Returns the commands and their reasons. Raises DisksUnequal, StripesImpossible, UsageProblem, VolumeTooSmall."""
    _require_names(disks, options)
    stripes = options.stripes or max(1, len(disks) // options.copies)
    _require_stripes(disks, stripes, options)
    legs = _legs(disks, stripes, options)
    extents = stripes * (max(leg.used for leg in legs) - options.raid_extents)
    size = extents * EXTENT
    _require_room(size, options)
    sectors = commands.FEW_SECTORS if options.database > options.memory else check.USUAL_READAHEAD // _SECTOR
    volume = Plan(options, stripes, legs, extents, size, sectors)
    steps = (*_volume_steps(disks, volume), *_file_system_steps(volume))
    return msgspec.structs.replace(volume, steps=steps, notes=tuple(_notes(disks, volume)))


def _refuse(error: type[LoaderError], *rows: tuple[object, str]) -> None:
    """Raises `error` with the reason of the first row whose condition is true."""
    for applies, reason in rows:
        if applies:
            raise error(reason=reason)


def _require_names(disks: Sequence[Disk], options: VolumeOptions) -> None:
    group, volume, mount = options.group, options.volume, options.mount
    reserved = _RESERVED.search(volume)
    names = [disk.devices[0].path if disk.devices else disk.path for disk in disks]
    twice = ", ".join(sorted({name for name in names if names.count(name) > 1}))
    is_taken = any(disk.devices for disk in disks) and os.path.lexists(f"/dev/{group}")
    wrong = [name for name in (group, volume) if not _LVM_NAME.fullmatch(name) or name in (".", "..")]
    _refuse(
        UsageProblem,
        (wrong, f"--vg, --lv: not a valid name in LVM of 28 characters at most: {', '.join(map(repr, wrong))}"),
        (reserved, f"--lv: {volume!r} is a name that LVM reserves ({reserved and reserved[0]})"),
        (is_taken, f"--vg: /dev/{group} exists, so vgcreate refuses the name; choose another one"),
        (not mount.startswith("/") or not mount.isprintable(), f"--mount: {mount!r} is not an absolute path"),
        (twice, f"given twice: {twice}"),
    )


def _require_stripes(disks: Sequence[Disk], stripes: int, options: VolumeOptions) -> None:
    unit, needed = options.stripe_size, stripes * options.copies
    each, most = ("two disks", _MOST_IMAGES) if options.redundant else ("one disk", _MOST_STRIPES)
    is_odd = options.redundant and options.stripes is None and len(disks) % 2 == 1
    devices = {device.path: device for disk in disks for device in disk.devices}
    legs = [disk.devices[0].path for disk in disks if disk.devices]
    shared = commands.on_one_disk(legs, [*devices.values()])
    _refuse(
        StripesImpossible,
        (unit < PAGE or unit & (unit - 1), f"the stripe size of {unit} bytes is not a power of two from {PAGE} on"),
        (unit > EXTENT, f"the stripe size of {units.size(unit)} exceeds the extent size of {units.size(EXTENT)}"),
        (needed > len(disks), f"each stripe needs {each}, {needed} in all, and there are {len(disks)}"),
        (
            is_odd,
            f"--redundant pairs the disks, and {len(disks)} is an odd number; leave one out, or say --stripes "
            f"{stripes} to leave the smallest one in the group",
        ),
        (needed > most, f"lvcreate takes {most} disks at most, and {needed} are needed"),
        (shared, "; ".join(f"{', '.join(on)} are on one disk, {path}" for path, on in shared.items())),
    )


def _require_room(size: int, options: VolumeOptions) -> None:
    """Raises VolumeTooSmall if the volume cannot hold the database twice or is too small for the file system, or if
    data.mdb would exceed the file system's largest file."""
    kind, database, largest = options.kind, options.database, _LARGEST_FILE[options.kind]
    _refuse(
        VolumeTooSmall,
        (
            size - size // 20 < 2 * database,
            f"a volume of {units.size(size)}, of which 5 % are counted for the file system itself, does not hold a "
            f"database of {units.size(database)} twice: a build, a restore or a copy is made beside it",
        ),
        (kind == "xfs" and size < XFS_MINIMUM, f"xfs needs {units.size(XFS_MINIMUM)}, not {units.size(size)}"),
        (database > largest, f"a file of {kind} can have {units.size(largest)}, and data.mdb is one file"),
    )


def _legs(disks: Sequence[Disk], stripes: int, options: VolumeOptions) -> tuple[Leg, ...]:
    """Distributes the volume over the largest disks, with the same number of extents on each. `stripes` does not count
    copies. Raises DisksUnequal, VolumeTooSmall."""
    counts = {disk.path: max(0, disk.size - _start(disks)) // EXTENT for disk in disks}
    legs = {*sorted(counts, key=lambda path: -counts[path])[: stripes * options.copies]}
    least, metadata = min(counts[path] for path in legs), options.raid_extents
    more = {path: count - least for path, count in counts.items() if path in legs and count > least}
    if more and not options.unequal:
        raise DisksUnequal(lost=", ".join(f"{units.size(count * EXTENT)} of {path}" for path, count in more.items()))
    each = least if options.size is None else -(-options.size // (EXTENT * stripes)) + metadata
    if each > least or each <= metadata:
        most = units.size(max(0, least - metadata) * EXTENT * stripes)
        raise VolumeTooSmall(reason=f"the volume can have {most}, {least} extents on each of {len(legs)} disks")
    used = {path: each if path in legs else 0 for path in counts}
    return tuple(Leg(path, count, used[path], count - used[path]) for path, count in counts.items())


def _start(disks: Sequence[Disk]) -> int:
    """Returns the byte offset of the first extent: a multiple of 1 MiB and of the disks' own stripe units."""
    return lcm(check.ALIGNED, *(disk.devices[0].min_io for disk in disks if disk.devices and disk.devices[0].min_io))


def _volume_steps(disks: Sequence[Disk], plan: Plan) -> Iterator[Step]:
    options, stripes, start, extent = plan.options, plan.stripes, _start(disks), units.size(EXTENT)
    names = " ".join(quote(disk.path) for disk in disks)
    why = f"The first extent begins at {units.size(start)}, a whole number of stripes, sectors and flash pages."
    yield Step(f"pvcreate --dataalignment {start // 1024}k {names}", (why,))
    why = f"Extents of {extent}: all sizes in LVM are multiples of this, and no stripe can be larger."
    yield Step(f"vgcreate -s {EXTENT // 1024}k {options.group} {names}", (why,))

    legs, on, remark = [leg.disk for leg in plan.legs if leg.used], "disk", ""
    reasons = ["-y --wipesignatures y: wipes signatures of an earlier volume; otherwise lvcreate would stop and ask."]
    if options.redundant:
        on, remark = "pair", f"; LVM itself takes {options.raid_extents} more of each disk"
        pairs = "; ".join(f"{one} and {two}" for one, two in zip(legs[::2], legs[1::2], strict=True))
        reasons.append(
            f"--type {'raid10' if stripes > 1 else 'raid1'} -m 1: the disks of a pair have equal contents: {pairs}. "
            "One disk of each pair may fail; then replace it (lvconvert --repair). Order the disks so that the two "
            "disks of a pair are on different controllers or shelves. LVM copies the first to the second in the "
            "background, while the volume is already in use (lvs -o name,sync_percent)."
        )
    sized = "" if options.size is None else f", {units.size(options.size)} rounded up to whole extents on each disk"
    each, size = plan.extents // stripes, units.size(plan.size)
    reasons.append(f"-l {plan.extents}: {stripes} x {each} extents of {extent} = {size}{sized}{remark}.")
    if stripes > 1:
        reasons += [
            f"-i {stripes}: one stripe on each {on}, so that all serve reads.",
            f"-I {options.stripe_size // 1024}k: a power of two, at most an extent ({extent}). 64 KiB to 256 KiB keep "
            f"a page of {PAGE} bytes on one disk and spread random reads; with more, LVM reads ahead more, and the log "
            "of XFS cannot follow.",
        ]
    lvcreate = commands.lvcreate(options.group, options.volume, plan.extents, options.stripe_size, legs, options.copies)
    yield Step(lvcreate, tuple(reasons))

    database, memory = units.size(options.database), units.size(options.memory)
    fits = "exceeds" if options.database > options.memory else "fits into"
    why = (
        f"{plan.read_ahead} sectors are {units.size(plan.read_ahead * _SECTOR)}: the database ({database}) {fits} "
        f"memory ({memory}). LVM by itself would read ahead twice the stripe width."
    )
    yield Step(f"lvchange -r {plan.read_ahead} {options.group}/{options.volume}", (why,))


def _file_system_steps(plan: Plan) -> Iterator[Step]:
    options, kind, mount, stripes = plan.options, plan.options.kind, quote(plan.options.mount), plan.stripes
    device, unit = f"/dev/{options.group}/{options.volume}", options.stripe_size
    why = [f"Blocks of {PAGE} bytes are pages of LMDB: each page is one block."]
    if kind == "xfs":
        mkfs = f"mkfs.xfs -b size={PAGE}"
        why.append("agcount and the size of the log are left to mkfs.xfs: LMDB has one file, one writer, few metadata.")
        if stripes > 1 and plan.size >= XFS_LEAST:  # mkfs.xfs ignores stripes below this size
            mkfs += f" -d su={unit // 1024}k,sw={stripes} -l su={min(unit, _LOG_UNIT) // 1024}k"
            why += [
                "su and sw: the stripe size and the number of stripes, so that files begin where a stripe does. A "
                "raid10 device counts both copies as stripes, so mkfs.xfs prints a warning.",
                f"-l su: the log is written in whole stripes; the maximum is {units.size(_LOG_UNIT)}.",
            ]
    else:
        mkfs = f"mkfs.{kind} -b {PAGE} -m 0"
        why.append("-m 0: reserves no 5 % for root, because slapd does not run as root.")
        if stripes > 1:
            mkfs += f" -E stride={unit // PAGE},stripe_width={unit // PAGE * stripes}"
            why.append(f"stride: {units.size(unit)} in blocks; stripe_width: {unit // PAGE} x {stripes} stripes.")
        why.append("The size of the journal is left to mke2fs: a database is one file and changes few metadata.")
    yield Step(f"{mkfs} {device}", tuple(why))
    yield Step(f"mkdir -p {mount}", ("The mount point; not the directory of a database in use.",))
    barriers = (
        "No options: barriers are on by default and must stay on (xfs with nobarrier does not mount since Linux 4.19), "
        "and a weekly fstrim does what discard would do at every write."
    )
    yield Step(f"mount -t {kind} {device} {mount}", (barriers,))
    boot = "Mounts the volume at the next boot; without this line, slapd would find an empty directory."
    yield Step(commands.add_to_fstab(device, options.mount, kind), (boot,))


def _notes(disks: Sequence[Disk], plan: Plan) -> Iterator[str]:
    options = plan.options
    if plan.stripes > 1 and not options.redundant:
        yield check.ONE_DISK
    if (times := plan.size / options.database) < 3:
        yield f"{times:.1f} times the database: enough for a copy beside it; three times is better."
    if (unit := options.stripe_size) >= check.LARGE_STRIPE:
        yield f"Stripes of {units.size(unit)} spread random reads no better than {units.size(STRIPE)}: see lvcreate."
    for disk in disks:
        for finding in check.alignment(disk.devices[0], None) if disk.devices else ():
            yield f"{finding.subject}: {finding.what}. {finding.why}"
