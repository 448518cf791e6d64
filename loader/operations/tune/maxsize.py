"""maxsize: how much a database holds and may become, what a load that is to come needs, and setting it.

Without a load the recommendation is a multiple of what is used. For a load it is the sum of what the load takes, as a
sample tells, and of the room that LMDB needs beside it: growth, a long reader, the largest transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loader import backmdb, units
from loader.config import Database
from loader.errors import LoaderError, UsageProblem
from loader.mdb import contents, meta, readers
from loader.mdb.meta import MetaPage
from loader.operations import room, sizing
from loader.operations.build import native
from loader.operations.room import GIB
from loader.operations.sizing import Forecast
from loader.operations.tune.target import Outcome, Target, carry_out, databases_of, maxsize_plan
from loader.progress import Meter, Progress
from loader.server import configuration
from loader.server.options import Connection
from loader.sources import sampling
from loader.sources.location import Kind, LdifFiles, locate
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files, temporary

if TYPE_CHECKING:
    from loader.server.session import MapPages

_UNTOLD = "slapd's monitor does not tell us what is used"
SHORT = 1.5  # below this times the used bytes a long reader (slapcat, a backup) can fill the map
READER = 3600.0  # seconds: a slapcat, a backup, an export
LEAST_WRITES = 10.0  # transactions a second while it reads, where the server shows fewer
_ELSEWHERE = (
    "what is there now is not counted, for the files are on the host of slapd: "
    "add what `ditseed tune maxsize` shows there as used"
)


@dataclass(frozen=True)
class MapUsage:
    """All in bytes; None where nobody tells: the files are on another host or not there yet, the server keeps it to
    itself."""

    suffix: str
    directory: str
    maxsize: int
    map_size: int | None = None  # as slapd last wrote it into the file, or has it in memory
    used: int | None = None  # pages ever used, free ones among them
    apparent: int | None = None
    allocated: int | None = None
    free: int | None = None  # on the file system
    recommended: int | None = None
    notes: tuple[str, ...] = ()


def standings(target: Target, suffix: str | None) -> list[MapUsage]:
    """Of every mdb database, or the one of `suffix`."""
    return [standing(database, target) for database in databases_of(target.config, suffix)]


def standing(database: Database, target: Target) -> MapUsage:
    """By its files, or of another host by the monitor of its slapd."""
    known = MapUsage(database.suffix, str(database.directory), database.maxsize)
    if database.directory is None:
        return known
    if not target.local:
        return _as_monitored(known, target)
    try:
        facts = meta.read_meta(database.directory)
    except LoaderError as error:
        return replace(known, notes=(str(error),))
    file, free = meta.data_file(database.directory), files.free_bytes(database.directory)
    allocated = files.allocated_bytes(file)
    notes = [*_headroom(database.maxsize, facts.used)]
    if free < min(database.maxsize, round(facts.used * SHORT)) - allocated:
        notes.append("the file system is full before that headroom is")
    return replace(
        _with_used(known, facts.used),
        map_size=facts.map_size,
        free=free,
        apparent=file.stat().st_size,
        allocated=allocated,
        notes=tuple(notes),
    )


def _as_monitored(known: MapUsage, target: Target) -> MapUsage:
    pages = target.map_pages(known.suffix)
    if pages is None:
        return known
    size = _page_size(known.maxsize, pages)
    used = pages.used * size
    found = replace(_with_used(known, used), map_size=pages.most * size)
    return replace(found, notes=tuple(_headroom(known.maxsize, used)))


def _page_size(maxsize: int, pages: MapPages) -> int:
    """The monitor counts pages and does not tell their size: slapd maps `maxsize`, or more where the file is longer."""
    at_most = maxsize // max(1, pages.most)
    return max(backmdb.PAGE_SIZE, 1 << max(0, at_most - 1).bit_length())


def _with_used(known: MapUsage, used: int) -> MapUsage:
    """Address space costs nothing, so no smaller maxsize than the configured one is recommended."""
    return replace(known, used=used, recommended=max(room.recommended_size(used), known.maxsize))


def _headroom(maxsize: int, used: int) -> Iterable[str]:
    if maxsize < used * SHORT:
        yield (
            f"copy-on-write headroom is short: {units.size(max(0, maxsize - used))} left; a slapcat or backup during "
            "writes can fill the map"
        )


def change_maxsize(target: Target, suffix: str | None, size: int | str | None, apply: bool) -> Outcome:
    """`size`: bytes, or "auto" (also None) for the recommended one. Raises MaxsizeTooSmall, UsageProblem."""
    database = target.config.database(suffix)
    return carry_out(target, maxsize_plan(target.config, database, _chosen(database, target, size)), apply)


def _chosen(database: Database, target: Target, size: int | str | None) -> int:
    known = standing(database, target)
    if isinstance(size, str) or size is None:
        if known.recommended is None:
            reason = "; ".join(known.notes) or f"{known.directory} is not on this host, and {_UNTOLD}"
            raise UsageProblem(reason=f"cannot work out a maxsize ({reason}); give --maxsize")
        return known.recommended
    room.require_map(database.suffix, size, known.used or 1)
    return size


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


@dataclass(frozen=True)
class Load:
    """What is to be loaded. `source`: LDIF, an export or a database directory, unless a `provider` is read. `growth`:
    expected afterwards, as a share of what is there then."""

    source: str
    sample: SampleSize
    growth: float
    provider: Connection | None = None

    def take(self, database: Database, meter: Meter) -> Sample:
        """Raises what reading the source raises."""
        found = locate(self.source, Kind.LDIF, Kind.DATABASE, Kind.SERVER)
        if self.provider is not None:
            from loader.operations.server_sample import of_server  # python-ldap takes 40 ms to load

            provider = replace(self.provider, base=self.provider.base or database.suffix)
            with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
                return of_server(provider, self.sample, scratch, meter)
        if found.kind is Kind.DATABASE:
            return sampling.of_database(found.path, self.sample, meter)
        given = LdifFiles(found.paths)
        return sampling.of_files(given.paths(), given.entries(), self.sample, meter)

    def is_of(self, directory: Path) -> bool:
        """Whether the database in `directory` is what is loaded."""
        found = locate(self.source, Kind.LDIF, Kind.DATABASE, Kind.SERVER)
        return found.kind is Kind.DATABASE and found.path.samefile(directory)


def plan_load(target: Target, database: Database, load: Load, progress: Progress) -> LoadPlan:
    """Raises what reading the source raises, EmptyInput, and NotProven for a configuration that the core does not
    follow."""
    directory = database.directory if target.local else None
    with progress.step("sample") as meter:
        sample = load.take(database, meter)
    with progress.step("build") as meter:
        build = native.sample_target(target.config, database)
        forecast = sizing.forecast(sample, build, meter, disk=directory)
    there = _there(directory)
    used = there.used if there else 0
    keeps = used if used and directory and _keeps(directory, load) else 0
    page_size = (there or backmdb.settings(target.config, database)).page_size
    terms = tuple(_terms(forecast, keeps, load.growth, _reader(directory, page_size)))
    needed = sum(term.bytes for term in terms)
    return LoadPlan(
        suffix=database.suffix,
        maxsize=database.maxsize,
        now=used,
        after=forecast.bytes + keeps,
        load=forecast,
        terms=terms,
        recommended=max(-(-needed // GIB) * GIB, database.maxsize),
        notes=sample.notes if target.local else (*sample.notes, _ELSEWHERE),
    )


def _there(directory: Path | None) -> MetaPage | None:
    """Of the data file, if there is one that can be read."""
    with suppress(LoaderError):
        if directory is not None and (directory / meta.DATA).exists():
            return meta.read_meta(directory)
    return None


def _keeps(directory: Path, load: Load) -> bool:
    """Whether what is there stays when the source is loaded: not if it is the source, or has no entries."""
    with suppress(LoaderError, OSError):
        return not load.is_of(directory) and contents.entry_count(directory) > 0
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
    """By what the server writes at the moment, if it writes."""
    growth = None
    with suppress(LoaderError):
        growth = readers.measure_growth(directory) if directory else None
    writes, pages, measured = LEAST_WRITES, float(readers.PAGES), ""
    if growth and growth.transactions:
        writes, pages = max(writes, growth.transactions), growth.pages
        measured = f"; {growth.transactions:.0f} were measured just now"
    why = (
        f"one that reads for {units.duration(READER)} (slapcat, a backup), {writes:.0f} transactions a second "
        f"of {pages:.0f} pages each{measured}"
    )
    return Term("longest reader", round(READER * writes * pages * page_size), why)
