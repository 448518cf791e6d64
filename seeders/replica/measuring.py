"""What this provider, this network and this host do: a short real reading, a build of what it brought, a short copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loader import exports, ldif, resources
from loader.errors import Cancelled, LoaderError, SchemaMissing
from loader.mdb.meta import DATA
from loader.operations import sizing
from loader.operations.build import native, steps
from loader.operations.export import ExportOptions, plan_of
from loader.operations.publish import TargetDatabase
from loader.operations.sizing import Forecast
from loader.progress import Meter, Progress
from loader.run.log import Facts
from loader.server import configuration
from loader.sources import ldap as source
from loader.sources import sampling
from loader.sources.ldif_files import LdifFiles
from loader.sources.planner import Piece
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files, temporary

READ_FOR = 3.0  # seconds that the provider is read
READ_MOST = 96 << 20  # bytes of LDIF
COPY_FOR = 2.0  # seconds
COPY_MOST = 256 << 20  # bytes
_SHORT = 16 << 20
_LOOK = 0.01
_SIZE = SampleSize(10_000, 0.0)


@dataclass(frozen=True)
class Reading:
    """A short export. entries, bytes of LDIF: that came in so many seconds, over so many connections; `whole`: that is
    all there is. idle: processors of this host that had nothing to do meanwhile."""

    entries: int
    bytes: int
    seconds: float
    first: float  # seconds until the first entry came
    connections: int
    whole: bool
    idle: float

    @property
    def rate(self) -> float:
        """Entries a second, once they come."""
        return self.entries / max(self.seconds - self.first, 1e-3)

    def seconds_for(self, entries: int) -> float:
        return self.first + entries / self.rate

    @property
    def entry(self) -> float:
        """Bytes of LDIF an entry."""
        return self.bytes / max(1, self.entries)


@dataclass(frozen=True)
class Building:
    """forecast: from a build of a sample. scan: bytes of LDIF a second that are looked through. text: bytes of all."""

    forecast: Forecast
    scan: float
    text: int


@dataclass(frozen=True)
class Copying:
    """bytes: to copy; rate: bytes a second, read there and written here."""

    bytes: int
    rate: float


def read(asked: ExportOptions, cut: Facts, scratch: Path, meter: Meter) -> tuple[Reading, list[Path]]:
    """The pieces that a seeding begins with, read for READ_FOR at most; and the files of what came."""
    pieces = plan_of(cut, asked.page).cut[: asked.jobs]
    inner, before = Meter("sample"), _Processors.now()
    with ThreadPoolExecutor(len(pieces)) as pool, meter.cancelling(inner.cancel):
        futures = [pool.submit(_fetch, asked, one, scratch, inner) for one in pieces]
        first, whole = None, False
        while not whole and inner.seconds < READ_FOR and inner.bytes < READ_MOST:
            time.sleep(_LOOK)
            first = inner.seconds if first is None and inner.entries else first
            whole = all(one.done() for one in futures)
        entries, seconds = inner.entries, inner.seconds
        if not whole:
            inner.cancel()
        for one in futures:
            with suppress(*([] if whole else [Cancelled, LoaderError])):
                one.result()
    idle = before.idle_until(_Processors.now())
    paths = [path for path in sorted(scratch.iterdir()) if path.stat().st_size]
    kept = sum(path.stat().st_size for path in paths)
    whole = whole and len(pieces) == len(plan_of(cut, asked.page).cut)
    meter.add(entries)
    first = min(first or seconds, seconds / 2)
    return Reading(entries, kept, seconds, first, len(pieces), whole, idle), paths


def _fetch(asked: ExportOptions, piece: Piece, scratch: Path, meter: Meter) -> None:
    source.fetch(asked.connection, piece.search, scratch / f"{piece.name}.ldif", meter)


def build_of_reading(
    place: TargetDatabase, reading: Reading, paths: Sequence[Path], total: int, progress: Progress
) -> Building:
    """Raises NotProven, EmptyInput, SchemaMissing."""
    how = f"the first {reading.entries:,} entries that the provider sent"
    sample = sampling.of_part(paths, total, _SIZE, how)
    return _build(place, sample, round(reading.entry * total), progress)


def build_of_ldif(place: TargetDatabase, given: Sequence[Path], progress: Progress) -> Building:
    """Raises as `build_of_reading`, and what reading LDIF raises."""
    found = LdifFiles(tuple(given))
    with progress.step("sample") as meter:
        sample = sampling.of_files(found.paths(), found.entries(), _SIZE, meter)
    return _build(place, sample, sample.ldif_bytes, progress)


def _build(place: TargetDatabase, sample: Sample, text: int, progress: Progress) -> Building:
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        path = scratch / "sample.ldif"
        files.write_durably(path, sample.text, 0o600)
        with progress.step("scan") as meter:
            found = ldif.scan([path], meter)
            rate = len(sample.text) / max(meter.seconds, 1e-3)
        names = (list(found.attributes), list(found.object_classes))
        unknown = steps.unknown_names(place, *names, scratch)
    if unknown:
        raise SchemaMissing(config=place.config.path, names=", ".join(unknown))
    with progress.step("build") as meter:
        target = native.sample_target(place.config, place.database)
        forecast = sizing.forecast(sample, target, meter, disk=place.directory)
    return Building(forecast, rate, text)


def copy(database: Path, place: TargetDatabase, meter: Meter) -> Copying:
    """The beginning of the file, by the engine that copies it, to the consumer's disk."""
    size = files.allocated_bytes(database / DATA)
    with sizing.unnamed_file(place.directory) as target:
        return Copying(size, _rate(database / DATA, target, meter))


def _rate(path: Path, target: int, meter: Meter) -> float:
    """Of a short copy, and then of one that takes `COPY_FOR`: a short one is mostly its fsync."""
    rate = _SHORT / COPY_FOR
    for most in (_SHORT, COPY_MOST):
        began = time.monotonic()
        written = sizing.write(path, target, min(most, round(rate * COPY_FOR)), meter)
        rate = written / max(time.monotonic() - began, 1e-3)
    return rate


def entries_of(given: Sequence[Path]) -> int | None:
    """Of LDIF, if a manifest tells."""
    return LdifFiles(tuple(given)).entries() if exports.files_of(given) else None


@dataclass(frozen=True)
class _Processors:
    """Ticks of all processors of the host since its start."""

    idle: int
    all: int

    @classmethod
    def now(cls) -> _Processors:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        return cls(ticks[3] + ticks[4], sum(ticks))

    def idle_until(self, later: _Processors) -> float:
        """Processors that this process might have had besides."""
        share = (later.idle - self.idle) / max(1, later.all - self.all)
        return share * resources.processors()
