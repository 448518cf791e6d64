"""What `storage check` finds below each database: what is a warning or worse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from loader.config import Database
from loader.operations.doctor.facts import Facts
from loader.operations.storage import check
from loader.operations.storage.findings import Finding, Severity, told_of
from loader.storage.asking import Unseen

_JUDGED_HERE = {"maxsize.used", "nosync"}  # room.py and sync.py know more


def look(database: Database, config: Path) -> tuple[tuple[Finding, ...], tuple[Unseen, ...]]:
    """Raises LoaderError."""
    report = check.check_database(*told_of(database, config))
    return report.findings, report.situation.unseen


def findings(facts: Facts) -> Iterator[Finding]:
    """Two databases on one volume are told of it once."""
    told = set()
    for database in facts.databases:
        for one in database.storage:
            bad = one.severity.rank >= Severity.WARNING.rank and one.rule not in _JUDGED_HERE
            if bad and one not in told:
                told.add(one)
                yield replace(
                    one, rule=f"storage.{one.rule}", why=_hinted(one.why, database.directory)
                )


def _hinted(why: str, directory: str) -> str:
    return f"{why} All of it: ditseed storage check {directory}".strip()
