"""maxsize: shows how much of the map a database uses, computes the size that a planned load needs, and sets maxsize.

Without a load, the recommendation is a multiple of the bytes in use. For a load, it is the bytes of the load, estimated
from a sample, plus the room that LMDB needs: for growth, a long reader, and the largest transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from loader import backmdb, units
from loader.config import Database
from loader.errors import LoaderError, UsageProblem
from loader.mdb import contents, meta, readers
from loader.operations import sizing
from loader.operations.build import native
from loader.operations.sizing import GIB, Forecast
from loader.operations.tune import Outcome, Target, carry_out, maxsize_plan
from loader.progress import Meter, Progress
from loader.server import configuration
from loader.server.options import Connection
from loader.sources import sampling
from loader.sources.location import Kind, LdifFiles, locate
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files, temporary

SHORT = 1.5  # if maxsize is below 1.5 times the used bytes, a long reader (slapcat, a backup) can fill the map
READER = 3600.0  # assumed seconds of the longest reader (slapcat, a backup, an export)
LEAST_WRITES = 10.0  # assumed write transactions a second during that reader, if fewer are measured
_SAMPLE = SampleSize()
_ELSEWHERE = (
    "what is there now is not counted, for the files are on the host of slapd: "
    "add what `ditseed tune maxsize` shows there as used"
)


@dataclass(frozen=True)
class MapUsage:
    """The map of a database, in bytes. None if unknown: the files are on another host whose monitor is not readable, or
    do not exist yet."""

    suffix: str
    directory: str
    maxsize: int
    map_size: int | None = None  # from the meta page or, for another host, from slapd's monitor
    used: int | None = None  # bytes of all pages ever used, free pages included
    free: int | None = None  # free bytes of the file system
    recommended: int | None = None
    notes: tuple[str, ...] = ()

    def with_used(self, used: int, map_size: int) -> MapUsage:
        """Adds the usage and a recommendation, which is never below the configured maxsize: address space is free."""
        notes = []
        if self.maxsize < used * SHORT:
            left = units.size(max(0, self.maxsize - used))
            advice = "a slapcat or backup during writes can fill the map"
            notes.append(f"copy-on-write headroom is short: {left} left; {advice}")
        recommended = max(sizing.recommended_size(used), self.maxsize)
        return replace(self, used=used, map_size=map_size, recommended=recommended, notes=tuple(notes))


def standings(target: Target, suffix: str | None) -> list[MapUsage]:
    """Returns the map usage of the database of `suffix`, or of every mdb database."""
    return [standing(database, target) for database in target.databases(suffix)]


def standing(database: Database, target: Target) -> MapUsage:
    """Returns the map usage from the database's files or, for another host, from the monitor of its slapd."""
    usage, directory = MapUsage(database.suffix, str(database.directory), database.maxsize), database.directory
    if directory is None:
        return usage
    if not target.local:
        pages = target.map_pages(database.suffix)
        if pages is None:
            return usage
        # The monitor counts pages without their size. slapd maps maxsize, or more if the file is longer.
        at_most = database.maxsize // max(1, pages.most)
        page_size = max(backmdb.PAGE_SIZE, 1 << max(0, at_most - 1).bit_length())
        return usage.with_used(pages.used * page_size, pages.most * page_size)
    try:
        facts = meta.read_meta(directory)
    except LoaderError as error:
        return replace(usage, notes=(str(error),))
    usage = usage.with_used(facts.used, facts.map_size)
    free, notes = files.free_bytes(directory), usage.notes
    if free < min(database.maxsize, round(facts.used * SHORT)) - files.allocated_bytes(meta.data_file(directory)):
        notes = (*notes, "the file system is full before that headroom is")
    return replace(usage, free=free, notes=notes)


def change_maxsize(target: Target, suffix: str | None, size: int | str | None, apply: bool) -> Outcome:
    """Sets maxsize to `size` bytes; "auto" or None: to the recommended size. Raises MaxsizeTooSmall; UsageProblem if no
    size can be recommended."""
    database = target.config.database(suffix)
    usage = standing(database, target)
    if isinstance(size, int):
        sizing.require_map(database.suffix, size, usage.used or 1)
    elif usage.recommended is None:
        untold = f"{usage.directory} is not on this host, and slapd's monitor does not tell us what is used"
        reason = "; ".join(usage.notes) or untold
        raise UsageProblem(reason=f"cannot work out a maxsize ({reason}); give --maxsize")
    else:
        size = usage.recommended
    return carry_out(target, maxsize_plan(target, database, size), apply)


# --- for a load ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """One summand of the recommendation. `why`: how it was computed."""

    what: str
    bytes: int
    why: str


@dataclass(frozen=True)
class LoadPlan:
    """The maxsize that a load needs. `now`: bytes in use. `after`: bytes in use after the load. `recommended`: sum of
    the terms, rounded up to GiB, or the configured maxsize if that is more. `notes`: limits of the sample."""

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
        return sum(term.bytes for term in self.terms)


@dataclass(frozen=True)
class Load:
    """What is to be loaded. `source`: LDIF, an export or a database directory; not read if there is a `provider`.
    `growth`: expected growth after the load, as a share of the bytes in use then."""

    source: str
    growth: float
    provider: Connection | None = None
    sample: SampleSize = _SAMPLE

    @property
    def database(self) -> Path | None:
        """The database directory that is loaded; None if the source is of another kind."""
        location = locate(self.source, Kind.LDIF, Kind.DATABASE, Kind.SERVER)
        return location.path if location.kind is Kind.DATABASE else None

    def take(self, database: Database, meter: Meter) -> Sample:
        """Samples the source. Raises what reading the source raises."""
        location = locate(self.source, Kind.LDIF, Kind.DATABASE, Kind.SERVER)
        if self.provider is not None:
            from loader.operations.server_sample import of_server  # python-ldap takes 40 ms to load

            provider = replace(self.provider, base=self.provider.base or database.suffix)
            with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
                return of_server(provider, self.sample, scratch, meter)
        if location.kind is Kind.DATABASE:
            return sampling.of_database(location.path, self.sample, meter)
        ldif = LdifFiles(location.paths)
        return sampling.of_files(ldif.paths(), ldif.entries(), self.sample, meter)


def plan_load(target: Target, database: Database, load: Load, progress: Progress) -> LoadPlan:
    """Computes the maxsize for a load from a sample. Raises what reading the source raises, EmptyInput, and NotProven
    for a configuration that the core does not support."""
    directory = database.directory if target.local else None
    with progress.step("sample") as meter:
        sample = load.take(database, meter)
    with progress.step("build") as meter:
        build = native.sample_target(target.config, database)
        forecast = sizing.forecast(sample, build, meter)
    used, stays, page_size = 0, 0, 0
    if directory is not None and (directory / meta.DATA).exists():
        with suppress(LoaderError):
            facts = meta.read_meta(directory)
            used, page_size = facts.used, facts.page_size
            stays = used if _stays(directory, load) else 0
    page_size = page_size or backmdb.settings(target.config, database).page_size
    terms = tuple(_terms(forecast, stays, load.growth, _reader(directory, page_size)))
    needed = sum(term.bytes for term in terms)
    return LoadPlan(
        suffix=database.suffix,
        maxsize=database.maxsize,
        now=used,
        after=forecast.bytes + stays,
        load=forecast,
        terms=terms,
        recommended=max(-(-needed // GIB) * GIB, database.maxsize),
        notes=sample.notes if target.local else (*sample.notes, _ELSEWHERE),
    )


def _stays(directory: Path, load: Load) -> bool:
    """Returns whether the present entries stay in addition to the load: not if the database is the source or empty."""
    with suppress(LoaderError, OSError):
        is_source = load.database is not None and load.database.samefile(directory)
        return not is_source and contents.entry_count(directory) > 0
    return False


def _terms(load: Forecast, stays: int, share: float, reader: Term) -> Iterator[Term]:
    counted = "counted" if load.is_counted else "estimated"
    sample = f"{units.number(load.entries)} entries ({counted}); size from a sample of {units.number(load.sampled)}"
    yield Term("the load", load.bytes, sample)
    if stays:
        yield Term("what is there", stays, "stays, unless `ditseed build --replace` makes it anew")
    yield Term("growth", round((load.bytes + stays) * share), f"{share:.0%} of what is there after the load")
    yield reader
    why = "a rebuild of the largest index (tune indexes); its old pages are free only afterwards"
    yield Term("largest transaction", load.largest_index, why)


def _reader(directory: Path | None, page_size: int) -> Term:
    """Returns the term of a long reader: bytes of pages that cannot be reused meanwhile, at the measured write rate."""
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
