"""Kinds of file systems: those that LMDB must not be on, those that are gone, those with a price."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from loader.operations.storage.findings import Finding, Severity, Situation

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


def findings(situation: Situation) -> Iterator[Finding]:
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
