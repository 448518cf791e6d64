"""What the prices of all strategies follow from: measured when the first one asks for it, and said once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from loader import units
from loader.errors import NotProven
from loader.mdb import contents
from loader.operations.export import ExportOptions, trial_plan
from loader.progress import Progress
from loader.server import configuration, entry_count
from loader.server.session import session
from loader.storage import temporary
from seeders.replica.planning import measuring
from seeders.replica.planning.measuring import Building, Reading
from seeders.replica.planning.predicting import Known
from seeders.replica.strategies import Strategy
from seeders.replica.strategies import reading as reading_options
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.search import Search
from seeders.replica.strategies.stopped import StoppedConsumer


@dataclass
class Measured:
    """What strategies have in common is measured once."""

    given: int | None = None  # entries of what --from names, for a provider that does not tell
    reading: Reading | None = None
    building: Building | None = None
    of_ldif: Building | None = None
    said: dict[str, None] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.said)


def measure(strategy: Strategy, known: Known, measured: Measured, progress: Progress) -> Known:
    """`known`, with what is measured for a strategy. Raises LoaderError where a seeding would."""
    asked = strategy.options
    if asked.source and strategy.reads_ldif:
        building = _of_ldif(strategy, measured, progress)
        entries = building.forecast.entries if building else measuring.entries_of(asked.source)
        return dataclasses.replace(known, building=building, entries=entries)
    if isinstance(strategy, Clone):
        with progress.step("copy") as meter:
            copying = measuring.copy(strategy.source, strategy.place, meter)
        measured.said[f"copying: {units.size(copying.rate)}/s, fsync included"] = None
        entries = contents.entry_count(strategy.source)
        built = measured.building
        return dataclasses.replace(known, copying=copying, building=built, entries=entries)
    return _of_provider(strategy, known, measured, progress)


def _of_ldif(strategy: Strategy, measured: Measured, progress: Progress) -> Building | None:
    if measured.of_ldif is None and isinstance(strategy, StoppedConsumer):
        try:
            place = strategy.place
            measured.of_ldif = measuring.build_of_ldif(place, strategy.options.source, progress)
            _say_building(measured, measured.of_ldif)
        except NotProven as error:
            measured.said[f"building: not measured, since only slapadd builds it: {error}"] = None
    return measured.of_ldif


def _of_provider(strategy: Strategy, known: Known, measured: Measured, progress: Progress) -> Known:
    entries = _count(strategy, known)
    entries = measured.given if entries is None else entries
    if measured.reading is None or measured.building is None:
        _read(strategy, known, entries, measured, progress)
    reading = measured.reading
    if reading and reading.whole:
        entries = reading.entries
    if entries is None:
        said = "entries: the provider does not tell how many, so most seconds are not known"
        measured.said[said] = None
    return dataclasses.replace(known, entries=entries, reading=reading, building=measured.building)


def _count(strategy: Strategy, known: Known) -> int | None:
    counted = known.planned.get("entries")
    if isinstance(counted, int):
        return counted
    connection = strategy.options.connection
    assert connection is not None
    with session(connection) as server:
        base = connection.base or known.seen["suffix"]
        return entry_count.entries(server, server.context_of(base), sampled=True)


def _read(
    strategy: Strategy, known: Known, entries: int | None, measured: Measured, progress: Progress
) -> None:
    """The short export, and the build of a sample of it."""
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        asked = _reading(strategy, known.seen["suffix"], scratch)
        with progress.step("read") as meter:
            reading, paths = measuring.read(asked, trial_plan(asked, meter), scratch, meter)
        measured.reading = reading
        measured.said[
            f"reading: {units.number(reading.entries)} entries in {units.duration(reading.seconds)} over "
            f"{reading.connections} connections, {units.number(round(reading.rate))} entries/s, "
            f"{units.size(reading.rate * reading.entry)}/s of LDIF"
        ] = None
        total = reading.entries if reading.whole else entries
        if not isinstance(strategy, StoppedConsumer) or total is None:
            return
        try:
            how = (strategy.place, reading, paths, total, progress)
            measured.building = measuring.build_of_reading(*how)
            _say_building(measured, measured.building)
        except NotProven as error:
            measured.said[f"building: not measured, since only slapadd builds it: {error}"] = None


def _reading(strategy: Strategy, suffix: str, scratch: Path) -> ExportOptions:
    if isinstance(strategy, Search):
        return strategy.reading(scratch)
    return reading_options.reading(strategy.options, suffix, scratch)


def _say_building(measured: Measured, building: Building) -> None:
    found = building.forecast
    measured.said[
        f"building: {units.number(found.sampled)} entries ({found.how}); all of them are "
        f"{units.size(found.bytes)} in {units.duration(found.seconds)}"
    ] = None
