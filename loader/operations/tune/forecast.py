"""maxsize for a load that is to come: what the database will take, and the room that LMDB needs beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from loader import backmdb, units
from loader.config import Config, Database
from loader.errors import LoaderError
from loader.mdb import contents, meta, readers
from loader.mdb.meta import MetaPage
from loader.mdb.readers import Growth
from loader.operations.build import native
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase
from loader.operations.sizing import sampled
from loader.operations.sizing.model import Forecast
from loader.operations.tune.maxsize import GIB
from loader.operations.tune.target import Target
from loader.progress import Meter, Progress
from loader.server import configuration
from loader.server.options import Connection
from loader.sinks.mdb import Target as BuildTarget
from loader.sources import sampling
from loader.sources.ldif_files import LdifFiles
from loader.sources.location import Kind, Location, locate
from loader.sources.sampling import Sample, SampleSize
from loader.storage import temporary

READER = 3600.0  # seconds: a slapcat, a backup, an export
LEAST_WRITES = 10.0  # transactions a second while it reads, where the server shows fewer
_ELSEWHERE = (
    "what is there now is not counted, for the files are on the host of slapd: "
    "add what `ditseed tune maxsize` shows there as used"
)


@dataclass(frozen=True)
class Term:
    """One summand of the recommendation. `why`: how it comes about."""

    what: str
    bytes: int
    why: str


@dataclass(frozen=True)
class LoadPlan:
    """`now`: bytes in use. `after`: once the load is done. `recommended`: the sum of the terms in whole GiB, or what is
    configured if that is more. `notes`: what the sample does not show."""

    suffix: str
    maxsize: int
    now: int
    after: int
    load: Forecast
    terms: tuple[Term, ...]
    recommended: int
    notes: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        return sum(one.bytes for one in self.terms)


def plan(
    target: Target,
    database: Database,
    source: str,
    wanted: SampleSize,
    share: float,
    progress: Progress,
    provider: Connection | None = None,
) -> LoadPlan:
    """`share`: growth to be expected, of what is there after the load. `provider`: in the place of the source. Raises
    what reading the source raises, NotProven where the core does not build such a database, EmptyInput."""
    found = locate(source, Kind.LDIF, Kind.DATABASE, Kind.SERVER)
    take = partial(_sample, found, wanted)
    if provider is not None:
        asked = replace(provider, base=provider.base or database.suffix)
        take = partial(_of_server, asked, wanted)
    directory = database.directory if target.local else None
    sample, load = _sampled(target.config, database, take, progress, directory)
    there = _there(directory)
    now = there.used if there else 0
    keeps = now if now and directory and _keeps(directory, found) else 0
    after = load.bytes + keeps
    page_size = (there or backmdb.settings(target.config, database)).page_size
    reader = _reader(directory, page_size)
    terms = tuple(_terms(load, keeps, share, reader))
    needed = sum(one.bytes for one in terms)
    recommended = max(-(-needed // GIB) * GIB, database.maxsize)
    sizes = (database.maxsize, now, after)
    notes = sample.notes if target.local else (*sample.notes, _ELSEWHERE)
    return LoadPlan(database.suffix, *sizes, load, terms, recommended, notes)


def of_location(
    config: Config, database: Database, found: Location, wanted: SampleSize, progress: Progress
) -> Forecast:
    return _sampled(config, database, partial(_sample, found, wanted), progress)[1]


def _sampled(
    config: Config, database: Database, take: Callable[[Meter], Sample], progress: Progress, disk: Path | None = None
) -> tuple[Sample, Forecast]:
    with progress.step("sample") as meter:
        sample = take(meter)
    with progress.step("build") as meter:
        return sample, of_sample(config, database, sample, meter, disk=disk)


def of_sample(
    config: Config,
    database: Database,
    sample: Sample,
    meter: Meter,
    timed: float = sampled.TIMED,
    disk: Path | None = None,
) -> Forecast:
    """`timed`: as in `sampled`; 0 where the duration is not asked for. `disk`: a directory on that of the database, if
    it is to be asked how fast it writes. Raises NotProven, EmptyInput."""
    target = target_of(config, database)
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        return sampled.forecast(sample, target, scratch, meter, timed, disk)


def target_of(config: Config, database: Database) -> BuildTarget:
    """Of builds of a sample. Raises NotProven."""
    place = TargetDatabase(config, database, database.directory or Path())
    return native.target_of(BuildOptions(config.path, suffix=database.suffix), place)


def _of_server(provider: Connection, wanted: SampleSize, meter: Meter) -> Sample:
    # Here, since python-ldap takes 40 ms to load.
    from loader.operations.sizing.of_server import of_server

    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        return of_server(provider, wanted, scratch, meter)


def _sample(found: Location, wanted: SampleSize, meter: Meter) -> Sample:
    if found.kind is Kind.DATABASE:
        return sampling.of_database(found.path, wanted, meter)
    given = LdifFiles(found.paths)
    return sampling.of_files(given.paths(), given.entries(), wanted, meter)


def _there(directory: Path | None) -> MetaPage | None:
    """Of the data file, where there is one that can be read."""
    try:
        if directory is not None and (directory / meta.DATA).exists():
            return meta.read_meta(directory)
    except LoaderError:
        pass
    return None


def _keeps(directory: Path, found: Location) -> bool:
    """Whether what is there stays when the source is loaded: not if it is the source, or has no entries."""
    try:
        is_source = found.kind is Kind.DATABASE and found.path.samefile(directory)
        return not is_source and bool(contents.entry_count(directory))
    except (LoaderError, OSError):
        return False


def _terms(load: Forecast, keeps: int, share: float, reader: Term) -> Iterator[Term]:
    counted = "counted" if load.is_counted else "by the mean of the sample"
    yield Term(
        "the load",
        load.bytes,
        f"{units.number(load.entries)} entries ({counted}), from a sample of {units.number(load.sampled)}",
    )
    if keeps:
        yield Term("what is there", keeps, "stays, unless `ditseed build --replace` makes it anew")
    yield Term("growth", round((load.bytes + keeps) * share), f"{share:.0%} of what is there after the load")
    yield reader
    yield Term(
        "largest transaction",
        load.largest_index,
        "the largest index, made again in one (tune indexes); its old pages are free only afterwards",
    )


def _reader(directory: Path | None, page_size: int) -> Term:
    measured = _measured(directory)
    writes = max(LEAST_WRITES, measured.transactions if measured else 0.0)
    pages = measured.pages if measured else readers.PAGES
    seen = f"; {measured.transactions:.0f} were measured just now" if measured else ""
    size = round(READER * writes * pages * page_size)
    why = (
        f"one that reads for {units.duration(READER)} (slapcat, a backup), {writes:.0f} transactions a second "
        f"of {pages:.0f} pages each{seen}"
    )
    return Term("longest reader", size, why)


def _measured(directory: Path | None) -> Growth | None:
    """At the moment; None where nothing is written."""
    try:
        found = readers.measure_growth(directory) if directory else None
    except LoaderError:
        return None
    return found if found and found.transactions else None
