"""Old data files that `backup restore --replace` kept: nobody but the operator removes them, and they take room."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from loader import units
from loader.operations.doctor.facts import Facts, Kept
from loader.operations.storage.findings import Finding, Severity
from loader.operations.target import REPLACED

_NAME = re.compile(re.escape(REPLACED) + r"\d{8}T\d{6}Z(-\d+)?", re.ASCII)


def look(directory: Path) -> tuple[Kept, ...]:
    """The oldest first. Raises OSError."""
    found = sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))
    return tuple(Kept(path.name, 512 * path.lstat().st_blocks) for path in found)


def findings(facts: Facts) -> Iterator[Finding]:
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
