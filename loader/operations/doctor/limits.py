"""May an account other than the root DN read a whole database? As far as the configuration tells."""

from __future__ import annotations

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


def _is_lifted(database: Database) -> bool:
    rules = any(word in value.lower() for value in database.limits for word in _UNLIMITED)
    words = database.size_limit.lower().split()
    return rules or any(word in (*_EVERYBODY, *_UNLIMITED) for word in words)
