"""Logical volumes: linear or striped, how evenly, with which stripe size; thin pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loader import units
from loader.operations.storage import commands
from loader.operations.storage.findings import PAGE, Finding, Severity, Situation
from loader.operations.storage.format import XFS_MINIMUM
from loader.storage.devices import Device
from loader.storage.survey import Facts
from loader.storage.volumes import PhysicalVolume, Volume, Volumes

STRIPE = 64 * 1024  # bytes: lvcreate's own default
LARGE_STRIPE = 1024 * 1024
_FULL, _FILLING = 95.0, 80.0  # percent of a thin pool
_LVMTHIN = "lvmthin(7)"
_NO_COPY = {"md raid0", "md linear"}
ONE_DISK = (
    "One failed disk loses the whole file system, whatever is on the others. Take backups, keep a replica, or make the "
    "volume with `ditseed storage plan --redundant`."
)


def findings(situation: Situation) -> Iterator[Finding]:
    facts = situation.facts
    for array in facts.devices:
        if array.kind in _NO_COPY:
            on = [one for one in facts.devices if one.name in array.on]
            yield from _no_redundancy(array.path, on, facts)
    volume = facts.volume
    if volume is None:
        return
    pool = facts.volumes.named(volume.group, volume.pool) if volume.pool else None
    if pool is not None:
        yield from _thin(pool, facts.volumes)
        yield from _overcommitted(pool, facts.volumes)
    laid_out = _data_of(facts.volumes, pool) if pool else volume
    kinds = {segment.kind for segment in laid_out.segments} if laid_out else set()
    if laid_out is None or not kinds <= {"linear", "striped"}:
        return
    by_path = {one.path: one for one in facts.devices}
    yield from _no_redundancy(_name(laid_out), [*map(by_path.get, laid_out.legs)], facts)
    physical = facts.volumes.of_group(volume.group)
    striped = [segment for segment in laid_out.segments if segment.stripes > 1]
    if not striped:
        yield _linear_pool(pool, physical) if pool else _linear(laid_out, physical)
        return
    yield from _uneven(laid_out, physical, pool)
    yield from _shared_disk(laid_out, facts, pool)
    yield _stripe_size(laid_out)


def _data_of(volumes: Volumes, pool: Volume) -> Volume | None:
    return volumes.named(pool.group, f"{pool.name.strip('[]')}_tdata")


def _no_redundancy(subject: str, legs: Sequence[Device | None], facts: Facts) -> Iterator[Finding]:
    """`legs`: None for one that the kernel does not tell."""
    if len(legs) < 2 or all(leg is not None and _has_copy(leg, facts) for leg in legs):
        return
    yield Finding(
        Severity.NOTE,
        "volume.redundancy",
        subject,
        f"on {len(legs)} devices, none of which has a copy",
        f"{ONE_DISK} Only a RAID controller or a storage array below it would prevent that.",
        source="lvmraid(7)",
    )


def _has_copy(leg: Device, facts: Facts) -> bool:
    """Is it a RAID of md that survives the loss of a disk, or on nothing but such?"""
    if leg.kind.startswith("md ") and leg.kind not in _NO_COPY:
        return True
    below = [one for one in facts.devices if one.name in leg.on]
    return bool(below) and all(_has_copy(one, facts) for one in below)


def _linear(volume: Volume, physical: Sequence[PhysicalVolume]) -> Finding:
    subject = _name(volume)
    if len(on_own_disks(physical)) < 2:
        what = f"linear, in a group of one {'disk' if len(physical) > 1 else 'physical volume'}"
        return Finding(Severity.OK, "volume.linear", subject, what)
    legs = volume.legs
    idle = len(physical) - len(legs)
    if len(legs) == 1:
        what = (
            f"linear: all of its {volume.extents} extents are on {next(iter(legs))}, and {_others(idle)} "
            f"of the group {'does' if idle == 1 else 'do'} nothing for it"
        )
    else:
        what = f"linear over {len(legs)} physical volumes: {_shares(volume)}"
    return Finding(
        Severity.WARNING,
        "volume.linear",
        subject,
        what,
        "LVM fills one physical volume before it begins the next, so the disk that holds the used part of data.mdb "
        "gets every read and write. Striped, the disks share them. An existing volume cannot be made striped in "
        "place without a copy: make another one and move the database to it while slapd is stopped.",
        striping(volume, physical),
        "lvcreate(8); three disks striped gave three times the throughput of one",
    )


def _linear_pool(pool: Volume, physical: Sequence[PhysicalVolume]) -> Finding:
    if len(on_own_disks(physical)) < 2:
        what = "its thin pool is linear, in a group of one disk"
        return Finding(Severity.OK, "volume.linear", _name(pool), what)
    return Finding(
        Severity.WARNING,
        "volume.linear",
        _name(pool),
        "its thin pool is linear, though the group has several physical volumes",
        "A thin volume has no stripes of its own: its pool decides which disks hold its chunks, and a linear pool "
        "fills one disk before it begins the next. The stripes of a pool are chosen when it is made (lvcreate --type "
        "thin-pool -i, -I), so only another pool, or an ordinary striped volume, spreads the database over the disks.",
        source=_LVMTHIN,
    )


def enlarging(
    volumes: Volumes, volume: Volume, lack: int, options: str = "", data: Volume | None = None
) -> tuple[str, ...]:
    """lvextend by at least `lack` bytes, after vgextend where the group lacks free extents.

    `data`: of a thin pool, the hidden volume that has its extents.
    """
    last = (data or volume).segments[-1]
    stripes = 1 if last.kind == "raid1" else last.stripes
    if last.kind.startswith("raid") and last.kind != "raid1":
        stripes = last.data_stripes
    if last.kind == "striped":
        options += f"-i {stripes} "
    each = max(1, -(-lack // (volume.extent_size * stripes)))
    extend = f"lvextend {options}-l +{each * stripes} {_name(volume)}"
    free = [one.free for one in volumes.of_group(volume.group)]
    roomy = sum(one >= each for one in free)
    if roomy >= last.stripes or (last.stripes == 1 and sum(free) >= each):
        return (extend,)
    least = units.size((each + 1) * volume.extent_size)
    lacking = f"{volume.group} lacks free extents"
    return (*commands.more_disks(volume.group, lacking, last.stripes - roomy, least), extend)


def striping(volume: Volume, physical: Sequence[PhysicalVolume]) -> tuple[str, ...]:
    """The lvcreate of a striped volume of the same size: on free extents, else on disks that are still to be had."""
    physical = on_own_disks(physical)
    for stripes in range(len(physical), 1, -1):
        each = -(-volume.extents // stripes)
        roomy = [one.name for one in physical if one.free >= each][:stripes]
        if len(roomy) == stripes:
            return _commands(volume, each, roomy)
    stripes = max(2, len(physical))
    each = -(-volume.extents // stripes)
    least = units.size((each + 1) * volume.extent_size)
    lacking = f"no {stripes} physical volumes of {volume.group} have enough free extents"
    return (
        *commands.more_disks(volume.group, lacking, stripes, least),
        *_commands(volume, each, commands.to_add(stripes)),
    )


def _commands(volume: Volume, each: int, legs: Sequence[str]) -> tuple[str, ...]:
    group, name, extents = volume.group, f"{volume.name.strip('[]')}_striped", len(legs) * each
    kind = "xfs" if extents * volume.extent_size >= XFS_MINIMUM else f"ext4 -b {PAGE}"
    return (
        commands.lvcreate(group, name, extents, STRIPE, legs),
        f"mkfs.{kind} /dev/{group}/{name}",
    )


def _uneven(
    volume: Volume, physical: Sequence[PhysicalVolume], pool: Volume | None
) -> Iterator[Finding]:
    counts = [segment.stripes for segment in volume.segments]
    if len(set(counts)) > 1:
        fewer = sum(one.extents for one in volume.segments if one.stripes < max(counts))
        yield Finding(
            Severity.WARNING,
            "volume.uneven",
            _name(volume),
            f"{fewer} of its {volume.extents} extents have fewer than {max(counts)} stripes: {_shares(volume)}",
            "It was extended when fewer physical volumes had room, so part of the database is on fewer disks.",
            () if pool else striping(volume, physical),
            "lvextend(8): -i concerns the extents that it adds",
        )
        return
    idle = len(physical) - len(volume.legs)
    said = f"; {_others(idle)} of the group not used" if idle > 0 else ""
    yield Finding(
        Severity.OK,
        "volume.striped",
        _name(volume),
        f"striped evenly over {len(volume.legs)} physical volumes{said}",
    )


def _shared_disk(volume: Volume, facts: Facts, pool: Volume | None) -> Iterator[Finding]:
    for disk, legs in on_one_disk([*volume.legs], facts.devices).items():
        yield Finding(
            Severity.WARNING,
            "volume.same_disk",
            _name(volume),
            f"{', '.join(legs)} are partitions of one disk, {disk}",
            "Stripes over partitions of one disk add seeks and no throughput.",
            () if pool else striping(volume, facts.volumes.of_group(volume.group)),
            "lvmraid(7)",
        )


def on_own_disks(physical: Sequence[PhysicalVolume]) -> list[PhysicalVolume]:
    """The roomiest of those that share a disk, and all others."""
    met: set[str] = set()
    kept = []
    for one in sorted(physical, key=lambda each: -each.free):
        if met.isdisjoint(one.disks):
            kept.append(one)
            met.update(one.disks)
    return [one for one in physical if one in kept]


def on_one_disk(legs: Sequence[str], devices: Sequence[Device]) -> dict[str, list[str]]:
    """Disks that more than one of these legs is on."""
    by_path = {one.path: one for one in devices}
    by_name = {one.name: one for one in devices}
    disks: dict[str, list[str]] = {}
    for leg in legs:
        below = by_path.get(leg)
        while below is not None and below.kind == "partition" and below.on:
            below = by_name.get(below.on[0])
        if below is not None:
            disks.setdefault(below.path, []).append(leg)
    return {disk: on for disk, on in disks.items() if len(on) > 1}


def _stripe_size(volume: Volume) -> Finding:
    size = max(segment.stripe_size for segment in volume.segments)
    stripes = max(segment.stripes for segment in volume.segments)
    told = f"stripe size {units.size(size)}, {stripes} stripes"
    if size < LARGE_STRIPE:
        return Finding(Severity.OK, "volume.stripe_size", _name(volume), told)
    return Finding(
        Severity.NOTE,
        "volume.stripe_size",
        _name(volume),
        told,
        f"LVM sets the readahead of a striped volume to twice the stripe width, here "
        f"{units.size(2 * size * stripes)}, and pages of a memory map are read with it. "
        f"{units.size(STRIPE)}, lvcreate's default, spreads random reads as well.",
        source="lvcreate(8), --readahead; measured: docs/storage.md",
    )


def _thin(pool: Volume, volumes: Volumes) -> Iterator[Finding]:
    name = _name(pool)
    for of, percent in (("data", pool.data_percent), ("metadata", pool.metadata_percent)):
        if percent is None:
            continue
        severity = Severity.NOTE if of == "data" else Severity.OK
        if percent >= _FILLING:
            severity = Severity.CRITICAL if percent >= _FULL else Severity.WARNING
        yield Finding(
            severity,
            f"thin.{of}",
            name,
            f"thin pool, {percent:.0f} % of its {of} space used",
            "data.mdb is sparse and grows into the pool. A full pool fails writes that the file system has promised, "
            "whatever df shows.",
            () if severity.rank < Severity.WARNING.rank else _more(of, pool, volumes),
            _LVMTHIN,
        )


def _more(of: str, pool: Volume, volumes: Volumes) -> tuple[str, ...]:
    """A quarter more, so that a full one is at 80 %."""
    if of == "data":
        return enlarging(volumes, pool, pool.size // 4, data=_data_of(volumes, pool))
    metadata = volumes.named(pool.group, f"{pool.name.strip('[]')}_tmeta")
    if metadata is None:
        return ()
    more = max(metadata.size // 4, metadata.extent_size)
    *disks, _ = enlarging(volumes, metadata, more)
    return (*disks, f"lvextend --poolmetadatasize +{-(-more >> 20)}M {_name(pool)}")


def _overcommitted(pool: Volume, volumes: Volumes) -> Iterator[Finding]:
    pool_name = pool.name.strip("[]")
    thin = [one for one in volumes.logical if (one.group, one.pool) == (pool.group, pool_name)]
    promised = sum(one.size for one in thin)
    if promised > pool.size:
        yield Finding(
            Severity.WARNING,
            "thin.overcommitted",
            _name(pool),
            f"its thin volumes are {units.size(promised)} together, the pool is {units.size(pool.size)}",
            "The free space that df shows, and that maxsize is compared with, is not all there. Enlarge the pool, or "
            "let LVM do it (activation/thin_pool_autoextend_threshold in lvm.conf) and watch the group's free extents.",
            enlarging(volumes, pool, promised - pool.size, data=_data_of(volumes, pool)),
            _LVMTHIN,
        )


def _shares(volume: Volume) -> str:
    total = sum(volume.legs.values())
    return ", ".join(f"{100 * count / total:.0f} % on {leg}" for leg, count in volume.legs.items())


def _others(count: int) -> str:
    return "the other physical volume" if count == 1 else f"the other {count} physical volumes"


def _name(volume: Volume) -> str:
    return f"{volume.group}/{volume.name.strip('[]')}"
