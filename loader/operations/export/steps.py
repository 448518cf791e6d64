"""The steps of an export of a server."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from loader import csn, ldif
from loader.errors import LoaderError
from loader.ldif import Arrangement, ArrangeTask
from loader.operations import empty_suffix
from loader.operations.export.options import ExportOptions
from loader.operations.export.planning import (
    notes,
    plan_of,
    plan_of_reading,
    start_of,
)
from loader.operations.moved import MovedContainers
from loader.operations.pieces import Pieces
from loader.operations.replicas import Replicas, highest
from loader.operations.reread import Reread
from loader.operations.shards import PARTS, ShardDirectory
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.server.options import Connection
from loader.sources.planner import Piece, Plan
from loader.storage import files


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
        if empty_suffix.is_empty(start["base"]) and start["context_csns"]:
            empty_suffix.write(self.parts / f"part-{empty_suffix.FILE}")

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

    def _arrange(
        self, containers: MovedContainers, start: Facts, drop_orphans: bool
    ) -> Arrangement:
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
            self.sink.shard(name, entries, content, sums.get(name))
            for name, entries, content in arranged["files"]
        ]
        hidden, others = notes(self.options, meter, start, cut, arranged["entries"])
        whole = {**start, **arranged}
        return self.sink.finish(whole, shards, start["uri"], cut["how"], hidden, others)
