"""Is what slapd commits on the disk? nosync and its like, and what killed runs of ditseed have left loosened."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from loader.config import Config
from loader.operations import leases
from loader.operations.doctor.facts import Database, Facts, Lease
from loader.operations.storage.findings import Finding, Severity
from loader.run import lease

_SOURCE = "slapd-mdb(5), dbnosync and envflags"
_ASYNC = {"nosync", "mapasync", "writemap"}
_STAYS = "sessionlog"  # until `ditseed replica release`


def look() -> tuple[Lease, ...]:
    """Of all servers. Raises LoaderError."""
    return tuple(
        Lease(one.kind, one.target, one.database, one.taken, one.undo) for one in lease.left()
    )


def holder(config: Config, suffix: str) -> str:
    """Of nosync as a lease that lasts, such as a load that runs; empty: nobody."""
    found = lease.lasting(leases.known(config), "nosync")
    return next((one.why or one.by for one in found if one.database == suffix), "")


def findings(facts: Facts) -> Iterator[Finding]:
    yield from (_lease(one) for one in facts.leases)
    for database in facts.databases:
        yield from _flags(facts, database)


def _lease(one: Lease) -> Finding:
    return Finding(
        Severity.NOTE if one.kind == _STAYS else Severity.WARNING,
        "lease",
        one.database,
        f"{one.kind} at {one.target} is as a run of {one.taken} has set it, which did not put it back",
        "The run was killed, or could not reach the server at its end.",
        (one.undo,),
        "docs/add.md",
    )


def _flags(facts: Facts, database: Database) -> Iterator[Finding]:
    flags = {flag.lower() for flag in database.env_flags}
    if not database.nosync and not flags & _ASYNC:
        yield Finding(Severity.OK, "sync", database.suffix, "commits are synced to the disk")
        return
    if database.nosync:
        yield _nosync(facts, database, flags)
    elif "mapasync" in flags:
        yield _asynchronous(database)
    if "writemap" in flags:
        yield _writemap(database)


def _nosync(facts: Facts, database: Database, flags: set[str]) -> Finding:
    left = any((one.kind, one.database) == ("nosync", database.suffix) for one in facts.leases)
    unknown = "left by a run" if left else "and no run of ditseed has set it"
    whose = f"lent for {database.lent}" if database.lent else unknown
    worst = "writemap" in flags or not _minutes(database)
    said = ", writemap" if "writemap" in flags else ""
    flushed = f"checkpoint {database.checkpoint}" if _minutes(database) else "no checkpoint"
    return Finding(
        Severity.CRITICAL if worst else Severity.WARNING,
        "sync",
        database.suffix,
        f"nosync{said}, {flushed}, {whose}",
        "A crash of the host can lose what was written last, or damage the whole database. nosync is for a load that "
        "can be "
        "done again. Of the checkpoint only the minutes count.",
        facts.tuned("sync", "-b", shlex.quote(database.suffix), "--nosync", "off"),
        _SOURCE,
    )


def _minutes(database: Database) -> int:
    words = (database.checkpoint or "").split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else 0


def _asynchronous(database: Database) -> Finding:
    return Finding(
        Severity.WARNING,
        "sync",
        database.suffix,
        "envflags mapasync: commits are flushed when the system likes",
        "A crash of the host can lose what was written last, or damage the database.",
        ("# remove mapasync from olcDbEnvFlags of the database, and restart slapd",),
        _SOURCE,
    )


def _writemap(database: Database) -> Finding:
    return Finding(
        Severity.NOTE,
        "writemap",
        database.suffix,
        "envflags writemap: slapd writes into its memory map",
        "A stray write of slapd or a module damages the file, and a full disk ends slapd with SIGBUS instead of an "
        "error.",
        ("# remove writemap from olcDbEnvFlags of the database, and restart slapd",),
        _SOURCE,
    )
