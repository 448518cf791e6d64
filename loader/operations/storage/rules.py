"""The rules of `storage check`: functions of a Situation, which look at nothing else.

Findings of one severity are printed in the order of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from loader import units
from loader.operations.storage import commands
from loader.operations.storage.commands import FEW_SECTORS, STRIPE, enlarging, name_of
from loader.operations.storage.findings import Database, Finding, Severity, Situation
from loader.storage.devices import Device
from loader.storage.mounts import FstabEntry, Mount
from loader.storage.survey import Facts
from loader.storage.volumes import EXT, PhysicalVolume, Volume, Volumes

Findings = Iterator[Finding]
RULES: list[Callable[[Situation], Findings]] = []

ONE_DISK = (
    "One failed disk loses the whole file system, whatever is on the others. Take backups, keep a replica, or make the "
    "volume with `ditseed storage plan --redundant`."
)
LARGE_STRIPE = 1024 * 1024
ALIGNED = 1 << 20  # bytes: where partitioning tools begin since about 2010
XFS_LEAST = 1 << 30  # bytes: below, mkfs.xfs takes no stripes over from the device
USUAL_READAHEAD = 128 * 1024  # bytes: what the kernel gives a disk
_COSTLY_READAHEAD, _LARGE_READAHEAD = 512 * 1024, 1024 * 1024
_SECTOR = 4096  # bytes: disks that state less may have such sectors
_FULL, _FILLING = 95.0, 80.0  # percent of a thin pool
_TIGHT = 0.9  # of the map
_LMDB = "lmdb.h, Caveats"
_LVMTHIN = "lvmthin(7)"
_STRIPES = "mkfs.xfs(8), -d su and sw; ext4(5), stripe"
_MEASURED = "measured: docs/storage.md"
_CHANGE_MAXSIZE = "ditseed tune maxsize -H ldapi:/// -Y EXTERNAL --maxsize"


def _rule(function: Callable[[Situation], Findings]) -> Callable[[Situation], Findings]:
    RULES.append(function)
    return function


def _ok(rule: str, subject: str, what: str) -> Finding:
    return Finding(Severity.OK, rule, subject, what)


# --- kinds of file systems ----------------------------------------------------------------------

_NETWORK = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs", "ncpfs"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.cifs", "virtiofs"),
)
_FIT = {"xfs", "ext4", "ext3"}
# Kind -> severity, what, why, source.
KNOWN = {
    "ext2": (
        Severity.WARNING,
        "no journal",
        "After a crash the whole file system must be checked before slapd can start.",
        "ext4(5)",
    ),
    "reiserfs": (
        Severity.CRITICAL,
        "removed from Linux",
        "Declared obsolete in Linux 6.6 and removed in 6.13: with a newer kernel the database cannot be mounted.",
        "Linux 6.13",
    ),
    "jfs": (
        Severity.WARNING,
        "hardly maintained",
        "Its removal from Linux has been proposed; distributions no longer enable it everywhere.",
        "Linux kernel mailing list, January 2023",
    ),
    **dict.fromkeys(("tmpfs", "ramfs"), (Severity.CRITICAL, "in memory", "Gone at the next boot.", "tmpfs(5)")),
    "overlay": (
        Severity.WARNING,
        "the layer of a container",
        "It is removed with the container, and the first write to a file of a lower layer copies all of it. Give the "
        "database a volume of its own.",
        "kernel documentation, overlayfs",
    ),
    **{
        kind: (
            Severity.WARNING,
            "log-structured below LMDB's own copy-on-write",
            "LMDB never overwrites a page in use, nor does this file system: both copy, its cleaner copies once more, "
            "and data.mdb falls into fragments.",
            f"kernel documentation, filesystems/{kind}",
        )
        for kind in ("f2fs", "nilfs2")
    },
    "zfs": (
        Severity.WARNING,
        "copy-on-write below LMDB's own",
        "LMDB never overwrites a page in use, so both copy: each page of 4 KiB rewrites a whole record.",
        "zfsprops(7), recordsize",
    ),
    **dict.fromkeys(
        _NETWORK,
        (
            Severity.CRITICAL,
            "a network file system",
            "LMDB relies on a shared memory map and on locks that network file systems do not provide, even among "
            "processes of one host: the database may be damaged. Use a file system on a block device.",
            _LMDB,
        ),
    ),
    **dict.fromkeys(
        ("ocfs2", "gfs2"),
        (
            Severity.WARNING,
            "a cluster file system",
            "Only one node may have the database open, slapd and slapd's tools included: the memory map and lock.mdb "
            "are not shared between nodes. For a single node, a local file system is simpler and faster.",
            _LMDB,
        ),
    ),
}


@_rule
def _kind(situation: Situation) -> Findings:
    kind, where = situation.facts.mount.kind, situation.facts.mount.target
    if kind == "btrfs":
        yield _btrfs(situation)
    elif kind in KNOWN:
        severity, what, why, source = KNOWN[kind]
        yield Finding(severity, "filesystem", where, f"{kind}: {what}", why, ("mkfs.xfs DEVICE",), source)
    elif kind in _FIT:
        yield _ok("filesystem", where, kind)
    else:
        is_fuse = kind.startswith("fuse")
        yield Finding(
            Severity.WARNING if is_fuse else Severity.NOTE,
            "filesystem",
            where,
            f"{kind}: " + ("a file system in user space" if is_fuse else "not one that ditseed knows"),
            "Whether its shared memory maps, locks and fsync are those that LMDB needs depends on what is behind it.",
            (),
            _LMDB,
        )


def _btrfs(situation: Situation) -> Finding:
    where = situation.facts.mount.target
    if situation.facts.no_cow or "nodatacow" in situation.facts.mount.options:
        return _ok("filesystem", where, "btrfs, without copy-on-write for this path (and so without its checksums)")
    return Finding(
        Severity.WARNING,
        "filesystem",
        where,
        "btrfs: copy-on-write below LMDB's own",
        "LMDB never overwrites a page in use, so both copy, and data.mdb falls into fragments. The attribute C turns "
        "it off (and the checksums of btrfs with it), for files that are created after it was set on their directory. "
        "A database that exists is therefore copied, while slapd is stopped, by the account that it belongs to.",
        _without_cow(situation),
        "btrfs(5), chattr(1)",
    )


def _without_cow(situation: Situation) -> tuple[str, ...]:
    """As the owner, who is also the owner of the copy: in a directory of another account root writes to no name."""
    file = situation.facts.path
    if situation.database is None:
        return (f"chattr +C {quote(file)}",)
    data, copy, directory = quote(file), quote(f"{file}.new"), quote(str(Path(file).parent))
    owner = f'setpriv --reuid "$(stat -c %u {data})" --regid "$(stat -c %g {data})" --clear-groups'
    return (
        "# while slapd is stopped:",
        f"chattr +C {directory}",
        f"{owner} cp -p --reflink=never {data} {copy}",
        f"{owner} mv {copy} {data}",
    )


@_rule
def _read_only(situation: Situation) -> Findings:
    where = situation.facts.mount.target
    if "ro" in situation.facts.mount.options:
        yield Finding(
            Severity.WARNING,
            "filesystem.read_only",
            where,
            "mounted read-only",
            "slapd needs to write. If it was writable before, see dmesg: the kernel may have switched it after "
            "an error.",
            (f"mount -o remount,rw {quote(where)}",),
            "mount(8)",
        )


# --- logical volumes ----------------------------------------------------------------------------

_NO_COPY = {"md raid0", "md linear"}


@_rule
def _arrays(situation: Situation) -> Findings:
    facts = situation.facts
    for array in facts.devices:
        if array.kind in _NO_COPY:
            yield from _no_redundancy(array.path, [one for one in facts.devices if one.name in array.on], facts)


@_rule
def _layout(situation: Situation) -> Findings:
    facts, volume = situation.facts, situation.facts.volume
    if volume is None:
        return
    pool = facts.volumes.named(volume.group, volume.pool) if volume.pool else None
    if pool is not None:
        yield from _thin(pool, facts.volumes)
    data = _data_of(facts.volumes, pool) if pool else volume
    if data is None or not {segment.kind for segment in data.segments} <= {"linear", "striped"}:
        return
    by_path = {device.path: device for device in facts.devices}
    yield from _no_redundancy(name_of(data), [*map(by_path.get, data.legs)], facts)
    if any(segment.stripes > 1 for segment in data.segments):
        yield from _striped(data, facts, pool)
    else:
        physical = facts.volumes.of_group(volume.group)
        yield _linear_pool(pool, physical) if pool else _linear(data, physical)


def _data_of(volumes: Volumes, pool: Volume) -> Volume | None:
    """The hidden volume that has the extents of a thin pool."""
    return volumes.named(pool.group, f"{pool.name.strip('[]')}_tdata")


def _no_redundancy(subject: str, legs: Sequence[Device | None], facts: Facts) -> Findings:
    """`legs`: None for one that the kernel does not show."""
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
    below = [device for device in facts.devices if device.name in leg.on]
    return bool(below) and all(_has_copy(device, facts) for device in below)


def _linear(volume: Volume, physical: Sequence[PhysicalVolume]) -> Finding:
    if len(commands.on_own_disks(physical)) < 2:
        group = f"a group of one {'disk' if len(physical) > 1 else 'physical volume'}"
        return _ok("volume.linear", name_of(volume), f"linear, in {group}")
    idle = len(physical) - len(volume.legs)
    if len(volume.legs) == 1:
        what = (
            f"linear: all of its {volume.extents} extents are on {next(iter(volume.legs))}, and {_others(idle)} "
            f"of the group {'does' if idle == 1 else 'do'} nothing for it"
        )
    else:
        what = f"linear over {len(volume.legs)} physical volumes: {_shares(volume)}"
    return Finding(
        Severity.WARNING,
        "volume.linear",
        name_of(volume),
        what,
        "LVM fills one physical volume before it begins the next, so the disk that holds the used part of data.mdb "
        "gets every read and write. Striped, the disks share them. An existing volume cannot be made striped in "
        "place without a copy: make another one and move the database to it while slapd is stopped.",
        commands.striping(volume, physical),
        "lvcreate(8); three disks striped gave three times the throughput of one",
    )


def _linear_pool(pool: Volume, physical: Sequence[PhysicalVolume]) -> Finding:
    if len(commands.on_own_disks(physical)) < 2:
        return _ok("volume.linear", name_of(pool), "its thin pool is linear, in a group of one disk")
    return Finding(
        Severity.WARNING,
        "volume.linear",
        name_of(pool),
        "its thin pool is linear, though the group has several physical volumes",
        "A thin volume has no stripes of its own: its pool decides which disks hold its chunks, and a linear pool "
        "fills one disk before it begins the next. The stripes of a pool are chosen when it is made (lvcreate --type "
        "thin-pool -i, -I), so only another pool, or an ordinary striped volume, spreads the database over the disks.",
        source=_LVMTHIN,
    )


def _striped(volume: Volume, facts: Facts, pool: Volume | None) -> Findings:
    name, physical = name_of(volume), facts.volumes.of_group(volume.group)
    counts = [segment.stripes for segment in volume.segments]
    stripes, idle = max(counts), len(physical) - len(volume.legs)
    if len({*counts}) > 1:
        fewer = sum(segment.extents for segment in volume.segments if segment.stripes < stripes)
        yield Finding(
            Severity.WARNING,
            "volume.uneven",
            name,
            f"{fewer} of its {volume.extents} extents have fewer than {stripes} stripes: {_shares(volume)}",
            "It was extended when fewer physical volumes had room, so part of the database is on fewer disks.",
            () if pool else commands.striping(volume, physical),
            "lvextend(8): -i concerns the extents that it adds",
        )
    else:
        unused = f"; {_others(idle)} of the group not used" if idle > 0 else ""
        yield _ok("volume.striped", name, f"striped evenly over {len(volume.legs)} physical volumes{unused}")
    for disk, legs in commands.on_one_disk([*volume.legs], facts.devices).items():
        yield Finding(
            Severity.WARNING,
            "volume.same_disk",
            name,
            f"{', '.join(legs)} are partitions of one disk, {disk}",
            "Stripes over partitions of one disk add seeks and no throughput.",
            () if pool else commands.striping(volume, physical),
            "lvmraid(7)",
        )
    size = max(segment.stripe_size for segment in volume.segments)
    what = f"stripe size {units.size(size)}, {stripes} stripes"
    if size < LARGE_STRIPE:
        yield _ok("volume.stripe_size", name, what)
        return
    yield Finding(
        Severity.NOTE,
        "volume.stripe_size",
        name,
        what,
        f"LVM sets the readahead of a striped volume to twice the stripe width, here "
        f"{units.size(2 * size * stripes)}, and pages of a memory map are read with it. "
        f"{units.size(STRIPE)}, lvcreate's default, spreads random reads as well.",
        source=f"lvcreate(8), --readahead; {_MEASURED}",
    )


def _thin(pool: Volume, volumes: Volumes) -> Findings:
    name, data = name_of(pool), _data_of(volumes, pool)
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
    thin = [one for one in volumes.logical if (one.group, one.pool) == (pool.group, pool.name.strip("[]"))]
    promised = sum(volume.size for volume in thin)
    if promised > pool.size:
        yield Finding(
            Severity.WARNING,
            "thin.overcommitted",
            name,
            f"its thin volumes are {units.size(promised)} together, the pool is {units.size(pool.size)}",
            "The free space that df shows, and that maxsize is compared with, is not all there. Enlarge the pool, or "
            "let LVM do it (activation/thin_pool_autoextend_threshold in lvm.conf) and watch the group's free extents.",
            enlarging(volumes, pool, promised - pool.size, data=data),
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
    return (*disks, f"lvextend --poolmetadatasize +{-(-more >> 20)}M {name_of(pool)}")


def _shares(volume: Volume) -> str:
    total = sum(volume.legs.values())
    return ", ".join(f"{100 * count / total:.0f} % on {leg}" for leg, count in volume.legs.items())


def _others(count: int) -> str:
    return "the other physical volume" if count == 1 else f"the other {count} physical volumes"


# --- how pages are read and written -------------------------------------------------------------


@_rule
def _memory(situation: Situation) -> Findings:
    if situation.database is None:
        return
    path, used, memory = situation.database.path, units.size(situation.database.used), units.size(situation.memory)
    if not situation.exceeds_memory:
        yield _ok("memory", path, f"{used} in use fit into {memory} of memory")
        return
    yield Finding(
        Severity.NOTE,
        "memory",
        path,
        f"{used} in use, {memory} of memory",
        "The page cache is the database's only cache: what does not fit is read from the disk again, page by page. The "
        "latency of random reads then decides how fast searches and loads are.",
        source="slapd-mdb(5)",
    )


@_rule
def _readahead(situation: Situation) -> Findings:
    facts, top = situation.facts, situation.facts.top
    if top is None or facts.mount.kind == "btrfs":  # btrfs has a readahead of its own
        return
    size, path = top.read_ahead, facts.devices[0].path
    what, is_larger = f"readahead {units.size(size)}", situation.exceeds_memory
    if situation.configured is not None and not situation.configured.reads_ahead:
        yield _ok("readahead", path, f"{what}, which slapd does not use (nordahead)")
    elif size < _LARGE_READAHEAD if not is_larger else size <= USUAL_READAHEAD:
        yield _ok("readahead", path, what)
    else:
        harmless = "" if is_larger else " That does no harm while all of it is in memory."
        yield Finding(
            Severity.WARNING if is_larger and size >= _COSTLY_READAHEAD else Severity.NOTE,
            "readahead",
            path,
            what + (", and the database is larger than memory" if is_larger else ""),
            f"A page of {units.size(situation.page)} that slapd needs and memory lacks costs up to {units.size(size)} "
            "of reading, which also drives other pages out of memory: 200 pages read at random from a file of 1.2 GB "
            f"took 1210 MB of reading with 24 MiB of readahead, 26 MB with 128 KiB, 3.3 MB with 16 KiB.{harmless} The "
            "flag nordahead (envflags in slapd.conf, olcDbEnvFlags in cn=config) does the same for slapd alone, once "
            "it is restarted. Full scans, such as slapcat, want the larger value.",
            _less_readahead(facts),
            _MEASURED,
        )


def _less_readahead(facts: Facts) -> tuple[str, ...]:
    volume, top = facts.volume, facts.devices[0]
    if volume is not None and volume.path == top.path:
        return (commands.read_ahead(volume.group, volume.name, FEW_SECTORS),)
    return (
        f"blockdev --setra {FEW_SECTORS} {top.path}",
        "# until the next boot; a rule of udev(7) sets it for good: "
        f'KERNEL=="{top.name}", ATTR{{queue/read_ahead_kb}}="{FEW_SECTORS // 2}"',
    )


@_rule
def _nosync(situation: Situation) -> Findings:
    if situation.configured is not None and situation.configured.nosync:
        yield Finding(
            Severity.WARNING,
            "nosync",
            situation.configured.suffix,
            "slapd does not wait for the disk (nosync)",
            "A crash of the host loses what was not yet written, and can damage the database. nosync is for a load "
            "that can be repeated; switch it off when that is done.",
            ("ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply",),
            "slapd-mdb(5), dbnosync; lmdb.h, MDB_NOSYNC",
        )


# --- what a file system was made with -----------------------------------------------------------


@_rule
def _block(situation: Situation) -> Findings:
    facts, page, kind = situation.facts, situation.page, situation.facts.mount.kind
    block = facts.parameters.block if facts.parameters else facts.space.block
    what = f"blocks of {block} bytes, pages of {page}"
    if block >= page or kind not in (*EXT, "xfs"):
        yield _ok("block_size", facts.mount.target, what)
        return
    yield Finding(
        Severity.WARNING,
        "block_size",
        facts.mount.target,
        what,
        f"A page of the database lies in {page // block} blocks, which may be far apart, and each write of a page is "
        "that many. The block size is chosen when the file system is made: make one on another volume, and move the "
        "database.",
        (f"mkfs.{kind} -b {'size=' if kind == 'xfs' else ''}{page} DEVICE",),
        "mkfs.xfs(8), mke2fs(8)",
    )


@_rule
def _journal(situation: Situation) -> Findings:
    facts, mount = situation.facts, situation.facts.mount
    if facts.parameters is None or facts.parameters.journal or mount.kind == "ext2":  # that kind never has a journal
        return
    add, where = f"tune2fs -O has_journal {quote(mount.source)}", quote(mount.target)
    again = where if facts.fstab else f"-t {mount.kind} {quote(mount.source)} {where}"
    yield Finding(
        Severity.WARNING,
        "filesystem.journal",
        mount.target,
        f"{mount.kind} without a journal",
        "A power cut or a crash of the kernel leaves the metadata of the file system half written: which blocks belong "
        "to data.mdb is then unknown until e2fsck has guessed it, and slapd cannot start before. LMDB's own order of "
        "writes does not help.",
        (add, "# in force after the next boot")
        if mount.target == "/"
        else ("# while slapd is stopped:", f"umount {where}", add, f"mount {again}"),
        "ext4(5), has_journal; tune2fs(8)",
    )


@_rule
def _stripes(situation: Situation) -> Findings:
    facts, made, top = situation.facts, situation.facts.parameters, situation.facts.top
    if made is None or top is None:
        return
    where, is_xfs = facts.mount.target, facts.mount.kind == "xfs"
    unit, width = _topology(situation, top)
    stripes = (made.stripe_unit, made.stripe_width)
    what = "made without stripes"
    if made.stripe_unit:
        names = ("sunit", "swidth") if is_xfs else ("stride", "stripe width")
        what = ", ".join(f"{name} {units.size(size)}" for name, size in zip(names, stripes, strict=True))
    if stripes == (top.min_io, top.opt_io) or (unit and stripes == (unit, width)):
        yield _ok("stripes", where, f"{what}, as {top.path} has")
    elif not unit:
        if made.stripe_unit:
            yield Finding(
                Severity.NOTE,
                "stripes",
                where,
                f"{what}; {top.path} states no stripes",
                "Right if a RAID controller or a storage array stripes below; else it was made for another device.",
                source=_STRIPES,
            )
    elif not made.stripe_unit and is_xfs and facts.devices[0].size < XFS_LEAST:
        yield _ok("stripes", where, f"{what}: mkfs.xfs takes no stripes over below 1 GiB")
    else:
        mend: tuple[str, ...] = (
            "# on a new volume with these stripes (mkfs.xfs takes them over by itself):",
            f"mkfs.xfs -d su={unit},sw={width // unit} DEVICE",
        )
        if facts.mount.kind in EXT:
            blocks = f"stride={unit // made.block},stripe_width={width // made.block}"
            mend = (f"tune2fs -E {blocks} {quote(facts.mount.source)}",)
        yield Finding(
            Severity.WARNING,
            "stripes",
            where,
            f"{what}; {top.path} has stripes of {units.size(unit)}, {width // unit} of them",
            "What the file system allocates does not begin where a stripe does, so large reads and writes load the "
            "disks unevenly, and a RAID with parity reads before it writes.",
            mend,
            _STRIPES,
        )


def _topology(situation: Situation, top: Device) -> tuple[int, int]:
    """Stripe unit and width in bytes as the device states them; 0 where it has no stripes.

    A disk with sectors of 4 KiB, or an SSD, may state sizes that are no stripes. For raid10 the device counts both
    copies of each stripe, as of Linux 6.1, and lvs the stripes.
    """
    volume = situation.facts.volumes.at(top.path)
    for segment in volume.segments if volume else ():
        if segment.kind == "raid10":
            return segment.stripe_size, segment.stripe_size * segment.data_stripes
    is_striped = top.kind in ("lvm", "dm") or top.kind.startswith("md")
    if not is_striped or top.opt_io <= top.min_io or top.opt_io % max(1, top.min_io):
        return 0, 0
    return top.min_io, top.opt_io


# --- mount options, and those of the next boot --------------------------------------------------

_MOUNT = "mount(8), ext4(5)"
# Option of XFS -> the version of Linux that refuses it.
_REMOVED = {
    **dict.fromkeys(("barrier", "nobarrier"), "4.19"),
    **dict.fromkeys(("delaylog", "nodelaylog", "ihashsize", "irixsgid", "osyncisdsync", "osyncisosync"), "4.0"),
}
_DEPRECATED = {"attr2", "noattr2", "ikeep", "noikeep"}  # of XFS, in the kernel's admin-guide/xfs
_NO_BARRIER = {"nobarrier", "barrier=0"}
_HARMFUL = {
    "data=journal": "All data is written twice, first to the journal.",
    "data=writeback": "After a crash, blocks that were just allocated may hold what was there before.",
}


@_rule
def _mounting(situation: Situation) -> Findings:
    facts = situation.facts
    findings = [*_mounted(facts), *_next_boot(facts)]
    yield from findings
    if not findings:
        yield _ok("mount.options", facts.mount.target, ",".join(facts.mount.options))


def _mounted(facts: Facts) -> Findings:
    mount, where = facts.mount, quote(facts.mount.target)
    if _NO_BARRIER & {*mount.options}:
        # Harmless only where no device keeps what it was told to write in a cache that loses it.
        volatile = _caching(facts)
        yield Finding(
            Severity.CRITICAL if volatile or not facts.devices else Severity.NOTE,
            "mount.barrier",
            mount.target,
            "barriers are off: fsync does not make the device write its cache",
            f"A power cut loses what {f'{volatile} may keep' if volatile else 'a device below may keep'} in a volatile "
            "cache, in any order: LMDB's meta page may then name pages that were never written, and the database is "
            "damaged.",
            (f"mount -o remount,barrier=1 {where}",),
            "ext4(5), barrier; lmdb.h, MDB_NOSYNC",
        )
    if "sync" in mount.options:
        yield Finding(
            Severity.WARNING,
            "mount.sync",
            mount.target,
            "sync",
            "Every write waits for the disk, also those between two commits.",
            (f"mount -o remount,async {where}",),
            _MOUNT,
        )
    for option, why in _HARMFUL.items():
        if option in mount.options:
            yield Finding(Severity.WARNING, f"mount.{option}", mount.target, option, why, source=_MOUNT)
    if "discard" in mount.options and mount.kind != "btrfs":
        yield Finding(
            Severity.NOTE,
            "mount.discard",
            mount.target,
            "discard: freed blocks are discarded at once",
            "This can slow down the device while it works. A weekly fstrim does the same; a database frees hardly any.",
            (f"mount -o remount,nodiscard {where}", "systemctl enable --now fstrim.timer"),
            "xfs(5), discard; fstrim(8)",
        )


def _caching(facts: Facts) -> str:
    """The disks with a volatile write cache."""
    return ", ".join(one.path for one in facts.devices if one.write_cache == "write back" and not one.on)


def _next_boot(facts: Facts) -> Findings:
    mount, entry = facts.mount, facts.fstab
    if entry is None:
        if mount.source.startswith("/dev/") and mount.target != "/":
            yield Finding(
                Severity.NOTE,
                "fstab.missing",
                mount.target,
                "no line in /etc/fstab",
                "Unless a unit of systemd mounts it, the next boot does not, and slapd finds an empty directory.",
                tuple(_lines_to_add(facts)),
                "fstab(5)",
            )
        return
    if {"bind", "rbind"} & {*entry.options}:  # the options of the file system are on another line
        return
    line = f"/etc/fstab, line {entry.number}"
    if mount.is_subvolume and mount.target != "/" and not _names_subvolume(entry, mount):
        kept = [one for one in entry.options if not one.startswith(("subvol=", "subvolid=")) and one != "defaults"]
        yield Finding(
            Severity.WARNING,
            "fstab.subvolume",
            mount.target,
            f"{line}, does not name the subvolume {mount.root}, which is mounted",
            "Unless it is the default subvolume (btrfs subvolume get-default), the next boot mounts another one, and "
            "slapd does not find the database.",
            (_changed(entry, entry.kind, [*kept, f"subvol={mount.root}"]),),
            "btrfs(5), subvol",
        )
    if entry.kind not in ("auto", mount.kind):
        yield Finding(
            Severity.WARNING,
            "fstab.kind",
            mount.target,
            f"{line}, says {entry.kind}; mounted is {mount.kind}",
            "The next boot mounts another file system there, or fails.",
            (_changed(entry, mount.kind, entry.options),),
            "fstab(5)",
        )
        return
    names = {option.partition("=")[0] for option in entry.options} if mount.kind == "xfs" else set()
    if gone := sorted(names & _REMOVED.keys()):
        since = ", ".join(f"{name} in Linux {_REMOVED[name]}" for name in gone)
        yield Finding(
            Severity.CRITICAL,
            "fstab.removed",
            entry.target,
            f"{line}: the next mount fails ({', '.join(gone)})",
            f"XFS no longer knows these options and refuses the mount; removed: {since}.",
            (_without(entry, _REMOVED), "findmnt --verify"),
            "xfs(5), Removed mount options",
        )
    elif {*entry.options} & _NO_BARRIER and not {*mount.options} & _NO_BARRIER:
        yield Finding(
            Severity.CRITICAL,
            "fstab.barrier",
            mount.target,
            f"{line}, turns barriers off at the next mount",
            "A power cut can then damage the database.",
            (_changed(entry, entry.kind, [option for option in entry.options if option not in _NO_BARRIER]),),
            "ext4(5), barrier",
        )
    if deprecated := sorted(names & _DEPRECATED):
        yield Finding(
            Severity.NOTE,
            "fstab.deprecated",
            entry.target,
            f"{line}: {', '.join(deprecated)} will be refused by a later Linux",
            "They have no effect any more.",
            (_without(entry, _DEPRECATED),),
            "xfs(5); kernel documentation, admin-guide/xfs",
        )


def _lines_to_add(facts: Facts) -> Iterator[str]:
    mount, base = facts.mount, facts.base
    if base is not None and facts.base_fstab is None and base.target != "/":
        yield _to_fstab(base)
    if base is not None:  # a bind mount, and the mount that its directory is on
        source = f"{base.target.rstrip('/')}{mount.root.removeprefix(base.root.rstrip('/'))}"
        yield commands.add_to_fstab(source, mount.target, "none", "bind 0 0")
    elif not mount.is_bind:  # else its directory cannot be named: in a container, for example
        yield _to_fstab(mount)


def _to_fstab(mount: Mount) -> str:
    options = f"subvol={commands.fstab_word(mount.root)} 0 0" if mount.is_subvolume else "defaults 0 2"
    return commands.add_to_fstab(mount.source, mount.target, mount.kind, options)


def _names_subvolume(entry: FstabEntry, mount: Mount) -> bool:
    ids = {option for option in mount.options if option.startswith("subvolid=")}
    paths = [option.removeprefix("subvol=") for option in entry.options if option.startswith("subvol=")]
    return bool(ids & {*entry.options}) or mount.root in [f"/{path.strip('/')}" for path in paths]


def _without(entry: FstabEntry, names: set[str] | dict[str, str]) -> str:
    return _changed(entry, entry.kind, [one for one in entry.options if one.partition("=")[0] not in names])


def _changed(entry: FstabEntry, kind: str, options: Sequence[str]) -> str:
    """What has to stand in the place of the line."""
    words = (entry.source, entry.target, kind, ",".join(options) or "defaults")
    return f"line {entry.number}: {' '.join(map(commands.fstab_word, words))} {entry.rest or '0 2'}"


# --- devices ------------------------------------------------------------------------------------


@_rule
def _hardware(situation: Situation) -> Findings:
    facts = situation.facts
    physical = {one.name: one for one in facts.volumes.physical}
    is_aligned = True
    for device in facts.devices:
        for finding in alignment(device, physical.get(device.path)):
            is_aligned = False
            yield finding
        yield from _scheduler(device)
    if facts.devices and is_aligned:
        yield _ok("alignment", facts.devices[0].path, "aligned down to the disks")
    if caching := _caching(facts):
        what = "volatile write cache, which every commit makes the device write: barriers are needed"
        yield _ok("write_cache", caching, what)


def alignment(device: Device, physical: PhysicalVolume | None) -> Findings:
    """`physical`: the physical volume that the device is; None if it is none."""
    sector = max(device.physical_sector, _SECTOR)
    what = ""
    if device.alignment_offset > 0:
        what = f"its first sector lies {device.alignment_offset} bytes off"
    elif device.kind == "partition" and device.start % sector:
        what = f"begins at byte {device.start}"
    elif physical is not None:
        yield from _extents(device, physical)
    elif device.kind == "partition" and device.start % max(device.min_io, sector):
        what = f"begins at byte {device.start}, within a stripe of {units.size(device.min_io)}"
    if what:
        disk = device.on[0] if device.on else device.name
        yield Finding(
            Severity.WARNING,
            "alignment",
            device.path,
            f"misaligned: {what}",
            "A page of the database then lies across two sectors or stripes: one read becomes two, and one write "
            "becomes two that each read before they write. Only a new partition mends it, with the data moved.",
            (
                "# once the partition is removed, with all that is on it:",
                f"echo start={ALIGNED >> 20}MiB | sfdisk --append /dev/{disk}",
            ),
            "sfdisk(8)",
        )


def _extents(device: Device, physical: PhysicalVolume) -> Findings:
    first, unit = device.start + physical.start, max(device.min_io, _SECTOR)
    (disk,), group = commands.placeholders(1), physical.group
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


def _scheduler(device: Device) -> Findings:
    """Of disks; the other kinds pass requests on, and have none that counts."""
    if device.kind != "disk" or device.scheduler is None:
        return
    if device.name.startswith("nvme"):
        kind, scheduler = "an NVMe disk", "none"
    else:
        kind, costly = ("a rotating disk", "none") if device.rotational else ("SSD", "bfq")
        scheduler = "mq-deadline" if device.scheduler == costly else device.scheduler
    if scheduler == device.scheduler or scheduler not in device.schedulers:
        yield _ok("scheduler", device.path, device.scheduler)
        return
    yield Finding(
        Severity.NOTE,
        "scheduler",
        device.path,
        f"scheduler {device.scheduler} on {kind}",
        "NVMe disks order requests themselves; on rotating disks, unordered requests cost seeks; bfq is made for "
        "interactive use and costs processor time.",
        (
            f"echo {scheduler} > /sys/block/{device.name}/queue/scheduler",
            "# until the next boot; a rule of udev(7) sets it for good: "
            f'KERNEL=="{device.name}", ATTR{{queue/scheduler}}="{scheduler}"',
        ),
        "kernel documentation, block/switching-sched",
    )


# --- room: of the volume, and of the map --------------------------------------------------------


@_rule
def _space(situation: Situation) -> Findings:
    facts, database = situation.facts, situation.database
    where, size, free = facts.mount.target, facts.space.size, facts.space.free
    if database is None:
        yield _ok("space", where, f"{units.size(free)} of {units.size(size)} free")
        return
    taken = max(database.allocated, database.used)
    what = f"{units.size(size)}, {units.size(free)} free; the database takes {units.size(taken)}"
    if size >= 3 * taken and free >= taken:
        yield _ok("space", where, what)
        return
    yield Finding(
        Severity.WARNING if size < 2 * taken or free < taken else Severity.NOTE,
        "space",
        where,
        what,
        "A build, a restore or a copy is made beside the database and needs as much again; the database itself grows "
        "while a long read, such as a backup, keeps old pages in use.",
        _enlarge(facts, 3 * taken - size if size < 3 * taken else taken - free),
        "the vendors' rule for directories: twice the database at least, three times if possible",
    )


@_rule
def _map(situation: Situation) -> Findings:
    database, map_size = situation.database, situation.map_size
    if database is None or not map_size:
        return
    reachable = database.allocated + situation.facts.space.free
    if map_size <= reachable:
        yield _ok("maxsize", database.path, f"map size {units.size(map_size)} fits on the volume")
    else:
        lowered = max(reachable * 9 // 10 >> 20, 1)
        yield Finding(
            Severity.WARNING,
            "maxsize",
            database.path,
            f"map size {units.size(map_size)}, but data.mdb can grow to {units.size(reachable)} only",
            "The volume is full before the map is. slapd then fails with an error of the disk instead of MDB_MAP_FULL, "
            "and with writemap (slapadd -q uses it) the process is killed by SIGBUS.",
            (*_enlarge(situation.facts, map_size - reachable), f"{_CHANGE_MAXSIZE} {lowered}M --apply"),
            "lmdb.h, mdb_env_set_mapsize",
        )
    yield from _filling(database, map_size)


def _filling(database: Database, map_size: int) -> Findings:
    if database.used >= _TIGHT * map_size:
        yield Finding(
            Severity.WARNING,
            "maxsize.used",
            database.path,
            f"{100 * database.used / map_size:.0f} % of the map are in use",
            "At 100 % slapd refuses every write (MDB_MAP_FULL). Address space costs nothing.",
            (f"{_CHANGE_MAXSIZE} auto --apply",),
            "slapd-mdb(5), maxsize",
        )


def _enlarge(facts: Facts, lack: int) -> tuple[str, ...]:
    """5 % more than is lacking, for what the file system keeps for itself."""
    volume, mount = facts.volume, facts.mount
    if volume is None or volume.pool is not None or facts.top is None or volume.path != facts.top.path:
        return ()
    lack += lack // 20
    if mount.kind in (*EXT, "xfs"):
        return enlarging(facts.volumes, volume, lack, "-r ")
    if mount.kind == "btrfs":
        return (*enlarging(facts.volumes, volume, lack), f"btrfs filesystem resize max {quote(mount.target)}")
    return ()
