"""The devices themselves: alignment, scheduler, write cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from loader import units
from loader.operations.storage import findings as commands
from loader.operations.storage.filesystem_rules import XFS_MINIMUM
from loader.operations.storage.findings import FEW_SECTORS, PAGE, Configured, Database, Finding, Severity, Situation
from loader.storage.devices import Device
from loader.storage.survey import Facts
from loader.storage.volumes import EXT, PhysicalVolume, Volume, Volumes

ALIGNED = 1 << 20  # bytes: where partitioning tools begin since about 2010
_LEAST = 4096


def hardware_findings(situation: Situation) -> Iterator[Finding]:
    facts = situation.facts
    physical = {one.name: one for one in facts.volumes.physical}
    found = [
        one for device in facts.devices for one in (*alignment(device, physical.get(device.path)), *_scheduler(device))
    ]
    yield from found
    if facts.devices and not any(one.rule == "alignment" for one in found):
        yield Finding(Severity.OK, "alignment", facts.devices[0].path, "aligned down to the disks")
    caching = [one.path for one in facts.devices if one.write_cache == "write back" and not one.on]
    if caching:
        yield Finding(
            Severity.OK,
            "write_cache",
            ", ".join(caching),
            "volatile write cache, which every commit makes the device write: barriers are needed",
        )


def alignment(device: Device, physical: PhysicalVolume | None) -> Iterator[Finding]:
    """`physical`: the physical volume that the device is; None if it is none."""
    sector = max(device.physical_sector, _LEAST)
    if device.alignment_offset > 0:
        what = f"its first sector lies {device.alignment_offset} bytes off"
        yield _misaligned(device.path, what, device)
    elif device.kind == "partition" and device.start % sector:
        yield _misaligned(device.path, f"begins at byte {device.start}", device)
    elif physical is not None:
        yield from _extents(device, physical)
    elif device.kind == "partition" and device.start % max(device.min_io, sector):
        what = f"begins at byte {device.start}, within a stripe of {units.size(device.min_io)}"
        yield _misaligned(device.path, what, device)


def _misaligned(path: str, what: str, device: Device) -> Finding:
    disk = device.on[0] if device.on else device.name
    return Finding(
        Severity.WARNING,
        "alignment",
        path,
        f"misaligned: {what}",
        "A page of the database then lies across two sectors or stripes: one read becomes two, and one write becomes "
        "two that each read before they write. Only a new partition mends it, with the data moved.",
        (
            "# once the partition is removed, with all that is on it:",
            f"echo start={ALIGNED >> 20}MiB | sfdisk --append /dev/{disk}",
        ),
        "sfdisk(8)",
    )


def _extents(device: Device, physical: PhysicalVolume) -> Iterator[Finding]:
    first, unit = device.start + physical.start, max(device.min_io, _LEAST)
    (disk,), group = commands.to_add(1), physical.group
    if first % unit:
        yield Finding(
            Severity.WARNING,
            "alignment",
            device.path,
            f"its first extent begins at byte {first} of the disk, within a stripe of {units.size(unit)}",
            "Every stripe of the logical volume then lies across two of the device. It is set when the physical volume "
            "is made, so its extents have to move to another one (pvmove does this while the volume is in use).",
            (
                f"# with another device of {units.size(device.size)} or more, made like this one:",
                f"pvcreate --dataalignment {unit // 1024}k {disk}",
                f"vgextend {group} {disk}",
                f"pvmove {device.path} {disk}",
                f"vgreduce {group} {device.path}",
            ),
            "pvcreate(8), --dataalignment",
        )


def _scheduler(device: Device) -> Iterator[Finding]:
    """Of disks; the other kinds pass requests on, and have none that counts."""
    if device.kind != "disk" or device.scheduler is None:
        return
    better = _better(device)
    if better is None or better not in device.schedulers:
        yield Finding(Severity.OK, "scheduler", device.path, device.scheduler)
        return
    kind = "an NVMe disk" if _is_nvme(device) else "a rotating disk" if device.rotational else "SSD"
    yield Finding(
        Severity.NOTE,
        "scheduler",
        device.path,
        f"scheduler {device.scheduler} on {kind}",
        "NVMe disks order requests themselves; on rotating disks, unordered requests cost seeks; bfq is made for "
        "interactive use and costs processor time.",
        (
            f"echo {better} > /sys/block/{device.name}/queue/scheduler",
            "# until the next boot; a rule of udev(7) sets it for good: "
            f'KERNEL=="{device.name}", ATTR{{queue/scheduler}}="{better}"',
        ),
        "kernel documentation, block/switching-sched",
    )


def _better(device: Device) -> str | None:
    if _is_nvme(device):
        return None if device.scheduler == "none" else "none"
    if device.rotational:
        return "mq-deadline" if device.scheduler == "none" else None
    return "mq-deadline" if device.scheduler == "bfq" else None


def _is_nvme(device: Device) -> bool:
    return device.name.startswith("nvme")


# --- layout ----------------------------------------------------------------------------------------------------------
#
# Logical volumes: linear or striped, how evenly, with which stripe size; thin pools.


STRIPE = 64 * 1024  # bytes: lvcreate's own default
LARGE_STRIPE = 1024 * 1024
_FULL, _FILLING = 95.0, 80.0  # percent of a thin pool
_LVMTHIN = "lvmthin(7)"
_NO_COPY = {"md raid0", "md linear"}
ONE_DISK = (
    "One failed disk loses the whole file system, whatever is on the others. Take backups, keep a replica, or make the "
    "volume with `ditseed storage plan --redundant`."
)


def layout_findings(situation: Situation) -> Iterator[Finding]:
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
            return _stripe_commands(volume, each, roomy)
    stripes = max(2, len(physical))
    each = -(-volume.extents // stripes)
    least = units.size((each + 1) * volume.extent_size)
    lacking = f"no {stripes} physical volumes of {volume.group} have enough free extents"
    return (
        *commands.more_disks(volume.group, lacking, stripes, least),
        *_stripe_commands(volume, each, commands.to_add(stripes)),
    )


def _stripe_commands(volume: Volume, each: int, legs: Sequence[str]) -> tuple[str, ...]:
    group, name, extents = volume.group, f"{volume.name.strip('[]')}_striped", len(legs) * each
    kind = "xfs" if extents * volume.extent_size >= XFS_MINIMUM else f"ext4 -b {PAGE}"
    return (commands.lvcreate(group, name, extents, STRIPE, legs), f"mkfs.{kind} /dev/{group}/{name}")


def _uneven(volume: Volume, physical: Sequence[PhysicalVolume], pool: Volume | None) -> Iterator[Finding]:
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
        Severity.OK, "volume.striped", _name(volume), f"striped evenly over {len(volume.legs)} physical volumes{said}"
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


# --- reading ---------------------------------------------------------------------------------------------------------
#
# How pages come from the disk and go to it: readahead, memory against the size of the database, nosync.


USUAL = 128 * 1024  # bytes: what the kernel gives a disk
_COSTLY = 512 * 1024
_LARGE = 1024 * 1024


def reading_findings(situation: Situation) -> Iterator[Finding]:
    yield from _memory(situation)
    top = situation.facts.top
    if top is not None and situation.facts.mount.kind != "btrfs":  # btrfs has one of its own
        yield _readahead(situation, top.read_ahead)
    if situation.configured is not None and situation.configured.nosync:
        yield _nosync(situation.configured)


def _memory(situation: Situation) -> Iterator[Finding]:
    if situation.database is None:
        return
    used, memory = units.size(situation.database.used), units.size(situation.memory)
    if not situation.exceeds_memory:
        told = f"{used} in use fit into {memory} of memory"
        yield Finding(Severity.OK, "memory", situation.database.path, told)
        return
    yield Finding(
        Severity.NOTE,
        "memory",
        situation.database.path,
        f"{used} in use, {memory} of memory",
        "The page cache is the database's only cache: what does not fit is read from the disk again, page by page. The "
        "latency of random reads then decides how fast searches and loads are.",
        source="slapd-mdb(5)",
    )


def _readahead(situation: Situation, size: int) -> Finding:
    facts = situation.facts
    subject, told = facts.devices[0].path, f"readahead {units.size(size)}"
    if situation.configured is not None and not situation.configured.reads_ahead:
        return Finding(Severity.OK, "readahead", subject, f"{told}, which slapd does not use (nordahead)")
    severity = _severity(situation, size)
    if severity is Severity.OK:
        return Finding(severity, "readahead", subject, told)
    fits = "" if situation.exceeds_memory else " That does no harm while all of it is in memory."
    return Finding(
        severity,
        "readahead",
        subject,
        told + (", and the database is larger than memory" if situation.exceeds_memory else ""),
        f"A page of {units.size(situation.page)} that slapd needs and memory lacks costs up to {units.size(size)} of "
        "reading, which also drives other pages out of memory: 200 pages read at random from a file of 1.2 GB took "
        f"1210 MB of reading with 24 MiB of readahead, 26 MB with 128 KiB, 3.3 MB with 16 KiB.{fits} The flag "
        "nordahead (envflags in slapd.conf, olcDbEnvFlags in cn=config) does the same for slapd alone, once it "
        "is restarted. Full scans, such as slapcat, want the larger value.",
        _commands(facts),
        "measured: docs/storage.md",
    )


def _nosync(configured: Configured) -> Finding:
    return Finding(
        Severity.WARNING,
        "nosync",
        configured.suffix,
        "slapd does not wait for the disk (nosync)",
        "A crash of the host loses what was not yet written, and can damage the database. nosync is for a load that "
        "can be repeated; switch it off when that is done.",
        ("ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply",),
        "slapd-mdb(5), dbnosync; lmdb.h, MDB_NOSYNC",
    )


def _severity(situation: Situation, size: int) -> Severity:
    if not situation.exceeds_memory:
        return Severity.NOTE if size >= _LARGE else Severity.OK
    if size >= _COSTLY:
        return Severity.WARNING
    return Severity.NOTE if size > USUAL else Severity.OK


def _commands(facts: Facts) -> tuple[str, ...]:
    volume, top = facts.volume, facts.devices[0]
    if volume is not None and volume.path == top.path:
        return (commands.read_ahead(volume.group, volume.name, FEW_SECTORS),)
    return (
        f"blockdev --setra {FEW_SECTORS} {top.path}",
        "# until the next boot; a rule of udev(7) sets it for good: "
        f'KERNEL=="{top.name}", ATTR{{queue/read_ahead_kb}}="{FEW_SECTORS // 2}"',
    )


# --- room ------------------------------------------------------------------------------------------------------------
#
# Space: of the volume against the database, of maxsize against the volume, of what is used against maxsize.


_SOURCE = "the vendors' rule for directories: twice the database at least, three times if possible"
_TIGHT = 0.9


def room_findings(situation: Situation) -> Iterator[Finding]:
    facts, database = situation.facts, situation.database
    if database is None:
        told = f"{units.size(facts.space.free)} of {units.size(facts.space.size)} free"
        yield Finding(Severity.OK, "space", facts.mount.target, told)
        return
    yield _volume(facts, database)
    if situation.map_size:
        yield _map(facts, database, situation.map_size)
        yield from _filling(database, situation.map_size)


def _taken(database: Database) -> int:
    return max(database.allocated, database.used)


def _volume(facts: Facts, database: Database) -> Finding:
    size, taken = facts.space.size, _taken(database)
    told = f"{units.size(size)}, {units.size(facts.space.free)} free; the database takes {units.size(taken)}"
    if size >= 3 * taken and facts.space.free >= taken:
        return Finding(Severity.OK, "space", facts.mount.target, told)
    scarce = size < 2 * taken or facts.space.free < taken
    return Finding(
        Severity.WARNING if scarce else Severity.NOTE,
        "space",
        facts.mount.target,
        told,
        "A build, a restore or a copy is made beside the database and needs as much again; the database itself grows "
        "while a long read, such as a backup, keeps old pages in use.",
        _enlarge(facts, 3 * taken - size if size < 3 * taken else taken - facts.space.free),
        _SOURCE,
    )


def _map(facts: Facts, database: Database, map_size: int) -> Finding:
    reachable = database.allocated + facts.space.free
    told = f"map size {units.size(map_size)}"
    if map_size <= reachable:
        return Finding(Severity.OK, "maxsize", database.path, f"{told} fits on the volume")
    lowered = max(reachable * 9 // 10 >> 20, 1)
    return Finding(
        Severity.WARNING,
        "maxsize",
        database.path,
        f"{told}, but data.mdb can grow to {units.size(reachable)} only",
        "The volume is full before the map is. slapd then fails with an error of the disk instead of MDB_MAP_FULL, and "
        "with writemap (slapadd -q uses it) the process is killed by SIGBUS.",
        (
            *_enlarge(facts, map_size - reachable),
            f"ditseed tune maxsize -H ldapi:/// -Y EXTERNAL --maxsize {lowered}M --apply",
        ),
        "lmdb.h, mdb_env_set_mapsize",
    )


def _filling(database: Database, map_size: int) -> Iterator[Finding]:
    if database.used >= _TIGHT * map_size:
        yield Finding(
            Severity.WARNING,
            "maxsize.used",
            database.path,
            f"{100 * database.used / map_size:.0f} % of the map are in use",
            "At 100 % slapd refuses every write (MDB_MAP_FULL). Address space costs nothing.",
            ("ditseed tune maxsize -H ldapi:/// -Y EXTERNAL --maxsize auto --apply",),
            "slapd-mdb(5), maxsize",
        )


def _enlarge(facts: Facts, lack: int) -> tuple[str, ...]:
    """5 % more than is lacking, for what the file system keeps for itself."""
    volume, mount = facts.volume, facts.mount
    if volume is None or volume.pool is not None or facts.top is None:
        return ()
    if volume.path != facts.top.path:
        return ()
    lack += lack // 20
    if mount.kind in (*EXT, "xfs"):
        return enlarging(facts.volumes, volume, lack, "-r ")
    if mount.kind == "btrfs":
        grow = f"btrfs filesystem resize max {quote(mount.target)}"
        return (*enlarging(facts.volumes, volume, lack), grow)
    return ()
