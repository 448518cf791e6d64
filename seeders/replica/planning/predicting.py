"""From what was measured to the seconds of each step of a strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader import resources, units
from loader.operations import stream_build
from loader.operations.build import native
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.run.log import Facts
from loader.server.sync import SyncAnswer
from seeders.replica import cost, forecast, partial
from seeders.replica.planning.measuring import Building, Copying, Reading
from seeders.replica.planning.plan import PlannedStep, ProviderLoad

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
        told: str = forecast.told(self.seen, self.entries).get("catch_up", "not known")
        return told if self.only_changes or not self.foreseen else f"{told}; {self.foreseen['why']}"

    @property
    def catch_up(self) -> Iterator[PlannedStep]:
        """Of a tree whose size nobody tells there are no seconds."""
        entries = self.entries or self.foreseen.get("entries")
        if self.answer is not None and (entries is not None or self.only_changes):
            price = cost.of(self.answer, entries or 0, self.foreseen["logged"])
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
    memory = min(stream_build.MEMORY, resources.memory() // native.SHARE)
    return size if size < memory else _SPILL * size


def is_complete(steps: Sequence[PlannedStep], strategy: str) -> bool:
    """Does nothing that takes long lack its seconds?"""
    needed = {"search": {"stream", "read"}, "ldif": {"load"}, "clone": {"copy"}, "online": {"load"}}
    return bool(needed[strategy] & {one.name for one in steps})


def _rate(reading: Reading) -> str:
    return units.number(round(reading.rate))
