"""The report as a Monitoring Plugin says it: one line with performance data, then a line for each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from loader.errors import ConfigUnreadable, LoaderError
from loader.operations.doctor import Report, replication, room
from loader.operations.doctor.facts import Database, Room
from loader.operations.monitoring import Status
from loader.operations.storage.findings import Finding, Severity

_STATUS = {Severity.WARNING: Status.WARNING, Severity.CRITICAL: Status.CRITICAL}


class Check(msgspec.Struct, frozen=True):
    """`lines`: what is wrong, the worst first, or what could not be known."""

    status: Status
    summary: str
    lines: tuple[str, ...]
    numbers: tuple[str, ...] = ()

    def text(self) -> tuple[str, ...]:
        numbers = f" | {' '.join(self.numbers)}" if self.numbers else ""
        return (f"DOCTOR {self.status.name} - {self.summary}{numbers}", *self.lines)


def failed(error: LoaderError) -> Check:
    """Nothing could be looked at. With a configuration that its own tools refuse slapd does not start."""
    refused = isinstance(error, ConfigUnreadable)
    return Check(Status.CRITICAL if refused else Status.UNKNOWN, _safe(str(error)), ())


def check(report: Report) -> Check:
    """UNKNOWN where nothing is wrong as far as can be seen, and something could not be looked at."""
    bad = [one for one in report.findings if one.severity.rank >= Severity.WARNING.rank]
    blind = [f"not looked at: {one.what} ({one.why})" for one in report.facts.unseen]
    numbers = tuple(word for one in report.facts.databases for word in _numbers(one))
    numbers += (f"leases={len(report.facts.leases)};0;;0",)
    if bad:
        summary = f"{bad[0].subject}: {bad[0].what}"
        return Check(_STATUS[report.worst], _safe(summary), _lines(bad[1:], blind), numbers)
    if blind:
        return Check(Status.UNKNOWN, _safe(blind[0]), _lines((), blind[1:]), numbers)
    summary = f"{_counted(len(report.facts.databases))}, nothing worse than a note"
    skipped = [f"left out: {one.what} ({one.why})" for one in report.facts.left_out]
    return Check(Status.OK, summary, _lines((), skipped), numbers)


def _counted(count: int) -> str:
    return "1 database" if count == 1 else f"{count} databases"


def _lines(bad: Sequence[Finding], blind: Sequence[str]) -> tuple[str, ...]:
    told = [f"{one.severity.value.upper()}: {one.subject}: {one.what}" for one in bad]
    return tuple(_safe(line) for line in (*told, *blind))


def _safe(text: str) -> str:
    """A vertical bar begins performance data."""
    return text.replace("|", "/")


def _numbers(database: Database) -> Iterator[str]:
    if database.room is not None:
        yield from _of_room(database.name, database.room)
        yield f"{database.name}_lag={database.lag};;;0"
    behind = [replication.lag(one) for one in database.replication]
    known = [one for one in behind if one is not None and one < float("inf")]
    if known:
        warning, critical = replication.WARNING, replication.CRITICAL
        yield f"{database.name}_behind={max(known):.0f}s;{warning:.0f};{critical:.0f};0"


def _of_room(name: str, one: Room) -> Iterator[str]:
    low, lower = (round(share * one.maxsize) for share in (room.WARNING, room.CRITICAL))
    yield f"{name}_available={one.available}B;{low}:;{lower}:;0;{one.maxsize}"
    yield f"{name}_used={one.used}B;;;0;{one.maxsize}"
    yield f"{name}_held={one.held}B;;;0;{one.maxsize}"
