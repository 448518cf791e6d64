"""`storage check`: reads facts about the file system, volumes and devices below a path, and judges them by rules.

A rule is a function of a Situation and reads nothing else. Findings of one severity are printed in the order of RULES.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote

import msgspec
from msgspec.structs import asdict, replace

from loader import defaults, units
from loader.config import Database as ConfiguredDatabase
from loader.errors import LoaderError, UsageProblem
from loader.mdb import meta
from loader.operations.storage import commands
from loader.operations.storage.commands import FEW_SECTORS, PAGE, enlarging, name_of
from loader.operations.storage.findings import Configured, Database, Finding, Severity, Situation
from loader.storage import files, survey
from loader.storage.mounts import FstabEntry
from loader.storage.survey import EXT, Device, Facts, PhysicalVolume, Unseen, Volume, Volumes

OK, NOTE, WARNING, CRITICAL = Severity
Findings = Iterator[Finding]

ONE_DISK = (
    "One failed disk loses the whole file system, whatever is on the others. Take backups, keep a replica, or make the "
    "volume with `ditseed storage plan --redundant`."
)
LARGE_STRIPE = 1024 * 1024
ALIGNED = 1 << 20  # bytes; since about 2010, partitioning tools begin partitions at multiples of 1 MiB
XFS_LEAST = 1 << 30  # bytes; on smaller devices, mkfs.xfs ignores stripes
USUAL_READAHEAD = 128 * 1024  # bytes; the kernel's default for a disk
_COSTLY_READAHEAD, _LARGE_READAHEAD = 512 * 1024, 1024 * 1024
_SECTOR = 4096  # bytes; a disk may have sectors of 4 KiB and report smaller ones
_FULL, _FILLING = 95.0, 80.0  # used percent of a thin pool: CRITICAL, WARNING from here on
_TIGHT = 0.9  # used share of the map: WARNING from here on
_CHANGE_MAXSIZE = "ditseed tune maxsize -H ldapi:/// -Y EXTERNAL --maxsize"
_NO_COPY = {"md raid0", "md linear"}
_NO_BARRIER = {"nobarrier", "barrier=0"}
_REMOVED = {
    *("barrier", "nobarrier", "delaylog", "nodelaylog", "ihashsize", "irixsgid", "osyncisdsync", "osyncisosync")
}
_FIT = ("xfs", "ext4", "ext3")

# Maps types of file systems to severity and finding. The reason is filesystem.TYPE, with the first of the types.
_KINDS = {
    "ext2": (WARNING, "no journal"),
    "reiserfs": (CRITICAL, "removed from Linux"),
    "tmpfs ramfs": (CRITICAL, "in memory"),
    "overlay": (WARNING, "the layer of a container"),
    "zfs": (WARNING, "copy-on-write below LMDB's own"),
    "nfs nfs4 cifs smb3 smbfs 9p ceph glusterfs lustre afs ncpfs virtiofs fuse.sshfs fuse.glusterfs fuse.ceph "
    "fuse.s3fs fuse.cifs": (CRITICAL, "a network file system"),
    "ocfs2 gfs2": (WARNING, "a cluster file system"),
}
_KNOWN = {kind: (*row, kinds.split()[0]) for kinds, row in _KINDS.items() for kind in kinds.split()}

# Each rule with its source in parentheses, and why its finding matters. `_finding` replaces each {NAME}.
_REASONS_TEXT = """
filesystem (lmdb.h, Caveats)
  Whether its memory maps, locks and fsync suit LMDB depends on its implementation.
filesystem.ext2 (ext4(5))
  After a crash it must be checked before slapd can start.
filesystem.reiserfs (Linux 6.13)
  Linux 6.13 and later cannot mount the database.
filesystem.tmpfs (tmpfs(5))
  Gone at the next boot.
filesystem.overlay (kernel documentation, overlayfs)
  It is removed with the container, and the first write to a file of a lower layer copies all of it. Give the database a
  volume of its own.
filesystem.zfs (zfsprops(7), recordsize)
  Each page of 4 KiB rewrites a whole record.
filesystem.nfs (lmdb.h, Caveats)
  LMDB needs a shared memory map and locks that network file systems do not provide, even among processes of one host:
  the database may be damaged. Use a file system on a block device.
filesystem.ocfs2 (lmdb.h, Caveats)
  Nodes share neither the memory map nor lock.mdb, so only one node may have the database open, slapd's tools included.
  For a single node, a local file system is simpler and faster.
filesystem.cow (btrfs(5), chattr(1))
  LMDB and btrfs both copy each page, and data.mdb becomes fragmented. The attribute C of a directory turns off btrfs's
  copies and checksums, but only for files that are created later. So the commands copy an existing database, as the
  account that owns it; stop slapd first.
filesystem.read_only (mount(8))
  slapd needs to write. If it could before, see dmesg: the kernel may have made the mount read-only after an error.
filesystem.journal (ext4(5), has_journal; tune2fs(8))
  After a crash, slapd cannot start until e2fsck has guessed which blocks belong to data.mdb.
volume.redundancy (lvmraid(7))
  {one_disk} Only a RAID controller or a storage array below it would prevent that.
volume.linear (lvcreate(8); three disks striped gave three times the throughput of one)
  The disk with the used part of data.mdb gets all reads and writes; stripes would spread them over the disks. A linear
  volume cannot be striped in place: make another volume and move the database to it while slapd is stopped.
volume.uneven (lvextend(8): -i concerns the extents that it adds)
  The volume was extended when fewer physical volumes had room, so part of the database is on fewer disks.
volume.same_disk (lvmraid(7))
  Stripes over partitions of one disk add seeks and no throughput.
volume.stripe_size (lvcreate(8), --readahead; measured: docs/storage.md)
  LVM sets the readahead of a striped volume to twice the stripe width, here {readahead}, and pages of a memory map are
  read with it. 64 KiB, lvcreate's default, spreads random reads as well.
thin.data (lvmthin(7))
  data.mdb grows into the pool. A full pool fails writes, whatever df shows.
thin.metadata (lvmthin(7))
  A pool without room for metadata fails writes, whatever df shows.
thin.overcommitted (lvmthin(7))
  The pool has less free space than df shows. Enlarge the pool, or let LVM do it
  (activation/thin_pool_autoextend_threshold in lvm.conf) and watch the group's free extents.
memory (slapd-mdb(5))
  Pages that do not fit into the page cache are read from the disk again, one by one: the latency of random reads
  decides how fast searches and loads are.
readahead (measured: docs/storage.md)
  For a page of {page} that is not in memory, the kernel reads up to {size}, which drives other pages out of memory: for
  200 random pages it read 1210 MB with a readahead of 24 MiB, and 3.3 MB with 16 KiB.{harmless} The flag nordahead
  (envflags in slapd.conf, olcDbEnvFlags in cn=config) turns readahead off for slapd alone, after a restart. Full scans,
  such as slapcat, are faster with the larger value.
nosync (slapd-mdb(5), dbnosync; lmdb.h, MDB_NOSYNC)
  A crash of the host loses changes that are not yet written, and can damage the database. nosync is for a load that can
  be repeated; switch it off after the load.
block_size (mkfs.xfs(8), mke2fs(8))
  Each page lies in {blocks} blocks, which may be far apart. The block size is chosen by mkfs: make a file system on
  another volume, and move the database.
stripes (mkfs.xfs(8), -d su and sw; ext4(5), stripe)
  Files do not begin where a stripe does: large requests load the disks unevenly, and a RAID with parity reads before it
  writes.
mount.barrier (ext4(5), barrier; lmdb.h, MDB_NOSYNC)
  A power cut loses any of the writes that {cache} may keep in a volatile cache. If LMDB's meta page is on the disk, but
  not the pages that it names, the database is damaged.
mount.sync (mount(8), ext4(5))
  Every write waits for the disk, also those between two commits.
mount.data=journal (mount(8), ext4(5))
  All data is written twice, first to the journal.
mount.data=writeback (mount(8), ext4(5))
  After a crash, blocks that were just allocated may show their former contents.
mount.discard (xfs(5), discard; fstrim(8))
  This can slow down the device. A weekly fstrim does the same.
fstab.missing (fstab(5))
  Unless a unit of systemd mounts the volume, slapd finds an empty directory after the next boot.
fstab.subvolume (btrfs(5), subvol)
  Unless the default subvolume is mounted now (btrfs subvolume get-default), the next boot mounts another subvolume.
fstab.kind (fstab(5))
  The next boot mounts another file system there, or fails.
fstab.removed (xfs(5), Removed mount options)
  XFS refuses the mount: Linux 4.19 removed the barrier options, and Linux 4.0 the others.
fstab.barrier (ext4(5), barrier)
  A power cut can then damage the database.
alignment (sfdisk(8))
  Pages lie across two sectors or stripes: one read becomes two, and one write becomes two reads and two writes. Only
  a new partition helps; the data must be moved to it.
alignment.extents (pvcreate(8), --dataalignment)
  Every stripe lies across two stripes of the device. Alignment is set when a physical volume is created, so the extents
  must move to another physical volume (pvmove does this while the volume is in use).
space (the vendors' rule for directories: twice the database at least, three times if possible)
  A build, a restore or a copy is made beside the database and needs the same space again. The database itself grows
  while a long read, such as a backup, keeps old pages in use.
maxsize (lmdb.h, mdb_env_set_mapsize)
  If the volume is full before the map is, slapd fails with an error of the disk instead of MDB_MAP_FULL, and with
  writemap (slapadd -q uses it) SIGBUS kills the process.
maxsize.used (slapd-mdb(5), maxsize)
  At 100 % slapd refuses every write. Address space costs nothing.
"""
_REASONS = {
    rule: (" ".join(why.split()), source)
    for rule, source, why in re.findall(r"^(\S+) \((.*)\)\n((?:  .*\n)+)", _REASONS_TEXT, re.MULTILINE)
}


class Report(msgspec.Struct, frozen=True):
    """`findings`: sorted by severity, the worst first."""

    situation: Situation
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        return all(finding.severity.rank < WARNING.rank for finding in self.findings)


def check(path: Path, configured: Configured | None = None) -> Report:
    """Checks the storage below `path`. `configured`: slapd's settings of the database there, if known. Raises
    NoSuchPath, NotPermitted, UsageProblem."""
    facts = replace(situation(path), configured=configured)
    return Report(facts, judged(facts))


def check_database(database: ConfiguredDatabase, config: Path) -> Report:
    """Checks a database of a parsed configuration. Raises NoSuchPath, NotPermitted."""
    settings = (database.suffix, database.maxsize, database.nosync, database.env_flags)
    return check(database.require_directory(config), Configured(str(config), *settings))


def judged(situation: Situation) -> tuple[Finding, ...]:
    findings = [finding for rule in RULES for finding in rule(situation)]
    return tuple(sorted(findings, key=lambda finding: -finding.severity.rank))


def situation(path: Path) -> Situation:
    """Reads facts about a data.mdb or a directory. Raises NoSuchPath, NotPermitted, UsageProblem."""
    file = data_file(path)
    facts = asdict(survey.facts_of(file or path))
    database = None
    if file is not None:
        allocated = files.allocated_bytes(file)
        try:
            pages = meta.read_meta(file)
            database = Database(str(file), allocated, pages.used, pages.map_size, pages.page_size)
        except LoaderError as error:
            database = Database(str(file), allocated, allocated, None, PAGE)  # counts the whole file as used
            facts["unseen"] += (Unseen("map size and pages in use", str(error)),)
    return Situation(**facts, memory=defaults.memory(), database=database)


def data_file(path: Path) -> Path | None:
    """Returns the data.mdb that `path` is or contains, or None. Raises NoSuchPath, NotPermitted, UsageProblem."""
    with files.explained(path):
        path.stat()
        if not path.is_dir() and not path.is_file():
            raise UsageProblem(reason=f"{path} is neither a directory nor a regular file")
        file = meta.data_file(path)
        is_database = file.is_file() and (path.is_dir() or meta.is_data_file(file))
    return file if is_database else None


def _ok(rule: str, subject: str, what: str) -> Finding:
    return Finding(OK, rule, subject, what)


def _finding(
    severity: Severity, rule: str, subject: str, what: str, mend: Sequence[str] = (), reason: str = "", **values: str
) -> Finding:
    """Returns a finding with the reason _REASONS[reason or rule], in which `values` replace the placeholders."""
    why, source = _REASONS[reason or rule]
    return Finding(severity, rule, subject, what, why.format(**values) if values else why, tuple(mend), source)


# --- the file system -------------------------------------------------------------------------------------------------


def _kind(facts: Situation) -> Findings:
    kind, where, options = facts.mount.kind, facts.mount.target, facts.mount.options
    if "ro" in options:
        mend = (f"mount -o remount,rw {quote(where)}",)
        yield _finding(WARNING, "filesystem.read_only", where, "mounted read-only", mend)
    if kind == "btrfs" and (facts.no_cow or "nodatacow" in options):
        yield _ok("filesystem", where, "btrfs, without copy-on-write for this path (and so without its checksums)")
    elif kind == "btrfs":
        what = "btrfs: copy-on-write below LMDB's own"
        yield _finding(WARNING, "filesystem", where, what, _without_cow(facts), "filesystem.cow")
    elif kind in _KNOWN:
        severity, what, reason = _KNOWN[kind]
        yield _finding(severity, "filesystem", where, f"{kind}: {what}", ("mkfs.xfs DEVICE",), f"filesystem.{reason}")
    elif kind in _FIT:
        yield _ok("filesystem", where, kind)
    elif kind.startswith("fuse"):
        yield _finding(WARNING, "filesystem", where, f"{kind}: a file system in user space")
    else:
        yield _finding(NOTE, "filesystem", where, f"{kind}: unknown to ditseed")


def _without_cow(facts: Situation) -> tuple[str, ...]:
    """Returns commands that copy the file as its owner, because root must not write to another account's directory."""
    file = facts.path
    if facts.database is None:
        return (f"chattr +C {quote(file)}",)
    data, copy, directory = quote(file), quote(f"{file}.new"), quote(str(Path(file).parent))
    owner = f'setpriv --reuid "$(stat -c %u {data})" --regid "$(stat -c %g {data})" --clear-groups'
    return (
        "# while slapd is stopped:",
        f"chattr +C {directory}",
        f"{owner} cp -p --reflink=never {data} {copy}",
        f"{owner} mv {copy} {data}",
    )


def _parameters(facts: Situation) -> Findings:
    """Judges the block size and the journal that mkfs has set."""
    page, mount, where, parameters = facts.page, facts.mount, facts.mount.target, facts.parameters
    block = parameters.block if parameters else facts.space.block
    what = f"blocks of {block} bytes, pages of {page}"
    if block >= page or mount.kind not in (*EXT, "xfs"):
        yield _ok("block_size", where, what)
    else:
        mkfs = f"mkfs.{mount.kind} -b {'size=' if mount.kind == 'xfs' else ''}{page} DEVICE"
        yield _finding(WARNING, "block_size", where, what, (mkfs,), blocks=str(page // block))
    if parameters and not parameters.journal and mount.kind != "ext2":  # ext2 never has a journal
        add, path = f"tune2fs -O has_journal {quote(mount.source)}", quote(where)
        again = path if facts.fstab else f"-t {mount.kind} {quote(mount.source)} {path}"
        mend: tuple[str, ...] = ("# while slapd is stopped:", f"umount {path}", add, f"mount {again}")
        if where == "/":
            mend = (add, "# in force after the next boot")
        yield _finding(WARNING, "filesystem.journal", where, f"{mount.kind} without a journal", mend)


def _stripes(facts: Situation) -> Findings:
    """Compares the file system's stripes with the device's."""
    parameters, top, where = facts.parameters, facts.top, facts.mount.target
    if parameters is None or top is None:
        return
    # An SSD, or a disk with sectors of 4 KiB, may report I/O sizes although it has no stripes.
    is_striped = top.kind in ("lvm", "dm") or top.kind.startswith("md")
    is_striped &= top.opt_io > top.min_io and top.opt_io % max(1, top.min_io) == 0
    unit, width = (top.min_io, top.opt_io) if is_striped else (0, 0)
    volume = facts.volumes.by_path(top.path)
    for segment in volume.segments if volume else ():
        if segment.kind == "raid10":  # Linux 6.1 counts both copies in the I/O size of raid10
            unit, width = segment.stripe_size, segment.stripe_size * segment.data_stripes
            break
    is_xfs, stripes = facts.mount.kind == "xfs", (parameters.stripe_unit, parameters.stripe_width)
    what = "made without stripes"
    if parameters.stripe_unit:
        names = ("sunit", "swidth") if is_xfs else ("stride", "stripe width")
        what = ", ".join(f"{name} {units.size(size)}" for name, size in zip(names, stripes, strict=True))
    if stripes == (top.min_io, top.opt_io) or (unit and stripes == (unit, width)):
        yield _ok("stripes", where, f"{what}, as {top.path} has")
    elif unit and not parameters.stripe_unit and is_xfs and top.size < XFS_LEAST:
        yield _ok("stripes", where, f"{what}: mkfs.xfs ignores stripes below 1 GiB")
    elif unit:
        mend: tuple[str, ...] = (
            "# on a new volume with these stripes (mkfs.xfs takes them over by itself):",
            f"mkfs.xfs -d su={unit},sw={width // unit} DEVICE",
        )
        if facts.mount.kind in EXT:
            blocks = f"stride={unit // parameters.block},stripe_width={width // parameters.block}"
            mend = (f"tune2fs -E {blocks} {quote(facts.mount.source)}",)
        what = f"{what}; {top.path} has stripes of {units.size(unit)}, {width // unit} of them"
        yield _finding(WARNING, "stripes", where, what, mend)


# --- logical volumes -------------------------------------------------------------------------------------------------


def _layout(facts: Situation) -> Findings:
    for array in (device for device in facts.devices if device.kind in _NO_COPY):
        legs = [device for device in facts.devices if device.name in array.on]
        yield from _no_redundancy(array.path, legs, facts)
    volume, volumes = facts.volume, facts.volumes
    pool = volumes.named(volume.group, volume.pool) if volume and volume.pool else None
    if pool is not None:
        yield from _thin(pool, volumes)
        volume = _part_of(volumes, pool, "tdata")
    if volume is None or not {segment.kind for segment in volume.segments} <= {"linear", "striped"}:
        return
    by_path = {device.path: device for device in facts.devices}
    yield from _no_redundancy(name_of(volume), [*map(by_path.get, volume.legs)], facts)
    if pool is None and any(segment.stripes > 1 for segment in volume.segments):
        yield from _striped(volume, facts)
    elif pool is None:
        yield _linear(volume, volumes.of_group(volume.group))


def _part_of(volumes: Volumes, pool: Volume, part: str) -> Volume | None:
    """Returns the hidden volume that holds a thin pool's data (`part` is "tdata") or metadata ("tmeta"), or None."""
    return volumes.named(pool.group, f"{pool.name.strip('[]')}_{part}")


def _no_redundancy(subject: str, legs: Sequence[Device | None], facts: Facts) -> Findings:
    """Yields a note if the failure of one disk would lose data. `legs`: devices, or None for unknown devices."""

    def has_copy(leg: Device) -> bool:
        if leg.kind.startswith("md ") and leg.kind not in _NO_COPY:
            return True
        below = [device for device in facts.devices if device.name in leg.on]
        return bool(below) and all(map(has_copy, below))

    if len(legs) > 1 and not all(leg is not None and has_copy(leg) for leg in legs):
        what = f"on {len(legs)} devices, none of which has a copy"
        yield _finding(NOTE, "volume.redundancy", subject, what, one_disk=ONE_DISK)


def _linear(volume: Volume, physical: Sequence[PhysicalVolume]) -> Finding:
    name, legs = name_of(volume), volume.legs
    if len(commands.on_own_disks(physical)) < 2:
        return _ok("volume.linear", name, "linear, in a group of one disk")
    what = f"linear over {len(legs)} physical volumes: {_shares(volume)}"
    if len(legs) == 1:
        what = f"linear: all of its {volume.extents} extents are on {next(iter(legs))}"
        what += f", one of {len(physical)} physical volumes of the group"
    return _finding(WARNING, "volume.linear", name, what, commands.striping(volume, physical))


def _striped(volume: Volume, facts: Facts) -> Findings:
    name, physical = name_of(volume), facts.volumes.of_group(volume.group)
    mend = commands.striping(volume, physical)
    stripes, size = (max(getattr(segment, of) for segment in volume.segments) for of in ("stripes", "stripe_size"))
    fewer = sum(segment.extents for segment in volume.segments if segment.stripes < stripes)
    if fewer:
        what = f"{fewer} of its {volume.extents} extents have fewer than {stripes} stripes: {_shares(volume)}"
        yield _finding(WARNING, "volume.uneven", name, what, mend)
    else:
        legs = f"{len(volume.legs)} of {len(physical)} physical volumes"
        yield _ok("volume.striped", name, f"striped evenly over {legs} of the group")
    for disk, on_disk in commands.on_one_disk([*volume.legs], facts.devices).items():
        what = f"{', '.join(on_disk)} are partitions of one disk, {disk}"
        yield _finding(WARNING, "volume.same_disk", name, what, mend)
    what = f"stripe size {units.size(size)}, {stripes} stripes"
    if size < LARGE_STRIPE:
        yield _ok("volume.stripe_size", name, what)
    else:
        yield _finding(NOTE, "volume.stripe_size", name, what, readahead=units.size(2 * size * stripes))


def _shares(volume: Volume) -> str:
    total = sum(volume.legs.values())
    return ", ".join(f"{100 * count / total:.0f} % on {leg}" for leg, count in volume.legs.items())


def _thin(pool: Volume, volumes: Volumes) -> Findings:
    """Judges a thin pool. The commands enlarge a full pool by a quarter, so that it is then 80 % full."""
    name, data, metadata = name_of(pool), _part_of(volumes, pool, "tdata"), _part_of(volumes, pool, "tmeta")
    more_data = enlarging(volumes, pool, pool.size // 4, data=data)
    more_metadata: tuple[str, ...] = ()
    if metadata is not None:
        lack = max(metadata.size // 4, metadata.extent_size)
        *disks, _ = enlarging(volumes, metadata, lack)
        more_metadata = (*disks, f"lvextend --poolmetadatasize +{-(-lack // (1 << 20))}M {name}")
    for kind, percent, usual, mend in (
        ("data", pool.data_percent, NOTE, more_data),
        ("metadata", pool.metadata_percent, OK, more_metadata),
    ):
        if percent is not None:
            severity = CRITICAL if percent >= _FULL else WARNING if percent >= _FILLING else usual
            what = f"thin pool, {percent:.0f} % of its {kind} space used"
            yield _finding(severity, f"thin.{kind}", name, what, mend if percent >= _FILLING else ())
    thin = [each for each in volumes.logical if (each.group, each.pool) == (pool.group, pool.name.strip("[]"))]
    promised = sum(volume.size for volume in thin)
    if promised > pool.size:
        what = f"its thin volumes are {units.size(promised)} together, the pool is {units.size(pool.size)}"
        mend = enlarging(volumes, pool, promised - pool.size, data=data)
        yield _finding(WARNING, "thin.overcommitted", name, what, mend)


# --- how pages are read and written ----------------------------------------------------------------------------------


def _memory(facts: Situation) -> Findings:
    database, settings = facts.database, facts.configured
    if database is not None:
        used, memory = units.size(database.used), units.size(facts.memory)
        if facts.exceeds_memory:
            yield _finding(NOTE, "memory", database.path, f"{used} in use, {memory} of memory")
        else:
            yield _ok("memory", database.path, f"{used} in use fit into {memory} of memory")
    if settings is not None and settings.nosync:
        mend = ("ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply",)
        yield _finding(WARNING, "nosync", settings.suffix, "slapd does not wait for the disk (nosync)", mend)


def _readahead(facts: Situation) -> Findings:
    top, is_larger, settings = facts.top, facts.exceeds_memory, facts.configured
    if top is None or facts.mount.kind == "btrfs":  # btrfs has its own readahead
        return
    what, volume = f"readahead {units.size(top.read_ahead)}", facts.volume
    if settings is not None and "nordahead" in map(str.lower, settings.env_flags):
        yield _ok("readahead", top.path, f"{what}, which slapd does not use (nordahead)")
    elif top.read_ahead <= USUAL_READAHEAD if is_larger else top.read_ahead < _LARGE_READAHEAD:
        yield _ok("readahead", top.path, what)
    else:
        severity = WARNING if is_larger and top.read_ahead >= _COSTLY_READAHEAD else NOTE
        what += ", and the database is larger than memory" if is_larger else ""
        harmless = "" if is_larger else " That does no harm while the whole database is in memory."
        rule = f'KERNEL=="{top.name}", ATTR{{queue/read_ahead_kb}}="{FEW_SECTORS // 2}"'
        mend: tuple[str, ...] = (
            f"blockdev --setra {FEW_SECTORS} {top.path}",
            f"# until the next boot; a rule of udev(7) sets it for good: {rule}",
        )
        if volume is not None and volume.path == top.path:
            mend = (f"lvchange -r {FEW_SECTORS} {name_of(volume)}",)
        page, size = units.size(facts.page), units.size(top.read_ahead)
        yield _finding(severity, "readahead", top.path, what, mend, page=page, size=size, harmless=harmless)


# --- mount options: now, and after the next boot ---------------------------------------------------------------------


def _mounting(facts: Situation) -> Findings:
    findings = [*_mounted(facts), *_next_boot(facts)]
    yield from findings or [_ok("mount.options", facts.mount.target, ",".join(facts.mount.options))]


def _mounted(facts: Facts) -> Findings:
    mount, target = facts.mount, facts.mount.target
    remount = f"mount -o remount,{{}} {quote(target)}".format
    if _NO_BARRIER & {*mount.options}:
        # Mounting without barriers is harmless only if no device has a volatile write cache.
        cache = _caching(facts)
        severity = CRITICAL if cache or not facts.devices else NOTE
        what = "barriers are off: fsync does not make the device write its cache"
        yield _finding(severity, "mount.barrier", target, what, [remount("barrier=1")], cache=cache or "a device below")
    if "sync" in mount.options:
        yield _finding(WARNING, "mount.sync", target, "sync", [remount("async")])
    for option in (option for option in mount.options if option in ("data=journal", "data=writeback")):
        yield _finding(WARNING, f"mount.{option}", target, option)
    if "discard" in mount.options and mount.kind != "btrfs":
        mend = [remount("nodiscard"), "systemctl enable --now fstrim.timer"]
        yield _finding(NOTE, "mount.discard", target, "discard: freed blocks are discarded at once", mend)


def _caching(facts: Facts) -> str:
    """Returns the paths of the disks with a volatile write cache."""
    return ", ".join(disk.path for disk in facts.devices if disk.write_cache == "write back" and not disk.on)


def _next_boot(facts: Facts) -> Findings:
    mount, entry, target = facts.mount, facts.fstab, facts.mount.target
    if entry is None:
        if mount.source.startswith("/dev/") and target != "/":
            options = f"subvol={commands.fstab_word(mount.root)} 0 0" if mount.is_subvolume else "defaults 0 2"
            line = commands.add_to_fstab(mount.source, target, mount.kind, options)
            is_whole = mount.root == "/" or mount.is_subvolume  # not a directory mounted by mount --bind
            yield _finding(NOTE, "fstab.missing", target, "no line in /etc/fstab", (line,) if is_whole else ())
        return
    names = {option: option.partition("=")[0] for option in entry.options}
    if {"bind", "rbind"} & names.keys():  # the options of a bind mount are in another line
        return
    line = f"/etc/fstab, line {entry.number}"
    if mount.is_subvolume and target != "/":
        ids = {option for option in mount.options if option.startswith("subvolid=")}
        paths = [f"/{option.removeprefix('subvol=').strip('/')}" for option in names if names[option] == "subvol"]
        if not ids & names.keys() and mount.root not in paths:
            others = [option for option in names if names[option] not in ("subvol", "subvolid", "defaults")]
            what = f"{line}, does not name the subvolume {mount.root}, which is mounted"
            mend = [_changed(entry, entry.kind, [*others, f"subvol={mount.root}"])]
            yield _finding(WARNING, "fstab.subvolume", target, what, mend)
    if entry.kind not in ("auto", mount.kind):
        what = f"{line}, says {entry.kind}, but {mount.kind} is mounted"
        yield _finding(WARNING, "fstab.kind", target, what, [_changed(entry, mount.kind, entry.options)])
        return
    removed_options = sorted(_REMOVED & {*names.values()}) if mount.kind == "xfs" else []
    if removed_options:
        what = f"{line}: the next mount fails ({', '.join(removed_options)})"
        remaining_options = [option for option in names if names[option] not in _REMOVED]
        mend = [_changed(entry, entry.kind, remaining_options), "findmnt --verify"]
        yield _finding(CRITICAL, "fstab.removed", target, what, mend)
    elif names.keys() & _NO_BARRIER and not {*mount.options} & _NO_BARRIER:
        remaining_options = [option for option in names if names[option] not in ("nobarrier", "barrier")]
        what = f"{line}, turns barriers off at the next mount"
        yield _finding(CRITICAL, "fstab.barrier", target, what, [_changed(entry, entry.kind, remaining_options)])


def _changed(entry: FstabEntry, kind: str, options: Sequence[str]) -> str:
    """Returns the line that replaces `entry` in fstab, preceded by its line number."""
    words = (entry.source, entry.target, kind, ",".join(options) or "defaults")
    return f"line {entry.number}: {' '.join(map(commands.fstab_word, words))} {entry.rest or '0 2'}"


# --- devices ---------------------------------------------------------------------------------------------------------


def _hardware(facts: Situation) -> Findings:
    physical = {volume.name: volume for volume in facts.volumes.physical}
    misaligned = [finding for device in facts.devices for finding in alignment(device, physical.get(device.path))]
    yield from misaligned
    if facts.top and not misaligned:
        yield _ok("alignment", facts.top.path, "aligned down to the disks")
    if cache := _caching(facts):
        what = "volatile write cache, which every commit makes the device write: barriers are needed"
        yield _ok("write_cache", cache, what)


def alignment(device: Device, physical: PhysicalVolume | None) -> Findings:
    """Yields a warning if `device` is misaligned. `physical`: LVM's physical volume on the device, or None."""
    sector, unit, where = max(device.physical_sector, _SECTOR), max(device.min_io, _SECTOR), ""
    if device.alignment_offset > 0:
        where = f"its first sector lies {device.alignment_offset} bytes off"
    elif device.kind == "partition" and device.start % sector:
        where = f"begins at byte {device.start}"
    elif physical is not None:
        (disk,), first = commands.placeholders(1), device.start + physical.start
        if first % unit:
            what = f"its first extent begins at byte {first} of the disk, within a stripe of {units.size(unit)}"
            mend = [
                f"# with another device of {units.size(device.size)} or more, made like this one:",
                f"pvcreate --dataalignment {unit // 1024}k {disk}",
                f"vgextend {physical.group} {disk}",
                f"pvmove {device.path} {disk}",
                f"vgreduce {physical.group} {device.path}",
            ]
            yield _finding(WARNING, "alignment", device.path, what, mend, "alignment.extents")
    elif device.kind == "partition" and device.start % max(device.min_io, sector):
        where = f"begins at byte {device.start}, within a stripe of {units.size(device.min_io)}"
    if where:
        mend = [
            "# once the partition is removed, with all that is on it:",
            f"echo start={ALIGNED >> 20}MiB | sfdisk --append /dev/{device.on[0] if device.on else device.name}",
        ]
        yield _finding(WARNING, "alignment", device.path, f"misaligned: {where}", mend)


# --- space on the volume and in the map ------------------------------------------------------------------------------


def _space(facts: Situation) -> Findings:
    database, where, size, free = facts.database, facts.mount.target, facts.space.size, facts.space.free
    if database is None:
        yield _ok("space", where, f"{units.size(free)} of {units.size(size)} free")
        return
    needed = max(database.allocated, database.used)
    what = f"{units.size(size)}, {units.size(free)} free; the database takes {units.size(needed)}"
    if size >= 3 * needed and free >= needed:
        yield _ok("space", where, what)
    else:
        severity = WARNING if size < 2 * needed or free < needed else NOTE
        lack = 3 * needed - size if size < 3 * needed else needed - free
        yield _finding(severity, "space", where, what, _enlarge(facts, lack))
    map_size, reachable = facts.map_size, database.allocated + free
    if not map_size:
        return
    if map_size <= reachable:
        yield _ok("maxsize", database.path, f"map size {units.size(map_size)} fits on the volume")
    else:
        what = f"map size {units.size(map_size)}, but data.mdb can grow to {units.size(reachable)} only"
        lower = f"{_CHANGE_MAXSIZE} {max(reachable * 9 // 10 >> 20, 1)}M --apply"
        yield _finding(WARNING, "maxsize", database.path, what, (*_enlarge(facts, map_size - reachable), lower))
    if database.used >= _TIGHT * map_size:
        what = f"{100 * database.used / map_size:.0f} % of the map size is in use"
        yield _finding(WARNING, "maxsize.used", database.path, what, (f"{_CHANGE_MAXSIZE} auto --apply",))


def _enlarge(facts: Facts, lack: int) -> tuple[str, ...]:
    """Returns commands that enlarge the volume by `lack` bytes plus 5 %, which the file system itself may need."""
    volume, mount = facts.volume, facts.mount
    if volume is None or volume.pool is not None or facts.top is None or volume.path != facts.top.path:
        return ()
    if mount.kind not in (*EXT, "xfs", "btrfs"):
        return ()
    is_btrfs = mount.kind == "btrfs"
    resize = [f"btrfs filesystem resize max {quote(mount.target)}"] if is_btrfs else []
    return (*enlarging(facts.volumes, volume, lack + lack // 20, "" if is_btrfs else "-r "), *resize)


RULES: tuple[Callable[[Situation], Findings], ...]
RULES = _kind, _parameters, _stripes, _layout, _memory, _readahead, _mounting, _hardware, _space
