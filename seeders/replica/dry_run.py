"""`replica seed --dry-run`: checks the named strategy, or every strategy, predicts the time of each step from short
measurements (reading the provider, building the entries read, copying a file), and chooses a strategy.

A strategy is refused here if `replica seed` would refuse it before the reading, or would run out of room. The sample
build reveals problems of schema, space and maxsize that a real seeding meets only after it has read the entries."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loader import exports, ldif, resources, units
from loader.errors import Cancelled, LoaderError, NotProven, SchemaMissing
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations import sizing, stream_build
from loader.operations.build import native, steps
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.operations.export import ExportOptions, ReadingPlan, trial_plan
from loader.operations.room import require_room
from loader.operations.sizing import Forecast
from loader.progress import Meter, Progress
from loader.run.log import Report, report_of
from loader.server import configuration, questions
from loader.server.session import session
from loader.sources import ldap as source
from loader.sources import sampling
from loader.sources.location import Kind, LdifFiles, is_stream, locate
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files, temporary
from seeders.replica import catchup, partial, plan, preflight
from seeders.replica.catchup import Preflight
from seeders.replica.plan import CATCH_UP, PlannedStep, ProviderLoad, SeedPlan, StrategyName, StrategyPlan
from seeders.replica.seed_cmd import STRATEGIES, options_of
from seeders.replica.strategies import Clone, Ldif, Search, SeedOptions, StoppedConsumer, Strategy, reading

_READ_FOR, _READ_MOST = 3.0, 96 << 20  # limits of the trial reading: seconds, bytes of LDIF
_COPY_FOR, _COPY_MOST = 2.0, 256 << 20  # target seconds and maximum bytes of the second trial copy
_COPY_FIRST = 16 << 20  # bytes of the first trial copy
_LOOK = 0.01  # seconds between two checks of the trial reading's limits
_SIZE = SampleSize(10_000, 0.0)
_TAIL = 0.25  # share of a build that cannot start before all is read: indexes, dn2id (docs/performance.md)
_ADDS = 9000.0  # entries per second that a slapd accepts over LDAP (`bin/bench add`)
_SHORT = 0.1  # assumed seconds of a step that only opens or renames a file, or sends one request
_SPILL = 2  # disk of a build whose sorting exceeds memory, as a multiple of the database
_NEAR = 60.0  # additional seconds that a strategy may take if the provider then sends only changes
_TWICE = 2.0  # the same limit as a multiple of the fastest strategy's seconds; the larger limit applies
_JUST_NOW = "measured just now"


def dry_run(options: SeedOptions, progress: Progress) -> tuple[SeedPlan, Report]:
    """Returns the plan, and the facts found by the checks of the chosen strategy. Changes nothing. Tries all strategies
    if `options` names none. Raises LoaderError if the configuration cannot be read or the named strategy is refused."""
    trial = _Trial(options, progress)
    config = configuration.read(options.config_path) if options.config_path else None
    suffix = config.database(options.suffix).suffix if config else options.suffix or ""
    rows = tuple(trial.judged(name) for name in STRATEGIES) if not options.strategy else (trial.only(),)
    chosen, why = pick(rows) if not options.strategy else (rows[0].strategy, "it is the one that was named")
    facts = trial.facts.get(chosen or "", {})
    uuid = ""
    if options.connection:
        with suppress(LoaderError):
            uuid = plan.base_uuid(options.connection, suffix)
    entries = trial.entries if any(row.feasible for row in rows) else None
    seed_plan = SeedPlan(
        suffix=str(facts.get("suffix", suffix)),
        provider=options.connection.uri if options.connection else None,
        provider_uuid=uuid,
        configuration=plan.fingerprint(config),
        made=units.moment(time.time()),
        entries=entries,
        measured=trial.measured,
        strategies=rows,
        chosen=chosen,
        why=why,
    )
    if not isinstance(facts.get("entries"), int) and entries is not None:
        facts = {**facts, "entries": entries}
    return seed_plan, {"suffix": suffix, **facts, "dry_run": "nothing was changed"}


@dataclass(frozen=True)
class Reading:
    """Result of the trial reading. `entries`, `bytes` (of LDIF): received within `seconds` over `connections`. `first`:
    seconds until the first entry. `whole`: the tree has no more entries."""

    entries: int
    bytes: int
    seconds: float
    first: float
    connections: int
    whole: bool

    @property
    def rate(self) -> float:
        """Entries per second, counted from the first entry."""
        return self.entries / max(self.seconds - self.first, 1e-3)

    def seconds_for(self, entries: int) -> float:
        return self.first + entries / self.rate

    @property
    def entry(self) -> float:
        """Average bytes of LDIF per entry."""
        return self.bytes / max(1, self.entries)

    def __str__(self) -> str:
        return f"{units.number(round(self.rate))} entries/s"


@dataclass(frozen=True)
class Building:
    """`forecast`: extrapolated from a sample build. `scan`: seconds to scan all LDIF, at `rate` bytes per second."""

    forecast: Forecast
    scan: float
    rate: float


@dataclass(frozen=True)
class Copying:
    """`bytes`: bytes to copy. `rate`: bytes per second, read from the source and written to the consumer's disk."""

    bytes: int
    rate: float


class _Trial:
    """Runs the trials. Measurements that several strategies share are made once. `facts`: check results by strategy."""

    def __init__(self, options: SeedOptions, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.measured: dict[str, str] = {}
        self.facts: dict[str, Report] = {}
        self._reading: Reading | None = None
        self._building: Building | None = None
        self._of_ldif: Building | None = None
        sources = [] if options.strategy else [locate(str(path), Kind.LDIF, Kind.DATABASE) for path in options.source]
        self._databases, self._ldif = (
            tuple(path for located in sources if located.kind is kind for path in located.paths)
            for kind in (Kind.DATABASE, Kind.LDIF)
        )

    @property
    def entries(self) -> int | None:
        built = self._building or self._of_ldif
        return built.forecast.entries if built else None

    def only(self) -> StrategyPlan:
        return self._priced(self.options)

    def judged(self, name: str) -> StrategyPlan:
        """Returns the plan of one strategy: its price, or the error that refuses it."""
        takes_ldif = name == "ldif" or (name == "online" and self.options.connection is None)
        paths = self._databases if name == "clone" else self._ldif if takes_ldif else ()
        options = options_of(name, dataclasses.replace(self.options, source=paths))
        with _warnings() as notes:
            try:
                return dataclasses.replace(self._priced(options), notes=tuple(notes))
            except LoaderError as error:
                advice = error.advice() or ""
                return dataclasses.replace(_row(options), refused=error.code, reason=str(error), advice=advice)

    def _priced(self, options: SeedOptions) -> StrategyPlan:
        began = time.monotonic()
        strategy = STRATEGIES[options.strategy](options)
        seen = preflight.preflight(strategy, dry_run=True)
        checked = time.monotonic()
        planned: Report = {}
        if isinstance(strategy, Ldif) and not self.options.strategy:  # a sample is enough to compare strategies
            strategy.require_context_csn(self.progress)
        else:
            planned = strategy.plan(seen.suffix, self.progress)
        self.facts[options.strategy] = report_of(seen, planned)
        price = Price(strategy, seen, planned, round(checked - began, 3), round(time.monotonic() - checked, 3))
        price = self._measured(price)
        if isinstance(strategy, StoppedConsumer) and price.building and not price.copying:
            needed = price.building.forecast.bytes
            require_room(native.limits_of(strategy.building(), strategy.place), lambda: needed)
        return price.row()

    def _measured(self, price: Price) -> Price:
        strategy, paths = price.strategy, price.strategy.options.source
        if isinstance(strategy, Clone):
            with self.progress.step("copy") as meter:
                copying = _copy(strategy, meter)
            self.measured["copying"] = f"{units.size(copying.rate)}/s, fsync included"
            entries: int | None = contents.entry_count(strategy.source)
            return dataclasses.replace(price, copying=copying, building=self._building, entries=entries)
        if paths and strategy.reads_ldif:
            if self._of_ldif is None and isinstance(strategy, StoppedConsumer) and not any(map(is_stream, paths)):
                self._of_ldif = self._built(strategy, lambda: self._ldif_sample(paths))
            entries = self._of_ldif.forecast.entries if self._of_ldif else _entries_of(paths)
            return dataclasses.replace(price, building=self._of_ldif, entries=entries)
        entries = self._count(price)
        if self._reading is None or self._building is None:
            self._read(strategy, price.seen.suffix, entries)
        if self._reading and self._reading.whole:
            entries = self._reading.entries
        if entries is None:
            self.measured["entries"] = "the provider does not tell how many, so most seconds are not known"
        return dataclasses.replace(price, entries=entries, reading=self._reading, building=self._building)

    def _ldif_sample(self, paths: Sequence[Path]) -> tuple[Sample, float]:
        ldif_files = LdifFiles(tuple(paths))
        with self.progress.step("sample") as meter:
            sample = sampling.of_files(ldif_files.paths(), ldif_files.entries(), _SIZE, meter)
        return sample, sample.ldif_bytes

    def _count(self, price: Price) -> int | None:
        """Returns the provider's number of entries; if unknown, that of the database or LDIF that --from names."""
        planned = price.planned.get("entries")
        if isinstance(planned, int):
            return planned
        connection = price.strategy.options.connection
        assert connection is not None
        with session(connection) as server:
            suffix = server.context_of(connection.base or price.seen.suffix)
            entries = questions.entries(server, suffix, sampled=True)
        if entries is None:
            with suppress(LoaderError):
                return contents.entry_count(self._databases[0]) if self._databases else _entries_of(self._ldif)
        return entries

    def _read(self, strategy: Strategy, suffix: str, entries: int | None) -> None:
        """Runs the trial reading, and builds a sample of the entries read."""
        with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
            if isinstance(strategy, Search):
                exporting = strategy.reading(scratch)
            else:
                exporting = reading(strategy.options, suffix, scratch)
            with self.progress.step("read") as meter:
                self._reading, paths = _read(exporting, trial_plan(exporting, meter)[1], scratch, meter)
            read = self._reading
            self.measured["reading"] = (
                f"{units.number(read.entries)} entries in {units.duration(read.seconds)} over "
                f"{read.connections} connections, {read}, {units.size(read.rate * read.entry)}/s of LDIF"
            )
            total = read.entries if read.whole else entries
            if isinstance(strategy, StoppedConsumer) and total:
                how = f"the first {read.entries:,} entries that the provider sent"
                self._building = self._built(
                    strategy, lambda: (sampling.of_part(paths, total, _SIZE, how), read.entry * total)
                )

    def _built(self, strategy: StoppedConsumer, sample: Callable[[], tuple[Sample, float]]) -> Building | None:
        """Builds a sample; None if that predicts nothing. `sample` returns the sample and the bytes of all LDIF."""
        if not strategy.is_plain:
            self.measured["building"] = (
                "not measured: a sample tells nothing of a partial replica, of several databases or of the empty suffix"
            )
            return None
        try:
            building = _build(strategy, *sample(), self.progress)
        except NotProven as error:
            self.measured["building"] = f"not measured, since only slapadd builds it: {error}"
            return None
        forecast = building.forecast
        self.measured["building"] = (
            f"{units.number(forecast.sampled)} entries ({forecast.how}); all of them are "
            f"{units.size(forecast.bytes)} in {units.duration(forecast.seconds)}"
        )
        return building


def _row(options: SeedOptions) -> StrategyPlan:
    name: StrategyName = options.strategy  # type: ignore[assignment]
    return StrategyPlan(name, source=tuple(str(path.absolute()) for path in options.source))


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collects the warnings of the checks, so that with several strategies they are printed once, below the table."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("seeders.replica")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


# Measuring.


def _read(exporting: ExportOptions, cut: ReadingPlan, scratch: Path, meter: Meter) -> tuple[Reading, list[Path]]:
    """Reads the first pieces of a seeding for at most `_READ_FOR` seconds. Returns the result and its LDIF files."""
    all_pieces = [piece for piece in cut.pieces(exporting.page) if not piece.search.subentries]
    pieces = all_pieces[: exporting.jobs]
    inner = Meter("sample")
    with ThreadPoolExecutor(len(pieces)) as pool, meter.cancelling(inner.cancel):
        futures = [
            pool.submit(source.fetch, exporting.connection, piece.search, scratch / f"{piece.name}.ldif", inner)
            for piece in pieces
        ]
        first, whole = None, False
        while not whole and inner.seconds < _READ_FOR and inner.bytes < _READ_MOST:
            time.sleep(_LOOK)
            first = inner.seconds if first is None and inner.entries else first
            whole = all(future.done() for future in futures)
        entries, seconds = inner.entries, inner.seconds
        if not whole:
            inner.cancel()
        for future in futures:
            with suppress(*([] if whole else [Cancelled, LoaderError])):
                future.result()
    meter.add(entries)
    paths = [path for path in sorted(scratch.iterdir()) if path.stat().st_size]
    measured = Reading(
        entries=entries,
        bytes=sum(path.stat().st_size for path in paths),
        seconds=seconds,
        first=min(first or seconds, seconds / 2),
        connections=len(pieces),
        whole=whole and len(pieces) == len(all_pieces),
    )
    return measured, paths


def _build(strategy: StoppedConsumer, sample: Sample, text: float, progress: Progress) -> Building:
    """Scans and builds the sample. Raises NotProven if only slapadd builds it, EmptyInput, or SchemaMissing."""
    place = strategy.place
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        path = scratch / "sample.ldif"
        files.write_durably(path, sample.text, 0o600)
        with progress.step("scan") as meter:
            scan = ldif.scan([path], meter)
            rate = len(sample.text) / max(meter.seconds, 1e-3)
        unknown = steps.unknown_names(place, list(scan.attributes), list(scan.object_classes), scratch)
    if unknown:
        raise SchemaMissing(config=place.config.path, names=", ".join(unknown))
    with progress.step("build") as meter:
        target = native.sample_target(place.config, place.database)
        forecast = sizing.forecast(sample, target, meter)
    return Building(forecast, round(round(text) / rate, 3), rate)


def _copy(strategy: Clone, meter: Meter) -> Copying:
    """Copies the beginning of the database to the consumer's disk, and returns the rate. A first short copy, which is
    mostly fsync, only determines the size of a second copy that takes about `_COPY_FOR` seconds."""
    path, rate = strategy.source / DATA, _COPY_FIRST / _COPY_FOR
    with sizing.unnamed_file(strategy.place.directory) as target:
        for most in (_COPY_FIRST, _COPY_MOST):
            began = time.monotonic()
            written = sizing.write(path, target, min(most, round(rate * _COPY_FOR)), meter)
            rate = written / max(time.monotonic() - began, 1e-3)
    return Copying(files.allocated_bytes(path), rate)


def _entries_of(paths: Sequence[Path]) -> int | None:
    """Returns the number of entries in the LDIF by its manifest; None without a manifest."""
    return LdifFiles(tuple(paths)).entries() if exports.files_of(paths) else None


# The price of a strategy: seconds per step, disk, load on the provider, and catch-up.


@dataclass(frozen=True)
class Price:
    """`seen`, `planned`: results of one strategy's checks. `preflight`, `planning`: seconds that these checks took. The
    other fields: trial measurements; None if not made."""

    strategy: Strategy
    seen: Preflight
    planned: Report
    preflight: float
    planning: float
    entries: int | None = None
    reading: Reading | None = None
    building: Building | None = None
    copying: Copying | None = None

    def row(self) -> StrategyPlan:
        forecast = self.seen.forecast  # None without a provider
        answer = forecast.kind if forecast else None
        only_changes = answer in catchup.ONLY_CHANGES
        sends = self.seen.catch_up or "not known"
        if forecast and not only_changes:
            sends = f"{sends}; {forecast.why}"
        steps = [PlannedStep("preflight", self.preflight, _JUST_NOW), *self._steps()]
        about = self.entries or (forecast.entries if forecast else None)
        is_known = self.entries is not None and (
            self.building or self.copying or not isinstance(self.strategy, StoppedConsumer)
        )
        if forecast and answer is not None and (about is not None or only_changes):
            cost = catchup.of(answer, about or 0, forecast.logged)
            steps.append(PlannedStep(CATCH_UP, round(cost.seconds, 1), sends))
        return dataclasses.replace(
            _row(self.strategy.options),
            steps=tuple(steps),
            catch_up=sends,
            only_changes=only_changes,
            loses_deletions=forecast is not None and forecast.lost,
            seconds=round(sum(step.seconds for step in steps), 3) if is_known else None,
            disk=self._disk(),
            load=self._load(),
        )

    def _load(self) -> ProviderLoad | None:
        reading, entries = self.reading, self.entries
        if reading is None or entries is None:
            return None
        return ProviderLoad(reading.connections, round(reading.rate, 1), round(reading.entry * entries))

    def _disk(self) -> int | None:
        """Returns the peak disk use on the consumer in bytes; None if it was not measured."""
        if self.copying:
            return self.copying.bytes
        if self.building is None:
            return None
        size = self.building.forecast.bytes
        return size if size < min(stream_build.MEMORY, resources.sorting_memory()) else _SPILL * size

    def _steps(self) -> Iterator[PlannedStep]:
        strategy = self.strategy
        if isinstance(strategy, Clone):
            yield from self._clone()
        elif isinstance(strategy, Search) and strategy.streams:
            yield from _short("config", "start")
            yield PlannedStep("plan", self.planning, _JUST_NOW)
            yield from self._stream()
            yield from _short("check", "publish")
        elif isinstance(strategy, StoppedConsumer):
            if isinstance(strategy, Search):
                yield from self._export()
            yield from self._build(selecting=strategy.partial is not None)
        else:
            if not strategy.options.source:
                yield from self._export()
            yield from _short("join")
            if self.entries is not None:
                why = f"{units.number(round(_ADDS))} entries/s, as docs/performance.md has it: not measured here"
                yield PlannedStep("load", round(self.entries / _ADDS, 3), why)
            yield from _short("claim")

    def _stream(self) -> Iterator[PlannedStep]:
        """Prices `stream`: the build goes on while the provider is read, all but its last part."""
        if not (self.reading and self.building) or self.entries is None:
            return
        read, built = self.reading.seconds_for(self.entries), self.building.forecast.seconds
        why = (
            f"{self.reading} from the provider are {units.duration(read)}, the build {units.duration(built)}, most of "
            "it meanwhile"
        )
        yield PlannedStep("stream", round(max(read, built * (1 - _TAIL)) + built * _TAIL, 3), why)

    def _export(self) -> Iterator[PlannedStep]:
        yield from _short("start")
        yield PlannedStep("plan", self.planning, _JUST_NOW)
        if self.reading and self.entries is not None:
            seconds = round(self.reading.seconds_for(self.entries), 3)
            yield PlannedStep("read", seconds, f"{self.reading} from the provider")
        yield from _short(*EXPORT_STEPS[3:])

    def _build(self, selecting: bool) -> Iterator[PlannedStep]:
        building = self.building
        if building and selecting:
            yield PlannedStep(partial.STEP, building.scan, "looked through once more")
        yield from _short("config")
        if building:
            yield PlannedStep("scan", building.scan, f"{units.size(building.rate)}/s of LDIF")
            yield from _short("schema")
            why = f"as a build of {building.forecast.sampled:,} entries"
            yield PlannedStep("load", round(building.forecast.seconds, 3), why)
        yield from _short("check", "publish")

    def _clone(self) -> Iterator[PlannedStep]:
        yield PlannedStep("schema", self.planning, _JUST_NOW)
        converting, indexed = self.planned.get("copy_seconds"), self.planned.get("indexed")
        if isinstance(converting, int | float):
            yield PlannedStep("copy", converting, f"{self.planned['converted']}: as the first entries, {_JUST_NOW}")
        elif self.copying:
            why = f"{units.size(self.copying.bytes)} at {units.size(self.copying.rate)}/s"
            yield PlannedStep("copy", round(self.copying.bytes / self.copying.rate, 3), why)
        yield from _short("stamp")
        if isinstance(indexed, list) and indexed and self.building:
            why = f"{', '.join(indexed)} made again: at most as a whole build"
            yield PlannedStep("index", round(self.building.forecast.seconds, 3), why)
        else:
            yield from _short("index")
        yield from _short("check", "publish")


def _short(*names: str) -> Iterator[PlannedStep]:
    yield from (PlannedStep(name, _SHORT, "short, whatever the size") for name in names)


# The choice.


def pick(rows: Sequence[StrategyPlan]) -> tuple[StrategyName | None, str]:
    """Returns the strategy to use (None if none is feasible), and the reason."""
    feasible = [row for row in rows if row.feasible]
    if not feasible:
        return None, "none can be carried out; what each of them lacks stands below"
    lossless = [row for row in feasible if not row.loses_deletions] or feasible
    fastest = min(map(_seconds, lossless))
    near = [row for row in lossless if _seconds(row) <= max(fastest + _NEAR, fastest * _TWICE)]
    calm = [row for row in near if row.only_changes]
    chosen = min(calm or near, key=_seconds)
    lossy = ", ".join(row.strategy for row in feasible if row.loses_deletions)
    others = f" ({lossy} would lose deletions)" if lossy else ""
    if chosen.loses_deletions:
        why = "no other can be carried out, but deletions will be lost: prepare the provider first"
    elif len(feasible) == 1:
        why = "it is the only one that can be carried out"
    elif chosen.seconds is None:
        why = f"nothing tells how long any of them takes, and it needs the fewest steps{others}"
    elif chosen.seconds > fastest and calm:
        why = (
            f"another one would end after {units.duration(fastest)}, but the provider would then send more than what "
            f"changed{others}"
        )
    else:
        why = f"it ends first, after {units.duration(chosen.seconds)} with the catch-up{others}"
    return chosen.strategy, why


def _seconds(row: StrategyPlan) -> float:
    return math.inf if row.seconds is None else row.seconds
