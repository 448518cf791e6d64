"""Export a live server: partitions read side by side, arranged into shards that load in order, with a manifest.

Steps: start, survey, containers, read, late, arrange, shards. `export_steps` serves `replica seed` too.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader import defaults, ldif, manifest
from loader.errors import EmptyInput, LoaderError, TargetNotEmpty, TreeRestless
from loader.ldif import Arrangement, Arranging
from loader.manifest import Manifest
from loader.operations import moved
from loader.operations.moved import Containers
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import session
from loader.sources import ldap as source
from loader.sources.ldap import Partition, Plan
from loader.storage import files

STEPS = ("start", "survey", "containers", "read", "late", "arrange", "shards")
# In the run directory:
PARTS, ARRANGED, NOTED = "parts", "arranged", "containers.ldif.zst"
RUN_DIR = ".ditseed"  # inside the output directory


@dataclass(frozen=True)
class ExportOptions:
    """What to read, and where to. `page` in entries, `jobs` in connections."""

    connection: Connection
    output: Path
    jobs: int = 2
    page: int = defaults.PAGE_SIZE
    compress: str = defaults.COMPRESS

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        return {**self.connection.identity(), "page": self.page, "compress": self.compress}


def export(
    options: ExportOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False
) -> Manifest:
    """Run or resume an export into a directory; its manifest."""
    files.require_writable(options.output)
    run_dir = options.output / RUN_DIR
    if not run_dir.exists() and options.output.is_dir() and any(options.output.iterdir()):
        raise TargetNotEmpty(path=options.output, size="not an export of ditseed")
    made = not options.output.exists()
    try:
        with open_run(run_dir, "export", options.identity(), progress, timeouts, restart) as run:
            return export_steps(options, run)
    except LoaderError:
        # Refused before anything was read: nothing is worth keeping, and nothing shall have changed.
        if made and not (run_dir / PARTS).exists():
            files.remove_tree(options.output)
        raise


def export_steps(options: ExportOptions, run: Run) -> Manifest:
    """The named steps of an export, within a run that may have more."""
    known = manifest.read(options.output)
    if known is not None and run.catalogue.found("shards") is not None:
        run.progress.say("export: done before")
        return known
    work = _Work(options, run)
    start = run.do("start", work.start)
    base = str(start["base"])
    survey = run.do("survey", lambda meter: work.survey(meter, base))
    run.do("containers", lambda meter: work.containers(meter, base))
    run.do("read", lambda meter: work.read(meter, _plan_of(survey)), total=survey["entries"])
    late = run.do("late", lambda meter: work.late(meter, start))
    since = late["context_csns"]
    arranged = run.do("arrange", lambda meter: work.arrange(meter, start, since))
    run.do("shards", lambda meter: work.publish(start, survey, arranged))
    found = manifest.read(options.output)
    assert found is not None
    return found


@dataclass(frozen=True)
class _Work:
    """The steps' bodies. Each can be done again from its beginning."""

    options: ExportOptions
    run: Run

    @property
    def parts(self) -> Path:
        return self.run.directory / PARTS

    @property
    def arranged(self) -> Path:
        return self.run.directory / ARRANGED

    @property
    def noted(self) -> Path:
        """Where the containers were."""
        return self.run.directory / NOTED

    def start(self, meter: Meter) -> Facts:
        """Fix the base, and the contextCSN from which syncrepl will go on: read before the first entry is. What an
        earlier run left is of another time."""
        files.remove_tree(self.parts)
        with session(self.options.connection) as server:
            base = server.base()
            server.read(base, ["1.1"])
            return {
                "base": base,
                "context_csns": moved.context_csns(server, base),
                "started": _now(),
                "uri": server.uri,
            }

    def survey(self, meter: Meter, base: str) -> Facts:
        connection, options = self.options.connection, self.options
        found = source.survey(connection, base, meter)
        if not found.entries:
            raise EmptyInput(path=f"{connection.uri} {base}")
        if found.without == found.entries:
            with session(connection) as server:
                plan = source.plan_by_subtree(server, base, options.page)
        else:
            plan = source.plan_by_csn(base, found, options.jobs, options.page)
        return {
            "entries": found.entries,
            "how": plan.how,
            "partitions": [_facts_of(one) for one in plan.partitions],
        }

    def read(self, meter: Meter, plan: Plan) -> Facts:
        """Partitions side by side; a finished one is never read again."""
        self.parts.mkdir(exist_ok=True)
        done = self.run.catalogue.partitions("read")
        meter.add(sum(facts["entries"] for facts in done.values()))
        todo = [one for one in plan.partitions if one.name not in done]
        with ThreadPoolExecutor(self.options.jobs) as pool:
            futures = [pool.submit(self._read_one, partition, meter) for partition in todo]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                meter.cancel()
                raise
        return {"entries": meter.entries}

    def _read_one(self, partition: Partition, meter: Meter) -> None:
        target = self.parts / f"part-{partition.name}.ldif.zst"
        found = source.fetch(self.options.connection, partition.search, target, meter)
        facts = {"entries": found.entries, "bytes": found.bytes}
        self.run.catalogue.finish_partition("read", partition.name, facts)
        killpoint("read.partition")

    def containers(self, meter: Meter, base: str) -> Facts:
        """Where every container is, before the first entry is read."""
        moved.note_containers(self.options.connection, base, self.noted, meter)
        return {"entries": meter.entries}

    def late(self, meter: Meter, start: Facts) -> Facts:
        """Read again what moved meanwhile."""
        for path in self.parts.glob("late-*"):
            path.unlink()  # of an interrupted try: what is read later must also be named later
        since = start["context_csns"]
        if since:
            since = self._containers(meter, start["base"]).settle(since)
        return {"entries": meter.entries, "context_csns": since}

    def _containers(self, meter: Meter, base: str) -> Containers:
        options = self.options
        return Containers(options.connection, base, options.page, self.noted, self.parts, meter)

    def arrange(self, meter: Meter, start: Facts, since: Sequence[str]) -> Facts:
        """Each entry once, parents first. Nothing that was read may go missing on the way."""
        containers = self._containers(meter, start["base"])
        found = self._arrange(meter, start, drop_orphans=False)
        for _ in range(moved.LOOKS):
            if not found.orphans:
                return {
                    "entries": found.entries,
                    "duplicates": found.duplicates,
                    "dropped": found.dropped,
                    "checksum": found.checksum,
                    "shards": sorted(path.name for path in self.arranged.iterdir()),
                }
            again = containers.missed(found.orphans, start["context_csns"])
            for asked in again:
                containers.read_again(asked)
            if again:
                since = containers.settle(since)
            found = self._arrange(meter, start, drop_orphans=not again)
        raise TreeRestless(base=start["base"], passes=moved.LOOKS)

    def _arrange(self, meter: Meter, start: Facts, drop_orphans: bool) -> Arrangement:
        files.remove_tree(self.arranged)
        self.arranged.mkdir()
        task = Arranging(
            paths=sorted(self.parts.glob("part-*.ldif.zst")),
            again=sorted(self.parts.glob("late-*.ldif.zst")),
            root=start["base"],
            context_csns=start["context_csns"],
            compress=self.options.compress != "none",
            drop_orphans=drop_orphans,
        )
        return ldif.arrange(task, self.arranged, meter)

    def publish(self, start: Facts, survey: Facts, arranged: Facts) -> Facts:
        """Move the shards to their place, the manifest last: where it stands, the export is whole."""
        output, names = self.options.output, arranged["shards"]
        (output / manifest.FILE).unlink(missing_ok=True)
        for path in output.glob("[0-9]*.ldif*"):
            if path.name not in names:
                path.unlink()  # of an export that was here before
        for name in names:
            if (self.arranged / name).exists():  # else it was moved before a kill
                files.publish(self.arranged / name, output / name)
        killpoint("shards.middle")
        shards = tuple(manifest.describe(output / name) for name in names)
        made = Manifest(
            base=start["base"],
            entries=arranged["entries"],
            content_checksum=arranged["checksum"],
            context_csns=tuple(start["context_csns"]),
            shards=shards,
            source=start["uri"],
            started=start["started"],
            finished=_now(),
            partitions=survey["how"],
            duplicates=arranged["duplicates"],
        )
        files.write_durably(self.options.output / manifest.FILE, made.text())
        clear(self.run.directory)
        return {"entries": made.entries}


def clear(run_dir: Path) -> None:
    """Remove what the steps of an export put into its run directory on their way."""
    for name in (PARTS, ARRANGED):
        files.remove_tree(run_dir / name)
    for name in (NOTED, moved.LOOK):
        (run_dir / name).unlink(missing_ok=True)


def _facts_of(partition: Partition) -> Facts:
    search = partition.search
    return {
        "name": partition.name,
        "base": search.base,
        "where": search.where,
        "scope": search.scope,
        "page": search.page,
    }


def _plan_of(survey: Facts) -> Plan:
    def partition(facts: dict[str, Any]) -> Partition:
        return Partition(
            facts["name"], Search(facts["base"], facts["where"], facts["scope"], page=facts["page"])
        )

    return Plan(tuple(partition(facts) for facts in survey["partitions"]), survey["how"])


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
