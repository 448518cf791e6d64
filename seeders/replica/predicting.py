"""The price of a strategy: the seconds of its steps, the disk, the load on the provider and the catch-up, from what was
measured; and which of the feasible strategies to take."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader import dn, resources, syncrepl, units
from loader.config import Config
from loader.errors import LoaderError
from loader.operations import stream_build
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.run.log import Facts
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from loader.server.sync import SyncAnswer
from seeders.replica import catchup, partial
from seeders.replica import provider as providers
from seeders.replica.measuring import Building, Copying, Reading
from seeders.replica.plan import CATCH_UP, PlannedStep, ProviderLoad, StrategyName, StrategyPlan
from seeders.replica.strategies import Strategy
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.stopped import Search, StoppedConsumer

_TAIL = 0.25  # share of a build that begins once everything was read: indexes, dn2id (docs/performance.md)
_ADDS = 9000.0  # entries a second that a slapd takes over LDAP (`bin/bench add`)
_SHORT = 0.1  # seconds of a step that opens, renames or asks once
_SPILL = 2  # times the database: the disk of a build whose sorting does not fit into memory
_MARGIN = 600.0  # seconds from the end of a seeding until slapd is started
_NEAR = 60.0  # seconds, and
_TWICE = 2.0  # times the fastest: what a strategy may take longer if then only changes are left to be sent
_AGE = re.compile(r"(?:(\d{1,5})\+)?(\d{1,2}):(\d\d)(?::(\d\d))?\Z")  # slapo-accesslog(5): [ddd+]hh:mm[:ss]


@dataclass(frozen=True)
class Findings:
    """What the checks of one strategy found and took (seconds), and what was measured for it."""

    seen: Facts
    planned: Facts
    preflight: float
    planning: float
    entries: int | None = None
    reading: Reading | None = None
    building: Building | None = None
    copying: Copying | None = None

    @property
    def forecast(self) -> Facts:
        """Of the catch-up; empty where no provider was asked."""
        forecast: Facts = self.seen.get("forecast", {})
        return forecast

    @property
    def answer(self) -> SyncAnswer | None:
        name = self.forecast.get("answer")
        return SyncAnswer[name.upper()] if name else None

    @property
    def only_changes(self) -> bool:
        return self.answer in (SyncAnswer.CHANGES, SyncAnswer.NOTHING)

    @property
    def sends(self) -> str:
        """What the provider sends when the consumer is started."""
        sends: str = catchup.told(self.seen, self.entries).get("catch_up", "not known")
        return sends if self.only_changes or not self.forecast else f"{sends}; {self.forecast['why']}"

    @property
    def catch_up(self) -> PlannedStep | None:
        """None if its seconds are not known."""
        entries = self.entries or self.forecast.get("entries")
        if self.answer is None or (entries is None and not self.only_changes):
            return None
        cost = catchup.of(self.answer, entries or 0, self.forecast["logged"])
        return PlannedStep(CATCH_UP, round(cost.seconds, 1), self.sends)


def priced(row: StrategyPlan, strategy: Strategy, found: Findings) -> StrategyPlan:
    catch_up = found.catch_up
    steps = (*_steps(strategy, found), *([catch_up] if catch_up else []))
    is_loaded = found.building or found.copying or not isinstance(strategy, StoppedConsumer)
    row = dataclasses.replace(
        row,
        steps=steps,
        catch_up=found.sends,
        only_changes=found.only_changes,
        loses_deletions=bool(found.forecast.get("lost", False)),
        seconds=_sum(steps) if is_loaded and found.entries is not None else None,
        disk=_disk(found),
        load=_load(found),
    )
    return _within_window(row, strategy, found)


def _sum(steps: Sequence[PlannedStep]) -> float:
    return round(sum(step.seconds for step in steps), 3)


def _load(found: Findings) -> ProviderLoad | None:
    reading, entries = found.reading, found.entries
    if reading is None or entries is None:
        return None
    return ProviderLoad(reading.connections, round(reading.rate, 1), round(reading.entry * entries))


def _disk(found: Findings) -> int | None:
    """Bytes on the consumer while it works."""
    if found.copying:
        return found.copying.bytes
    if found.building is None:
        return None
    size = found.building.forecast.bytes
    memory = min(stream_build.MEMORY, resources.sorting_memory())
    return size if size < memory else _SPILL * size


# The steps.


def _steps(strategy: Strategy, found: Findings) -> Iterator[PlannedStep]:
    yield PlannedStep("preflight", found.preflight, "measured just now")
    if isinstance(strategy, Clone):
        yield from _clone(found)
    elif isinstance(strategy, Search) and strategy.streams:
        yield from _short("config", "start")
        yield PlannedStep("plan", found.planning, "measured just now")
        yield from _stream(found)
        yield from _short("check", "publish")
    elif isinstance(strategy, StoppedConsumer):
        if isinstance(strategy, Search):
            yield from _export(found)
        yield from _build(found, selecting=strategy.partial is not None)
    else:
        if not strategy.options.source:
            yield from _export(found)
        yield from _short("join")
        if found.entries is not None:
            why = f"{units.number(round(_ADDS))} entries/s, as docs/performance.md has it: not measured here"
            yield PlannedStep("load", round(found.entries / _ADDS, 3), why)
        yield from _short("claim")


def _short(*names: str) -> Iterator[PlannedStep]:
    yield from (PlannedStep(name, _SHORT, "short, whatever the size") for name in names)


def _stream(found: Findings) -> Iterator[PlannedStep]:
    """The core encodes on the processors that the reading leaves idle, and then as on a host of its own."""
    reading, building = found.reading, found.building
    if not (reading and building) or found.entries is None:
        return
    read, built = reading.seconds_for(found.entries), building.forecast.seconds
    waits = max(0.0, built * (1 - _TAIL) - reading.idle * read / resources.processors())
    why = f"{_rate(reading)} are {units.duration(read)}, the build {units.duration(built)}, most of it meanwhile"
    yield PlannedStep("stream", round(read + waits + built * _TAIL, 3), why)


def _rate(reading: Reading) -> str:
    return f"{units.number(round(reading.rate))} entries/s from the provider"


def _export(found: Findings) -> Iterator[PlannedStep]:
    yield from _short("start")
    yield PlannedStep("plan", found.planning, "measured just now")
    if found.reading and found.entries is not None:
        yield PlannedStep("read", round(found.reading.seconds_for(found.entries), 3), _rate(found.reading))
    yield from _short(*EXPORT_STEPS[3:])


def _build(found: Findings, selecting: bool) -> Iterator[PlannedStep]:
    building = found.building
    scan = round(building.text / building.scan, 3) if building else 0.0
    if building and selecting:
        yield PlannedStep(partial.STEP, scan, "looked through once more")
    yield from _short("config")
    if building:
        yield PlannedStep("scan", scan, f"{units.size(building.scan)}/s of LDIF")
        yield from _short("schema")
        why = f"as a build of {building.forecast.sampled:,} entries"
        yield PlannedStep("load", round(building.forecast.seconds, 3), why)
    yield from _short("check", "publish")


def _clone(found: Findings) -> Iterator[PlannedStep]:
    yield PlannedStep("schema", found.planning, "measured just now")
    converting = found.planned.get("copy_seconds")
    if converting is not None:
        yield PlannedStep("copy", converting, f"{found.planned['converted']}: as the first entries, measured just now")
    elif found.copying:
        why = f"{units.size(found.copying.bytes)} at {units.size(found.copying.rate)}/s"
        yield PlannedStep("copy", round(found.copying.bytes / found.copying.rate, 3), why)
    yield from _short("stamp")
    indexed = found.planned.get("indexed", ())
    if indexed and found.building:
        why = f"{', '.join(indexed)} made again: at most as a whole build"
        yield PlannedStep("index", round(found.building.forecast.seconds, 3), why)
    else:
        yield from _short("index")
    yield from _short("check", "publish")


# How long the provider remembers what changed: its session log, or the accesslog that answers in its place.


@dataclass(frozen=True)
class Window:
    """Changes are remembered for so many seconds."""

    seconds: float
    what: str

    def too_short(self, needed: float) -> str | None:
        """The reason if it is shorter than `needed` seconds."""
        if needed <= self.seconds:
            return None
        return (
            f"{self.what}, which is shorter than the {units.duration(needed)} until the consumer is started: it "
            "would be sent the entryUUIDs of all entries"
        )


def _within_window(row: StrategyPlan, strategy: Strategy, found: Findings) -> StrategyPlan:
    """If the provider forgets the seed's contextCSN before slapd is started, it sends all entryUUIDs."""
    connection = strategy.options.connection
    if connection is None or row.seconds is None or not row.only_changes:
        return row
    config, log_base = None, None
    if isinstance(strategy, StoppedConsumer):
        config = strategy.place.config
        consumer = syncrepl.of_database(config, strategy.place.database, connection.uri)
        log_base = consumer.log_base if consumer else None
    window = _window(connection, connection.base or found.seen["suffix"], log_base)
    why = window.too_short(row.seconds + _MARGIN) if window else None
    if why is None or found.entries is None:
        return row
    cost = catchup.of(SyncAnswer.PRESENT, found.entries, bool(config and catchup.logs_sync(config)))
    kept = (step for step in row.steps if step.name != CATCH_UP)
    steps = (*kept, PlannedStep(CATCH_UP, round(cost.seconds, 1), why))
    return dataclasses.replace(row, steps=steps, only_changes=False, catch_up=why, seconds=_sum(steps))


def _window(provider: Connection, base: str, log_base: str | None) -> Window | None:
    """The shortest that is known; None if the provider shows none."""
    try:
        with session(provider) as server:
            suffix = server.context_of(base)
            known, rate = providers.read(server, suffix), providers.writes_per_second(server)
            config = configuration.read_online(server)
    except LoaderError:
        return None
    windows = list(_purges(config, log_base or (known.log_base if known else None)))
    if known and known.session_log and rate and not log_base:
        lasts = known.session_log / rate
        what = f"the session log holds {units.number(known.session_log)} writes, at {rate:,.1f}/s those of"
        windows.append(Window(lasts, f"{what} {units.duration(lasts)}"))
    return min(windows, key=lambda window: window.seconds, default=None)


def _purges(config: Config, log_base: str | None) -> Iterator[Window]:
    for name, _ in config.entries:
        reader = config.reader(name)
        if log_base is None or dn.key(log_base) not in map(dn.key, reader.dns("olcAccessLogDB")):
            continue
        for words in reader.words("olcAccessLogPurge"):
            age = age_of(words[0]) if words else None
            if age is not None:
                yield Window(age, f"{log_base} is purged of what is older than {units.duration(age)}")


def age_of(text: str) -> float | None:
    """Seconds of an age of slapo-accesslog; None if it is malformed."""
    match = _AGE.match(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


# The choice.


def pick(rows: Sequence[StrategyPlan]) -> tuple[StrategyName | None, str]:
    """The strategy to take, and why."""
    feasible = [row for row in rows if row.feasible]
    if not feasible:
        return None, "none can be carried out; what each of them lacks stands below"
    lossless = [row for row in feasible if not row.loses_deletions] or feasible
    fastest = min(map(_seconds, lossless))
    near = [row for row in lossless if _seconds(row) <= max(fastest + _NEAR, fastest * _TWICE)]
    calm = [row for row in near if row.only_changes]
    chosen = min(calm or near, key=_seconds)
    return chosen.strategy, _why(chosen, feasible, fastest, bool(calm))


def _seconds(row: StrategyPlan) -> float:
    return math.inf if row.seconds is None else row.seconds


def _why(chosen: StrategyPlan, feasible: Sequence[StrategyPlan], fastest: float, calm: bool) -> str:
    if chosen.loses_deletions:
        return "no other can be carried out, but deletions will be lost: prepare the provider first"
    if len(feasible) == 1:
        return "it is the only one that can be carried out"
    lossy = ", ".join(row.strategy for row in feasible if row.loses_deletions)
    others = f" ({lossy} would lose deletions)" if lossy else ""
    if chosen.seconds is None:
        return f"nothing tells how long any of them takes, and it needs the fewest steps{others}"
    if chosen.seconds > fastest and calm:
        return (
            f"another one would end after {units.duration(fastest)}, but the provider would then send more than what "
            f"changed{others}"
        )
    return f"it ends first, after {units.duration(chosen.seconds)} with the catch-up{others}"
