"""Syncrepl: how far is a consumer behind its provider, by contextCSN?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timezone
from functools import partial
from pathlib import Path

from loader import csn, syncrepl, units
from loader.config import Config
from loader.config import Database as Configured
from loader.mdb import context_csn
from loader.operations.doctor.facts import Database, Facts, Replication
from loader.operations.storage.findings import Finding, Severity
from loader.server.options import Connection
from loader.server.session import session

WARNING, CRITICAL = 300.0, 3600.0  # seconds
_SOURCE = "slapd-config(5), olcSyncrepl"
Shown = tuple[str, ...]
At = Callable[[str, Callable[[], Shown]], Shown | None]


def stored(directory: Path, suffix: str) -> tuple[str, ...]:
    """Raises LoaderError."""
    return tuple(context_csn.stored(directory, suffix))


def look(
    config: Config, database: Configured, known: tuple[str, ...], access: Connection, at: At
) -> Iterator[Replication]:
    """One for each provider. Only the account that was given is used, never one of the configuration. Raises
    SyncreplUnreadable."""
    values = config.values(database.entry_dn, "olcSyncrepl")
    found = [syncrepl.parse(value, config.where) for value in values]
    asked = {(access.uri or one.provider, one.searchbase): one for one in found}
    for (uri, _), one in asked.items():
        connection = replace(access, uri=uri, base=one.searchbase)
        shown = at(f"{database.suffix}: contextCSN of {uri}", partial(_shown, connection))
        yield Replication(uri, known, shown, _age(known))


def _shown(connection: Connection) -> tuple[str, ...]:
    """Raises NoContextCSN too: with what has to be done for it."""
    assert connection.base is not None
    with session(connection) as server:
        return tuple(server.context_csns(connection.base))


def _age(csns: tuple[str, ...]) -> float | None:
    newest = max(csns, default=None)
    return None if newest is None else max(0.0, time.time() - _seconds(newest))


def _seconds(text: str) -> float:
    return csn.time(text).replace(tzinfo=timezone.utc).timestamp()


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        for one in database.replication:
            yield _of(database, one)


def lag(one: Replication) -> float | None:
    """Seconds between the provider's newest change and ours, of the server ID that is furthest behind; None where the
    provider shows nothing, infinite where we have seen nothing of a server ID."""
    if one.shown is None:
        return None
    ours, theirs = csn.by_server(one.stored), csn.by_server(one.shown)
    behind = [
        _seconds(text) - _seconds(ours[sid]) if sid in ours else float("inf")
        for sid, text in theirs.items()
        if text > ours.get(sid, "")
    ]
    return max(behind, default=0.0)


def _of(database: Database, one: Replication) -> Finding:
    seconds = lag(one)
    if seconds is None:
        return _unknown(database, one)
    severity = Severity.OK
    if seconds >= WARNING:
        severity = Severity.CRITICAL if seconds >= CRITICAL else Severity.WARNING
    return Finding(
        severity,
        "replication",
        database.suffix,
        f"{_told(seconds)} {one.provider}, by contextCSN",
        ""
        if severity is Severity.OK
        else "The consumer does not receive changes, or not as fast as they are made.",
        ()
        if severity is Severity.OK
        else (
            "# slapd's log says why, with loglevel sync; then:",
            f"ditseed replica verify -H {one.provider} -b {database.suffix} --consumer ldapi:///",
        ),
        _SOURCE,
    )


def _told(seconds: float) -> str:
    if seconds == float("inf"):
        return "has seen no change of one of the server IDs of"
    return f"is {units.duration(seconds)} behind" if seconds else "is equal to"


def _unknown(database: Database, one: Replication) -> Finding:
    told = (
        "has no contextCSN"
        if one.age is None
        else f"has seen changes until {units.duration(one.age)} ago"
    )
    return Finding(
        Severity.NOTE,
        "replication",
        database.suffix,
        f"a consumer of {one.provider}, which did not show its contextCSN; it {told}",
        "Whether that is behind depends on whether the provider has changed since.",
        ("ditseed doctor -H PROVIDER -D DN -y FILE",),
        _SOURCE,
    )
