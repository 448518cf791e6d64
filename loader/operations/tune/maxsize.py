"""Shows the map usage of databases, and sets maxsize. The recommended maxsize is a multiple of the bytes in use or, for
a planned load, the estimated size plus room for growth, readers and transactions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

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
from loader.storage import files

SHORT = 1.5  # factor; if maxsize is less than SHORT times the used bytes, a long reader can fill the map
READER = 3600  # seconds; assumed duration of the longest read transaction (slapcat, a backup, an export)
WRITES = 10  # assumed write transactions per second during the longest read transaction
_ELSEWHERE = (
    "the present database is not counted, because its files are on the host of slapd: "
    "add the bytes that `ditseed tune maxsize` shows there as used"
)


class MapUsage(Struct, frozen=True):
    """Sizes are in bytes, and None if there is no data.mdb, or if another host's monitor is unreadable."""

    suffix: str
    directory: str
    maxsize: int
    map_size: int | None = None  # from the meta page or, for another host, from slapd's monitor
    used: int | None = None  # up to the last page ever used, including free pages
    free: int | None = None  # bytes left on the file system
    recommended: int | None = None
    notes: tuple[str, ...] = ()


def map_usages(target: Target, suffix: str | None) -> list[MapUsage]:
    return [map_usage(database, target) for database in target.databases(suffix)]


def map_usage(database: Database, target: Target) -> MapUsage:
    """Returns the map usage from the files of the database or, for another host, from the monitor of its slapd. The
    recommended maxsize is at least the configured maxsize, because address space costs nothing."""
    usage, directory = MapUsage(database.suffix, str(database.directory), database.maxsize), database.directory
    if directory is None:
        return usage
    maxsize, free = database.maxsize, None
    if target.local:
        try:
            facts = meta.read_meta(directory)
        except LoaderError as error:
            return replace(usage, notes=(str(error),))
        used, map_size, free = facts.used, facts.map_size, files.free_bytes(directory)
    else:
        counters = ("olmMDBPagesMax", "olmMDBPagesUsed")
        pages = target.session.monitor_counters(database.suffix, *counters) if target.session else {}
        if len(pages) != 2:
            return usage
        most, used = (pages[name] for name in counters)
        # The monitor shows numbers of pages, but not the page size. It follows from maxsize: slapd maps maxsize bytes,
        # or more if the file is longer, so maxsize / pages is at most the page size, which is a power of two.
        at_most = maxsize // max(1, most)
        page_size = max(backmdb.PAGE_SIZE, 1 << max(0, at_most - 1).bit_length())
        used, map_size = used * page_size, most * page_size
    notes = []
    if maxsize < used * SHORT:
        headroom = units.size(max(0, maxsize - used))
        advice = "a slapcat or backup during writes can fill the map"
        notes.append(f"copy-on-write headroom is short: {headroom} left; {advice}")
    if free is not None and free < min(maxsize, round(used * SHORT)) - files.allocated_bytes(meta.data_file(directory)):
        notes.append("the file system fills up before that headroom is used")
    recommended = max(sizing.recommended_size(used), maxsize)
    return replace(usage, used=used, map_size=map_size, free=free, recommended=recommended, notes=tuple(notes))


def change_maxsize(target: Target, suffix: str | None, size: int | str | None, apply: bool) -> Outcome:
    """Changes maxsize to `size` bytes, or to the recommended size ("auto" or None). Raises MaxsizeTooSmall,
    UsageProblem."""
    database = target.config.database(suffix)
    usage = map_usage(database, target)
    if isinstance(size, int):
        sizing.require_map(database.suffix, size, usage.used or 1)
    elif usage.recommended is None:
        unknown = f"{usage.directory} is not on this host, and slapd's monitor does not show the bytes in use"
        reason = "; ".join(usage.notes) or unknown
        raise UsageProblem(reason=f"cannot compute a maxsize ({reason}); give --maxsize")
    else:
        size = usage.recommended
    return carry_out(target, maxsize_plan(target, database, size), apply)


class Term(Struct, frozen=True):
    what: str
    bytes: int
    why: str


class LoadPlan(Struct, frozen=True):
    """The maxsize that a load needs. `now`, `after`: bytes in use before and after the load. `recommended`: sum of the
    terms in whole GiB, at least the configured maxsize. `notes`: what the sample may miss."""

    suffix: str
    maxsize: int
    now: int
    after: int
    load: Forecast
    terms: tuple[Term, ...]
    recommended: int
    notes: tuple[str, ...] = ()


class Load(Struct, frozen=True):
    """A planned load. `source`: LDIF, an export or a database directory; ignored with a `provider`. `growth`: expected
    growth after the load, as a share of the bytes in use after the load."""

    source: str
    growth: float
    provider: Connection | None = None
    sample: SampleSize = SampleSize()

    def take(self, suffix: str, meter: Meter) -> tuple[Sample, Path | None]:
        """Returns the sample, and the directory of the source if that is a database."""
        location = locate(self.source, Kind.LDIF, Kind.DATABASE, Kind.SERVER)
        if self.provider is not None:
            from loader.operations.export import of_server  # python-ldap takes 40 ms to load

            provider = replace(self.provider, base=self.provider.base or suffix)
            with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
                return of_server(provider, self.sample, scratch, meter), None
        if location.kind is Kind.DATABASE:
            return sampling.of_database(location.path, self.sample, meter), location.path
        ldif = LdifFiles(location.paths)
        return sampling.of_files(ldif.paths(), ldif.entries(), self.sample, meter), None


def plan_load(target: Target, database: Database, load: Load, progress: Progress) -> LoadPlan:
    """Returns the maxsize that a load needs. Raises EmptyInput, NotProven, and errors of reading the source."""
    with progress.step("sample") as meter:
        sample, source = load.take(database.suffix, meter)
    with progress.step("build") as meter:
        forecast = sizing.forecast(sample, native.sample_target(target.config, database), meter)

    # The present entries stay beside the loaded entries, unless the database is the source.
    used, stays, page_size = 0, 0, backmdb.settings(target.config, database).page_size
    directory = database.directory if target.local else None
    if directory is not None and (directory / meta.DATA).exists():
        with suppress(LoaderError, OSError):
            facts = meta.read_meta(directory)
            used, page_size = facts.used, facts.page_size
            is_source = source is not None and source.samefile(directory)
            stays = used if not is_source and contents.entry_count(directory) > 0 else 0

    counted, after = "counted" if forecast.is_counted else "estimated", forecast.bytes + stays
    of_sample = f"{units.number(forecast.entries)} entries ({counted}); size from a sample of {forecast.sampled:,}"
    of_reader = f"one that reads for {units.duration(READER)} (slapcat, a backup), {WRITES} transactions a second "
    of_reader += f"of {readers.PAGES} pages each"
    of_transaction = "a rebuild of the largest index (tune indexes), whose old pages become free only afterwards"
    terms = [Term("the load", forecast.bytes, of_sample)]
    if stays:
        terms.append(Term("present entries", stays, "they stay, unless `ditseed build --replace` is used"))
    terms += [
        Term("growth", round(after * load.growth), f"{load.growth:.0%} of the bytes in use after the load"),
        Term("longest reader", READER * WRITES * readers.PAGES * page_size, of_reader),
        Term("largest transaction", forecast.largest_index, of_transaction),
    ]
    return LoadPlan(
        suffix=database.suffix,
        maxsize=database.maxsize,
        now=used,
        after=after,
        load=forecast,
        terms=tuple(terms),
        recommended=max(-(-sum(term.bytes for term in terms) // GIB) * GIB, database.maxsize),
        notes=sample.notes if target.local else (*sample.notes, _ELSEWHERE),
    )
