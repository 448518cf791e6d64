"""Builds a consumer's database while the provider is read. The connections send their LDIF straight to the native core.

If there are more pieces than connections, finished pieces are also written to files, from which a resumed run reads
them. Otherwise no files are written, because all pieces end at about the same time."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from loader import defaults, ldif
from loader.errors import Cancelled, EntryRefused
from loader.operations import live
from loader.operations.build import native
from loader.operations.build.native import NativeLoaded, NativeSteps
from loader.operations.build.steps import BuildOptions, Outcome, require_known
from loader.operations.export import ExportOptions, ExportSteps, ReadingPlan, Start, notes, plan_of_reading
from loader.operations.publish import Checked, Published, TargetDatabase
from loader.progress import Meter
from loader.run.log import Counted, Report, killpoint
from loader.run.steps import Run
from loader.server.options import Search
from loader.sinks.mdb import Feed, Input, LiveSource
from loader.sources import ldap as source
from loader.sources.planner import ConnectionSlot, Piece, RateLimit, schedule
from loader.storage import files

STEPS = ("config", "start", "plan", "stream", "check", "publish")
HEAD = "head.ldif"  # file with containers, which are read before all other entries
MOST_CONTAINERS = 500  # maximum number of containers in HEAD
MEMORY = 3 << 29  # maximum bytes for sorting; more memory does not make the build faster


def build(
    reading: ExportOptions,
    building: BuildOptions,
    run: Run,
    place: TargetDatabase,
    allow_hidden: bool,
    check: Callable[[Meter], None] | None = None,
) -> Report:
    """Runs the steps. Returns the facts for the report. Without `allow_hidden`, the build fails if the provider hides
    entries. `check` is called in a thread while the provider is read; its error ends the reading."""
    building = dataclasses.replace(building, memory=building.memory or min(MEMORY, defaults.sorting_memory()))
    export = ExportSteps(reading, run)
    run.do("config", NativeSteps(building, run, place).config)
    start = run.do("start", export.start, Start)
    began = datetime.datetime.fromisoformat(start.started)
    steps = NativeSteps(dataclasses.replace(building, now=f"{began:%Y%m%d%H%M%SZ}"), run, place)
    work = _StreamStep(export, steps, allow_hidden, check)
    cut = run.do("plan", lambda meter: plan_of_reading(reading, meter, start), ReadingPlan)
    native.require_numbers(cut.expected, building, start.uri)
    run.progress.say(f"reading in {cut.how}")
    loaded = run.do("stream", lambda meter: work.stream(meter, start, cut), NativeLoaded, cut.expected)
    checked = run.do("check", lambda meter: steps.check(meter, loaded), Checked)
    published = run.do("publish", lambda meter: steps.put_into_place(checked), Published)
    files.remove_tree(export.parts)
    seconds = sum(step.seconds for step in run.catalogue.steps() if step.name in STEPS)
    speed = {"seconds": round(seconds, 3), "rate": round(loaded.entries / seconds)}
    return Outcome(loaded, published, {"context_csns": start.context_csns, **speed}).report()


class _StreamStep(Struct, frozen=True):
    """The body of the step `stream`, which can be repeated from its beginning."""

    reading: ExportSteps
    building: NativeSteps
    allow_hidden: bool
    check: Callable[[Meter], None] | None

    def stream(self, meter: Meter, start: Start, cut: ReadingPlan) -> NativeLoaded:
        """Reads the entries and builds the database. Entries that moved are reread before entry IDs are assigned."""
        reading, building, provider = self.reading, self.building, self.reading.options.connection
        reading.parts.mkdir(exist_ok=True)
        head = []
        if cut.containers:
            # If parents come before their children, the core need not write id2e twice.
            where = live.with_uuids(cut.containers[:MOST_CONTAINERS])
            head = [reading.parts / HEAD]
            source.fetch(provider, Search(start.base, where, attributes=tuple(cut.attributes)), head[0], meter)
        reading.remove("late-*")  # files of an interrupted attempt
        containers = reading.containers(meter, start, provider, start.context_csns)
        live_source = LiveSource(next(iter(head), None), containers, containers.require_renamed)
        with self._checking(meter), self._feeding(meter, cut) as pieces:
            try:
                loaded = building.make(meter, [*head, *pieces], start.context_csns, live_source)
            except EntryRefused:  # if the consumer's schema lacks names, `require_known` reports these instead
                rejected = ldif.scan([building.rejects], Meter("schema"))
                uses = rejected.attributes, rejected.object_classes
                require_known(building.place, *uses, building.run.directory)
                raise
        # The meter has counted some entries twice: those that were also read from a file, such as the containers.
        meter.add(entries=loaded.read - meter.entries)
        hidden, _ = notes(reading.options, meter, start, cut, loaded.entries)
        if not self.allow_hidden:
            live.require_nothing_hidden(start.uri, hidden)
        return loaded

    @contextmanager
    def _checking(self, meter: Meter) -> Iterator[None]:
        """Calls `check` in a thread while the body runs. If `check` fails, cancels the body and raises the error."""
        if self.check is None:
            yield
            return
        inner = Meter("check")

        def cancel_body(future: Future[None]) -> None:
            if not isinstance(future.exception(), Cancelled | None):
                meter.cancel()

        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(self.check, inner)
            future.add_done_callback(cancel_body)
            try:
                yield
            except Cancelled:
                if future.done() and (failure := future.exception()):
                    raise failure from None
                raise
            finally:
                inner.cancel()

    @contextmanager
    def _feeding(self, meter: Meter, cut: ReadingPlan) -> Iterator[list[Input]]:
        """Yields the inputs of the build: the files of finished pieces, and a queue (Feed). A thread reads the other
        pieces into the queue. If the reading fails, the build is stopped, and vice versa; the first error is raised."""
        finished_pieces, options = self.reading.run.catalogue.partitions("stream", Counted), self.reading.options
        pieces = cut.pieces(options.page)
        writes_files = sum(not piece.search.subentries for piece in pieces) > options.jobs
        feed, inner = Feed(), Meter("read")
        if cut.may_repeat:
            feed.repeat()

        def read() -> None:
            try:
                self._read([piece for piece in pieces if piece.name not in finished_pieces], feed, writes_files, inner)
                feed.close()
            except BaseException:
                feed.break_off()
                raise

        with ThreadPoolExecutor(1) as thread, meter.cancelling(inner.cancel):
            future = thread.submit(read)
            try:
                yield [*(self._copy(piece) for piece in pieces if piece.name in finished_pieces), feed]
            except BaseException as error:
                feed.break_off()
                inner.cancel()
                failure = future.exception()
                if isinstance(error, Cancelled) and failure and not isinstance(failure, Cancelled):
                    raise failure from None
                raise
            future.result()

    def _read(self, pieces: Sequence[Piece], feed: Feed, writes_files: bool, meter: Meter) -> None:
        options = self.reading.options
        pace = RateLimit(options.max_rate)

        def read(_: ConnectionSlot, piece: Piece, meter: Meter) -> None:
            inner_notes = self.reading.parts / f"part-{piece.name}{live.INNER_NOTES}"
            copy = self._copy(piece) if writes_files else None
            arguments = (options.connection, piece.search, feed, inner_notes)
            entries = source.feed(*arguments, copy=copy, meter=meter, pace=pace)
            if writes_files:
                self.reading.run.catalogue.finish_partition("stream", piece.name, Counted(entries))
            killpoint("stream.partition")

        schedule(pieces, [ConnectionSlot(0, number) for number in range(options.jobs)], read, meter)

    def _copy(self, piece: Piece) -> Path:
        return self.reading.parts / f"part-{piece.name}.ldif.zst"
