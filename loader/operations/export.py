"""Exports a running server: reads pieces of the tree in parallel, and arranges their entries into LDIF files (shards),
parents first.

Steps: start, plan, read, late, arrange, shards. `export_steps` serves `replica seed` too. While a piece is read, its
files are named `try-CONNECTION-...`. Once it is complete, they are renamed to `part-PIECE-...`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from msgspec import Struct, structs

from loader import csn, defaults, dn, ldif, plain, units
from loader.declared import ExportLimits
from loader.errors import EmptyInput, LimitTooLow, LoaderError, ReplicasApart, ServerRefused
from loader.ldif import Arrangement, ArrangeTask, Manifest
from loader.operations import live, packaged
from loader.operations.live import MovedContainers, Providers
from loader.operations.shards import PARTS, Finished, ShardDirectory, export_run, require_output
from loader.progress import Meter, Progress
from loader.run.log import Report, killpoint
from loader.run.steps import Run
from loader.server import questions, visibility
from loader.server.options import Connection, Search
from loader.server.session import Session, session
from loader.sources import ldap as source
from loader.sources import planner, sampling
from loader.sources.ldap import Narrowing
from loader.sources.planner import ConnectionSlot, FirstEntries, Piece, RateLimit, schedule
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files, held

STEPS = ("start", "plan", "read", "late", "arrange", "shards")
_TRY = "try"


@dataclass(frozen=True)
class ExportOptions(ExportLimits):
    connection: Connection
    output: Path
    jobs: int = field(default=2, kw_only=True)  # number of connections to each provider
    compress: str = defaults.COMPRESS
    narrowing: Narrowing | None = None  # the entries and attributes that a partial replica needs
    is_visibility_checked: bool = False  # the caller has already checked what the server hides
    replicas: tuple[Connection, ...] = ()  # further providers of the same tree

    @property
    def providers(self) -> tuple[Connection, ...]:
        return (self.connection, *self.replicas)

    def identity(self) -> dict[str, object]:
        """Returns the options that must not change between a run and its resumption."""
        more = {"replicas": [replica.uri for replica in self.replicas]} if self.replicas else {}
        return {**self.connection.identity(), "pieces": self.pieces, "compress": self.compress, **more}


class Start(Struct, frozen=True):
    """A provider's state before the first entry is read. `uuid`: the values of entryUUID of the entry `base`.
    `subentries`: whether subentries are read, too. `attributes`: the attribute list that requests all attributes."""

    base: str
    uuid: list[str]
    context_csns: list[str]
    subentries: bool
    attributes: list[str]
    started: str
    uri: str


class ReadingPlan(Struct, frozen=True):
    """How the tree is read. `expected`: number of entries, or None if unknown. `how` describes the plan for the
    operator. `containers`: entryUUIDs of the containers in a sample of the entries. `hidden`: notes on data that the
    server hides. `partitions`: the pieces, without attribute lists."""

    expected: int | None
    how: str
    containers: list[str]
    hidden: list[str]
    attributes: list[str]
    partitions: list[Piece]

    def pieces(self, page: int) -> list[Piece]:
        """Returns the pieces with `attributes` set, to be read in pages of `page` entries."""
        attributes = tuple(self.attributes)
        return [
            Piece(piece.name, structs.replace(piece.search, attributes=attributes, page=page))
            for piece in self.partitions
        ]

    @property
    def may_repeat(self) -> bool:
        """Whether an entry that moves during the read may be in two pieces: not if they are ranges of entryUUID."""
        searches = [piece.search for piece in self.partitions if not piece.search.subentries]
        return len(searches) > 1 and not all("(entryUUID>=" in search.where for search in searches)


class ReadPiece(Struct, frozen=True):
    """A piece that was read. `sums`: file name -> checksum. `server`: index of the provider in `providers`."""

    entries: int
    sums: dict[str, str]
    server: int = 0


class Arranged(Struct, frozen=True):
    """The arranged shards. `files`: name, number of entries and content checksum of each shard. `taken`: shard name ->
    name of the part file that became this shard unchanged."""

    entries: int
    duplicates: int
    dropped: int
    checksum: str
    files: list[tuple[str, int, str]]
    taken: dict[str, str]


def start_of(options: ExportOptions) -> Start:
    """Returns the state of the first provider, with the contextCSN that all providers have reached."""
    starts = []
    for connection in options.providers:
        with session(connection) as server:
            base = server.stored_dn(server.base())
            uuids = server.read(base, ["entryUUID"]).get("entryuuid", [])
            start = Start(
                base,
                [value.decode("utf-8", "replace") for value in uuids],
                live.context_csns(server, base),
                # A partial replica's consumer searches without the subentries control.
                not options.narrowing and server.offers_subentries(base),
                list(questions.everything(server)),
                units.moment(),
                server.uri,
            )
            starts.append(start)
    live.require_same(starts)
    return structs.replace(starts[0], context_csns=live.lowest([start.context_csns for start in starts]))


def trial_plan(options: ExportOptions, meter: Meter) -> tuple[Start, ReadingPlan]:
    """Returns the plan for a dry run. Raises LimitTooLow if a provider's limits forbid the reading of a piece, because
    the export itself would then fail at once."""
    start = start_of(options)
    cut = plan_of_reading(options, meter, start)
    for connection in options.providers:
        with session(connection) as server:
            source.require_readable(server, cut.pieces(options.page), options.page)
    return start, cut


def plan_of_reading(options: ExportOptions, meter: Meter, start: Start) -> ReadingPlan:
    """Samples the first entries, and divides the tree into pieces. Retries if the connection breaks."""
    base, narrowing, replicas = start.base, options.narrowing, Providers(options.providers, start.base, meter)

    def attempt() -> ReadingPlan:
        connection, attributes = replicas.living(), start.attributes
        with session(connection) as server:
            sample = planner.sample(server, base)
            if not sample.entries:
                raise EmptyInput(path=f"{connection.uri} {base}")
            if options.replicas:  # every provider must show the same entries as the first
                names = [name for name, _ in sample.entries]
                for number, csns in replicas.context_csns().items():
                    if options.providers[number] is not connection:
                        with session(options.providers[number]) as other:
                            live.require_same_entries(server, other, names, csns)
            count = options.pieces or (1 if sample.whole else options.jobs * len(options.providers))
            entries = planner.expected(server, base)
            pieces, how = planner.plan(server, base, sample, count, entries)
            if narrowing:
                pieces, attributes = narrowing.pieces(pieces), list(narrowing.restrict(Search(base)).attributes)
            elif start.subentries:  # no other search returns subentries; slapd finds them by its objectClass index
                pieces.append(Piece("subentries", Search(base, subentries=True)))
            hidden = [] if options.is_visibility_checked else _hidden(server, base, sample, narrowing)
            return ReadingPlan(entries, how, sample.containers(), hidden, attributes, pieces)

    return source.with_retries(attempt, meter)


def _hidden(server: Session, base: str, sample: FirstEntries, narrowing: Narrowing | None) -> list[str]:
    """Returns notes on what the server hides from this account, judged by a sample of its entries."""
    with suppress(LimitTooLow, ServerRefused):
        report = visibility.compare_sample(server, base, narrowing.may_store if narrowing else None)
        if report is not None:
            return live.hidden_notes(report)
    if sample.lacks_passwords() and (narrowing is None or narrowing.may_store("userPassword")):
        return [f"no entry shows {server.connection.who} a userPassword: access control may hide it"]
    return []


def notes(
    options: ExportOptions, meter: Meter, start: Start, cut: ReadingPlan, entries: int
) -> tuple[list[str], list[str]]:
    """Returns two lists of notes for the operator. The first is on data that the server hides or alters, the second on
    other reasons why the server's entry count differs from `entries`, the number of entries that were read."""

    def attempt() -> tuple[int | None, bool]:
        """Returns the server's entry count, and whether its contextCSN is still that of the start."""
        with session(Providers(options.providers, start.base, meter).living()) as server:
            counted = planner.expected(server, start.base)
            return counted, live.context_csns(server, start.base) == start.context_csns

    hidden = list(cut.hidden)
    counted, is_unchanged = source.with_retries(attempt, meter)
    if counted is not None and not dn.key(start.base) and start.context_csns:
        counted = max(counted, entries)  # the server may not store the root entry yet
    if options.narrowing or counted is None or counted == entries:
        return hidden, []
    counts = f"the server counts {counted:,} entries"
    if not is_unchanged or counted < entries:
        return hidden, [f"{counts}: the tree changed meanwhile; syncrepl brings the rest"]
    others = "" if start.subentries else ", or they are subentries"
    return [*hidden, f"{counts}: access control hides the others from {options.connection.who}{others}"], []


class ExportSteps(Struct, frozen=True):
    """The bodies of the steps. Each can be repeated from its beginning."""

    options: ExportOptions
    run: Run

    @property
    def parts(self) -> Path:
        return self.run.directory / PARTS

    @property
    def sink(self) -> ShardDirectory:
        return ShardDirectory(self.options.output, self.run)

    @property
    def compress(self) -> bool:
        return self.options.compress != "none"

    def start(self, meter: Meter) -> Start:
        """Records the contextCSN from which syncrepl will continue. This must precede the reading of entries. Removes
        the parts of an earlier run, because they are older than this contextCSN."""
        files.remove_tree(self.parts)
        return start_of(self.options)

    def remove(self, pattern: str) -> None:
        for path in self.parts.glob(pattern):
            path.unlink()

    def _done(self) -> Mapping[str, ReadPiece]:
        return self.run.catalogue.partitions("read", ReadPiece)

    def read(self, meter: Meter, start: Start, cut: ReadingPlan) -> None:
        """Reads, in parallel, the pieces that no earlier run has finished."""
        self.parts.mkdir(exist_ok=True)
        if not dn.key(start.base) and start.context_csns:
            # No search returns the root entry (the empty DN), but it must exist to store the contextCSN.
            packaged.write_root_entry(self.parts / f"part-{packaged.FILE}")
        done = self._done()
        meter.add(sum(piece.entries for piece in done.values()))
        todo = [piece for piece in cut.pieces(self.options.page) if piece.name not in done]
        self._read(todo, meter, range(len(self.options.providers)))

    def _read(self, pieces: Sequence[Piece], meter: Meter, among: Collection[int]) -> None:
        """Reads the pieces from the providers numbered `among`. Raises the errors of `schedule`."""
        options, parts, pace = self.options, self.parts, RateLimit(self.options.max_rate)

        def read(slot: ConnectionSlot, piece: Piece, meter: Meter) -> None:
            attempt = f"{_TRY}-{slot}-of-{piece.name}"
            how = (options.providers[slot.server], piece.search, parts, attempt)
            try:
                part = source.fetch_part(*how, compress=self.compress, meter=meter, pace=pace, retries=0)
            except LoaderError:
                self.remove(f"{attempt}[-.]*")
                raise

            # This piece is not recorded, and it is recorded after its files are renamed. So its existing files are
            # remains of a run that ended before, or of a provider that died.
            self.remove(f"part-{piece.name}[-.]*")
            for path in parts.glob(f"{attempt}[-.]*"):
                path.rename(parts / path.name.replace(attempt, f"part-{piece.name}", 1))
            files.make_durable(parts)
            names = (Path(file).name.replace(attempt, f"part-{piece.name}", 1) for file in part.files)
            sums = dict(zip(names, part.sums, strict=True))
            self.run.catalogue.finish_partition("read", piece.name, ReadPiece(part.entries, sums, slot.server))
            killpoint("read.partition")

        self.remove(f"{_TRY}-*")  # left by an interrupted run
        slots = [ConnectionSlot(number, n) for n in range(options.jobs) for number in sorted(among)]
        schedule(pieces, slots, read, meter)

    def late(self, meter: Meter, start: Start) -> list[str]:
        """Rereads the subtrees that moved during the read. Returns the contextCSN before the last pass. If no
        contextCSN has changed, nothing has moved."""
        for _ in self.options.replicas:
            try:
                return self._late(meter, start)
            except LoaderError as error:
                if not error.retryable:
                    raise
                meter.note = f"{error}; asking another provider"
        return self._late(meter, start)

    def _late(self, meter: Meter, start: Start) -> list[str]:
        self.remove("late-*")  # from an interrupted attempt; the numbers of late files must show the order of reading
        csns_of, provider = self._covering_provider(meter, start)
        narrowing = self.options.narrowing
        containers = self.containers(meter, start, provider, start.context_csns)
        killpoint("late.middle")
        if not (narrowing and narrowing.is_flat) and any(csns != start.context_csns for csns in csns_of.values()):
            containers.settle()
        return list(containers.since)

    def _covering_provider(self, meter: Meter, start: Start) -> tuple[dict[int, list[str]], Connection]:
        """Returns each living provider's contextCSN, and a provider whose contextCSN covers all of them.

        If a provider died, changes that only it had may be lost. So its pieces are read again from the others."""
        replicas = Providers(self.options.providers, start.base, meter)
        cut = self.run.catalogue.facts_of("plan", ReadingPlan)
        while True:
            csns_of = replicas.context_csns()
            names = {name for name, piece in self._done().items() if piece.server not in csns_of}
            if cut and (lost_pieces := [piece for piece in cut.pieces(self.options.page) if piece.name in names]):
                self._read(lost_pieces, meter, csns_of)
                continue
            try:
                return csns_of, replicas.covering(csn.by_server(chain.from_iterable(csns_of.values())))
            except ReplicasApart:
                if replicas.context_csns().keys() >= csns_of.keys():
                    raise

    def containers(self, meter: Meter, start: Start, provider: Connection, since: Sequence[str]) -> MovedContainers:
        return MovedContainers(provider, self.options, start, self.parts, since, meter)

    def arrange(self, meter: Meter, start: Start, since: Sequence[str]) -> Arranged:
        """Writes each entry to the shards once, parents first."""
        provider = Providers(self.options.providers, start.base, meter).covering(csn.by_server(since))
        containers = self.containers(meter, start, provider, since)
        narrowing = self.options.narrowing
        if narrowing and since and not narrowing.is_flat:
            # In a partial replica, glue entries replace missing parents. So no orphan reveals a container that moved
            # after the step `late`, and the containers are checked once more.
            containers.settle()

        def attempt(drop_orphans: bool) -> Arrangement:
            task = ArrangeTask(
                paths=self._files("part"),
                again=self._files("late"),
                root=start.base,
                context_csns=[] if narrowing else start.context_csns,
                compress=self.compress,
                drop_orphans=drop_orphans,
                name_orphans=narrowing is None,
            )
            arranged = ldif.arrange(task, files.emptied(self.sink.arranged), meter)
            containers.require_renamed(arranged.renamed)
            return arranged

        arranged = attempt(drop_orphans=False)
        while arranged.orphans and not narrowing:
            arranged = attempt(drop_orphans=not containers.for_orphans(arranged.orphans))
        counts = (arranged.entries, arranged.duplicates, arranged.dropped)
        return Arranged(*counts, arranged.checksum, arranged.files, dict(arranged.taken))

    def _files(self, kind: str) -> list[Path]:
        return sorted(path for suffix in (".ldif", ".ldif.zst") for path in self.parts.glob(f"{kind}-*{suffix}"))

    def publish(self, meter: Meter, start: Start, cut: ReadingPlan, arranged: Arranged) -> None:
        """Moves the shards to the output directory, and writes the manifest."""
        sums = {name: checksum for piece in self._done().values() for name, checksum in piece.sums.items()}
        self.sink.take([name for name, *_ in arranged.files])
        shards = tuple(  # a part file that became a shard unchanged keeps its checksum
            self.sink.shard(name, entries, content, sums.get(arranged.taken.get(name, "")))
            for name, entries, content in arranged.files
        )
        hidden, others = notes(self.options, meter, start, cut, arranged.entries)
        manifest = Manifest(
            base=start.base,
            entries=arranged.entries,
            content_checksum=arranged.checksum,
            context_csns=tuple(start.context_csns),
            shards=shards,
            source=plain.printable(start.uri),
            started=start.started,
            finished="",
            partitions=cut.how,
            duplicates=arranged.duplicates,
            dropped=arranged.dropped,
            notes=(*hidden, *others),
            hidden=tuple(hidden),
        )
        self.sink.finish(manifest)


def export(options: ExportOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False) -> Finished:
    with export_run(options.output, options.identity(), progress, timeouts, restart) as run:
        return Finished(export_steps(options, run), run.done_before())


def plan(options: ExportOptions, progress: Progress) -> Report:
    """Returns what an export would do. Checks that the output is free, and that the servers answer, hold the base and
    let all of it be read. Raises the errors of `export`. Writes nothing."""
    require_output(options.output)
    with progress.step("plan") as meter:
        start, cut = trial_plan(options, meter)
    return {
        "base": start.base,
        "entries": cut.expected if cut.expected is not None else "unknown to the server",
        "read_as": cut.how,
        "context_csns": start.context_csns,
        "notes": cut.hidden,
        "output": str(options.output),
        "dry_run": "nothing was written",
    }


def export_steps(options: ExportOptions, run: Run) -> Manifest:
    """Runs the steps of an export within a run that may have other steps. The output directory must exist."""
    with held.opened(options.output) as output:
        options = replace(options, output=output.path)
        work = ExportSteps(options, run)
        if (manifest := work.sink.done_before()) is not None:
            return manifest
        start = run.do("start", work.start, Start)
        cut = run.do("plan", lambda meter: plan_of_reading(options, meter, start), ReadingPlan)
        run.progress.say(f"export: {cut.how}")
        run.do("read", lambda meter: work.read(meter, start, cut), total=cut.expected)
        since = run.do("late", lambda meter: work.late(meter, start), list[str])
        arranged = run.do("arrange", lambda meter: work.arrange(meter, start, since), Arranged)
        run.do("shards", lambda meter: work.publish(meter, start, cut, arranged))
        return ldif.require_manifest(options.output)


# --- a sample --------------------------------------------------------------------------------------------------------
#
# A sample has the entries whose entryUUID is in one of several ranges (windows). A bulk load into slapd generates
# entryUUIDs that are close together. So the number of all entries cannot be extrapolated from the windows: it comes
# from slapd's monitor, or from a search that requests no attributes.

_COUNT_FOR = 30.0  # seconds for counting the entries; slapd returns the names of some millions in this time
_READ_WHOLE = 100_000  # entries; a tree with at most this many is read whole, so that no large entry is missed
_SPREAD = 16  # minimum number of windows
_LEAST = 4  # windows are too small if they have less than 1/4 of the wanted entries
_WIDER = 8  # factor by which the windows of the next attempt are larger


def of_server(connection: Connection, wanted: SampleSize, scratch: Path, meter: Meter) -> Sample:
    """Returns a sample, with notes on data that the server hides. Reads all entries if they have no entryUUID. Raises
    LimitTooLow, EmptyInput, NoSuchBase, ServerDown."""
    options = ExportOptions(connection, scratch, pieces=1)
    start, cut = trial_plan(options, meter)
    (whole, *_) = cut.pieces(options.page)
    entries, counted = cut.expected, True
    if entries is None:
        entries, counted = _count(connection, whole.search, scratch, meter)
    parts, path = 1 if entries <= _READ_WHOLE else int(entries / wanted.of(entries)), scratch / "sample.ldif"
    distribution = None
    if parts > 1:
        with session(connection) as server:
            first = planner.sample(server, start.base)
        if (uuids := first.uuids()) is not None and not first.whole:
            distribution = planner.spread(uuids, cut.expected)
    while distribution and parts > 1:
        windows = structs.replace(distribution, each=max(distribution.each, _SPREAD))
        where = planner.filters(windows, parts)[parts // 2]
        source.fetch(connection, structs.replace(whole.search, where=where), path, meter)
        read = sampling.count(path)
        if read >= wanted.records / _LEAST:
            how = f"one of {units.number(parts)} parts by entryUUID"
            total = entries if counted else max(entries, parts * read)
            break
        parts //= _WIDER
    else:
        source.fetch(connection, whole.search, path, meter)
        how, total, counted = "all of it was read", 0, True  # `of_part` counts the entries
    sample = sampling.of_part([path], total, wanted, how, counted)
    return structs.replace(sample, notes=tuple(cut.hidden))


def _count(connection: Connection, search: Search, scratch: Path, meter: Meter) -> tuple[int, bool]:
    """Counts the entries by a search without attributes. Returns the count, and whether it is complete."""
    searches = {scratch / "names.ldif": structs.replace(search, attributes=("1.1",))}
    entries, _, whole = source.fetch_for(_COUNT_FOR, connection, searches, meter)
    for path in scratch.glob("*names.ldif"):
        path.unlink()
    return entries, whole
