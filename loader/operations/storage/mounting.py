"""Mount options that are harmful, or gone: of the mount as it is, and of its line in /etc/fstab."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from loader.operations.storage import commands
from loader.operations.storage.findings import Finding, Severity, Situation
from loader.storage.mounts import FstabEntry, Mount
from loader.storage.survey import Facts

_XFS = "xfs(5), Removed mount options"
_MOUNT = "mount(8), ext4(5)"
# Option of XFS -> the version of Linux that refuses it.
_REMOVED = {
    **dict.fromkeys(("barrier", "nobarrier"), "4.19"),
    **dict.fromkeys(
        ("delaylog", "nodelaylog", "ihashsize", "irixsgid", "osyncisdsync", "osyncisosync"), "4.0"
    ),
}
_DEPRECATED = {"attr2", "noattr2", "ikeep", "noikeep"}  # of XFS, in the kernel's admin-guide/xfs
_NO_BARRIER = {"nobarrier", "barrier=0"}


def findings(situation: Situation) -> Iterator[Finding]:
    facts = situation.facts
    before = [*_mounted(facts), *_planned(facts)]
    yield from before
    if not before:
        yield Finding(
            Severity.OK, "mount.options", facts.mount.target, ",".join(facts.mount.options)
        )


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
            mount,
            "data=writeback",
            "After a crash, blocks that were just allocated may hold what was there before.",
        )
    if "discard" in options and mount.kind != "btrfs":
        yield Finding(
            Severity.NOTE,
            "mount.discard",
            mount.target,
            "discard: freed blocks are discarded at once",
            "This can slow down the device while it works. A weekly fstrim does the same; a database frees hardly any.",
            (
                f"mount -o remount,nodiscard {quote(mount.target)}",
                "systemctl enable --now fstrim.timer",
            ),
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
    return bool(of_mount & {*entry.options}) or mount.root in [
        f"/{one.strip('/')}" for one in paths
    ]


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
    if (
        base is not None or not mount.is_bind
    ):  # else its directory cannot be named: in a container, for example
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
