"""`doctor`: everything that is wrong with the databases of one OpenLDAP server here, each with what mends it.

`looking` gathers the facts, `rules` judges them. A new rule is a field of facts.py that looking.py fills, a function in
rules.py, and a row in docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from loader import units
from loader.errors import ConfigUnreadable, LoaderError
from loader.mdb import readers
from loader.operations.add import lending
from loader.operations.doctor import looking, rules
from loader.operations.doctor.facts import Database, Facts
from loader.operations.doctor.looking import Request
from loader.operations.monitoring import Status
from loader.operations.storage.findings import Finding, Severity
from loader.run import lease
from loader.server.options import Connection

__all__ = ["Check", "Report", "Request", "check", "examine", "failed", "fixed", "judged"]


class Report(msgspec.Struct, frozen=True):
    """`findings`: the worst first. `fixed`: what --fix has done."""

    facts: Facts
    findings: tuple[Finding, ...]
    fixed: tuple[str, ...] = ()

    @property
    def worst(self) -> Severity:
        return self.findings[0].severity if self.findings else Severity.OK

    @property
    def is_well(self) -> bool:
        """What could not be looked at is not well."""
        return self.worst.rank < Severity.WARNING.rank and not self.facts.unseen


def examine(config: Path | None, request: Request) -> Report:
    """Changes nothing. Raises LoaderError if the configuration cannot be read, or has no such database."""
    facts = looking.facts(config or looking.usual_place(), request)
    return Report(facts, judged(facts))


def judged(facts: Facts) -> tuple[Finding, ...]:
    findings = [finding for rule in rules.RULES for finding in rule(facts)]
    return tuple(sorted(findings, key=lambda one: -one.severity.rank))


def fixed(report: Report, request: Request) -> Report:
    """Mends what is safe to mend, and looks at everything again. All else stays a command that is printed."""
    done = tuple(_fix(report.facts, request.access))
    if not done:
        return report
    facts = looking.facts(Path(report.facts.config), request)
    return Report(facts, judged(facts), done)


def _fix(facts: Facts, access: Connection) -> Iterator[str]:
    for database in facts.databases:
        if any(not one.is_alive for one in database.readers):
            try:
                count = units.number(readers.clear(Path(database.directory)))
                yield f"{database.suffix}: slots of dead readers cleared: {count}"
            except LoaderError as error:
                yield f"{database.suffix}: slots of dead readers could not be cleared ({error})"
    for one in lease.left():
        if one.kind in lending.KINDS and lending.is_left(one):
            yield f"{one.kind} of {one.database} at {one.target}: {lending.put_back(one, access)}"


# --- as a monitoring plugin ---------------------------------------------------------------------


class Check(msgspec.Struct, frozen=True):
    """The report as a monitoring plugin prints it: a summary with performance data (`numbers`), then `lines`: further
    findings, the worst first, and what could not be looked at."""

    status: Status
    summary: str
    lines: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def text(self) -> tuple[str, ...]:
        numbers = f" | {' '.join(self.numbers)}" if self.numbers else ""
        return (f"DOCTOR {self.status.name} - {self.summary}{numbers}", *self.lines)


def failed(error: LoaderError) -> Check:
    """Nothing could be looked at. slapd does not start with a configuration that its own tools refuse."""
    is_refused = isinstance(error, ConfigUnreadable)
    return Check(Status.CRITICAL if is_refused else Status.UNKNOWN, _without_bar(str(error)))


def check(report: Report) -> Check:
    """UNKNOWN if nothing is wrong as far as can be seen, and something could not be looked at."""
    bad = [one for one in report.findings if one.severity.rank >= Severity.WARNING.rank]
    unseen = [f"not looked at: {one.what} ({one.why})" for one in report.facts.unseen]
    count = len(report.facts.databases)
    lines: Sequence[str]
    if bad:
        is_critical = report.worst is Severity.CRITICAL
        status = Status.CRITICAL if is_critical else Status.WARNING
        summary = f"{bad[0].subject}: {bad[0].what}"
        more = [f"{one.severity.value.upper()}: {one.subject}: {one.what}" for one in bad[1:]]
        lines = [*more, *unseen]
    elif unseen:
        status, summary, lines = Status.UNKNOWN, unseen[0], unseen[1:]
    else:
        status = Status.OK
        summary = f"{count} database{'' if count == 1 else 's'}, nothing worse than a note"
        lines = [f"left out: {one.what} ({one.why})" for one in report.facts.left_out]
    numbers = [word for one in report.facts.databases for word in _numbers(one)]
    numbers.append(f"leases={len(report.facts.leases)};0;;0")
    return Check(status, _without_bar(summary), tuple(map(_without_bar, lines)), tuple(numbers))


def _without_bar(text: str) -> str:
    """A vertical bar begins performance data."""
    return text.replace("|", "/")


def _numbers(database: Database) -> Iterator[str]:
    name, room = database.name, database.room
    if room is not None:
        size = room.maxsize
        warning = round(rules.AVAILABLE_WARNING * size)
        critical = round(rules.AVAILABLE_CRITICAL * size)
        yield f"{name}_available={room.available}B;{warning}:;{critical}:;0;{size}"
        yield f"{name}_used={room.used}B;;;0;{size}"
        yield f"{name}_held={room.held}B;;;0;{size}"
        yield f"{name}_lag={database.lag};;;0"
    lags = [rules.lag(one) for one in database.replication]
    finite = [one for one in lags if one is not None and one < float("inf")]
    if finite:
        limits = f"{rules.BEHIND_WARNING:.0f};{rules.BEHIND_CRITICAL:.0f}"
        yield f"{name}_behind={max(finite):.0f}s;{limits};0"
