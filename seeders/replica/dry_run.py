"""`replica seed --dry-run`: checks the named strategy, or every strategy if none is named, predicts the time of each
step, and chooses a strategy. The times are predicted from short measurements: reading from the provider, building a
sample, copying a part of a file. Steps that are short for a tree of any size are left out.

A strategy is refused here if `replica seed` would refuse it before reading entries. It is also refused if the build of
a sample shows a problem of schema, space or maxsize, which a seeding would show only after reading all entries."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
import shlex
import sys
import time
from collections.abc import Sequence
from logging.handlers import BufferingHandler
from pathlib import Path

from msgspec import Struct, structs

from loader import defaults, ldif, units
from loader.errors import LoaderError, MaxsizeTooSmall, NoSpace, NotProven, SchemaMissing
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations import sizing, stream_build
from loader.operations.build import native
from loader.operations.build import steps as build_steps
from loader.operations.export import trial_plan
from loader.operations.storage.findings import Finding, Severity
from loader.progress import Progress
from loader.run.log import Report, report_of
from loader.server import configuration, questions
from loader.server.options import ldapsearch
from loader.server.session import session
from loader.sources import ldap as source
from loader.sources import sampling
from loader.sources.location import Kind, LdifFiles, is_stream, locate
from loader.storage import files
from seeders.replica import catchup
from seeders.replica.options import SeedOptions
from seeders.replica.seed import STRATEGIES, options_of, preflight
from seeders.replica.strategies import Clone, Ldif, Search, StoppedConsumer, Strategy

_READ_FOR, _READ_MOST = 3.0, 96 << 20  # limits of the trial reading: seconds, bytes of LDIF
_COPY = 128 << 20  # maximum bytes of the trial copy, which ends with fsync
_SIZE = sampling.SampleSize(10_000, 0.0)
_TAIL = 0.25  # share of a build that cannot start before all entries are read: indexes, dn2id (docs/performance.md)
_ADDS = 9000.0  # entries per second that a slapd accepts over LDAP (`bin/bench add`)
_SPILL = 2  # disk space of a build whose sorting exceeds memory, as a multiple of the size of the database
# A slower strategy is chosen if the provider then sends only changes, and if it takes at most _NEAR seconds longer than
# the fastest strategy, or at most _TWICE times as long.
_NEAR, _TWICE = 60.0, 2.0
_UNNUMBERED = r"sed 's/^\(dn: \)\?cn\(=\|: \){[0-9]*}/\1cn\2/'"  # removes the numbers of slapd.d from DNs
_JUST_NOW = "measured just now"
CATCH_UP = "catch-up"  # the step of a plan that slapd's syncrepl does (not ditseed) after slapd has started


class PlannedStep(Struct, frozen=True):
    """A step with its predicted time. `why`: the basis of the prediction, in words."""

    name: str
    seconds: float
    why: str


# Number of entries, bytes on the consumer's disk (both None if unknown), and the steps that take long.
_Price = tuple[int | None, int | None, list[PlannedStep]]


class StrategyPlan(Struct, frozen=True):
    """The plan of one strategy. `refused`: code of the error that a seeding would raise; None if the strategy is
    feasible. `catch_up`: what the provider sends to the started consumer, in words. `seconds`: total of all steps with
    the catch-up; None if unknown. `disk`: bytes on the consumer; None if unknown, or if the consumer is running."""

    strategy: str
    source: tuple[str, ...]
    refused: str | None = None
    reason: str = ""
    advice: str = ""
    steps: tuple[PlannedStep, ...] = ()
    catch_up: str = ""
    only_changes: bool = False
    loses_deletions: bool = False
    seconds: float | None = None
    disk: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        return self.refused is None


class SeedPlan(Struct, frozen=True):
    """The result of a dry run. `chosen`: None if no strategy is feasible. `measured`: the measurements, in words.
    `facts`: results of the checks of the chosen strategy. `missing`: findings of the checks of all strategies."""

    chosen: StrategyPlan | None
    why: str
    strategies: tuple[StrategyPlan, ...]
    measured: dict[str, str]
    facts: Report
    missing: tuple[Finding, ...] = ()


def dry_run(options: SeedOptions, progress: Progress) -> SeedPlan:
    """Plans a seeding, and changes nothing. Tries all strategies if `options` names none. Raises LoaderError if the
    configuration cannot be read, or if the named strategy is refused; `missing` of the error then has all findings."""
    trial, suffix = _Trial(options, progress), options.suffix or ""
    if options.config_path:
        suffix = configuration.read(options.config_path).database(options.suffix).suffix
    rows = tuple(map(trial.judge, [options.strategy] if options.strategy else STRATEGIES))
    chosen, why = (rows[0], "it was named") if options.strategy else pick(rows)
    facts = {"suffix": suffix, "entries": None, **(trial.facts[chosen.strategy] if chosen else {})}
    build = trial.build_of_provider or trial.build_of_ldif
    if not isinstance(facts["entries"], int) and build and any(row.feasible for row in rows):
        facts["entries"] = build.forecast.entries
    return SeedPlan(chosen, why, rows, trial.measured, {**facts, "dry_run": "nothing was changed"}, trial.findings())


class TrialBuild(Struct, frozen=True):
    """Predictions from the build of a sample. `scan`: seconds to scan all the LDIF. `disk`: maximum bytes in use."""

    forecast: sizing.Forecast
    scan: float
    disk: int

    def require_room(self, strategy: StoppedConsumer) -> None:
        """Raises MaxsizeTooSmall or NoSpace if the database does not fit."""
        sizing.require_room(native.limits_of(strategy.building(), strategy.place), lambda: self.forecast.bytes)


class _Trial:
    """Makes each measurement once, even if several strategies need it. `facts` and `missing` map a strategy to the
    results and to the findings of its checks."""

    def __init__(self, options: SeedOptions, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.measured: dict[str, str] = {}
        self.facts: dict[str, Report] = {}
        self.missing: dict[str, list[Finding]] = {}
        self.rate: float | None = None  # entries per second that the provider sends
        self.whole: int | None = None  # entries of the tree, if the trial reading has read all of them
        self.build_of_provider: TrialBuild | None = None
        self.build_of_ldif: TrialBuild | None = None

    def judge(self, name: str) -> StrategyPlan:
        """Returns the plan of one strategy, with predicted times, or with the first error that refuses the strategy.
        Raises that error if the strategy was named."""
        options, is_named = self.options, bool(self.options.strategy)
        if not is_named:
            takes_ldif = name == "ldif" or (name == "online" and options.connection is None)
            kind = Kind.DATABASE if name == "clone" else Kind.LDIF if takes_ldif else None
            sources = [locate(str(path), Kind.LDIF, Kind.DATABASE) for path in options.source]
            paths = tuple(path for location in sources if location.kind is kind for path in location.paths)
            options = options_of(name, dataclasses.replace(options, source=paths))
        # Warnings of the checks are collected, and become findings.
        logger, warnings = logging.getLogger("seeders.replica"), BufferingHandler(sys.maxsize)
        warnings.setLevel(logging.WARNING)
        before, logger.propagate = logger.propagate, False
        logger.addHandler(warnings)
        strategy, errors = None, list[LoaderError]()
        try:
            strategy = STRATEGIES[name](options)
            strategy.errors = errors
            plan = self.price(strategy)
        except LoaderError as error:
            errors += [] if error in errors else [error]
            plan = StrategyPlan(name, _absolute(options.source), errors[0].code, str(errors[0]), errors[0].advice())
        finally:
            logger.removeHandler(warnings)
            logger.propagate = before
        notes = tuple(record.getMessage() for record in warnings.buffer)
        if strategy:  # None: the strategy needs other options
            self.missing[name] = [_finding(error, strategy) for error in errors]
            for what, *lines in (note.split("\n") for note in notes):
                self.missing[name].append(Finding(Severity.WARNING, "warning", "", what, mend=tuple(lines)))
        if is_named and len({str(error) for error in errors}) < 2:  # no list of findings will be printed
            for record in warnings.buffer:
                logger.handle(record)
        if is_named and errors:
            errors[0].missing = self.findings()
            raise errors[0]
        return structs.replace(plan, notes=notes)

    def findings(self) -> tuple[Finding, ...]:
        """Returns each finding once, the worst first. The subject of a finding lists its strategies."""
        strategies: dict[Finding, list[str]] = {}
        for name, findings in self.missing.items():
            for finding in dict.fromkeys(findings):
                strategies.setdefault(finding, []).append(name)
        worst_first = sorted(strategies, key=lambda finding: -finding.severity.rank)
        return tuple(structs.replace(each, subject=", ".join(strategies[each])) for each in worst_first)

    def price(self, strategy: Strategy) -> StrategyPlan:
        """Checks one strategy, then predicts its steps. Raises the LoaderError that refuses the strategy."""
        began, options = time.monotonic(), strategy.options
        checks = preflight(strategy, dry_run=True)
        steps = [_step("preflight", time.monotonic() - began, _JUST_NOW)]
        began, plan_facts = time.monotonic(), Report()
        with strategy.attempt():
            if isinstance(strategy, Ldif) and not self.options.strategy:  # a sample is enough to compare strategies
                strategy.require_context_csn(self.progress)
            else:
                plan_facts = strategy.plan(checks.suffix, self.progress)
        if strategy.errors:
            raise strategy.errors[0]
        planning = time.monotonic() - began
        if isinstance(strategy, StoppedConsumer):
            selected = {"entries": "those that the consumer's syncrepl selects"} if strategy.partial else {}
            plan_facts = {**plan_facts, **selected, "directory": str(strategy.place.directory)}
        self.facts[options.strategy] = report_of(checks, plan_facts)
        if isinstance(strategy, Clone):
            entries, disk, long_steps = self._clone(strategy, plan_facts, planning)
        elif options.source and strategy.reads_ldif:
            entries, disk, long_steps = self._ldif(strategy)
        else:
            entries, disk, long_steps = self._provider(strategy, checks.suffix, plan_facts.get("entries"), planning)
        steps += long_steps
        forecast, sends = checks.forecast, checks.catch_up or "not known"  # no forecast without a provider
        if forecast:
            sends = sends if forecast.only_changes else f"{sends}; {forecast.why}"
            sent = entries or forecast.entries
            if sent is not None or forecast.answer not in catchup.COSTLY:
                steps.append(_step(CATCH_UP, catchup.seconds_of(forecast.answer, sent or 0, forecast.logged), sends))
        is_known = entries is not None and (disk is not None or not isinstance(strategy, StoppedConsumer))
        return StrategyPlan(
            options.strategy,
            _absolute(options.source),
            steps=tuple(steps),
            catch_up=sends,
            only_changes=forecast is not None and forecast.only_changes,
            loses_deletions=forecast is not None and forecast.lost,
            seconds=round(sum(step.seconds for step in steps), 3) if is_known else None,
            disk=disk,
        )

    def _clone(self, strategy: Clone, plan_facts: Report, planning: float) -> _Price:
        data, converting = strategy.source / DATA, plan_facts.get("copy_seconds")
        size = files.allocated_bytes(data)
        with self.progress.step("copy") as meter, sizing.unnamed_file(strategy.place.directory) as target:
            rate = sizing.write(data, target, _COPY, meter) / max(meter.seconds, 1e-3)
        copying = _step("copy", size / rate, f"{units.size(size)} at {units.size(rate)}/s, fsync included")
        if isinstance(converting, int | float):
            copying = _step("copy", converting, f"{plan_facts['converted']}: as the first entries, {_JUST_NOW}")
        return contents.entry_count(strategy.source), size, [_step("schema", planning, _JUST_NOW), copying]

    def _ldif(self, strategy: Strategy) -> _Price:
        paths = strategy.options.source
        entries = LdifFiles(paths).entries() if ldif.input_files(paths) else None  # None without a manifest
        if not isinstance(strategy, StoppedConsumer):
            return entries, None, _adding(entries)
        if self.build_of_ldif is None and not any(map(is_stream, paths)) and self._is_measurable(strategy):
            with self.progress.step("sample") as meter:
                sample = sampling.of_files(LdifFiles(paths).paths(), entries, _SIZE, meter)
            self.build_of_ldif = self._build(strategy, sample, sample.ldif_bytes)
        return self._build_price(strategy, self.build_of_ldif, entries)

    def _provider(self, strategy: Strategy, suffix: str, expected: object, planning: float) -> _Price:
        provider = strategy.options.connection
        assert provider is not None
        entries = expected if isinstance(expected, int) else None
        if entries is None:
            with session(provider) as server:
                entries = questions.entries(server, server.context_of(provider.base or suffix), sampled=True)
        if self.rate is None or self.build_of_provider is None:
            self._measure_provider(strategy, suffix, entries)
        build, rate = self.build_of_provider, self.rate
        assert rate is not None
        entries = self.whole or entries
        reading = f"{units.number(round(rate))} entries/s from the provider"
        steps = [_step("plan", planning, _JUST_NOW)]
        if entries is None:
            self.measured["entries"] = "the provider does not report how many, so most times are not known"
        seconds = (entries or 0) / rate
        if isinstance(strategy, Search) and strategy.streams:
            if build is None:
                return entries, None, steps
            build.require_room(strategy)
            if entries is not None:
                # All of the build except its last part runs while the provider is read.
                built = build.forecast.seconds
                why = f"{reading} are {units.duration(seconds)}, the build {units.duration(built)}"
                steps.append(_step("stream", max(seconds, built * (1 - _TAIL)) + built * _TAIL, why))
            return entries, build.disk, steps
        if entries is not None:
            steps.append(_step("read", seconds, reading))
        if isinstance(strategy, StoppedConsumer):
            _, disk, building = self._build_price(strategy, build, entries)
            return entries, disk, [*steps, *building]
        return entries, None, [*steps, *_adding(entries)]

    def _build_price(self, strategy: StoppedConsumer, build: TrialBuild | None, entries: int | None) -> _Price:
        """Returns the steps of a build from LDIF. Raises MaxsizeTooSmall or NoSpace if the database does not fit."""
        if build is None:
            return entries, None, []
        build.require_room(strategy)
        why = f"as a build of {build.forecast.sampled:,} entries"
        steps = [_step("scan", build.scan, "as the sample"), _step("load", build.forecast.seconds, why)]
        return build.forecast.entries, build.disk, steps

    def _measure_provider(self, strategy: Strategy, suffix: str, entries: int | None) -> None:
        """Runs the first searches of the plan, one for each job, for at most _READ_FOR seconds. Then builds a database
        from a sample of the entries that were read."""
        with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
            exporting = strategy.reading(suffix, scratch)
            with self.progress.step("read") as meter:
                _, cut = trial_plan(exporting, meter)
                all_pieces = [piece for piece in cut.pieces(exporting.page) if not piece.search.subentries]
                pieces = all_pieces[: exporting.jobs]
                searches = {scratch / f"{piece.name}.ldif": piece.search for piece in pieces}
                read, seconds, whole = source.fetch_for(_READ_FOR, exporting.connection, searches, meter, _READ_MOST)
                meter.add(read)
            paths = [path for path in sorted(scratch.iterdir()) if path.stat().st_size]
            size, rate = sum(path.stat().st_size for path in paths) / max(1, read), max(1, read) / seconds
            self.rate, self.whole = rate, read if whole and len(pieces) == len(all_pieces) else None
            self.measured["reading"] = (
                f"{units.number(read)} entries in {units.duration(seconds)} over {len(pieces)} connections, "
                f"{units.number(round(rate))} entries/s, {units.size(rate * size)}/s of LDIF"
            )
            total = self.whole or entries
            if isinstance(strategy, StoppedConsumer) and total and self._is_measurable(strategy):
                how = f"the first {read:,} entries that the provider sent"
                sample = sampling.of_part(paths, total, _SIZE, how)
                self.build_of_provider = self._build(strategy, sample, size * total)

    def _is_measurable(self, strategy: StoppedConsumer) -> bool:
        """Returns whether the build of a sample predicts the time and size of the whole build."""
        if not strategy.is_plain:
            self.measured["building"] = (
                "not measured: a sample does not predict a partial replica, several databases or the empty suffix"
            )
        return strategy.is_plain

    def _build(self, strategy: StoppedConsumer, sample: sampling.Sample, ldif_bytes: float) -> TrialBuild | None:
        """Scans a sample, and builds a database from it. Returns None if only slapadd can build such a database.
        `ldif_bytes`: size of all the LDIF. Raises EmptyInput or SchemaMissing."""
        place = strategy.place
        with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
            path = scratch / "sample.ldif"
            files.write_durably(path, sample.text, 0o600)
            with self.progress.step("scan") as meter:
                scan = ldif.scan([path], meter)
                rate = len(sample.text) / max(meter.seconds, 1e-3)
            unknown = build_steps.unknown_names(place, list(scan.attributes), list(scan.object_classes), scratch)
        build_steps.require_none_lacking(place.config, unknown)
        try:
            with self.progress.step("build") as meter:
                forecast = sizing.forecast(sample, native.sample_target(place.config, place.database), meter)
        except NotProven as error:
            self.measured["building"] = f"not measured, since only slapadd builds it: {error}"
            return None
        self.measured["building"] = (
            f"{units.number(forecast.sampled)} entries ({forecast.how}); all of them are "
            f"{units.size(forecast.bytes)} in {units.duration(forecast.seconds)}"
        )
        spills = forecast.bytes >= min(stream_build.MEMORY, defaults.sorting_memory())
        return TrialBuild(forecast, ldif_bytes / rate, forecast.bytes * (_SPILL if spills else 1))


def _finding(error: LoaderError, strategy: Strategy) -> Finding:
    """Returns an error that refuses the strategy as a finding, with lines to paste."""
    why, *lines = error.advice().split("\n")
    if isinstance(error, NoSpace):
        lines.append(f"df -h {shlex.quote(str(error.facts['path']))}  # make room there")
    elif isinstance(error, MaxsizeTooSmall) and isinstance(strategy, StoppedConsumer):
        lines.append(
            strategy.tune_command("maxsize", str(error.facts["suffix"]), "--maxsize", str(error.facts["enough"]))
        )
    elif isinstance(error, SchemaMissing) and isinstance(strategy, StoppedConsumer):
        names = re.findall(r"(?:^|[,;] )(?!line \d)([^,;\s]+)", str(error.facts["names"]))
        where = "".join(f"(olcAttributeTypes=*\\27{name}\\27*)(olcObjectClasses=*\\27{name}\\27*)" for name in names)
        lines += [
            "# on the provider's host, as root (with a slapd.conf: copy its schema files, and include them here):",
            f"{ldapsearch('')} cn=schema,cn=config -s one {shlex.quote(f'(|{where})')} | {_UNNUMBERED} > schema.ldif",
            "# on this host, with that schema.ldif, as the owner of the configuration:",
            f"slapadd -n 0 -F {shlex.quote(str(strategy.config_path))} -l schema.ldif",
        ]
    return Finding(Severity.CRITICAL, error.code, "", str(error), why, tuple(lines))


def _step(name: str, seconds: float, why: str) -> PlannedStep:
    return PlannedStep(name, round(seconds, 3), why)


def _adding(entries: int | None) -> list[PlannedStep]:
    why = f"{units.number(round(_ADDS))} entries/s, as docs/comparison.md has it: not measured here"
    return [] if entries is None else [_step("load", entries / _ADDS, why)]


def _absolute(paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(path.absolute()) for path in paths)


def pick(rows: Sequence[StrategyPlan]) -> tuple[StrategyPlan | None, str]:
    """Returns the strategy to use (None if no strategy is feasible), and the reason."""
    feasible = [row for row in rows if row.feasible]
    if not feasible:
        return None, "no strategy is feasible; the reasons are below"
    lossless = [row for row in feasible if not row.loses_deletions] or feasible
    seconds = {row.strategy: math.inf if row.seconds is None else row.seconds for row in lossless}
    fastest = min(seconds.values())
    near = [row for row in lossless if seconds[row.strategy] <= max(fastest + _NEAR, fastest * _TWICE)]
    getting_changes = [row for row in near if row.only_changes]
    chosen = min(getting_changes or near, key=lambda row: seconds[row.strategy])
    if chosen.loses_deletions:
        why = "every feasible strategy loses deletions: prepare the provider first"
    elif len(feasible) == 1:
        why = "it is the only feasible one"
    elif chosen.seconds is None:
        why = "no strategy's time is known, and it needs the fewest steps"
    elif chosen.seconds > fastest and getting_changes:
        sooner = units.duration(fastest)
        why = f"another one would end after {sooner}, but the provider would then send more than what changed"
    else:
        why = f"it ends first, after {units.duration(chosen.seconds)} with the catch-up"
    return chosen, why
