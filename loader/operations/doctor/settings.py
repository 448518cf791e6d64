"""What the configuration lacks: a maxsize, the indexes and the server ID that replication needs, and a rule that lets
an account other than the root DN read a whole database."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from loader.operations.doctor.facts import Database, Facts
from loader.operations.storage.findings import Finding, Severity

_UNLIMITED = (
    "size=unlimited",
    "size.hard=unlimited",
    "size.prtotal=unlimited",
    "size=-1",
    "size.hard=-1",
)
_EVERYBODY = ("unlimited", "-1")  # as olcSizeLimit has it


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        yield from _lacking(facts, database)
        if "syncprov" in database.overlays and not _is_lifted(database):
            yield Finding(
                Severity.NOTE,
                "limits",
                database.suffix,
                "neither olcSizeLimit nor olcLimits lets an account read all of it (500 entries by default)",
                "Only the root DN can read all of it: neither a consumer nor `ditseed export` with an account of its "
                "own can. "
                "The rule belongs before all others of the database.",
                (
                    "ditseed export -H ldap://HOST -D DN -y FILE -o /srv/export  # its hint has the commands for DN",
                ),
                "slapd-config(5), olcLimits",
            )


def _lacking(facts: Facts, database: Database) -> Iterator[Finding]:
    suffix = shlex.quote(database.suffix)
    if not database.is_maxsize_set:
        yield Finding(
            Severity.WARNING,
            "maxsize.unset",
            database.suffix,
            "maxsize was never set: it is slapd's default of 10 MiB",
            "A few thousand entries fill that, and then slapd refuses every write (MDB_MAP_FULL).",
            facts.tuned("maxsize", "-b", suffix, "--maxsize", "auto"),
            "slapd-mdb(5), maxsize",
        )
    if database.lacking:
        yield Finding(
            Severity.WARNING,
            "indexes.sync",
            database.suffix,
            f"the configuration has no index {', no index '.join(database.lacking)}",
            "syncprov searches by entryCSN and syncrepl by entryUUID: without an index slapd looks at every entry for "
            "each such search.",
            facts.tuned("indexes", "-b", suffix, *_added(database)),
            "slapo-syncprov(5)",
        )
    if database.is_multi_provider and not facts.has_server_id:
        yield Finding(
            Severity.CRITICAL,
            "server_id",
            database.suffix,
            "olcServerID is not set, and the database is of several providers (olcMultiProvider, olcMirrorMode)",
            "Two providers that both write as server ID 0 take each other's changes for their own, and lose them.",
            ("# give each provider a number of its own, 1 to 4095: olcServerID in cn=config",),
            "slapd-config(5), olcServerID",
        )


def _added(database: Database) -> Iterator[str]:
    for index in database.lacking:
        yield from ("--add", shlex.quote(index))


def _is_lifted(database: Database) -> bool:
    rules = any(word in value.lower() for value in database.limits for word in _UNLIMITED)
    words = database.size_limit.lower().split()
    return rules or any(word in (*_EVERYBODY, *_UNLIMITED) for word in words)
