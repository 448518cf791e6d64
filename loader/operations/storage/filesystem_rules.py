"""Kinds of file systems: those that LMDB must not be on, those that are gone, those with a price."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from loader import units
from loader.operations.storage import findings as commands
from loader.operations.storage.findings import Finding, Severity, Situation
from loader.storage.devices import Device
from loader.storage.mounts import FstabEntry, Mount
from loader.storage.survey import Facts
from loader.storage.volumes import EXT, Parameters

_LMDB = "lmdb.h, Caveats"
_NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs", "ncpfs"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.cifs", "virtiofs"),
}
_CLUSTER = {"ocfs2", "gfs2"}
_FIT = {"xfs", "ext4", "ext3"}
_MOVE = ("mkfs.xfs DEVICE",)

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
    "tmpfs": (Severity.CRITICAL, "in memory", "Gone at the next boot.", "tmpfs(5)"),
    "ramfs": (Severity.CRITICAL, "in memory", "Gone at the next boot.", "tmpfs(5)"),
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
}


def kind_findings(situation: Situation) -> Iterator[Finding]:
    mount = situation.facts.mount
    kind, where = mount.kind, mount.target
    if kind in _NETWORK:
        yield _network(kind, where)
    elif kind in _CLUSTER:
        yield _cluster(kind, where)
    elif kind == "btrfs":
        yield _btrfs(situation)
    elif kind in KNOWN:
        severity, what, why, source = KNOWN[kind]
        yield Finding(severity, "filesystem", where, f"{kind}: {what}", why, _MOVE, source)
    elif kind in _FIT:
        yield Finding(Severity.OK, "filesystem", where, kind)
    else:
        yield _unknown(kind, where)
    if "ro" in mount.options:
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


def _network(kind: str, where: str) -> Finding:
    return Finding(
        Severity.CRITICAL,
        "filesystem",
        where,
        f"{kind}: a network file system",
        "LMDB relies on a shared memory map and on locks that network file systems do not provide, even among "
        "processes of one host: the database may be damaged. Use a file system on a block device.",
        _MOVE,
        _LMDB,
    )


def _cluster(kind: str, where: str) -> Finding:
    return Finding(
        Severity.WARNING,
        "filesystem",
        where,
        f"{kind}: a cluster file system",
        "Only one node may have the database open, slapd and slapd's tools included: the memory map and lock.mdb are "
        "not shared between nodes. For a single node, a local file system is simpler and faster.",
        _MOVE,
        _LMDB,
    )


def _btrfs(situation: Situation) -> Finding:
    where = situation.facts.mount.target
    if situation.facts.no_cow or "nodatacow" in situation.facts.mount.options:
        told = "btrfs, without copy-on-write for this path (and so without its checksums)"
        return Finding(Severity.OK, "filesystem", where, told)
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
    if situation.database is None:
        return (f"chattr +C {quote(situation.facts.path)}",)
    file = situation.facts.path
    data, copy, directory = quote(file), quote(f"{file}.new"), quote(str(Path(file).parent))
    owner = f'setpriv --reuid "$(stat -c %u {data})" --regid "$(stat -c %g {data})" --clear-groups'
    return (
        "# while slapd is stopped:",
        f"chattr +C {directory}",
        f"{owner} cp -p --reflink=never {data} {copy}",
        f"{owner} mv {copy} {data}",
    )


def _unknown(kind: str, where: str) -> Finding:
    fuse = kind.startswith("fuse")
    return Finding(
        Severity.WARNING if fuse else Severity.NOTE,
        "filesystem",
        where,
        f"{kind}: " + ("a file system in user space" if fuse else "not one that ditseed knows"),
        "Whether its shared memory maps, locks and fsync are those that LMDB needs depends on what is behind it.",
        (),
        _LMDB,
    )


# --- format ----------------------------------------------------------------------------------------------------------
#
# What a file system was made with, against the pages of the database and the stripes of the device.


XFS_MINIMUM = 300 << 20  # bytes: mkfs.xfs refuses a smaller device
XFS_LEAST = 1 << 30  # bytes: below, mkfs.xfs takes no stripes over from the device


def format_findings(situation: Situation) -> Iterator[Finding]:
    yield _block(situation)
    facts = situation.facts
    if facts.parameters is not None and not facts.parameters.journal:
        yield from _no_journal(situation)
    if facts.parameters is not None and facts.top is not None:
        yield from _stripes(situation, facts.parameters, facts.top)


def _block(situation: Situation) -> Finding:
    facts, page = situation.facts, situation.page
    block = facts.parameters.block if facts.parameters else facts.space.block
    told = f"blocks of {block} bytes, pages of {page}"
    if block >= page or facts.mount.kind not in (*EXT, "xfs"):
        return Finding(Severity.OK, "block_size", facts.mount.target, told)
    make = "mkfs.xfs -b size=" if facts.mount.kind == "xfs" else f"mkfs.{facts.mount.kind} -b "
    return Finding(
        Severity.WARNING,
        "block_size",
        facts.mount.target,
        told,
        f"A page of the database lies in {page // block} blocks, which may be far apart, and each write of a page is "
        "that many. The block size is chosen when the file system is made: make one on another volume, and move the "
        "database.",
        (f"{make}{page} DEVICE",),
        "mkfs.xfs(8), mke2fs(8)",
    )


def _no_journal(situation: Situation) -> Iterator[Finding]:
    mount = situation.facts.mount
    if mount.kind == "ext2":  # has none; kinds.py says so
        return
    add, where = f"tune2fs -O has_journal {quote(mount.source)}", quote(mount.target)
    again = where if situation.facts.fstab else f"-t {mount.kind} {quote(mount.source)} {where}"
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


def _stripes(situation: Situation, made: Parameters, top: Device) -> Iterator[Finding]:
    where = situation.facts.mount.target
    unit, width = _topology(situation, top)
    told = _told(situation.facts.mount.kind, made)
    stripes = (made.stripe_unit, made.stripe_width)
    if stripes == (top.min_io, top.opt_io) or (unit and stripes == (unit, width)):
        yield Finding(Severity.OK, "stripes", where, f"{told}, as {top.path} has")
    elif not unit:
        if made.stripe_unit:
            yield _not_striped(situation, told, top)
    elif not made.stripe_unit and _too_small(situation):
        reason = "mkfs.xfs takes no stripes over below 1 GiB"
        yield Finding(Severity.OK, "stripes", where, f"made without stripes: {reason}")
    else:
        yield Finding(
            Severity.WARNING,
            "stripes",
            where,
            f"{told}; {top.path} has stripes of {units.size(unit)}, {width // unit} of them",
            "What the file system allocates does not begin where a stripe does, so large reads and writes load the "
            "disks unevenly, and a RAID with parity reads before it writes.",
            _mend(situation, unit, width),
            "mkfs.xfs(8), -d su and sw; ext4(5), stripe",
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
    striped = top.kind in ("lvm", "dm") or top.kind.startswith("md")
    if not striped or top.opt_io <= top.min_io or top.opt_io % max(1, top.min_io):
        return 0, 0
    return top.min_io, top.opt_io


def _too_small(situation: Situation) -> bool:
    return situation.facts.mount.kind == "xfs" and situation.facts.devices[0].size < XFS_LEAST


def _told(kind: str, made: Parameters) -> str:
    if not made.stripe_unit:
        return "made without stripes"
    names = ("sunit", "swidth") if kind == "xfs" else ("stride", "stripe width")
    return f"{names[0]} {units.size(made.stripe_unit)}, {names[1]} {units.size(made.stripe_width)}"


def _not_striped(situation: Situation, told: str, top: Device) -> Finding:
    return Finding(
        Severity.NOTE,
        "stripes",
        situation.facts.mount.target,
        f"{told}; {top.path} states no stripes",
        "Right if a RAID controller or a storage array stripes below; else it was made for another device.",
        source="mkfs.xfs(8), -d su and sw; ext4(5), stripe",
    )


def _mend(situation: Situation, unit: int, width: int) -> tuple[str, ...]:
    mount = situation.facts.mount
    if mount.kind in EXT:
        block = situation.facts.parameters.block if situation.facts.parameters else 4096
        return (f"tune2fs -E stride={unit // block},stripe_width={width // block} {quote(mount.source)}",)
    return (
        "# on a new volume with these stripes (mkfs.xfs takes them over by itself):",
        f"mkfs.xfs -d su={unit},sw={width // unit} DEVICE",
    )


# --- mounting --------------------------------------------------------------------------------------------------------
#
# Mount options that are harmful, or gone: of the mount as it is, and of its line in /etc/fstab.


_XFS = "xfs(5), Removed mount options"
_MOUNT = "mount(8), ext4(5)"
# Option of XFS -> the version of Linux that refuses it.
_REMOVED = {
    **dict.fromkeys(("barrier", "nobarrier"), "4.19"),
    **dict.fromkeys(("delaylog", "nodelaylog", "ihashsize", "irixsgid", "osyncisdsync", "osyncisosync"), "4.0"),
}
_DEPRECATED = {"attr2", "noattr2", "ikeep", "noikeep"}  # of XFS, in the kernel's admin-guide/xfs
_NO_BARRIER = {"nobarrier", "barrier=0"}


def mount_findings(situation: Situation) -> Iterator[Finding]:
    facts = situation.facts
    before = [*_mounted(facts), *_planned(facts)]
    yield from before
    if not before:
        yield Finding(Severity.OK, "mount.options", facts.mount.target, ",".join(facts.mount.options))


def _mounted(facts: Facts) -> Iterator[Finding]:
    mount = facts.mount
    options = set(mount.options)
    if options & _NO_BARRIER:
        yield _no_barrier(facts)
    if "sync" in options:
        yield Finding(
            Severity.WARNING,
            "mount.sync",
            mount.target,
            "sync",
            "Every write waits for the disk, also those between two commits.",
            (f"mount -o remount,async {quote(mount.target)}",),
            _MOUNT,
        )
    if "data=journal" in options:
        yield _harmful(mount, "data=journal", "All data is written twice, first to the journal.")
    if "data=writeback" in options:
        yield _harmful(
            mount, "data=writeback", "After a crash, blocks that were just allocated may hold what was there before."
        )
    if "discard" in options and mount.kind != "btrfs":
        yield Finding(
            Severity.NOTE,
            "mount.discard",
            mount.target,
            "discard: freed blocks are discarded at once",
            "This can slow down the device while it works. A weekly fstrim does the same; a database frees hardly any.",
            (f"mount -o remount,nodiscard {quote(mount.target)}", "systemctl enable --now fstrim.timer"),
            "xfs(5), discard; fstrim(8)",
        )


def _no_barrier(facts: Facts) -> Finding:
    """Harmless only where no device keeps what it was told to write in a cache that loses it."""
    volatile = [one.path for one in facts.devices if one.write_cache == "write back" and not one.on]
    severity = Severity.CRITICAL if volatile or not facts.devices else Severity.NOTE
    cached = f"{', '.join(volatile)} may keep" if volatile else "a device below may keep"
    return Finding(
        severity,
        "mount.barrier",
        facts.mount.target,
        "barriers are off: fsync does not make the device write its cache",
        f"A power cut loses what {cached} in a volatile cache, in any order: LMDB's meta page may then name pages that "
        "were never written, and the database is damaged.",
        (f"mount -o remount,barrier=1 {quote(facts.mount.target)}",),
        "ext4(5), barrier; lmdb.h, MDB_NOSYNC",
    )


def _harmful(mount: Mount, option: str, why: str) -> Finding:
    rule = f"mount.{option}"
    return Finding(Severity.WARNING, rule, mount.target, option, why, source=_MOUNT)


def _planned(facts: Facts) -> Iterator[Finding]:
    """What the next boot will do."""
    mount, entry = facts.mount, facts.fstab
    if entry is None:
        if mount.source.startswith("/dev/") and mount.target != "/":
            yield _not_planned(facts)
        return
    if {"bind", "rbind"} & {*entry.options}:  # the options of the file system are on another line
        return
    if mount.is_subvolume and mount.target != "/" and not _names_subvolume(entry, mount):
        yield Finding(
            Severity.WARNING,
            "fstab.subvolume",
            mount.target,
            f"/etc/fstab, line {entry.number}, does not name the subvolume {mount.root}, which is mounted",
            "Unless it is the default subvolume (btrfs subvolume get-default), the next boot mounts another one, and "
            "slapd does not find the database.",
            (_line(entry, entry.kind, _with_subvolume(entry, mount)),),
            "btrfs(5), subvol",
        )
    if entry.kind not in ("auto", mount.kind):
        yield Finding(
            Severity.WARNING,
            "fstab.kind",
            mount.target,
            f"/etc/fstab, line {entry.number}, says {entry.kind}; mounted is {mount.kind}",
            "The next boot mounts another file system there, or fails.",
            (_line(entry, mount.kind, entry.options),),
            "fstab(5)",
        )
        return
    names = {one.partition("=")[0] for one in entry.options}
    if mount.kind == "xfs" and names & _REMOVED.keys():
        yield _fails(entry, sorted(names & _REMOVED.keys()))
    elif set(entry.options) & _NO_BARRIER and not set(mount.options) & _NO_BARRIER:
        kept = [one for one in entry.options if one not in _NO_BARRIER]
        yield Finding(
            Severity.CRITICAL,
            "fstab.barrier",
            mount.target,
            f"/etc/fstab, line {entry.number}, turns barriers off at the next mount",
            "A power cut can then damage the database.",
            (_line(entry, entry.kind, kept),),
            "ext4(5), barrier",
        )
    if mount.kind == "xfs" and names & _DEPRECATED:
        yield _soon_gone(entry, sorted(names & _DEPRECATED))


def _names_subvolume(entry: FstabEntry, mount: Mount) -> bool:
    of_mount = {one for one in mount.options if one.startswith("subvolid=")}
    paths = [one.removeprefix("subvol=") for one in entry.options if one.startswith("subvol=")]
    return bool(of_mount & {*entry.options}) or mount.root in [f"/{one.strip('/')}" for one in paths]


def _with_subvolume(entry: FstabEntry, mount: Mount) -> list[str]:
    kept = [one for one in entry.options if not one.startswith(("subvol=", "subvolid="))]
    return [*(one for one in kept if one != "defaults"), f"subvol={mount.root}"]


def _to_fstab(mount: Mount, base: Mount | None) -> str:
    """The line that mounts the same at the next boot. `base`: of a bind mount, the mount that its directory is on."""
    if base is not None:
        inside = mount.root.removeprefix(base.root.rstrip("/"))
        source = f"{base.target.rstrip('/')}{inside}"
        return commands.add_to_fstab(source, mount.target, "none", "bind 0 0")
    if mount.is_subvolume:
        options = f"subvol={commands.fstab_word(mount.root)} 0 0"
        return commands.add_to_fstab(mount.source, mount.target, mount.kind, options)
    return commands.add_to_fstab(mount.source, mount.target, mount.kind)


def _not_planned(facts: Facts) -> Finding:
    mount, base = facts.mount, facts.base
    lines = []
    if base is not None and facts.base_fstab is None and base.target != "/":
        lines.append(_to_fstab(base, None))
    if base is not None or not mount.is_bind:  # else its directory cannot be named: in a container, for example
        lines.append(_to_fstab(mount, base))
    return Finding(
        Severity.NOTE,
        "fstab.missing",
        mount.target,
        "no line in /etc/fstab",
        "Unless a unit of systemd mounts it, the next boot does not, and slapd finds an empty directory.",
        tuple(lines),
        "fstab(5)",
    )


def _fails(entry: FstabEntry, gone: list[str]) -> Finding:
    kept = [one for one in entry.options if one.partition("=")[0] not in _REMOVED]
    since = ", ".join(f"{name} in Linux {_REMOVED[name]}" for name in gone)
    return Finding(
        Severity.CRITICAL,
        "fstab.removed",
        entry.target,
        f"/etc/fstab, line {entry.number}: the next mount fails ({', '.join(gone)})",
        f"XFS no longer knows these options and refuses the mount; removed: {since}.",
        (_line(entry, entry.kind, kept), "findmnt --verify"),
        _XFS,
    )


def _soon_gone(entry: FstabEntry, names: list[str]) -> Finding:
    kept = [one for one in entry.options if one.partition("=")[0] not in _DEPRECATED]
    return Finding(
        Severity.NOTE,
        "fstab.deprecated",
        entry.target,
        f"/etc/fstab, line {entry.number}: {', '.join(names)} will be refused by a later Linux",
        "They have no effect any more.",
        (_line(entry, entry.kind, kept),),
        "xfs(5); kernel documentation, admin-guide/xfs",
    )


def _line(entry: FstabEntry, kind: str, options: list[str] | tuple[str, ...]) -> str:
    """What has to stand in the place of the line."""
    words = (entry.source, entry.target, kind, ",".join(options) or "defaults")
    return f"line {entry.number}: {' '.join(map(commands.fstab_word, words))} {entry.rest or '0 2'}"
