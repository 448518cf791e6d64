"""Putting a finished environment into a server's database directory: all of it or nothing, owner and mode as the
server needs them, and the same again after a kill."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xxhash

from loader import units
from loader.config import Config, Database
from loader.errors import ChangedSince, MdbDamaged, NotLmdb
from loader.mdb import contents, meta
from loader.mdb.meta import DATA
from loader.operations.target import put, require_target
from loader.operations.tune import apply_maxsize
from loader.run.log import Catalogue, Facts, recorded
from loader.server import configuration, private
from loader.storage import files, held

PUBLISHED = "published"  # among the facts of the step `publish`


@dataclass(frozen=True)
class TargetDatabase:
    """The database directory that a configuration means. `superior`: by whose name its entries are loaded, where it is
    loaded with others that are glued together (the superior's own place has itself)."""

    config: Config
    database: Database
    directory: Path
    replace: bool = False
    superior: Database | None = None

    @property
    def named(self) -> Database:
        """The database by whose name the entries are loaded."""
        return self.superior or self.database

    @property
    def data(self) -> Path:
        return self.directory / DATA

    @contextmanager
    def private_configuration(
        self, scratch: Path, settings: Mapping[str, Sequence[bytes]] | None = None
    ) -> Iterator[Path]:
        """For slapd's tools, as `private.configured` makes it."""
        made = private.configured(self.config, self.database, scratch, settings, self.superior)
        with made as path:
            yield path

    def require_free(self, checked: Facts | None = None) -> None:
        """As `require_target`; a database that this run published before it was killed may be there."""
        require_target(self.directory, self.replace or self.holds(checked))

    def holds(self, checked: Facts | None) -> bool:
        """Is the database in place the one that the step `check` saw?"""
        if checked is None or not self.data.exists():
            return False
        return bool(files.identity(self.data) == checked["identity"])

    def begins_anew(
        self, run_dir: Path, verb: str, options: Mapping[str, object], restart: bool
    ) -> bool:
        """Whether the run in `run_dir` is none to go on with. Then the target is asked before the run is forgotten.

        It is none when it has ended and what it published is gone, or when it had other options and has ended or
        had hardly begun: whoever mends a mistake in a command just gives it again.
        """
        anew = restart or self._is_over(run_dir, verb, options)
        if anew:
            self.require_free()
        return anew

    def _is_over(self, run_dir: Path, verb: str, options: Mapping[str, object]) -> bool:
        with recorded(run_dir) as catalogue:
            if catalogue is None:
                return True
            differ = bool(catalogue.differences(verb, options))
            if catalogue.found("publish") is None:
                return differ and not catalogue.has_work()
            if differ or not self.holds(catalogue.found("check")):
                return True
            self._require_as_published(catalogue)
            return False

    def _require_as_published(self, catalogue: Catalogue) -> None:
        """Raises ChangedSince."""
        facts = catalogue.found("publish") or {}
        finished = units.moment(catalogue.ended() or 0)
        require_as_published(self.directory, facts[PUBLISHED], finished)


def published(data: Path, entries: int) -> Facts:
    """What tells later whether a database was written to, or is another one. The entries are for people."""
    with held.checked_file(data) as pin:
        facts = meta.read_meta(pin)
        length = 2 * facts.page_size
        return {
            "entries": entries,
            "head": [length, head_digest(pin, length)],
            **_written(pin),
        }


def head_digest(data: Path, length: int) -> str:
    """Of both meta pages, `length` bytes."""
    with files.reading(data) as file:
        return xxhash.xxh3_128_hexdigest(file.read(length))


def _written(data: Path) -> Facts:
    status = data.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns}


def require_as_published(directory: Path, before: Facts, finished: str) -> None:
    """Raises ChangedSince where the database was written to since it was `published`, by LMDB or by anything else."""
    if not _is_as_published(directory, before):
        then = units.number(before["entries"])
        now = _entries_now(directory)
        raise ChangedSince(path=directory / DATA, finished=finished, then=then, now=now)


def _is_as_published(directory: Path, before: Facts) -> bool:
    """With MDB_WRITEMAP (envflags writemap) the file gets the length of its map when it is opened, and a new mtime."""
    with held.checked_file(directory / DATA) as pin:
        length, digest = before["head"]
        now = _written(pin)
        if head_digest(pin, length) != digest:
            return False
    grown = bool(now["size"] > before["size"])
    return grown or now == {name: before[name] for name in now}


def _entries_now(directory: Path) -> str:
    try:
        return units.number(contents.entry_count(directory))
    except (MdbDamaged, NotLmdb):
        return "none that can be read"


def publish_environment(
    made: Path, place: TargetDatabase, checked: Facts, entries: int, maxsize: int
) -> Facts:
    """Rename made/data.mdb, which holds `entries`, into place, then bring the configured maxsize up to `maxsize`.

    A second call after a kill knows from `checked` that the rename is done.
    """
    with files.explained(place.directory):
        place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.holds(checked):
            # slapadd's writable map leaves the file as long as maxsize, a hole mostly; backups stumble over it.
            facts = meta.read_meta(made)
            os.truncate(made / DATA, facts.used)
            put(made / DATA, place.directory, place.database.mode, place.replace)
    if maxsize != place.database.maxsize:
        # Of a glued tree another database's maxsize may have been changed meanwhile.
        apply_maxsize(configuration.read(place.config.path), place.database, maxsize)
    size = place.data.stat().st_size
    return {
        "bytes": size,
        "directory": str(place.directory),
        "maxsize": maxsize,
        PUBLISHED: published(place.data, entries),
    }
