"""Is there a backup of each database, whole and young enough? And which data files did a restore keep? Nobody but the
operator removes them, and they take room."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from loader import units
from loader.operations.backup import check
from loader.operations.backup.check import Limits
from loader.operations.doctor.facts import Backup, Facts, Kept
from loader.operations.monitoring import Status
from loader.operations.storage.findings import Finding, Severity
from loader.operations.target import REPLACED

MAX_AGE = 26 * 3600.0  # seconds, as `backup check` has it
_NAME = re.compile(re.escape(REPLACED) + r"\d{8}T\d{6}Z(-\d+)?", re.ASCII)
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
    yield from _kept_files(facts)
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


def kept(directory: Path) -> tuple[Kept, ...]:
    """The oldest first. Raises OSError."""
    found = sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))
    return tuple(Kept(path.name, 512 * path.lstat().st_blocks) for path in found)


def _kept_files(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        if not database.kept:
            continue
        size = units.size(sum(one.allocated for one in database.kept))
        place = Path(database.directory)
        yield Finding(
            Severity.NOTE,
            "kept",
            database.suffix,
            f"old data files that a restore has kept: {len(database.kept)}, {size} on the disk",
            "`ditseed backup restore --replace` keeps the data file that it replaces, in case it is needed again. "
            "slapd does not use it, and nothing but these commands frees its space.",
            tuple(shlex.join(["rm", "--", str(place / one.name)]) for one in database.kept),
            "docs/backup.md",
        )
