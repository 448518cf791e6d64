"""slapd's release: the bugs that it has upstream, and whether it reads the files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from loader.operations.doctor.facts import Database, Facts
from loader.operations.storage.findings import Finding, Severity

_SCATTERED = ((2, 6, 11), (2, 6, 14))  # first and last release
_USUAL_IDLEXP = 16


def findings(facts: Facts) -> Iterator[Finding]:
    if facts.release is not None:
        yield from _known_bugs(facts, facts.release)
        for database in facts.databases:
            yield from _format(facts, facts.release, database)
    for database in facts.databases:
        if database.idlexp is not None and database.idlexp > _USUAL_IDLEXP:
            yield _long_lists(database, database.idlexp)


def _known_bugs(facts: Facts, release: tuple[int, int, int]) -> Iterator[Finding]:
    name = "slapd {}.{}.{}".format(*release)
    first, last = _SCATTERED
    if first <= release <= last:
        yield Finding(
            Severity.NOTE,
            "release.scattered_values",
            name,
            "its slapadd -q damages entries whose values of one attribute do not stand together in the LDIF",
            "An attribute A, then B, then A again: the values of B are added to A, and B is gone. OpenLDAP 2.6.11 to "
            "2.6.14 do "
            "this. `ditseed build` does not, and writes the same database.",
            ("# instead of slapadd -q:", f"ditseed build FILE.ldif --config {facts.config}"),
            "OpenLDAP, servers/slapd/entry.c; seen with 2.6.14",
        )
    if (2, 5, 0) <= release < (2, 7, 0):
        yield Finding(
            Severity.NOTE,
            "release.continue",
            name,
            "its slapadd -q -c loses good entries beside each bad one",
            "With -q an error (a DN that is there already) gives up the whole batch of up to 500 entries, and -c "
            "goes on after "
            "it. Without -q only the bad entry is left out.",
            (
                "# instead of slapadd -q -c:",
                f"ditseed build FILE.ldif --config {facts.config} --max-rejects 100",
            ),
            "seen with 2.5.13 and 2.6.14",
        )


def _format(facts: Facts, release: tuple[int, int, int], database: Database) -> Iterator[Finding]:
    if database.format is None:
        return
    reads = 1 if release < (2, 7, 0) else 3
    name = "OpenLDAP {}.{}.{}".format(*release)
    if database.format == reads:
        told = f"data.mdb has data format {database.format}, which {name} reads"
        yield Finding(Severity.OK, "format", database.suffix, told)
        return
    place, old = shlex.quote(database.directory), shlex.quote(f"{database.directory}.old")
    yield Finding(
        Severity.CRITICAL,
        "format",
        database.suffix,
        f"data.mdb has data format {database.format}; {name}, which is installed, reads format {reads}",
        "OpenLDAP 2.4 to 2.6 (LMDB 0.9) read format 1, OpenLDAP 2.7 (LMDB 1.0) reads format 3. slapd does not start "
        "on the "
        "other one. ditseed makes the database again in the format of this one.",
        (
            f"mv {place} {old}",
            f"ditseed migrate {old} {place} --config {facts.config} -b {shlex.quote(database.suffix)}",
        ),
        "lmdb.h, MDB_VERSION_MISMATCH",
    )


def _long_lists(database: Database, idlexp: int) -> Finding:
    return Finding(
        Severity.NOTE,
        "idlexp",
        database.suffix,
        f"idlexp {idlexp}: index keys have lists of up to {2**idlexp - 1:,} IDs",
        "A slapd that opens this database, or a copy of it, with a smaller idlexp copies such a list past the end of "
        "its buffer. "
        "Set the same idlexp on every server that gets a copy; to lower it, make the indexes again.",
        source="OpenLDAP, servers/slapd/back-mdb/idl.c",
    )
