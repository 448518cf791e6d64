"""The steps of a build by slapadd: its input is read three times, for slapadd tells what is wrong late and briefly.

A stream is put into a file first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from loader import settings
from loader.defaults import ENGINES
from loader.errors import EmptyInput, EntriesLost, NotProven
from loader.mdb import contents, verify
from loader.mdb.meta import DATA
from loader.operations import estimate
from loader.operations.build import finish, inputs, native, shard_count, shards, spool
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase
from loader.operations.sizing import guard
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.sinks import slapadd
from loader.sources import names
from loader.storage import files

STEPS = (
    spool.STEP,
    "scan",
    "schema",
    "size",
    "slice",
    "load",
    "slices",
    "merge",
    "check",
    "publish",
)


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Facts]:
    """The steps up to a database that is made and checked; the call that publishes it. Each is done once."""
    options = spool.spooled(options, run)
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan)
    aliases = run.do("schema", lambda meter: work.schema(scan))["aliases"]
    size = run.do("size", lambda meter: work.size(meter, scan))
    sharing = shards.ShardSteps(options, run, place, scan, size, aliases)
    plan: Facts = {"shards": 1}
    if size["shards"] > 1:
        plan = run.do("slice", sharing.slice)
    if plan["shards"] > 1:
        loaded = _shared(run, work, sharing, plan)
    else:
        total = scan["entries"]
        loaded = run.do("load", lambda meter: work.load(meter, scan, size, aliases), total=total)
    spool.remove(run)
    checked = run.do("check", lambda meter: work.check(meter, scan, loaded))
    entries = scan["entries"]
    told = {"read": entries, "entries": entries, "rejected": 0, **size, **shards.told(plan)}
    return lambda: {**told, **run.do("publish", lambda meter: work.publish(scan, size, checked))}


def _shared(run: Run, work: _SlapaddSteps, sharing: shards.ShardSteps, plan: Facts) -> Facts:
    """By several slapadds."""
    total = plan["shared"] + plan["leaves"]
    run.do("slices", lambda meter: sharing.load(meter, plan), total=total)
    merged = run.do("merge", lambda meter: sharing.merge(meter, plan, work.made), total=total)
    files.remove_tree(sharing.home)
    return merged


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """slapadd follows every setting that its private configuration has. Raises SettingRefused."""
    settings.require(place.config, place.database, place.named)


def plan(options: BuildOptions, run: Run, place: TargetDatabase) -> Facts:
    """The steps before the load."""
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan)
    run.do("schema", lambda meter: work.schema(scan))
    size = run.do("size", lambda meter: work.size(meter, scan))
    return {"entries": scan["entries"], **size}


@dataclass(frozen=True)
class _SlapaddSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: BuildOptions
    run: Run
    place: TargetDatabase

    @property
    def made(self) -> Path:
        """The environment being made."""
        return self.run.directory / "environment"

    def scan(self, meter: Meter) -> Facts:
        return inputs.scan(self.options, self.place, meter)

    def schema(self, scan: Facts) -> Facts:
        """Asked before the long part: all unknown names at once, and which mean the same attribute."""
        inputs.require_schema(self.place, scan, self.run.directory)
        return {"aliases": inputs.aliases(self.place, scan)}

    def size(self, meter: Meter, scan: Facts) -> Facts:
        """How large the database will be; is there room, in maxsize and on the disk?"""
        needed = self._needed(meter, scan)
        maxsize = finish.choose_maxsize(self.options, self.place, needed)
        count = shard_count.shard_count(self.options, self.place, scan["entries"], needed)
        if not scan["first_dn"]:
            count = 1  # the entry of the empty DN has no node by which slices could be merged
        # Slices lie beside what is made of them.
        if self.options.check_space:
            files.require_space(self.place.directory, needed if count == 1 else 2 * needed)
        return {"estimate": needed, "maxsize": maxsize, "shards": count}

    def _needed(self, meter: Meter, scan: Facts) -> int:
        """From a sample that the core builds; from a pilot load where it cannot, or there are no files."""
        options = self.options
        try:
            if options.tree is None:
                target = native.target_of(options, self.place)
                found = guard.of_files(target, options.files, meter).bytes
                return found if options.engine == ENGINES[0] else round(found * estimate.MARGIN)
        except (NotProven, EmptyInput):
            pass
        with inputs.opened(options) as read:
            return estimate.needed(self.place, read, scan["entries"], self.run.directory, meter)

    def load(self, meter: Meter, scan: Facts, size: Facts, aliases: Mapping[str, str]) -> Facts:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        settings = {
            "olcDbDirectory": [str(self.made).encode()],
            "olcDbMaxSize": [str(size["maxsize"]).encode()],
        }
        place = self.place
        with place.private_configuration(self.run.directory, settings) as copy:
            server_id = finish.server_id(self.options, place)
            target = slapadd.Target(
                copy,
                place.database.suffix,
                self.made,
                size["maxsize"],
                server_id,
                self.options.check_schema,
            )
            own = self.options.write_context and not self.options.seeding
            with self.options.source.reading(meter) as read:
                claimed = scan["claimed"]
                written = slapadd.load(target, names(read), meter, claimed, own, aliases)
        killpoint("load.middle")
        return {"entries": written}

    def check(self, meter: Meter, scan: Facts, loaded: Facts) -> Facts:
        """Every entry that was read is in the database, and the database is sound."""
        finish.complete(self.options, self.made, self.place, meter)
        inside = contents.entry_count(self.made)
        if not scan["entries"] == loaded["entries"] == inside:
            raise EntriesLost(read=scan["entries"], written=inside, log=self.run.directory)
        verify.verify(self.made, self.options.verify, meter)
        return {"identity": files.identity(self.made / DATA), **finish.notes(self.place, self.made)}

    def publish(self, scan: Facts, size: Facts, checked: Facts) -> Facts:
        counts = (scan["entries"], size["maxsize"])
        return finish.publish(self.options, self.place, self.made, checked, *counts)
