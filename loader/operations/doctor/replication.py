"""Syncrepl: how far is a consumer behind its provider, by contextCSN?"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timezone
from pathlib import Path

from loader import csn, syncrepl, units
from loader.config import Config
from loader.config import Database as Configured
from loader.errors import AccountClosed, BadCredentials, LoaderError
from loader.mdb import context_csn
from loader.operations.doctor.facts import Database, Facts, Replication
from loader.operations.storage.findings import Finding, Severity
from loader.server import answering
from loader.server.options import Connection
from loader.syncrepl import Syncrepl

WARNING, CRITICAL = 300.0, 3600.0  # seconds
_SOURCE = "slapd-config(5), olcSyncrepl"
Missed = Callable[[str, str], None]


def stored(directory: Path, suffix: str) -> tuple[str, ...]:
    """Raises LoaderError."""
    return tuple(context_csn.stored(directory, suffix))


def look(
    config: Config, database: Configured, known: tuple[str, ...], access: Connection, missed: Missed
) -> Iterator[Replication]:
    """One for each provider. It is asked as the account that was given, else as that of olcSyncrepl; in any case it is
    asked whether it takes the latter. Raises SyncreplUnreadable."""
    asked: set[tuple[str, str]] = set()
    for value in config.values(database.entry_dn, "olcSyncrepl"):
        one = syncrepl.parse(value, config.where)
        uri = access.uri or one.provider
        if (uri, one.searchbase) not in asked:
            asked.add((uri, one.searchbase))
            given = replace(access, uri=uri, base=one.searchbase)
            yield _asked(_own(one, value), given, known, missed)


def _asked(
    own: Connection | None, given: Connection, known: tuple[str, ...], missed: Missed
) -> Replication:
    """`own`: as olcSyncrepl has it, if that binds with a password; `given`: by the command line."""
    is_given = own is None or own.uri != given.uri or bool(given.bind_dn or given.mechanism)
    shown: tuple[str, ...] | None = None
    dead = refused = ""
    for one in ([own] if own else []) + ([given] if is_given else []):
        try:
            csns = _shown(one)
        except answering.DEAD as error:
            dead = str(error)
        except LoaderError as error:
            if one is own and isinstance(error, BadCredentials | AccountClosed):
                refused = str(error)
            else:
                missed(f"contextCSN of {one.uri} as {one.who}", str(error))
        else:
            shown = csns if one.uri == given.uri else shown
    return Replication(str(given.uri), known, shown, _age(known), dead, refused)


def _own(one: Syncrepl, value: str) -> Connection | None:
    account = syncrepl.account(value)
    if account is None:
        return None
    return Connection(
        uri=one.provider,
        bind_dn=account.dn,
        password=account.password,
        start_tls=2 if account.start_tls else 0,  # else the password would go out in clear
        base=one.searchbase,
    )


def _shown(connection: Connection) -> tuple[str, ...]:
    """Raises NoContextCSN too: with what has to be done for it."""
    assert connection.base is not None
    with answering.hurried(connection) as server:
        return tuple(server.context_csns(connection.base))


def _age(csns: tuple[str, ...]) -> float | None:
    newest = max(csns, default=None)
    return None if newest is None else max(0.0, time.time() - _seconds(newest))


def _seconds(text: str) -> float:
    return csn.time(text).replace(tzinfo=timezone.utc).timestamp()


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        for one in database.replication:
            if one.refused:
                yield _refused(database, one)
            if one.dead:
                yield _dead(database, one)
            if one.shown is not None or not (one.dead or one.refused):
                yield _of(database, one)
        yield from _ahead(database)


def _refused(database: Database, one: Replication) -> Finding:
    return Finding(
        Severity.CRITICAL,
        "replication.refused",
        database.suffix,
        f"the provider refuses the account of olcSyncrepl ({one.refused})",
        "The consumer receives no change until binddn and credentials of olcSyncrepl are those of an account there.",
        (
            "# set binddn and credentials in olcSyncrepl of the database, or the password at the provider",
        ),
        _SOURCE,
    )


def _dead(database: Database, one: Replication) -> Finding:
    others = any(not other.dead for other in database.replication)
    return Finding(
        Severity.WARNING if others else Severity.CRITICAL,
        "replication.dead",
        database.suffix,
        f"the provider {one.provider} cannot be reached: {one.dead}",
        "The consumer receives no change from it.",
        (f"ldapsearch -x -LLL -H {shlex.quote(one.provider)} -s base -b '' namingContexts",),
        _SOURCE,
    )


def _ahead(database: Database) -> Iterator[Finding]:
    """Nothing if a provider is silent or the database is written to here, for either may have the newer change."""
    known = database.replication
    if database.is_multi_provider or not all(one.shown for one in known):
        return
    theirs = csn.by_server(text for one in known for text in one.shown or ())
    ours = csn.by_server(text for one in known for text in one.stored)
    ahead = [sid for sid, text in sorted(ours.items()) if sid in theirs and text > theirs[sid]]
    if ahead:
        names = ", ".join(dict.fromkeys(one.provider for one in known))
        yield Finding(
            Severity.CRITICAL,
            "replication.ahead",
            database.suffix,
            f"has newer changes of server ID {', '.join(ahead)} than its provider {names}, by contextCSN",
            "The provider was restored from an older backup. syncprov refuses a consumer that is newer, or the two "
            "stay different.",
            (
                "# is the provider right? then seed this consumer again:",
                "ditseed replica seed --help  # or restore the provider from a newer backup",
            ),
            "slapo-syncprov(5)",
        )


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
    return f"is {units.duration(seconds)} behind" if seconds else "is not behind"


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
