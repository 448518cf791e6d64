"""`storage check`: every rule, on the facts of one path. Rules are functions of facts: they look at nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from loader.operations.storage import device_rules, filesystem_rules, findings
from loader.operations.storage.findings import Configured, Finding, Severity, Situation

RULES: tuple[Callable[[Situation], Iterator[Finding]], ...] = (
    filesystem_rules.kind_findings,
    device_rules.layout_findings,
    device_rules.reading_findings,
    filesystem_rules.format_findings,
    filesystem_rules.mount_findings,
    device_rules.hardware_findings,
    device_rules.room_findings,
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
    return _report(findings.situation(path))


def check_configured(config: Path, suffix: str | None) -> Report:
    """The database of a configuration, with what that says of it. Raises NoSuchPath, NotPermitted, NoSuchSuffix."""
    return check_database(*findings.configured(config, suffix))


def check_database(directory: Path, told: Configured) -> Report:
    """Where the configuration has been read. Raises NoSuchPath, NotPermitted."""
    return _report(replace(findings.situation(directory), configured=told))


def _report(situation: Situation) -> Report:
    return Report(situation, judged(situation))


def judged(situation: Situation) -> tuple[Finding, ...]:
    found = [one for rule in RULES for one in rule(situation)]
    return tuple(sorted(found, key=lambda one: -one.severity.rank))
