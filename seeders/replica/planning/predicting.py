"""How long the provider remembers what changed: its session log, or the purge of the accesslog that answers in its
place. A seed that takes longer than that to be started is sent the entryUUIDs of all entries."""

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
from seeders.replica.planning.measuring import Building, Copying, Reading
from seeders.replica.planning.plan import PlannedStep, ProviderLoad, StrategyName, StrategyPlan
from seeders.replica.strategies import Strategy
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.stopped import Search, StoppedConsumer

_AGE = re.compile(r"(?:(\d{1,5})\+)?(\d{1,2}):(\d\d)(?::(\d\d))?\Z")  # slapo-accesslog(5): [ddd+]hh:mm[:ss]


@dataclass(frozen=True)
class Window:
    """seconds: for which changes are remembered from now on."""

    seconds: float
    what: str

    def too_short(self, needed: float) -> str | None:
        """Why, where it is shorter than so many seconds."""
        if needed <= self.seconds:
            return None
        return (
            f"{self.what}, which is shorter than the {units.duration(needed)} until the consumer is started: it "
            "would be sent the entryUUIDs of all entries"
        )


def of(provider: Connection, base: str, log_base: str | None) -> Window | None:
    """The shortest that is known; None where nothing tells."""
    try:
        with session(provider) as server:
            suffix = server.context_of(base)
            known, rate = providers.read(server, suffix), providers.writes_per_second(server)
            config = configuration.read_online(server)
    except LoaderError:
        return None
    found = list(_purges(config, log_base or (known.log_base if known else None)))
    if known and known.session_log and rate and not log_base:
        held = units.number(known.session_log)
        lasts = known.session_log / rate
        what = f"the session log holds {held} writes, at {rate:,.1f}/s those of {units.duration(lasts)}"
        found.append(Window(lasts, what))
    return min(found, key=lambda one: one.seconds, default=None)


def _purges(config: Config, log_base: str | None) -> Iterator[Window]:
    for name, _ in config.entries:
        reader = config.reader(name)
        if log_base is None or dn.key(log_base) not in map(dn.key, reader.dns("olcAccessLogDB")):
            continue
        for words in reader.words("olcAccessLogPurge"):
            age = age_of(words[0]) if words else None
            if age is not None:
                what = f"{log_base} is purged of what is older than {units.duration(age)}"
                yield Window(age, what)


def age_of(text: str) -> float | None:
    """Seconds of slapo-accesslog's [ddd+]hh:mm[:ss]; None for what is none."""
    found = _AGE.match(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


# --- predicting ------------------------------------------------------------------------------------------------------
#
# From what was measured to the seconds of each step of a strategy.


CATCH_UP = "catch-up"
TAIL = 0.25  # of a build, what can only begin when everything has been read: indexes, dn2id (docs/performance.md)
ADDS = 9000.0  # entries a second that a slapd takes over LDAP (`bin/bench add`)
_SMALL = 0.1  # seconds of a step that opens, renames or asks once
_SPILL = 2  # times the database, where sorting does not fit into memory


@dataclass(frozen=True)
class Known:
    """Of one strategy: what its own checks found and took (seconds), and what was measured for it."""

    seen: Facts
    planned: Facts
    preflight: float
    planning: float
    entries: int | None
    reading: Reading | None = None
    building: Building | None = None
    copying: Copying | None = None

    @property
    def foreseen(self) -> Facts:
        """The forecast of the catch-up; empty where nobody was asked."""
        found: Facts = self.seen.get("forecast", {})
        return found

    @property
    def answer(self) -> SyncAnswer | None:
        name = self.foreseen.get("answer")
        return SyncAnswer[name.upper()] if name else None

    @property
    def only_changes(self) -> bool:
        return self.answer in (SyncAnswer.CHANGES, SyncAnswer.NOTHING)

    @property
    def sends(self) -> str:
        """What the provider sends when the consumer is started, of as many entries as are known now."""
        told: str = catchup.told(self.seen, self.entries).get("catch_up", "not known")
        return told if self.only_changes or not self.foreseen else f"{told}; {self.foreseen['why']}"

    @property
    def catch_up(self) -> Iterator[PlannedStep]:
        """Of a tree whose size nobody tells there are no seconds."""
        entries = self.entries or self.foreseen.get("entries")
        if self.answer is not None and (entries is not None or self.only_changes):
            price = catchup.of(self.answer, entries or 0, self.foreseen["logged"])
            yield PlannedStep(CATCH_UP, round(price.seconds, 1), self.sends)


def search(known: Known, streamed: bool, selecting: bool) -> Iterator[PlannedStep]:
    yield _preflight(known)
    if not streamed:
        yield from _export(known)
        yield from _selecting(known, selecting)
        yield from _build(known)
        return
    yield _step("config")
    yield _step("start")
    yield PlannedStep("plan", known.planning, "measured just now")
    if known.reading and known.building and known.entries is not None:
        yield _stream(known.reading, known.building, known.entries)
    yield _step("check")
    yield _step("publish")


def _stream(reading: Reading, building: Building, entries: int) -> PlannedStep:
    """The core encodes on the processors that the reading leaves idle, and then as on a host of its own."""
    read = reading.seconds_for(entries)
    built = building.forecast.seconds
    meanwhile, later = built * (1 - TAIL), built * TAIL
    processors = resources.processors()
    waits = max(0.0, meanwhile - reading.idle * read / processors)
    why = (
        f"{_rate(reading)} entries/s from the provider are {units.duration(read)}, the build "
        f"{units.duration(built)}, most of it meanwhile"
    )
    return PlannedStep("stream", round(read + waits + later, 3), why)


def ldif(known: Known, selecting: bool) -> Iterator[PlannedStep]:
    yield _preflight(known)
    yield from _selecting(known, selecting)
    yield from _build(known)


def _build(known: Known) -> Iterator[PlannedStep]:
    building = known.building
    yield _step("config")
    if building:
        scan = building.text / building.scan
        yield PlannedStep("scan", round(scan, 3), f"{units.size(building.scan)}/s of LDIF")
        yield _step("schema")
        said = f"as a build of {building.forecast.sampled:,} entries"
        yield PlannedStep("load", round(building.forecast.seconds, 3), said)
    yield _step("check")
    yield _step("publish")


def _selecting(known: Known, selecting: bool) -> Iterator[PlannedStep]:
    if selecting and known.building:
        seconds = known.building.text / known.building.scan
        yield PlannedStep(partial.STEP, round(seconds, 3), "looked through once more")


def _export(known: Known) -> Iterator[PlannedStep]:
    yield _step("start")
    yield PlannedStep("plan", known.planning, "measured just now")
    if known.reading and known.entries is not None:
        read = known.reading.seconds_for(known.entries)
        why = f"{_rate(known.reading)} entries/s from the provider"
        yield PlannedStep("read", round(read, 3), why)
    yield from (_step(name) for name in EXPORT_STEPS[3:])


def clone(known: Known) -> Iterator[PlannedStep]:
    yield _preflight(known)
    yield PlannedStep("schema", known.planning, "measured just now")
    converting = known.planned.get("copy_seconds")
    if converting is not None:
        why = f"{known.planned['converted']}: as the first entries, measured just now"
        yield PlannedStep("copy", converting, why)
    elif known.copying:
        why = f"{units.size(known.copying.bytes)} at {units.size(known.copying.rate)}/s"
        yield PlannedStep("copy", round(known.copying.bytes / known.copying.rate, 3), why)
    yield _step("stamp")
    indexed = known.planned.get("indexed", ())
    if indexed and known.building:
        names = ", ".join(indexed)
        why = f"{names} made again: at most as a whole build"
        yield PlannedStep("index", round(known.building.forecast.seconds, 3), why)
    else:
        yield _step("index")
    yield _step("check")
    yield _step("publish")


def online(known: Known, from_provider: bool) -> Iterator[PlannedStep]:
    yield _preflight(known)
    if from_provider:
        yield from _export(known)
    yield _step("join")
    if known.entries is not None:
        why = f"{units.number(round(ADDS))} entries/s, as docs/performance.md has it: not measured here"
        yield PlannedStep("load", round(known.entries / ADDS, 3), why)
    yield _step("claim")


def _preflight(known: Known) -> PlannedStep:
    return PlannedStep("preflight", known.preflight, "measured just now")


def _step(name: str) -> PlannedStep:
    return PlannedStep(name, _SMALL, "short, whatever the size")


def load_of(known: Known) -> ProviderLoad | None:
    """Of a strategy that reads the provider by searches."""
    reading, entries = known.reading, known.entries
    if reading is None or entries is None:
        return None
    size = round(reading.entry * entries)
    return ProviderLoad(reading.connections, round(reading.rate, 1), size)


def disk_of(known: Known) -> int | None:
    """Bytes on the consumer while it works."""
    if known.copying:
        return known.copying.bytes
    if known.building is None:
        return None
    size = known.building.forecast.bytes
    memory = min(stream_build.MEMORY, resources.sorting_memory())
    return size if size < memory else _SPILL * size


def is_complete(steps: Sequence[PlannedStep], strategy: str) -> bool:
    """Does nothing that takes long lack its seconds?"""
    needed = {"search": {"stream", "read"}, "ldif": {"load"}, "clone": {"copy"}, "online": {"load"}}
    return bool(needed[strategy] & {one.name for one in steps})


def _rate(reading: Reading) -> str:
    return units.number(round(reading.rate))


# --- pricing ---------------------------------------------------------------------------------------------------------
#
# The price of a strategy: its steps with their seconds, the disk, the load on the provider, and the catching up.


MARGIN = 600.0  # seconds from the end of a seeding until slapd is started


def priced(row: StrategyPlan, strategy: Strategy, known: Known) -> StrategyPlan:
    return _windowed(_priced(row, strategy, known), strategy, known)


def _priced(row: StrategyPlan, strategy: Strategy, known: Known) -> StrategyPlan:
    steps = tuple(_steps(strategy, known))
    whole = is_complete(steps, row.strategy)
    return dataclasses.replace(
        row,
        steps=steps,
        catch_up=known.sends,
        only_changes=known.only_changes,
        loses_deletions=bool(known.foreseen.get("lost", False)),
        seconds=_sum(steps) if whole else None,
        disk=disk_of(known),
        load=load_of(known),
    )


def _sum(steps: Sequence[PlannedStep]) -> float:
    return round(sum(one.seconds for one in steps), 3)


def _steps(strategy: Strategy, known: Known) -> Iterator[PlannedStep]:
    selecting = isinstance(strategy, StoppedConsumer) and strategy.partial is not None
    if isinstance(strategy, Search):
        yield from search(known, strategy.streams, selecting)
    elif isinstance(strategy, Clone):
        yield from clone(known)
    elif isinstance(strategy, StoppedConsumer):
        yield from ldif(known, selecting)
    else:
        yield from online(known, from_provider=not strategy.options.source)
    yield from known.catch_up


def _windowed(row: StrategyPlan, strategy: Strategy, known: Known) -> StrategyPlan:
    """With what the provider sends if it has forgotten the seed's contextCSN by the time slapd is started."""
    connection = strategy.options.connection
    if connection is None or row.seconds is None or not row.only_changes:
        return row
    base = connection.base or known.seen["suffix"]
    window = of(connection, base, _log_base(strategy, connection.uri))
    why = window.too_short(row.seconds + MARGIN) if window else None
    if why is None or known.entries is None:
        return row
    config = _config(strategy)
    price = catchup.of(SyncAnswer.PRESENT, known.entries, bool(config and catchup.logs_sync(config)))
    steps = (*(one for one in row.steps if one.name != CATCH_UP), PlannedStep(CATCH_UP, round(price.seconds, 1), why))
    return dataclasses.replace(row, steps=steps, only_changes=False, catch_up=why, seconds=_sum(steps))


def _log_base(strategy: Strategy, uri: str | None) -> str | None:
    if not isinstance(strategy, StoppedConsumer):
        return None
    found = syncrepl.of_database(strategy.place.config, strategy.place.database, uri)
    return found.log_base if found else None


def _config(strategy: Strategy) -> Config | None:
    return strategy.place.config if isinstance(strategy, StoppedConsumer) else None


# --- choosing --------------------------------------------------------------------------------------------------------
#
# Which of the strategies that can be carried out to take.


NEAR = 60.0  # seconds, and
TWICE = 2.0  # times the fastest: what a strategy may take longer if then only changes are left to be sent


def pick(rows: Sequence[StrategyPlan]) -> tuple[StrategyName | None, str]:
    """The strategy, and why."""
    feasible = [one for one in rows if one.feasible]
    if not feasible:
        return None, "none can be carried out; what each of them lacks stands below"
    whole = [one for one in feasible if not one.loses_deletions] or feasible
    fastest = min(map(_seconds, whole))
    near = [one for one in whole if _seconds(one) <= max(fastest + NEAR, fastest * TWICE)]
    calm = [one for one in near if one.only_changes]
    chosen = min(calm or near, key=_seconds)
    return chosen.strategy, _why(chosen, feasible, fastest, bool(calm))


def _seconds(one: StrategyPlan) -> float:
    return math.inf if one.seconds is None else one.seconds


def _why(chosen: StrategyPlan, feasible: Sequence[StrategyPlan], fastest: float, calm: bool) -> str:
    lossy = [one.strategy for one in feasible if one.loses_deletions]
    if chosen.loses_deletions:
        return "no other can be carried out, but deletions will be lost: prepare the provider first"
    if len(feasible) == 1:
        return "it is the only one that can be carried out"
    others = f" ({', '.join(lossy)} would lose deletions)" if lossy else ""
    if chosen.seconds is None:
        return f"nothing tells how long any of them takes, and it needs the fewest steps{others}"
    if chosen.seconds > fastest and calm:
        return (
            f"another one would end after {units.duration(fastest)}, but the provider would then send more than what "
            f"changed{others}"
        )
    return f"it ends first, after {units.duration(chosen.seconds)} with the catch-up{others}"
