"""The catalogue of one run: which steps and partitions are done, and what they found.

A SQLite file in the run directory. A row is written only after what it promises is durable, so that
after `kill -9` at any moment the rows that stand are true and the rest is done again.

Every row bears a seal, a checksum of all that it says and of the run to which it belongs: what a finished step found is
believed years later, so a row that was changed, or that is of another run, is refused. Seals tell damage; whoever may
write in the directory (mode 0700) can forge them.

SQLite works on it in memory, and each change puts a whole new file in its place: SQLite itself would open the file and
its journal by a path with all symbolic links resolved, and whoever owns the directory above the run directory may
rename that one meanwhile (loader/storage/held.py).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from loader import defaults, naming
from loader.errors import (
    FULL,
    CatalogueDamaged,
    CatalogueVersion,
    NoSpace,
    RunMismatch,
    SystemFailed,
)
from loader.storage import files, held, temporary

FORMAT = 2
FILE = "run.sqlite"

Facts = dict[str, Any]

_TABLES = """
CREATE TABLE IF NOT EXISTS run (
    id TEXT NOT NULL, verb TEXT NOT NULL, options TEXT NOT NULL, started REAL NOT NULL, seal TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS step (
    name TEXT PRIMARY KEY, facts TEXT NOT NULL, entries INTEGER NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL,
    seal TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS partition (
    step TEXT NOT NULL, name TEXT NOT NULL, facts TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (step, name)
);
"""
_STEP, _PARTITION = "name, facts, entries, seconds, finished", "step, name, facts"
_PLAIN = (str, int, float)


def forget(directory: Path) -> None:
    """Begin again: no step is done. Works on a catalogue that cannot be read, too."""
    for name in (FILE, f"{FILE}-journal"):
        (directory / name).unlink(missing_ok=True)


@contextmanager
def recorded(directory: Path) -> Iterator[Catalogue | None]:
    """The catalogue of the run in a directory as it stands; None where there is none. Raises DirectoryUnsafe,
    CatalogueDamaged, CatalogueVersion."""
    try:
        with held.private(directory, make=False) as home:
            if not home.exists(FILE):
                yield None
                return
            with closing(Catalogue(home.path)) as catalogue:
                yield catalogue
    except FileNotFoundError:
        yield None


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
        # Workers of one run report from their own threads.
        self._turn = threading.Lock()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with self._asking():
            self._open()

    def _open(self) -> None:
        try:
            content = files.read(self.directory / FILE)
        except FileNotFoundError:
            content = b""
        if content:
            _unpack(content, self._db)
        self._db.execute("PRAGMA trusted_schema=OFF")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, FORMAT):
            raise CatalogueVersion(path=self.directory, found=found, known=FORMAT)
        self._db.executescript(f"{_TABLES} PRAGMA user_version={FORMAT};")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """SQLite's errors as ours. (Its error codes reach Python from 3.11 on, its words always did.)"""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: of SQLite's own message
            if "disk is full" in str(error):
                raise NoSpace(path=self.directory, lack=FULL) from error
            if "disk I/O error" in str(error):  # of the scratch file: the catalogue may be sound
                raise SystemFailed(path=self.directory / FILE, reason=error) from error
            raise CatalogueDamaged(path=self.directory / FILE, reason=error) from error

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._turn, self._asking():
            return self._db.execute(statement, values).fetchall()

    def _sealed(self, table: str, columns: str, *where: str) -> list[tuple[Any, ...]]:
        """Rows of a table without their seals, which are true. `where`: a condition, and its value."""
        condition = f" WHERE {where[0]}" if where else ""
        found = []
        for *row, seal in self._rows(f"SELECT {columns}, seal FROM {table}{condition}", *where[1:]):
            if any(type(value) not in _PLAIN for value in row) or seal != self._seal(table, row):
                reason = f"a row of its table {table} was changed, or is of another run"
                raise CatalogueDamaged(path=self.directory / FILE, reason=reason)
            found.append(tuple(row))
        return found

    def _put(self, table: str, *row: object) -> None:
        places = ", ".join("?" * (len(row) + 1))
        statement = f"INSERT OR REPLACE INTO {table} VALUES ({places})"
        self._write(statement, *row, self._seal(table, row))

    def _seal(self, table: str, row: Sequence[object]) -> str:
        of = [] if table == "run" else self._run_id()
        return xxhash.xxh3_128_hexdigest(json.dumps([of, table, *row]).encode())

    def _run_id(self) -> list[object]:
        """Of a row that is sealed itself."""
        return [run_id for run_id, *_ in self._run()]

    def _run(self) -> list[tuple[Any, ...]]:
        found = self._sealed("run", "id, verb, options, started")
        if len(found) > 1:
            raise CatalogueDamaged(path=self.directory / FILE, reason="it is of two runs")
        return found

    def _write(self, statement: str, *values: object) -> None:
        """On the disk when it returns."""
        with self._turn, self._asking(), files.explained(self.directory / FILE):
            self._db.execute(statement, values)
            files.write_durably(self.directory / FILE, _packed(self._db), 0o600)

    def begin(self, verb: str, options: Mapping[str, object]) -> bool:
        """Bind the run to its options. True when it goes on with an earlier one; RunMismatch when they differ."""
        differences = self.differences(verb, options)
        if differences:
            raise RunMismatch(path=self.directory, differences=", ".join(differences))
        if differences is not None:
            return True
        told = json.dumps(naming.told(dict(options)))
        self._put("run", uuid.uuid4().hex, verb, told, time.time())
        return False

    def differences(self, verb: str, options: Mapping[str, object]) -> list[str] | None:
        """Names of the options that the run here had otherwise; None when there is no run."""
        about = self.about()
        if about is None:
            return None
        before = {"verb": about[0], **about[1]}
        now = {"verb": verb, **json.loads(json.dumps(naming.told(dict(options))))}
        return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))

    def about(self) -> tuple[str, Facts] | None:
        """The verb and the options of the run; None when there is none yet."""
        rows = self._run()
        return (rows[0][1], json.loads(rows[0][2])) if rows else None

    def has_work(self) -> bool:
        """Is there enough that a run with other options should not throw it away unasked?"""
        parts = [json.loads(facts) for _, _, facts in self._sealed("partition", _PARTITION)]
        if sum(facts.get("entries", 0) for facts in parts) > defaults.WORTH_READ:
            return True
        return sum(step.seconds for step in self.steps()) > defaults.WORTH_KEEPING

    def found(self, step: str) -> Facts | None:
        """What a finished step found; None while it is not done."""
        rows = self._sealed("step", _STEP, "name = ?", step)
        return json.loads(rows[0][1]) if rows else None

    def finish(self, step: str, facts: Facts, entries: int, seconds: float) -> None:
        told = json.dumps(naming.told(facts))
        self._put("step", step, told, entries, float(seconds), time.time())

    def undo(self, step: str) -> None:
        """Forget that a step was done, durably."""
        self._write("DELETE FROM step WHERE name = ?", step)

    def steps(self) -> list[DoneStep]:
        """In the order in which they were finished."""
        rows = self._sealed("step", _STEP)
        found = [DoneStep(name, json.loads(facts), *rest) for name, facts, *rest in rows]
        return sorted(found, key=lambda step: step.finished)

    def ended(self) -> float | None:
        """Unix time of the step that was finished last; None before the first."""
        return max((step.finished for step in self.steps()), default=None)

    def partitions(self, step: str) -> dict[str, Facts]:
        """Finished partitions of a step: name -> what it found."""
        rows = self._sealed("partition", _PARTITION, "step = ?", step)
        return {name: json.loads(facts) for _, name, facts in rows}

    def finish_partition(self, step: str, name: str, facts: Facts) -> None:
        self._put("partition", step, name, json.dumps(naming.told(facts)))

    def close(self) -> None:
        self._db.close()


def _unpack(content: bytes, database: sqlite3.Connection) -> None:
    with temporary.directory("run") as scratch:
        path = scratch / FILE
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as stored:
            stored.backup(database)


def _packed(database: sqlite3.Connection) -> bytes:
    """The file. (`serialize` does it without one, from Python 3.11 on.)"""
    with temporary.directory("run") as scratch:
        path = scratch / FILE
        with closing(sqlite3.connect(path)) as stored:
            stored.execute("PRAGMA synchronous=OFF")
            database.backup(stored)
        return path.read_bytes()
