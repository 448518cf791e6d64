"""`storage plan`: the commands that make a volume for a database, each with the reason of its numbers. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import lcm
from shlex import quote

import msgspec

from loader import units
from loader.errors import DisksUnequal, StripesImpossible, UsageProblem, VolumeTooSmall
from loader.operations.storage import commands, hardware, layout, making, reading
from loader.operations.storage.findings import PAGE
from loader.operations.storage.layout import STRIPE
from loader.operations.storage.making import Step
from loader.storage.devices import Device

EXTENT = 4 << 20  # bytes: vgcreate's own default
_SECTOR = 512
_LVM_NAME = re.compile(r"[\w+.][\w+.-]{0,62}", re.ASCII)


class Disk(msgspec.Struct, frozen=True):
    """`devices`: itself and those below it; none of a disk on paper. `size` in bytes."""

    path: str
    size: int
    devices: tuple[Device, ...] = ()


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes. `stripes` and `size`: None for as many disks, and as much of them, as there are."""

    database: int
    memory: int
    kind: str = "xfs"
    stripes: int | None = None
    stripe_size: int = STRIPE
    extent_size: int = EXTENT
    group: str = "ldap"
    volume: str = "data"
    mount: str = "/srv/ldap"
    size: int | None = None
    unequal: bool = False


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
    stripes = len(disks) if wishes.stripes is None else wishes.stripes
    _require_stripes(disks, stripes, wishes)
    legs = _legs(disks, stripes, wishes)
    extents = sum(leg.used for leg in legs)
    size = extents * wishes.extent_size
    making.require_room(size, wishes.database, wishes.kind)
    sectors = commands.FEW_SECTORS if wishes.database > wishes.memory else reading.USUAL // _SECTOR
    return Plan(
        wishes=wishes,
        stripes=stripes,
        legs=legs,
        extents=extents,
        size=size,
        read_ahead=sectors,
        steps=tuple(_steps(disks, wishes, legs, sectors)),
        notes=tuple(_notes(disks, wishes, size)),
    )


def _require_names(disks: Sequence[Disk], wishes: Wishes) -> None:
    for option, name in (("--vg", wishes.group), ("--lv", wishes.volume)):
        if not _LVM_NAME.fullmatch(name) or name in (".", ".."):
            raise UsageProblem(reason=f"{option}: {name!r} is not a name that LVM takes")
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
            raise StripesImpossible(
                reason=f"the {what} of {size} bytes is not a power of two of {PAGE} bytes or more"
            )
    if unit > extent:
        raise StripesImpossible(
            reason=f"the stripe size of {units.size(unit)} exceeds the extent size of {units.size(extent)}; "
            "lvcreate would reduce it and go on"
        )
    if stripes > len(disks):
        raise StripesImpossible(
            reason=f"{stripes} stripes need as many disks, and there are {len(disks)}"
        )
    known = {one.path: one for disk in disks for one in disk.devices}
    shared = layout.on_one_disk(
        [one.devices[0].path for one in disks if one.devices], [*known.values()]
    )
    for disk, parts in shared.items():
        raise StripesImpossible(reason=f"{', '.join(parts)} are on one disk, {disk}")


def _legs(disks: Sequence[Disk], stripes: int, wishes: Wishes) -> tuple[Leg, ...]:
    """What the volume takes of each disk: as many extents of each leg, which are the largest disks."""
    start, extent = _start(disks), wishes.extent_size
    counts = {disk.path: max(0, disk.size - start) // extent for disk in disks}
    largest = sorted(disks, key=lambda one: -counts[one.path])[:stripes]
    on = {disk.path for disk in largest}
    least = min(counts[path] for path in on)
    more = {path: counts[path] - least for path in counts if path in on and counts[path] > least}
    if more and not wishes.unequal:
        lost = (f"{units.size(count * extent)} of {path}" for path, count in more.items())
        raise DisksUnequal(lost=", ".join(lost))
    each = least if wishes.size is None else -(-wishes.size // (extent * stripes))
    if each > least or not each:
        most = units.size(least * extent * stripes)
        raise VolumeTooSmall(
            reason=f"the volume can have {most}, {least} extents on each of {stripes} disks"
        )
    taken = {path: each if path in on else 0 for path in counts}
    return tuple(
        Leg(path, count, taken[path], count - taken[path]) for path, count in counts.items()
    )


def _start(disks: Sequence[Disk]) -> int:
    """Where the first extent begins: a whole mebibyte, and a whole stripe of what is below."""
    below = (disk.devices[0].min_io for disk in disks if disk.devices)
    return lcm(hardware.ALIGNED, *(one for one in below if one))


def _steps(
    disks: Sequence[Disk], wishes: Wishes, legs: Sequence[Leg], sectors: int
) -> Iterator[Step]:
    names = " ".join(quote(disk.path) for disk in disks)
    extent, start = units.size(wishes.extent_size), _start(disks)
    yield Step(
        f"pvcreate --dataalignment {start // 1024}k {names}",
        (
            f"The first extent begins at {units.size(start)}, a whole number of stripes, sectors and flash pages.",
        ),
    )
    yield Step(
        f"vgcreate -s {wishes.extent_size // 1024}k {wishes.group} {names}",
        (
            f"Extents of {extent}: the unit of every size in LVM, and the largest stripe size that it takes.",
        ),
    )
    used = [leg for leg in legs if leg.used]
    total = sum(leg.used for leg in used)
    lvcreate = commands.lvcreate(
        wishes.group, wishes.volume, total, wishes.stripe_size, [leg.disk for leg in used]
    )
    yield Step(lvcreate, tuple(_of_volume(wishes, used, total)))
    yield Step(
        commands.read_ahead(wishes.group, wishes.volume, sectors),
        tuple(_of_read_ahead(wishes, len(used), sectors)),
    )
    device = f"/dev/{wishes.group}/{wishes.volume}"
    size = total * wishes.extent_size
    yield from making.steps(
        wishes.kind, device, wishes.mount, making.Stripes(wishes.stripe_size, len(used), size)
    )


def _of_volume(wishes: Wishes, used: Sequence[Leg], total: int) -> Iterator[str]:
    extent = units.size(wishes.extent_size)
    count = len(used)
    size = units.size(total * wishes.extent_size)
    if count == 1:
        yield f"-l {total}: extents of {extent}, {size}. One disk: there is nothing to stripe over."
        return
    yield f"-i {count}: one stripe on each disk, so that all of them serve reads and writes."
    if wishes.size is not None:
        yield (
            f"{units.size(wishes.size)} in extents of {extent} are {-(-wishes.size // wishes.extent_size)}; rounded up "
            f"to a whole number on each of {count} disks: {total}."
        )
    yield f"-l {total}: {count} disks x {used[0].used} extents of {extent} = {size}."
    yield (
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


def _notes(disks: Sequence[Disk], wishes: Wishes, size: int) -> Iterator[str]:
    if size < 3 * wishes.database:
        yield f"{size / wishes.database:.1f} times the database: enough for a copy beside it; three times is better."
    if wishes.stripe_size >= layout.LARGE_STRIPE:
        yield (
            f"Stripes of {units.size(wishes.stripe_size)} spread random reads no better than {units.size(STRIPE)}: see "
            "lvcreate."
        )
    yield from making.notes(wishes.kind)
    for disk in disks:
        for found in hardware.alignment(disk.devices[0], None) if disk.devices else ():
            yield f"{found.subject}: {found.what}. {found.why}"
