"""`storage check`: every rule, on the facts of one path. Rules are functions of facts: they look at nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from loader.operations.storage import (
    findings,
    format,
    hardware,
    kinds,
    layout,
    mounting,
    reading,
    room,
)
from loader.operations.storage.findings import Finding, Severity, Situation

RULES: tuple[Callable[[Situation], Iterator[Finding]], ...] = (
    kinds.findings,
    layout.findings,
    reading.findings,
    format.findings,
    mounting.findings,
    hardware.findings,
    room.findings,
)


class Report(msgspec.Struct, frozen=True):
    """`findings`: the worst first."""

    situation: Situation
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        return all(one.severity.rank < Severity.WARNING.rank for one in self.findings)


def check(path: Path) -> Report:
    """Raises NoSuchPath, NotPermitted, UsageProblem."""
    situation = findings.situation(path)
    return Report(situation, judged(situation))


def judged(situation: Situation) -> tuple[Finding, ...]:
    found = [one for rule in RULES for one in rule(situation)]
    return tuple(sorted(found, key=lambda one: -one.severity.rank))
