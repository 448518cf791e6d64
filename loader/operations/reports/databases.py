"""The tables of the databases that a run put into place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loader.errors import LoaderError
from loader.mdb import contents
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.operations.publish import PUBLISHED
from loader.operations.reports import drawing
from loader.operations.reports.report import RunReport
from loader.storage import held

_log = logging.getLogger(__name__)
_REST = "the rest"


@dataclass(frozen=True)
class DatabaseTables:
    """bytes: of the data file. tables: with their bytes, the largest first. Last comes the rest: pages of long lists of
    IDs, which LMDB does not count with their index, and free ones."""

    directory: str
    bytes: int
    tables: list[tuple[str, int]]
    chart: str


def made_by(report: RunReport) -> list[DatabaseTables]:
    """A database that cannot be read now is left out: the report is of the run."""
    found = []
    for directory in _directories(report):
        try:
            found.append(_read(directory))
        except (LoaderError, OSError) as error:
            _log.warning("the report has no sizes of tables: %s", error)
    return found


def _directories(report: RunReport) -> Iterator[Path]:
    for facts in (report.facts, *(report.facts.get("databases") or ())):
        if PUBLISHED in facts and "directory" in facts:
            yield Path(facts["directory"])


def _read(directory: Path) -> DatabaseTables:
    with held.checked_file(directory / DATA) as pin:
        size = pin.stat().st_size
        # Nobody has it open, unless slapd has been started already. No lock.mdb is made for this.
        used = (directory / LOCK).exists()
        sizes = contents.table_bytes(directory if used else pin)
    tables = sorted(sizes.items(), key=lambda one: -one[1])
    tables.append((_REST, max(0, size - sum(sizes.values()))))
    return DatabaseTables(str(directory), size, tables, drawing.sizes(tables, str(directory)))
