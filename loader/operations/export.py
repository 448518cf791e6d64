"""What an export of a server reads, and where to."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loader import csn, defaults, exports, ldif
from loader.common_options import ExportLimits
from loader.errors import EmptyInput, LimitTooLow, LoaderError, ServerRefused
from loader.exports import Manifest
from loader.ldif import Arrangement, ArrangeTask
from loader.operations import moved, packaged
from loader.operations import replicas as sights
from loader.operations.moved import MovedContainers, Reread
from loader.operations.pieces import Pieces
from loader.operations.replicas import Replicas, highest, lowest, require_like, require_same
from loader.operations.shards import PARTS, Finished, ShardDirectory, into, now, require_output
from loader.progress import Meter, Progress
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.server import questions, visibility
from loader.server.options import Connection, Search
from loader.server.session import Session, session
from loader.sources import ldap, planner
from loader.sources import ldap as source
from loader.sources.ldap import Narrowing
from loader.sources.planner import Piece, Plan
from loader.storage import files, held


@dataclass(frozen=True)
class ExportOptions(ExportLimits):
    """What to read, and where to."""

    connection: Connection
    output: Path
    jobs: int = field(default=2, kw_only=True)  # to each provider
    compress: str = defaults.COMPRESS
    narrowing: Narrowing | None = None  # for a partial replica: not all entries, not whole
    looked: bool = False  # the caller has seen what the server hides, and goes on
    replicas: tuple[Connection, ...] = ()  # more providers of the same tree

    @property
    def providers(self) -> tuple[Connection, ...]:
        return (self.connection, *self.replicas)

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        more = {"replicas": [one.uri for one in self.replicas]} if self.replicas else {}
        return {**self.connection.identity(), "pieces": self.pieces, "compress": self.compress, **more}


# --- planning --------------------------------------------------------------------------------------------------------
#
# The plan of an export: from which contextCSN, in which pieces, and whether the servers let all of it be read.


def start_of(options: ExportOptions) -> Facts:
    """The base and the contextCSN, of several providers the least."""
    found = [_start_of(options, one) for one in options.providers]
    require_same(found)
    return {**found[0], "context_csns": lowest([one["context_csns"] for one in found])}


def _start_of(options: ExportOptions, connection: Connection) -> Facts:
    with session(connection) as server:
        base = server.spelt(server.base())
        uuids = server.read(base, ["entryUUID"]).get("entryuuid", [])
        return {
            "base": base,
            "uuid": [one.decode("utf-8", "replace") for one in uuids],
            "context_csns": moved.context_csns(server, base),
            # No search that a consumer makes shows them.
            "subentries": not options.narrowing and server.offers_subentries(base),
            "attributes": questions.everything(server),
            "started": now(),
            "uri": server.uri,
        }


def plan_of_reading(options: ExportOptions, meter: Meter, start: Facts) -> Facts:
    """Look at the first entries, and cut; once more when the connection breaks."""
    return source.with_retries(lambda: _plan(options, meter, start), meter)


def trial_plan(options: ExportOptions, meter: Meter) -> Facts:
    """For a dry run: the plan, if the servers' limits let all of it be read. A real reading is told of them at once.
    Raises LimitTooLow."""
    start = start_of(options)
    cut = plan_of_reading(options, meter, start)
    _require_limits(options, str(start["base"]), plan_of(cut, options.page).partitions)
    return {**start, **cut}


def _plan(options: ExportOptions, meter: Meter, start: Facts) -> Facts:
    base = str(start["base"])
    replicas = Replicas(options.providers, base, meter)
    connection = replicas.living()
    with session(connection) as server:
        looked = planner.sample(server, base)
        if not looked.entries:
            raise EmptyInput(path=f"{connection.uri} {base}")
        _require_like(options, server, looked, replicas)
        jobs = options.jobs * len(options.providers)
        pieces = options.pieces or (1 if looked.whole else jobs)
        entries = planner.expected(server, base)
        cut = planner.plan(server, base, looked, pieces, start["context_csns"], entries)
        narrowing = options.narrowing
        partitions = [*cut.partitions, *planner.subentry_pieces(base, start["subentries"])]
        if narrowing:
            partitions = list(narrowing.partitions(cut.partitions))
        return {
            "expected": entries,
            "how": cut.how,
            "containers": looked.containers(),
            "hidden": [] if options.looked else _hidden(server, base, looked, narrowing),
            "attributes": (narrowing.of(Search(base)).attributes if narrowing else start["attributes"]),
            "partitions": [_facts_of(one) for one in partitions],
        }


def _require_limits(options: ExportOptions, base: str, partitions: Sequence[Piece]) -> None:
    """Each provider may get any of the partitions. Raises LimitTooLow."""
    for connection in options.providers:
        with session(connection) as server:
            ldap.require_readable(server, base, partitions, options.page)


def _require_like(options: ExportOptions, leader: Session, looked: planner.Sample, replicas: Replicas) -> None:
    """Of several providers: does each show the same, and as much as the first?"""
    if not options.replicas:
        return
    names = [name for name, _ in looked.entries]
    for number, csns in replicas.told().items():
        if options.providers[number] is not leader.connection:
            with session(options.providers[number]) as other:
                require_like(leader, other, names, csns)


def _hidden(server: Session, base: str, looked: planner.Sample, narrowing: Narrowing | None) -> list[str]:
    """What the server hides of what is wanted, as far as a sample tells."""
    try:
        sight = visibility.compare_sample(server, base, narrowing.wants if narrowing else None)
    except (LimitTooLow, ServerRefused):
        sight = None
    if sight is not None:
        return sights.notes(sight)
    if looked.lack_passwords() and (narrowing is None or narrowing.wants("userPassword")):
        return [f"no entry shows {server.connection.who} a userPassword: access control may hide it"]
    return []


def notes(options: ExportOptions, meter: Meter, start: Facts, cut: Facts, entries: int) -> tuple[list[str], list[str]]:
    """What the operator should know when so many entries were read: what the server hides or shows otherwise than it is
    stored, and the rest."""
    hidden = list(cut["hidden"])
    counted, calm = source.with_retries(lambda: _counted(options, meter, start), meter)
    if options.narrowing:
        return hidden, []
    if packaged.is_empty(start["base"]) and start["context_csns"] and counted is not None:
        counted = max(counted, entries)  # the root may not be stored yet
    if counted is None or counted == entries:
        return hidden, []
    counts = f"the server counts {counted:,} entries"
    if not calm or counted < entries:
        return hidden, [f"{counts}: the tree changed meanwhile; syncrepl brings the rest"]
    others = "" if start["subentries"] else ", or they are subentries"
    who = options.connection.who
    return [*hidden, f"{counts}: access control hides the others from {who}{others}"], []


def _counted(options: ExportOptions, meter: Meter, start: Facts) -> tuple[int | None, bool]:
    """Entries that the server has, and whether nothing has changed since the start."""
    base = start["base"]
    with session(Replicas(options.providers, base, meter).living()) as server:
        counted = planner.expected(server, base)
        return counted, moved.context_csns(server, base) == start["context_csns"]


def _facts_of(partition: Piece) -> Facts:
    search = partition.search
    facts = {"base": search.base, "where": search.where, "scope": search.scope, "subentries": search.subentries}
    return {"name": partition.name, **facts}


def plan_of(cut: Facts, page: int) -> Plan:
    attributes = tuple(cut["attributes"])

    def partition(facts: dict[str, Any]) -> Piece:
        asked = (facts["base"], facts["where"], facts["scope"], attributes, page)
        search = Search(*asked, subentries=facts["subentries"])
        return Piece(facts["name"], search)

    return Plan(tuple(partition(facts) for facts in cut["partitions"]), cut["how"])


# --- steps -----------------------------------------------------------------------------------------------------------
#
# The steps of an export of a server.


@dataclass(frozen=True)
class ExportSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: ExportOptions
    run: Run

    @property
    def parts(self) -> Path:
        return self.run.directory / PARTS

    @property
    def sink(self) -> ShardDirectory:
        return ShardDirectory(self.options.output, self.run)

    def start(self, meter: Meter) -> Facts:
        """Fix the base, and the contextCSN from which syncrepl will go on: read before the first entry is. What an
        earlier run left is of another time."""
        files.remove_tree(self.parts)
        return start_of(self.options)

    def plan(self, meter: Meter, start: Facts) -> Facts:
        return plan_of_reading(self.options, meter, start)

    def _replicas(self, meter: Meter, start: Facts) -> Replicas:
        return Replicas(self.options.providers, start["base"], meter)

    def read(self, meter: Meter, plan: Plan) -> Facts:
        """Partitions side by side; a finished one is never read again."""
        self.parts.mkdir(exist_ok=True)
        self._add_root()
        done = self._pieces.done()
        meter.add(sum(done.values()))
        self._pieces.read([one for one in plan.partitions if one.name not in done], meter)
        return {"entries": meter.entries}

    @property
    def _pieces(self) -> Pieces:
        options = self.options
        return Pieces(
            self.parts,
            self.run.catalogue,
            options.providers,
            options.jobs,
            options.compress != "none",
            options.max_rate,
            options.max_latency,
        )

    def _add_root(self) -> None:
        """What no search shows, and must be there to bear contextCSN."""
        start = self.run.catalogue.found("start") or {}
        if packaged.is_empty(start["base"]) and start["context_csns"]:
            packaged.write(self.parts / f"part-{packaged.FILE}")

    def late(self, meter: Meter, start: Facts) -> Facts:
        """Read again what moved meanwhile; nothing did where the contextCSN still is that of the start."""
        for _ in self.options.replicas:
            try:
                return self._late(meter, start)
            except LoaderError as error:
                if not error.retryable:
                    raise
                meter.note = f"{error}; asking another provider"
        return self._late(meter, start)

    def _late(self, meter: Meter, start: Facts) -> Facts:
        for path in self.parts.glob("late-*"):
            path.unlink()  # of an interrupted try: what is read later must also be named later
        since = start["context_csns"]
        told, looker = self._settled(meter, start)
        narrowing = self.options.narrowing
        flat = narrowing is not None and narrowing.is_flat
        calm = flat or all(csns == since for csns in told.values())
        killpoint("late.middle")
        if not calm:
            since = self.containers(meter, start, looker).settle(since)
        return {"entries": meter.entries, "context_csns": since, "calm": calm}

    def _settled(self, meter: Meter, start: Facts) -> tuple[dict[int, list[str]], Connection]:
        """The contextCSN of each provider that pieces were read from, and a provider that has seen all of that.

        What a provider that died has shown may be lost with it: its pieces are read again from those that live.
        """
        replicas = self._replicas(meter, start)
        while True:
            told = replicas.told()
            lost = self._lost(told)
            if lost:
                self._pieces.read(lost, meter, told)
                continue
            looker = replicas.covering(highest(told.values()))
            if looker is not None:
                return told, looker
            if replicas.told().keys() >= told.keys():
                raise replicas.apart()

    def _lost(self, living: Collection[int]) -> list[Piece]:
        """Pieces that were read from others than these."""
        names = self._pieces.read_elsewhere(living)
        if not names:
            return []
        cut = self.run.catalogue.found("plan")
        assert cut is not None, "pieces were read"
        return [one for one in plan_of(cut, self.options.page).partitions if one.name in names]

    def containers(self, meter: Meter, start: Facts, looker: Connection) -> MovedContainers:
        options = self.options
        where = (looker, start["base"], options.page, options.compress != "none")
        began = start["context_csns"]
        subentries = start["subentries"]
        return MovedContainers(*where, self.parts, began, meter, subentries, options.narrowing)

    def arrange(self, meter: Meter, start: Facts, late: Facts) -> Facts:
        """Each entry once, parents first. Nothing that was read may go missing on the way."""
        since = late["context_csns"]
        replicas = self._replicas(meter, start)
        looker = replicas.covering(csn.by_server(since))
        if looker is None:
            raise replicas.apart()
        containers = self.containers(meter, start, looker)
        narrowing = self.options.narrowing
        if narrowing:
            # Whoever builds puts glue in the place of parents that are not wanted, so an orphan shows nothing, and the
            # containers are looked at once more in any case.
            if since and not narrowing.is_flat:
                containers.settle(since)
            return self._arranged(self._arrange(containers, {**start, "context_csns": []}, False))
        read_again = Reread(containers, start["context_csns"], since)
        found = self._arrange(containers, start, drop_orphans=False)
        while found.orphans:
            some = read_again.for_orphans(found.orphans)
            found = self._arrange(containers, start, drop_orphans=not some)
        return self._arranged(found)

    def _arranged(self, found: Arrangement) -> Facts:
        names = ("entries", "duplicates", "dropped", "checksum", "files")
        return {**{name: getattr(found, name) for name in names}, "taken": dict(found.taken)}

    def _arrange(self, containers: MovedContainers, start: Facts, drop_orphans: bool) -> Arrangement:
        arranged = self.sink.empty_arranged()
        task = ArrangeTask(
            paths=self._files("part"),
            again=self._files("late"),
            root=start["base"],
            context_csns=start["context_csns"],
            compress=self.options.compress != "none",
            drop_orphans=drop_orphans,
            name_orphans=self.options.narrowing is None,
        )
        found = ldif.arrange(task, arranged, containers.meter)
        containers.require_renamed(found.renamed)
        return found

    def _files(self, kind: str) -> list[Path]:
        found = (self.parts.glob(f"{kind}-*{suffix}") for suffix in (".ldif", ".ldif.zst"))
        return sorted(path for paths in found for path in paths)

    def publish(self, meter: Meter, start: Facts, cut: Facts, arranged: Facts) -> Facts:
        """Move the shards to their place, and write the manifest."""
        read = self._pieces.sums()  # of shards that are files as they were read
        sums = {name: read.get(part) for name, part in arranged["taken"].items()}
        self.sink.take([name for name, *_ in arranged["files"]])
        shards = [
            self.sink.shard(name, entries, content, sums.get(name)) for name, entries, content in arranged["files"]
        ]
        hidden, others = notes(self.options, meter, start, cut, arranged["entries"])
        whole = {**start, **arranged}
        return self.sink.finish(whole, shards, start["uri"], cut["how"], hidden, others)


# --- export ----------------------------------------------------------------------------------------------------------
#
# Export a running server: pieces are read in parallel and arranged into shards that load in order, with a manifest.
#
# Steps: start, plan, read, late, arrange, shards. `export_steps` serves `replica seed` too.


STEPS = ("start", "plan", "read", "late", "arrange", "shards")


def export(options: ExportOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False) -> Finished:
    """Run or resume an export into a directory."""
    with into(options.output, options.identity(), progress, timeouts, restart) as run:
        return Finished(export_steps(options, run), run.told_before())


def plan(options: ExportOptions, progress: Progress) -> Facts:
    """What an export would do, as far as can be told without reading the entries: is the output free, do the servers
    answer, hold the base, and let all of it be read? Writes nothing. Raises as `export` does."""
    require_output(options.output)
    with progress.step("plan") as meter:
        cut = trial_plan(options, meter)
    return {
        "base": cut["base"],
        "entries": cut["expected"] if cut["expected"] is not None else "the server does not tell",
        "read_as": cut["how"],
        "context_csns": cut["context_csns"],
        "notes": cut["hidden"],
        "output": str(options.output),
        "dry_run": "nothing was written",
    }


def export_steps(options: ExportOptions, run: Run) -> Manifest:
    """The named steps of an export, within a run that may have more. The output directory is there."""
    with held.opened(options.output) as output:
        return _export_steps(dataclasses.replace(options, output=output.path), run)


def _export_steps(options: ExportOptions, run: Run) -> Manifest:
    work = ExportSteps(options, run)
    known = work.sink.done_before()
    if known is not None:
        return known
    start = run.do("start", work.start)
    cut = run.do("plan", lambda meter: work.plan(meter, start))
    run.progress.say(f"export: {cut['how']}")
    run.do("read", lambda meter: work.read(meter, plan_of(cut, options.page)), total=cut["expected"])
    late = run.do("late", lambda meter: work.late(meter, start))
    arranged = run.do("arrange", lambda meter: work.arrange(meter, start, late))
    run.do("shards", lambda meter: work.publish(meter, start, cut, arranged))
    return exports.require(options.output)
