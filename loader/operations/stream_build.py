"""Build a consumer's database from a live server while it is read: what the connections read goes straight to the
native core, and no file of entries is in between.

Where there are more pieces than connections, finished pieces are kept as files, and a run that goes on takes them from
there. Where there are not, all pieces end at about the same time, and to keep one would be of no use.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import ldif, resources
from loader.errors import Cancelled, EntryRefused
from loader.operations import live
from loader.operations.build import native, steps
from loader.operations.build.native import NativeLoaded
from loader.operations.build.native import NativeSteps as Building
from loader.operations.build.steps import BuildOptions, Outcome
from loader.operations.export import ExportOptions, ExportSteps, ReadingPlan, Start, notes, plan_of_reading
from loader.operations.publish import Checked, Published, TargetDatabase
from loader.operations.shards import clear
from loader.progress import Meter
from loader.run.log import Counted, Report, killpoint
from loader.run.steps import Run
from loader.server.options import Search
from loader.sinks.mdb import Feed, Input, LiveSource
from loader.sources import ldap as source
from loader.sources.planner import ConnectionSlot, Piece, RateLimit, schedule

STEPS = ("config", "start", "plan", "stream", "check", "publish")
HEAD = "head.ldif"  # among the parts: containers, which are read before all others
MOST_CONTAINERS = 500  # there
MEMORY = 3 << 29  # bytes for sorting at most: more makes nothing faster


def build(
    reading: ExportOptions, building: BuildOptions, run: Run, place: TargetDatabase, allow_hidden: bool
) -> Report:
    """The named steps; the facts that a report shows. `allow_hidden`: also of a server that does not show all."""
    building = dataclasses.replace(building, memory=building.memory or min(MEMORY, resources.sorting_memory()))
    work = _StreamStep(ExportSteps(reading, run), building, place, run, allow_hidden)
    run.do("config", Building(building, run, place).config)
    start = run.do("start", work.reading.start, Start)
    cut = run.do("plan", lambda meter: plan_of_reading(reading, meter, start), ReadingPlan)
    native.require_numbers(cut.expected, building, start.uri)
    run.progress.say(f"reading in {cut.how}")
    loaded = run.do("stream", lambda meter: work.stream(meter, start, cut), NativeLoaded, cut.expected)
    made = Building(building, run, place)
    checked = run.do("check", lambda meter: made.check(meter, loaded), Checked)
    published = run.do("publish", lambda meter: made.put_into_place(checked), Published)
    clear(run.directory)
    seconds = sum(step.seconds for step in run.catalogue.steps() if step.name in STEPS)
    speed = {"seconds": round(seconds, 3), "rate": round(loaded.entries / seconds)}
    return Outcome(loaded, published, {"context_csns": start.context_csns, **speed}).report()


@dataclass(frozen=True)
class _StreamStep:
    """The body of the step `stream`. It can be done again from its beginning."""

    reading: ExportSteps
    options: BuildOptions
    place: TargetDatabase
    run: Run
    allow_hidden: bool

    def stream(self, meter: Meter, start: Start, cut: ReadingPlan) -> NativeLoaded:
        """Read and build; what has moved meanwhile is read again before the entries are numbered."""
        self.reading.parts.mkdir(exist_ok=True)
        head = self._read_head(meter, start, cut)
        for path in self.reading.parts.glob("late-*"):
            path.unlink()  # of an interrupted try
        containers = self.reading.containers(meter, start, self.reading.options.connection, start.context_csns)
        beside = LiveSource(next(iter(head), None), containers, containers.require_renamed)
        with self._fed(meter, cut) as fed:
            loaded = self._make(meter, [*head, *fed], start, beside)
        # What went through a file on its way, as the containers do, was counted at both of its ends.
        meter.add(entries=loaded.read - meter.entries)
        hidden, _ = notes(self.reading.options, meter, start, cut, loaded.entries)
        if not self.allow_hidden:
            live.require_nothing_hidden(start.uri, hidden)
        return loaded

    def _make(self, meter: Meter, fed: Sequence[Input], start: Start, beside: LiveSource) -> NativeLoaded:
        began = datetime.datetime.fromisoformat(start.started)
        options = dataclasses.replace(self.options, now=f"{began:%Y%m%d%H%M%SZ}")
        building = Building(options, self.run, self.place)
        try:
            return building.make(meter, fed, start.context_csns, beside)
        except EntryRefused:  # perhaps because the consumer's schema lacks something: then say what
            rejected = ldif.scan([building.rejects], Meter("schema"))
            steps.require_known(self.place, rejected.attributes, rejected.object_classes, self.run.directory)
            raise

    def _read_head(self, meter: Meter, start: Start, cut: ReadingPlan) -> list[Path]:
        """Containers that stand among the first entries: where parents come before their children, the core writes
        nothing twice."""
        connection, head = self.reading.options.connection, self.reading.parts / HEAD
        found = cut.containers[:MOST_CONTAINERS]
        if not found:
            return []
        where = "".join(f"(entryUUID={uuid})" for uuid in found)
        source.fetch(connection, Search(start.base, f"(|{where})", attributes=tuple(cut.attributes)), head, meter)
        return [head]

    @contextmanager
    def _fed(self, meter: Meter, cut: ReadingPlan) -> Iterator[list[Input]]:
        """What to build from: pieces that were kept, and the feed of those that are read meanwhile."""
        done = self.run.catalogue.partitions("stream", Counted)
        options = self.reading.options
        pieces = cut.pieces(options.page)
        keeps = sum(not piece.search.subentries for piece in pieces) > options.jobs
        todo = [piece for piece in pieces if piece.name not in done]
        feed = Feed()
        if cut.may_repeat:
            feed.repeat()
        with reading_beside(feed, meter, lambda inner: self._read(todo, feed, keeps, inner)):
            yield [*(self._copy(piece) for piece in pieces if piece.name in done), feed]

    def _read(self, todo: Sequence[Piece], feed: Feed, keeps: bool, meter: Meter) -> None:
        options, tried = self.reading.options, set[str]()
        pace = RateLimit(options.max_rate)

        def read(_: ConnectionSlot, piece: Piece, meter: Meter) -> None:
            if piece.name in tried:
                feed.repeat()
            tried.add(piece.name)
            copy = self._copy(piece) if keeps else None
            notes = self.reading.parts / f"part-{piece.name}{live.INNER_NOTES}"
            how = (options.connection, piece.search, feed, notes)
            entries = source.feed(*how, copy=copy, meter=meter, pace=pace)
            if keeps:
                self.run.catalogue.finish_partition("stream", piece.name, Counted(entries))
            killpoint("stream.partition")

        schedule(todo, [ConnectionSlot(0, number) for number in range(options.jobs)], read, meter)

    def _copy(self, one: Piece) -> Path:
        return self.reading.parts / f"part-{one.name}.ldif.zst"


@contextmanager
def reading_beside(feed: Feed, meter: Meter, read: Callable[[Meter], None]) -> Iterator[None]:
    """Meanwhile, `read` feeds from a thread of its own. Whichever side fails, the other one stops, and what failed
    first is raised."""
    inner = Meter("read")

    def reading() -> None:
        try:
            read(inner)
            feed.close()
        except BaseException:
            feed.break_off()
            raise

    with ThreadPoolExecutor(1) as thread, meter.cancelling(inner.cancel):
        future = thread.submit(reading)
        try:
            yield
        except BaseException as error:
            feed.break_off()
            inner.cancel()
            failure = future.exception()
            if isinstance(error, Cancelled) and failure and not isinstance(failure, Cancelled):
                raise failure from None
            raise
        future.result()
