"""`doctor`: everything that is wrong with the databases of one OpenLDAP server here, each with what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from loader.operations.doctor import (
    backups,
    certificates,
    fixing,
    indexes,
    looking,
    readers,
    release,
    replication,
    room,
    serving,
    settings,
    storage,
    sync,
)
from loader.operations.doctor.facts import Facts
from loader.operations.doctor.looking import Wishes
from loader.operations.storage.findings import Finding, Severity

RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    serving.findings,
    room.findings,
    readers.findings,
    sync.findings,
    release.findings,
    indexes.findings,
    replication.findings,
    storage.findings,
    backups.findings,
    certificates.findings,
    settings.findings,
)


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


def examine(config: Path | None, wishes: Wishes) -> Report:
    """Changes nothing. Raises LoaderError where the configuration cannot be read, or has no such database."""
    found = looking.facts(config or looking.usual_place(), wishes)
    return Report(found, judged(found))


def fixed(report: Report, wishes: Wishes) -> Report:
    """The safe part of it mended, and everything looked at again."""
    done = tuple(fixing.fix(report.facts, wishes.access))
    if not done:
        return report
    found = looking.facts(Path(report.facts.config), wishes)
    return Report(found, judged(found), done)


def judged(facts: Facts) -> tuple[Finding, ...]:
    found = [one for rule in RULES for one in rule(facts)]
    return tuple(sorted(found, key=lambda one: -one.severity.rank))
