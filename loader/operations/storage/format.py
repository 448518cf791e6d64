"""What a file system was made with, against the pages of the database and the stripes of the device."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from loader import units
from loader.operations.storage.findings import Finding, Severity, Situation
from loader.storage.devices import Device
from loader.storage.filesystems import EXT, Parameters

XFS_MINIMUM = 300 << 20  # bytes: mkfs.xfs refuses a smaller device
XFS_LEAST = 1 << 30  # bytes: below, mkfs.xfs takes no stripes over from the device


def findings(situation: Situation) -> Iterator[Finding]:
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
        return (
            f"tune2fs -E stride={unit // block},stripe_width={width // block} {quote(mount.source)}",
        )
    return (
        "# on a new volume with these stripes (mkfs.xfs takes them over by itself):",
        f"mkfs.xfs -d su={unit},sw={width // unit} DEVICE",
    )
