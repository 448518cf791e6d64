"""The catalogue of one run: which steps and partitions are done, and what they found.

A SQLite file in the run directory. A row is written only after what it promises is durable, so that
after `kill -9` at any moment the rows that stand are true and the rest is done again.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader import defaults
from loader.errors import FULL, CatalogueDamaged, CatalogueVersion, NoSpace, RunMismatch

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


def forget(directory: Path) -> None:
    """Begin again: no step is done. Works on a catalogue that cannot be read, too."""
    for name in (FILE, f"{FILE}-journal"):
        (directory / name).unlink(missing_ok=True)


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
        with self._asking():
            self._open()

    def _open(self) -> None:
        # Workers of one run report from their own threads; SQLite serialises, and autocommit makes each row durable.
        self._db = sqlite3.connect(
            self.directory / FILE, isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA synchronous=FULL")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, FORMAT):
            raise CatalogueVersion(path=self.directory, found=found, known=FORMAT)
        self._db.executescript(f"{_TABLES} PRAGMA user_version={FORMAT};")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """SQLite's errors as ours. (Its error codes reach Python from 3.11 on, its words always did.)"""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "disk is full" in str(error):
                raise NoSpace(path=self.directory, lack=FULL) from error
            raise CatalogueDamaged(path=self.directory / FILE, reason=error) from error

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._asking():
            return self._db.execute(statement, values).fetchall()

    def begin(self, verb: str, options: Mapping[str, object]) -> bool:
        """Bind the run to its options. True when it goes on with an earlier one; RunMismatch when they differ."""
        differences = self.differences(verb, options)
        if differences:
            raise RunMismatch(path=self.directory, differences=", ".join(differences))
        if differences is not None:
            return True
        values = (verb, json.dumps(dict(options)), time.time())
        self._rows("INSERT INTO run VALUES (?, ?, ?)", *values)
        return False

    def differences(self, verb: str, options: Mapping[str, object]) -> list[str] | None:
        """Names of the options that the run here had otherwise; None when there is no run."""
        rows = self._rows("SELECT verb, options FROM run")
        if not rows:
            return None
        before = {"verb": rows[0][0], **json.loads(rows[0][1])}
        now = {"verb": verb, **json.loads(json.dumps(dict(options)))}
        return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))

    def about(self) -> tuple[str, Facts] | None:
        """The verb and the options of the run; None when there is none yet."""
        rows = self._rows("SELECT verb, options FROM run")
        return (rows[0][0], json.loads(rows[0][1])) if rows else None

    def has_work(self) -> bool:
        """Is there enough that a run with other options should not throw it away unasked?"""
        parts = [json.loads(facts) for (facts,) in self._rows("SELECT facts FROM partition")]
        if sum(facts.get("entries", 0) for facts in parts) > defaults.WORTH_READ:
            return True
        return sum(step.seconds for step in self.steps()) > defaults.WORTH_KEEPING

    def found(self, step: str) -> Facts | None:
        """What a finished step found; None while it is not done."""
        rows = self._rows("SELECT facts FROM step WHERE name = ?", step)
        return json.loads(rows[0][0]) if rows else None

    def finish(self, step: str, facts: Facts, entries: int, seconds: float) -> None:
        values = (step, json.dumps(facts), entries, seconds, time.time())
        self._rows("INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?)", *values)

    def steps(self) -> list[DoneStep]:
        rows = self._rows(
            "SELECT name, facts, entries, seconds, finished FROM step ORDER BY finished"
        )
        return [DoneStep(name, json.loads(facts), *rest) for name, facts, *rest in rows]

    def ended(self) -> float | None:
        """Unix time of the step that was finished last; None before the first."""
        return max((step.finished for step in self.steps()), default=None)

    def partitions(self, step: str) -> dict[str, Facts]:
        """Finished partitions of a step: name -> what it found."""
        rows = self._rows("SELECT name, facts FROM partition WHERE step = ?", step)
        return {name: json.loads(facts) for name, facts in rows}

    def finish_partition(self, step: str, name: str, facts: Facts) -> None:
        self._rows(
            "INSERT OR REPLACE INTO partition VALUES (?, ?, ?)", step, name, json.dumps(facts)
        )

    def close(self) -> None:
        self._db.close()
