"""How pages come from the disk and go to it: readahead, memory against the size of the database, nosync."""

from __future__ import annotations

from collections.abc import Iterator

from loader import units
from loader.operations.storage import commands
from loader.operations.storage.commands import FEW_SECTORS
from loader.operations.storage.findings import Configured, Finding, Severity, Situation
from loader.storage.survey import Facts

USUAL = 128 * 1024  # bytes: what the kernel gives a disk
_COSTLY = 512 * 1024
_LARGE = 1024 * 1024


def findings(situation: Situation) -> Iterator[Finding]:
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
        return Finding(
            Severity.OK, "readahead", subject, f"{told}, which slapd does not use (nordahead)"
        )
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
