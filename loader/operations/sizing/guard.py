"""Is there room for a load, in the map and on the disk? A small sample tells before it begins, so that it does not end
with MDB_MAP_FULL, or with a file system that is full for everybody."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.errors import EmptyInput, IncludeRefused, LdifEncoding, LdifSyntax, LdifTruncated, MaxsizeTooSmall, NoSpace
from loader.operations.sizing import sampled
from loader.operations.sizing.model import Forecast
from loader.progress import Meter
from loader.server import configuration
from loader.sinks.mdb import Target
from loader.sources import sampling
from loader.sources.ldif_files import LdifFiles
from loader.sources.sampling import SampleSize
from loader.storage import files, temporary

_LARGEST = 24  # times the LDIF: no database takes more, with every attribute indexed
_EMPTY = 1 << 20  # bytes of a database with all tables and no entries, at most
_COMPRESSED = 20  # times smaller LDIF may be
_FAULTY = (EmptyInput, LdifSyntax, LdifTruncated, LdifEncoding, IncludeRefused)
_SIZE = SampleSize(5000, 0.0, seconds=10.0)


@dataclass(frozen=True)
class Limits:
    """Of a new database. maxsize: bytes; None: it is chosen once the size is known. directory: where the file system
    has to have room for it; None: that is not asked."""

    suffix: str
    maxsize: int | None
    directory: Path | None

    @property
    def free(self) -> int | None:
        return None if self.directory is None else files.free_bytes(self.directory)

    def least(self) -> float:
        """Bytes that a database may have in any case."""
        return min(one for one in (self.maxsize, self.free, math.inf) if one is not None)

    def require(self, needed: int) -> None:
        """Raises MaxsizeTooSmall, NoSpace."""
        if self.maxsize is not None and needed > self.maxsize:
            raise MaxsizeTooSmall(maxsize=units.size(self.maxsize), suffix=self.suffix, needed=units.size(needed))
        free = self.free
        if free is not None and needed > free:
            lack = f"about {units.size(needed)} needed, {units.size(free)} free"
            raise NoSpace(path=self.directory, lack=lack)


def require_room(target: Target, given: LdifFiles, limits: Limits, meter: Meter) -> None:
    """Raises MaxsizeTooSmall, NoSpace where the database that the core would make of the files does not fit.

    Streams are not looked at; what is wrong with the files, the load tells.
    """
    found = forecast(target, given, limits.least(), meter)
    if found is not None:
        limits.require(found.bytes)


def forecast(target: Target, given: LdifFiles, room: float, meter: Meter) -> Forecast | None:
    """None where nothing has to be asked, since the database has place in `room` bytes however it is indexed."""
    if given.streamed:
        return None
    paths = given.paths()
    compressed = any(map(sampling.is_compressed, paths))
    size = sum(path.stat().st_size for path in paths) * (_COMPRESSED if compressed else 1)
    if _EMPTY + size * _LARGEST < room:
        return None
    try:
        return of_files(target, given, meter)
    except _FAULTY:
        return None


def of_files(target: Target, given: LdifFiles, meter: Meter) -> Forecast:
    """Raises EmptyInput, NotProven, and what reading LDIF raises."""
    sample = sampling.of_files(given.paths(), given.entries(), _SIZE, meter)
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        return sampled.forecast(sample, target, scratch, meter, timed=0.0)
