"""`doctor`: finds what is wrong with the databases of this host's slapd, and the commands to fix it. ARCHITECTURE.md
(Recipes) says how to add a rule."""

from __future__ import annotations

from pathlib import Path

import msgspec

from loader import units
from loader.errors import ConfigUnreadable, LoaderError, NoSuchPath
from loader.mdb import readers
from loader.operations import monitoring
from loader.operations.add import lending
from loader.operations.doctor import rules
from loader.operations.doctor.facts import Request, Server
from loader.operations.doctor.rules import judged
from loader.operations.monitoring import Status
from loader.operations.storage.findings import Finding, Severity
from loader.run import lease
from loader.server import configuration

__all__ = ["Report", "Request", "check", "examine", "failed", "fixed", "judged"]

_DIRECTORIES = ("/etc/ldap", "/etc/openldap", "/usr/local/etc/openldap", "/opt/ldap/etc/openldap")
USUAL = tuple(Path(directory) / name for name in ("slapd.d", "slapd.conf") for directory in _DIRECTORIES)


class Report(msgspec.Struct, frozen=True):
    """`findings`: the worst first. `fixed`: a message for each change that --fix made or tried."""

    server: Server
    findings: tuple[Finding, ...]
    fixed: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether every fact could be read and no finding is worse than a note."""
        return not self.server.unseen and all(each.severity.rank < Severity.WARNING.rank for each in self.findings)


def examine(config: Path | None, request: Request) -> Report:
    """Examines a server. `config`: None for the usual paths. Raises LoaderError if the configuration is unreadable."""
    path = config or next((usual for usual in USUAL if usual.exists()), None)
    if path is None:
        raise NoSuchPath(path=f"{USUAL[0]} (say --config)")
    server = Server(configuration.read(path), request)
    return Report(server, judged(server))


def fixed(report: Report) -> Report:
    """Clears slots of dead readers, restores abandoned leases, then examines the server again."""
    messages: list[str] = []
    for database in report.server.databases:
        if any(not reader.is_alive for reader in database.readers):
            try:
                count = units.number(readers.clear(Path(database.directory)))
                messages.append(f"{database.suffix}: slots of dead readers cleared: {count}")
            except LoaderError as error:
                messages.append(f"{database.suffix}: slots of dead readers could not be cleared ({error})")
    access = report.server.request.access
    for lent in lease.abandoned():
        if lent.kind in lending.KINDS and lending.is_abandoned(lent):
            messages.append(f"{lent.kind} of {lent.database} at {lent.target}: {lending.put_back(lent, access)}")
    if not messages:
        return report
    again = examine(report.server.config.path, report.server.request)
    return Report(again.server, again.findings, tuple(messages))


def failed(error: LoaderError) -> monitoring.Finding:
    """Returns the monitoring status after `examine` failed: CRITICAL if slapd's tools refuse the configuration."""
    status = Status.CRITICAL if isinstance(error, ConfigUnreadable) else Status.UNKNOWN
    return monitoring.Finding(status, "DOCTOR", str(error))


def check(report: Report) -> monitoring.Finding:
    """Returns the status for the monitoring plugin: UNKNOWN if no finding is bad, but a fact could not be read."""
    server, count = report.server, len(report.server.databases)
    bad = [finding for finding in report.findings if finding.severity.rank >= Severity.WARNING.rank]
    lines = [f"{finding.severity.value.upper()}: {finding.subject}: {finding.what}" for finding in bad[1:]]
    lines += [f"not looked at: {fact.what} ({fact.why})" for fact in server.unseen]
    if bad:
        status, summary = Status[bad[0].severity.name], f"{bad[0].subject}: {bad[0].what}"
    elif lines:
        status, summary = Status.UNKNOWN, lines.pop(0)
    else:
        status, summary = Status.OK, f"{count} database{'' if count == 1 else 's'}, nothing worse than a note"
        lines = [f"left out: {fact.what} ({fact.why})" for fact in server.left_out]

    numbers = []
    for database in server.databases:
        name, room = database.name, database.room
        if room is not None:
            shares = (rules.AVAILABLE_WARNING, rules.AVAILABLE_CRITICAL)
            warning, critical = (round(share * room.maxsize) for share in shares)
            oldest = max((reader.lag for reader in database.readers), default=0)  # in transactions
            numbers += [
                f"{name}_available={room.available}B;{warning}:;{critical}:;0;{room.maxsize}",
                f"{name}_used={room.used}B;;;0;{room.maxsize}",
                f"{name}_held={room.held}B;;;0;{room.maxsize}",
                f"{name}_lag={oldest};;;0",
            ]
        lags = [lag for each in database.replication if (lag := each.lag) is not None and lag < float("inf")]
        if lags:
            numbers.append(f"{name}_behind={max(lags):.0f}s;{rules.BEHIND_WARNING:.0f};{rules.BEHIND_CRITICAL:.0f};0")
    numbers.append(f"leases={len(server.leases)};0;;0")
    return monitoring.Finding(status, "DOCTOR", summary, tuple(lines), tuple(numbers))
