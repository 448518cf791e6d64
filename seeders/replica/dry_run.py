"""`replica seed --dry-run`: checks the named strategy, or every strategy, predicts the time of each step from short
measurements (reading the provider, building the entries read, copying a file), and chooses a strategy. Steps that are
short whatever the size of the tree are left out.

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
from loader.operations.export import ExportOptions, ReadingPlan, trial_plan
from loader.operations.sizing import Forecast, require_room
from loader.progress import Meter, Progress
from loader.run.log import Report, report_of
from loader.server import configuration, questions
from loader.server.options import Connection
from loader.server.session import session
from loader.sources import ldap as source
from loader.sources import sampling
from loader.sources.location import Kind, LdifFiles, is_stream, locate
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files, temporary
from seeders.replica import catchup, plan, preflight
from seeders.replica.plan import CATCH_UP, PlannedStep, SeedPlan, StrategyName, StrategyPlan
from seeders.replica.seed_cmd import STRATEGIES, options_of
from seeders.replica.strategies import Clone, Ldif, Search, SeedOptions, StoppedConsumer, Strategy, reading

_READ_FOR, _READ_MOST = 3.0, 96 << 20  # limits of the trial reading: seconds, bytes of LDIF
_COPY = 128 << 20  # maximum bytes of the trial copy, which ends with fsync
_LOOK = 0.01  # seconds between two checks of the trial reading's limits
_SIZE = SampleSize(10_000, 0.0)
_TAIL = 0.25  # share of a build that cannot start before all is read: indexes, dn2id (docs/performance.md)
_ADDS = 9000.0  # entries per second that a slapd accepts over LDAP (`bin/bench add`)
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
    rows = (trial.price(options),) if options.strategy else tuple(map(trial.judge, STRATEGIES))
    chosen, why = (rows[0].strategy, "it is the one that was named") if options.strategy else pick(rows)
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
class TrialReading:
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
class TrialBuild:
    """`forecast`: extrapolated from a sample build. `scan`: seconds to scan all LDIF."""

    forecast: Forecast
    scan: float

    @property
    def disk(self) -> int:
        """Peak disk use on the consumer in bytes."""
        size = self.forecast.bytes
        return size if size < min(stream_build.MEMORY, resources.sorting_memory()) else _SPILL * size


@dataclass(frozen=True)
class Price:
    """`entries`: None if unknown. `disk`: bytes on the consumer; None if unknown, or if the consumer is running."""

    entries: int | None
    disk: int | None
    steps: list[PlannedStep]


class _Trial:
    """Runs the trials. Measurements that several strategies share are made once. `facts`: check results by strategy."""

    def __init__(self, options: SeedOptions, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.measured: dict[str, str] = {}
        self.facts: dict[str, Report] = {}
        self._reading: TrialReading | None = None
        self._building: TrialBuild | None = None
        self._of_ldif: TrialBuild | None = None
        sources = [] if options.strategy else [locate(str(path), Kind.LDIF, Kind.DATABASE) for path in options.source]
        self._databases, self._ldif = (
            tuple(path for located in sources if located.kind is kind for path in located.paths)
            for kind in (Kind.DATABASE, Kind.LDIF)
        )

    @property
    def entries(self) -> int | None:
        build = self._building or self._of_ldif
        return build.forecast.entries if build else None

    def judge(self, name: str) -> StrategyPlan:
        """Returns the plan of one strategy: its price, or the error that refuses it."""
        takes_ldif = name == "ldif" or (name == "online" and self.options.connection is None)
        paths = self._databases if name == "clone" else self._ldif if takes_ldif else ()
        options = options_of(name, dataclasses.replace(self.options, source=paths))
        with _warnings() as notes:
            try:
                return dataclasses.replace(self.price(options), notes=tuple(notes))
            except LoaderError as error:
                advice = error.advice() or ""
                return dataclasses.replace(_row(options), refused=error.code, reason=str(error), advice=advice)

    def price(self, options: SeedOptions) -> StrategyPlan:
        """Checks one strategy, then predicts its steps. Raises the LoaderError that refuses it."""
        began = time.monotonic()
        strategy = STRATEGIES[options.strategy](options)
        checks = preflight.preflight(strategy, dry_run=True)
        steps = [_step("preflight", time.monotonic() - began, _JUST_NOW)]
        began, planned = time.monotonic(), Report()
        if isinstance(strategy, Ldif) and not self.options.strategy:  # a sample is enough to compare strategies
            strategy.require_context_csn(self.progress)
        else:
            planned = strategy.plan(checks.suffix, self.progress)
        planning = time.monotonic() - began
        self.facts[options.strategy] = report_of(checks, planned)
        if isinstance(strategy, Clone):
            price = self._clone(strategy, planned, planning)
        elif options.source and strategy.reads_ldif:
            price = self._from_ldif(strategy)
        else:
            price = self._from_provider(strategy, checks.suffix, planned.get("entries"), planning)
        steps += price.steps
        forecast = checks.forecast  # None without a provider
        sends, only_changes = checks.catch_up or "not known", False
        if forecast:
            only_changes = forecast.kind in catchup.ONLY_CHANGES
            sends = sends if only_changes else f"{sends}; {forecast.why}"
            entries = price.entries or forecast.entries
            if entries is not None or only_changes:
                cost = catchup.of(forecast.kind, entries or 0, forecast.logged)
                steps.append(_step(CATCH_UP, cost.seconds, sends))
        is_known = price.entries is not None and (price.disk is not None or not isinstance(strategy, StoppedConsumer))
        return dataclasses.replace(
            _row(options),
            steps=tuple(steps),
            catch_up=sends,
            only_changes=only_changes,
            loses_deletions=forecast is not None and forecast.lost,
            seconds=round(sum(step.seconds for step in steps), 3) if is_known else None,
            disk=price.disk,
        )

    def _clone(self, strategy: Clone, planned: Report, planning: float) -> Price:
        size = files.allocated_bytes(strategy.source / DATA)
        with self.progress.step("copy") as meter, sizing.unnamed_file(strategy.place.directory) as target:
            began = time.monotonic()
            rate = sizing.write(strategy.source / DATA, target, _COPY, meter) / max(time.monotonic() - began, 1e-3)
        self.measured["copying"] = f"{units.size(rate)}/s, fsync included"
        converting, indexed = planned.get("copy_seconds"), planned.get("indexed")
        copying = _step("copy", size / rate, f"{units.size(size)} at {units.size(rate)}/s")
        if isinstance(converting, int | float):
            copying = _step("copy", converting, f"{planned['converted']}: as the first entries, {_JUST_NOW}")
        steps = [_step("schema", planning, _JUST_NOW), copying]
        if isinstance(indexed, list) and indexed and self._building:
            why = f"{', '.join(indexed)} made again: at most as a whole build"
            steps.append(_step("index", self._building.forecast.seconds, why))
        return Price(contents.entry_count(strategy.source), size, steps)

    def _from_ldif(self, strategy: Strategy) -> Price:
        paths = strategy.options.source
        if not isinstance(strategy, StoppedConsumer):
            entries = _entries_of(paths)
            return Price(entries, None, _adding(entries))
        if self._of_ldif is None and not any(map(is_stream, paths)):
            self._of_ldif = self._build(strategy, lambda: self._ldif_sample(paths))
        return self._built(strategy, self._of_ldif, _entries_of(paths))

    def _built(self, strategy: StoppedConsumer, build: TrialBuild | None, entries: int | None) -> Price:
        """Prices a build from LDIF. Raises MaxsizeTooSmall or NoSpace if the database does not fit."""
        if build is None:
            return Price(entries, None, [])
        _require_room(strategy, build)
        why = f"as a build of {build.forecast.sampled:,} entries"
        steps = [_step("scan", build.scan, "as the sample"), _step("load", build.forecast.seconds, why)]
        return Price(build.forecast.entries, build.disk, steps)

    def _from_provider(self, strategy: Strategy, suffix: str, expected: object, planning: float) -> Price:
        connection = strategy.options.connection
        assert connection is not None
        entries = expected if isinstance(expected, int) else self._count(connection, suffix)
        if self._reading is None or self._building is None:
            self._read(strategy, suffix, entries)
        reading, build = self._reading, self._building
        assert reading is not None
        entries = reading.entries if reading.whole else entries
        steps = [_step("plan", planning, _JUST_NOW)]
        if entries is None:
            self.measured["entries"] = "the provider does not tell how many, so most seconds are not known"
        if isinstance(strategy, Search) and strategy.streams:
            if build is None:
                return Price(entries, None, steps)
            _require_room(strategy, build)
            if entries is not None:
                # The build goes on while the provider is read, all but its last part.
                read, built = reading.seconds_for(entries), build.forecast.seconds
                why = f"{reading} from the provider are {units.duration(read)}, the build {units.duration(built)}"
                steps.append(_step("stream", max(read, built * (1 - _TAIL)) + built * _TAIL, why))
            return Price(entries, build.disk, steps)
        if entries is not None:
            steps.append(_step("read", reading.seconds_for(entries), f"{reading} from the provider"))
        if not isinstance(strategy, StoppedConsumer):
            return Price(entries, None, [*steps, *_adding(entries)])
        price = self._built(strategy, build, entries)
        return Price(entries, price.disk, [*steps, *price.steps])

    def _ldif_sample(self, paths: Sequence[Path]) -> tuple[Sample, float]:
        ldif_files = LdifFiles(tuple(paths))
        with self.progress.step("sample") as meter:
            sample = sampling.of_files(ldif_files.paths(), ldif_files.entries(), _SIZE, meter)
        return sample, sample.ldif_bytes

    def _count(self, connection: Connection, suffix: str) -> int | None:
        """Returns the provider's number of entries; if unknown, that of the database or LDIF that --from names."""
        with session(connection) as server:
            suffix = server.context_of(connection.base or suffix)
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
                self._building = self._build(
                    strategy, lambda: (sampling.of_part(paths, total, _SIZE, how), read.entry * total)
                )

    def _build(self, strategy: StoppedConsumer, sample: Callable[[], tuple[Sample, float]]) -> TrialBuild | None:
        """Builds a sample; None if that predicts nothing. `sample` returns the sample and the bytes of all LDIF."""
        if not strategy.is_plain:
            self.measured["building"] = (
                "not measured: a sample tells nothing of a partial replica, of several databases or of the empty suffix"
            )
            return None
        try:
            build = _build(strategy, *sample(), self.progress)
        except NotProven as error:
            self.measured["building"] = f"not measured, since only slapadd builds it: {error}"
            return None
        forecast = build.forecast
        self.measured["building"] = (
            f"{units.number(forecast.sampled)} entries ({forecast.how}); all of them are "
            f"{units.size(forecast.bytes)} in {units.duration(forecast.seconds)}"
        )
        return build


def _require_room(strategy: StoppedConsumer, build: TrialBuild) -> None:
    require_room(native.limits_of(strategy.building(), strategy.place), lambda: build.forecast.bytes)


def _step(name: str, seconds: float, why: str) -> PlannedStep:
    return PlannedStep(name, round(seconds, 3), why)


def _adding(entries: int | None) -> list[PlannedStep]:
    why = f"{units.number(round(_ADDS))} entries/s, as docs/performance.md has it: not measured here"
    return [] if entries is None else [_step("load", entries / _ADDS, why)]


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


def _read(exporting: ExportOptions, cut: ReadingPlan, scratch: Path, meter: Meter) -> tuple[TrialReading, list[Path]]:
    """Fetches the first pieces of the plan, one per job, for at most `_READ_FOR` seconds. Returns the measurement
    and the LDIF files that it wrote."""
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
    measured = TrialReading(
        entries=entries,
        bytes=sum(path.stat().st_size for path in paths),
        seconds=seconds,
        first=min(first or seconds, seconds / 2),
        connections=len(pieces),
        whole=whole and len(pieces) == len(all_pieces),
    )
    return measured, paths


def _build(strategy: StoppedConsumer, sample: Sample, text: float, progress: Progress) -> TrialBuild:
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
    return TrialBuild(forecast, text / rate)


def _entries_of(paths: Sequence[Path]) -> int | None:
    """Returns the number of entries in the LDIF by its manifest; None without a manifest."""
    return LdifFiles(tuple(paths)).entries() if exports.files_of(paths) else None


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
