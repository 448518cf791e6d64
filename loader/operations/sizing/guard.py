"""Is there room for a load? Asked of a small sample before it begins, so that it does not end with MDB_MAP_FULL."""

from __future__ import annotations

from loader import units
from loader.errors import EmptyInput, MaxsizeTooSmall
from loader.operations.sizing import sampled
from loader.operations.sizing.model import Forecast
from loader.progress import Meter
from loader.server import configuration
from loader.sinks.mdb import Target
from loader.sources import sampling
from loader.sources.ldif_files import LdifFiles
from loader.sources.sampling import SampleSize
from loader.storage import temporary

_SOON = 16 << 20  # bytes of LDIF: what is smaller is loaded within a second, and fails as soon
_LARGEST = 24  # times the LDIF: no database takes more, with every attribute indexed
_COMPRESSED = 20  # times smaller LDIF may be
_SIZE = SampleSize(5000, 0.0, seconds=20.0)


def require_room(target: Target, given: LdifFiles, suffix: str, room: int, meter: Meter) -> None:
    """Raises MaxsizeTooSmall where the database that the core would make of the files is larger than `room` bytes.

    Streams and what is small are not looked at; what is wrong with the files, the load tells.
    """
    found = forecast(target, given, room, meter)
    if found is not None and found.bytes > room:
        raise MaxsizeTooSmall(
            maxsize=units.size(room), suffix=suffix, needed=units.size(found.bytes)
        )


def forecast(target: Target, given: LdifFiles, room: int, meter: Meter) -> Forecast | None:
    """None where nothing has to be asked."""
    if given.streamed:
        return None
    paths = given.paths()
    compressed = any(map(sampling.is_compressed, paths))
    size = sum(path.stat().st_size for path in paths) * (_COMPRESSED if compressed else 1)
    if size < _SOON or size * _LARGEST < room:
        return None
    sample = sampling.of_files(paths, given.entries(), _SIZE, meter)
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        try:
            return sampled.forecast(sample, target, scratch, meter, timed=0.0)
        except EmptyInput:
            return None
