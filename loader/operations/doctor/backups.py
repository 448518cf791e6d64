"""Is there a backup of each database, whole and young enough?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from loader.operations.backup import check
from loader.operations.backup.check import Limits
from loader.operations.doctor.facts import Backup, Facts
from loader.operations.monitoring import Status
from loader.operations.storage.findings import Finding, Severity

MAX_AGE = 26 * 3600.0  # seconds, as `backup check` has it
_SEVERITY = {
    Status.OK: Severity.OK,
    Status.WARNING: Severity.WARNING,
    Status.CRITICAL: Severity.CRITICAL,
    Status.UNKNOWN: Severity.WARNING,
}


def look(repo: Path, suffix: str) -> Backup:
    found = check.check(repo, Limits(MAX_AGE), suffix)
    return Backup(str(repo), int(found.status), found.reason)


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        one = database.backup
        if one is None:
            continue
        severity = _SEVERITY[Status(one.status)]
        words = ("ditseed", "backup", "run", "--config", facts.config, "-b", database.suffix)
        yield Finding(
            severity,
            "backup",
            database.suffix,
            f"backup in {one.repo}: {one.reason}",
            ""
            if severity is Severity.OK
            else "A database without a usable backup of the last night is one fault from lost.",
            () if severity is Severity.OK else (shlex.join([*words, "-R", one.repo]),),
            "docs/backup.md",
        )
