"""Is a database sound? Asked of a copy or of a stopped database, in a process apart.

none    nothing is looked at
quick   meta pages, size, the table of tables opens, as many entries in id2e as nodes in dn2i
pages   also every page, with py-lmdb's verifier: reachable once, keys in order, free and used pages cover the file

`mdb_stat` is no check: it succeeds on a database that slapd cannot read.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb

from loader import units
from loader.errors import MdbDamaged, UsageProblem
from loader.mdb import apart, meta
from loader.mdb.environment import ID, opened, require_table, rows
from loader.progress import Meter

LEVELS = ("none", "quick", "pages")
PAGES_UP_TO = (
    4 << 30
)  # bytes; above it the walk over all pages (60,000 a second) is asked for by name


@dataclass(frozen=True)
class Verified:
    """What was looked at; entries as counted, None at level none."""

    level: str
    entries: int | None = None


def default_level(place: Path) -> str:
    """pages where that takes seconds, else quick."""
    return "pages" if meta.facts(place).used < PAGES_UP_TO and _walker() else "quick"


def verify(place: Path, level: str, meter: Meter) -> Verified:
    """Check an environment directory or data file. Raises MdbDamaged, NotLmdb, UsageProblem."""
    if level not in LEVELS:
        raise UsageProblem(reason=f"verify {level}: it is one of {', '.join(LEVELS)}")
    if level == "none":
        return Verified(level)
    path = meta.data_file(place)
    found = apart.ask(__name__, place, level, origin=path, meter=meter)
    if found["problems"]:
        raise MdbDamaged(path=path, reason=_summary(found["problems"]))
    return Verified(found["level"], found["entries"])


def _summary(problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0] + more


def _work(text: str, level: str) -> dict[str, Any]:
    """In the process apart."""
    place = Path(text)
    path, facts = meta.data_file(place), meta.facts(place)
    if path.stat().st_size < facts.used:
        # A page freed in the transaction that took it is never written, so the end may rightly be missing;
        # only the walk over all pages tells that from a file that was cut.
        if _walker() is None:
            return _found(level, None, [_cut(path, facts)])
        level = "pages"
    if level == "pages":
        problems = _walk(path)
        if problems:
            return _found(level, None, problems)
    return _count(place, level)


def _cut(path: Path, facts: meta.Facts) -> str:
    return f"{units.size(path.stat().st_size)} long, but {units.size(facts.used)} are in use: it was cut"


def _walker() -> Any:
    """py-lmdb's verifier, there since 3.0."""
    try:
        from lmdb import verify as walker
    except ImportError:
        return None
    return walker


def _walk(path: Path) -> list[str]:
    walker = _walker()
    if walker is None:
        raise UsageProblem(
            reason=f"verify pages needs the Python package lmdb 3 or later, this is {lmdb.__version__}"
        )
    try:
        return list(walker.verify(os.fspath(path), subdir=False))
    except walker.VerifyError as error:
        return [str(error)]


def _count(place: Path, level: str) -> dict[str, Any]:
    with opened(place) as environment:
        entries, nodes = require_table(environment, "id2e"), require_table(environment, "dn2i")
        with environment.begin() as transaction:
            count, records = rows(transaction, entries), rows(transaction, nodes)
            rooted = transaction.get(ID.pack(0), db=entries) is not None
    # dn2i: a record of the invisible root, and two for each node (its own, and one with its parent).
    expected = 2 * (count - rooted) + 1 if count else records
    if records != expected:
        problem = (
            f"{units.number(count)} entries in id2e, but {units.number(records)} records in dn2i"
        )
        return _found(level, count, [problem])
    return _found(level, count, [])


def _found(level: str, entries: int | None, problems: list[str]) -> dict[str, Any]:
    return dataclasses.asdict(Verified(level, entries)) | {"problems": problems}


if __name__ == "__main__":
    apart.answering(_work)
