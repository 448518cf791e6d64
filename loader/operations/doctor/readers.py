"""Readers: slots of processes that have died, and the oldest process that still reads."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from loader import units
from loader.operations.doctor.facts import Database, Facts, Reader
from loader.operations.storage.findings import Finding, Severity

_MUCH = 0.10  # of maxsize, held
_FULL = 0.90  # of the reader slots, taken
_SOURCE = "lmdb.h, mdb_reader_check"


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        if database.slots_taken >= _FULL * database.slots > 0:
            yield _full(database)
        dead = [one for one in database.readers if not one.is_alive]
        alive = [one for one in database.readers if one.is_alive]
        if dead:
            yield _dead(facts, database, dead)
        if alive:
            yield _oldest(database, max(alive, key=lambda one: one.lag))


def _full(database: Database) -> Finding:
    taken, slots = database.slots_taken, database.slots
    place = shlex.quote(f"{database.directory}/lock.mdb")
    return Finding(
        Severity.CRITICAL if taken >= slots else Severity.WARNING,
        "readers.full",
        database.suffix,
        f"{taken} of {slots} reader slots are taken by processes that run",
        "Without a free slot slapd answers searches with an error (MDB_READERS_FULL), and no tool can read the "
        "database. maxreaders of the database sets their number when slapd starts, and nobody else has it open.",
        (
            f"fuser -v {place}  # who reads? end those that are not wanted",
            "# or set a greater olcDbMaxReaders (maxreaders), then: systemctl restart slapd",
        ),
        "lmdb.h, MDB_READERS_FULL",
    )


def _dead(facts: Facts, database: Database, dead: Sequence[Reader]) -> Finding:
    pids = ", ".join(dict.fromkeys(str(one.pid) for one in dead))
    lag = max(one.lag for one in dead)
    # A slot that is not behind keeps no page: a process that is killed now and then leaves one.
    return Finding(
        Severity.WARNING if lag else Severity.NOTE,
        "readers.dead",
        database.suffix,
        f"reader slots of processes that are gone ({pids}), the oldest {units.number(lag)} transactions "
        f"behind",
        "A process that was killed while it read (slapcat, a backup) keeps its slot, and with it every page that was "
        "freed "
        "since, until somebody has LMDB look for it. slapd itself only does that when no slot is free.",
        (shlex.join(["ditseed", "doctor", "--config", facts.config, "--fix"]),),
        _SOURCE,
    )


def _oldest(database: Database, oldest: Reader) -> Finding:
    room = database.room
    much = room is not None and room.held >= _MUCH * room.maxsize
    who = f"{oldest.process or 'a process'} (process {oldest.pid})"
    held = f", keeps {units.size(room.held)} from being used again" if room and room.held else ""
    return Finding(
        Severity.WARNING if much else Severity.OK,
        "readers.oldest",
        database.suffix,
        f"the oldest reader, {who}, is {units.number(oldest.lag)} transactions behind{held}",
        "LMDB uses no page again that was freed after the oldest reader began, so the file grows by every write "
        "meanwhile.",
        _ended(oldest) if much else (),
        _SOURCE,
    )


def _ended(reader: Reader) -> tuple[str, ...]:
    if reader.process == "slapd":
        return (
            "# a long search of slapd itself; find its connection, and end that client:",
            "ldapsearch -Q -LLL -Y EXTERNAL -H ldapi:/// -b cn=Connections,cn=Monitor monitorConnectionOpsExecuting",
        )
    return (
        f"ps -fp {reader.pid}  # is it still wanted?",
        f"kill {reader.pid} || kill -9 {reader.pid}",
    )
