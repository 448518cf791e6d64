"""Putting a finished environment into a server's database directory: all of it or nothing, owner and mode as the
server needs them, and the same again after a kill."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.config import Config, Database
from loader.errors import TargetNotEmpty
from loader.mdb import meta
from loader.operations.tune import apply_maxsize
from loader.run.catalogue import FILE as CATALOGUE
from loader.run.catalogue import Catalogue, Facts
from loader.run.killpoint import killpoint
from loader.storage import files, holders
from loader.storage.files import Owner

DATA, LOCK = "data.mdb", "lock.mdb"


@dataclass(frozen=True)
class Place:
    """The database directory that a configuration means."""

    config: Config
    database: Database
    directory: Path
    replace: bool = False

    @property
    def data(self) -> Path:
        return self.directory / DATA

    def require_free(self, checked: Facts | None = None) -> None:
        """Refuse a directory that is in use, not ours to write, or holds a database (unless `replace`, or it is the
        one that this run published before it was killed: `checked` knows its inode)."""
        files.require_writable(self.directory)
        holders.require_unused(self.directory)
        if not self.data.exists() or self.replace or self.holds(checked):
            return
        raise TargetNotEmpty(path=self.directory, size=units.size(files.allocated_bytes(self.data)))

    def holds(self, checked: Facts | None) -> bool:
        """Is the database in place the one with this inode?"""
        return (
            checked is not None
            and self.data.exists()
            and self.data.stat().st_ino == checked["inode"]
        )

    def stale(self, run_dir: Path) -> bool:
        """Has the run in `run_dir` ended, and is what it published gone? Then the next one begins anew."""
        if not (run_dir / CATALOGUE).exists():
            return False
        catalogue = Catalogue(run_dir)
        try:
            ended = catalogue.found("publish") is not None
            return ended and not self.holds(catalogue.found("check"))
        finally:
            catalogue.close()


def publish_environment(made: Path, place: Place, inode: int, maxsize: int) -> Facts:
    """Rename made/data.mdb into place, then bring the configured maxsize up to `maxsize`.

    A rename keeps the inode, so that a second call after a kill knows what is done.
    """
    with files.explained(place.directory):
        place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.holds({"inode": inode}):
            _rename(made, place)
    if maxsize != place.database.maxsize:
        apply_maxsize(place.config, place.database, maxsize)
    return {
        "bytes": place.data.stat().st_size,
        "directory": str(place.directory),
        "maxsize": maxsize,
    }


def _rename(made: Path, place: Place) -> None:
    data = made / DATA
    # slapadd's writable map leaves the file as long as maxsize, a hole for the most part; backups stumble over it.
    facts = meta.facts(made)
    os.truncate(data, facts.pages * facts.page_size)
    Owner.of(place.directory).give(data)
    data.chmod(place.database.mode)
    place.require_free()
    (place.directory / LOCK).unlink(missing_ok=True)  # of the database that was there before
    killpoint("publish.middle")
    files.publish(data, place.data)
