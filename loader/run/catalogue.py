"""The catalogue of one run: which steps and partitions are done, and what they found.

A SQLite file in the run directory. A row is written only after what it promises is durable, so that
after `kill -9` at any moment the rows that stand are true and the rest is done again.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.errors import CatalogueVersion, RunMismatch

FORMAT = 1
FILE = "run.sqlite"

Facts = dict[str, Any]

_TABLES = """
CREATE TABLE IF NOT EXISTS run (verb TEXT NOT NULL, options TEXT NOT NULL, started REAL NOT NULL);
CREATE TABLE IF NOT EXISTS step (
    name TEXT PRIMARY KEY, facts TEXT NOT NULL, entries INTEGER NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS partition (
    step TEXT NOT NULL, name TEXT NOT NULL, facts TEXT NOT NULL, PRIMARY KEY (step, name)
);
"""


@dataclass(frozen=True)
class DoneStep:
    """One finished step, as `status` shows it."""

    name: str
    facts: Facts
    entries: int
    seconds: float
    finished: float  # Unix time


class Catalogue:
    """Open or create the catalogue in `directory` (made with mode 0700)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Workers of one run report from their own threads; SQLite serialises, and autocommit makes each row durable.
        self._db = sqlite3.connect(directory / FILE, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous=FULL")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, FORMAT):
            raise CatalogueVersion(path=directory, found=found, known=FORMAT)
        self._db.executescript(f"{_TABLES} PRAGMA user_version={FORMAT};")

    def begin(self, verb: str, options: Mapping[str, object]) -> bool:
        """Bind the run to its options. True when it goes on with an earlier one; RunMismatch when they differ."""
        row = self._db.execute("SELECT verb, options FROM run").fetchone()
        wanted = json.loads(json.dumps(dict(options)))
        if row is None:
            self._db.execute(
                "INSERT INTO run VALUES (?, ?, ?)", (verb, json.dumps(wanted), time.time())
            )
            return False
        before = {"verb": row[0], **json.loads(row[1])}
        now = {"verb": verb, **wanted}
        differences = sorted(
            key for key in before.keys() | now.keys() if before.get(key) != now.get(key)
        )
        if differences:
            raise RunMismatch(path=self.directory, differences=", ".join(differences))
        return True

    def found(self, step: str) -> Facts | None:
        """What a finished step found; None while it is not done."""
        row = self._db.execute("SELECT facts FROM step WHERE name = ?", (step,)).fetchone()
        return json.loads(row[0]) if row else None

    def finish(self, step: str, facts: Facts, entries: int, seconds: float) -> None:
        values = (step, json.dumps(facts), entries, seconds, time.time())
        self._db.execute("INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?)", values)

    def steps(self) -> list[DoneStep]:
        rows = self._db.execute(
            "SELECT name, facts, entries, seconds, finished FROM step ORDER BY finished"
        )
        return [DoneStep(name, json.loads(facts), *rest) for name, facts, *rest in rows]

    def partitions(self, step: str) -> dict[str, Facts]:
        """Finished partitions of a step: name -> what it found."""
        rows = self._db.execute("SELECT name, facts FROM partition WHERE step = ?", (step,))
        return {name: json.loads(facts) for name, facts in rows}

    def finish_partition(self, step: str, name: str, facts: Facts) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO partition VALUES (?, ?, ?)", (step, name, json.dumps(facts))
        )

    def forget(self) -> None:
        """Begin again: no step is done."""
        self._db.executescript("DELETE FROM partition; DELETE FROM step; DELETE FROM run;")

    def close(self) -> None:
        self._db.close()
