"""The steps of a build by the native core: one call reads the input once, and writes the data file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loader import exports, resources, units
from loader.errors import AllRejected, EntriesLost
from loader.mdb import edits, meta, verify
from loader.mdb.meta import DATA
from loader.mdb.snapshot import Snapshot
from loader.operations.build import finish, inputs, proven
from loader.operations.build.options import FULL, BuildOptions
from loader.operations.publish import TargetDatabase
from loader.operations.sizing import guard
from loader.operations.sizing.guard import Limits
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.sinks import mdb
from loader.sinks.configured import schema_of
from loader.sinks.mdb import (
    BuildRules,
    Built,
    LiveSource,
    Rejection,
    Resources,
    Target,
    Transferred,
)
from loader.storage import files

STEPS = ("config", "scan", "schema", "load", "check", "publish")
LARGEST = 1 << 46  # bytes, within what a process can map; while the size is chosen afterwards
SHARE = 4  # of the memory there is, this part by default


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Facts]:
    """The steps up to a database that is made and checked; the call that publishes it. Each is done once."""
    work = NativeSteps(options, run, place)
    run.do("config", work.config)
    scan = _looked_at(options, run, work)
    total = scan.get("entries") or options.source.entries()
    proven.require_numbers(total, options)
    loaded = run.do("load", lambda meter: work.load(meter, scan), total=total)
    checked = run.do("check", lambda meter: work.check(meter, loaded))
    return lambda: {**loaded, **run.do("publish", lambda meter: work.publish(loaded, checked))}


def _looked_at(options: BuildOptions, run: Run, work: NativeSteps) -> Facts:
    """A consumer's contextCSN must be known before its first entry is written; what else that look shows is used."""
    if not options.seeding:
        return {}
    scan = run.do("scan", work.scan)
    run.do("schema", lambda meter: work.schema(scan))
    return scan


def plan(options: BuildOptions, run: Run, place: TargetDatabase) -> None:
    """Is it proven that the core makes what slapd would?"""
    proven.require_numbers(options.source.entries(), options)
    run.do("config", NativeSteps(options, run, place).config)


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """The same, without a step. Raises NotProven."""
    assert target_of(options, place)


def target_of(options: BuildOptions, place: TargetDatabase) -> Target:
    """What the configuration says now. Raises NotProven."""
    settings = proven.settings(place.config, place.database, options, place.superior)
    known = schema_of(
        place.config, place.named, settings.attribute_options, seeding=options.seeding
    )
    proven.require_rules(known.foreign(), known.unproven(settings.attributes))
    return Target(
        settings=settings,
        schema=known,
        tables=proven.tables(),
        map_size=_map_size(options, place),
        server_id=finish.server_id(options, place),
    )


def limits_of(options: BuildOptions, place: TargetDatabase) -> Limits:
    chosen = place.database.maxsize if options.maxsize is None else options.maxsize
    maxsize = None if isinstance(chosen, str) else chosen
    return Limits(place.database.suffix, maxsize, place.directory if options.check_space else None)


def _map_size(options: BuildOptions, place: TargetDatabase) -> int:
    if options.maxsize is None:
        return place.database.maxsize
    return LARGEST if isinstance(options.maxsize, str) else options.maxsize


@dataclass(frozen=True)
class NativeSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: BuildOptions
    run: Run
    place: TargetDatabase

    @property
    def made(self) -> Path:
        """The environment being made."""
        return self.run.directory / "environment"

    @property
    def rejects(self) -> Path:
        return self.options.rejects or self.run.directory / "rejects.ldif"

    @cached_property
    def target(self) -> Target:
        return target_of(self.options, self.place)

    def config(self, meter: Meter) -> Facts:
        """What is refused is refused here, before anything is read."""
        with files.explained(self.rejects):
            self.rejects.parent.stat()
        files.require_writable(self.rejects.parent)
        return {"tables": self.target.tables}

    def scan(self, meter: Meter) -> Facts:
        return inputs.scan(self.options, self.place, meter)

    def schema(self, scan: Facts) -> Facts:
        inputs.require_schema(self.place, scan, self.run.directory)
        return {}

    def load(self, meter: Meter, scan: Facts) -> Facts:
        """One native call; what it could not take is told, or refused."""
        self._require_room()
        with self.options.source.reading(meter) as read:
            loaded = self.make(meter, read, scan.get("claimed"))
        exports.require_entries(self.options.inputs, loaded["read"])
        return loaded

    def make(
        self,
        meter: Meter,
        read: Sequence[mdb.Input],
        claimed: Sequence[str] | None,
        beside: LiveSource | None = None,
        account: bool = False,
    ) -> Facts:
        """The database of what is read. `claimed`, `beside` and `account` as in `loader.sinks.mdb`."""
        with self._making() as (partial, means):
            how = (self._rules(claimed, account), means, meter)
            built = mdb.build(self.target, read, partial, *how, beside=beside)
        self._require_accepted(built)
        if built.stale:
            edits.remove_entries(self.made, built.stale)
        return {**self._told(built), **({"completed": built.completed} if account else {})}

    def _require_accepted(self, built: Built) -> None:
        """However many may be rejected: a database without entries must not replace another one. Raises AllRejected."""
        if built.rejected and not built.entries:
            first = built.rejections[0]
            raise AllRejected(
                path=", ".join(map(str, self.options.inputs)) or "the input",
                rejected=units.number(built.rejected),
                dn=first.dn,
                reason=first.reason,
                rejects=self.rejects,
            )

    def transfer(self, meter: Meter, source: Snapshot) -> Facts:
        """The database of the records of another one, as they are. Raises NotProven where they would be others."""
        with self._making() as (partial, means):
            made = mdb.transfer(self.target, source, partial, means, meter)
        return {
            "read": made.entries,
            "entries": made.entries,
            "rejected": 0,
            "left_out": 0,
            "records": made.checksum,
            "tables": made.tables,
            **_misfits(made),
        }

    def records_checksum(self, meter: Meter) -> str:
        """Of what `transfer` made, as the disk has it."""
        jobs = self.options.jobs or resources.processors()
        return mdb.records_checksum(self.made / DATA, jobs, meter)

    @contextmanager
    def _making(self) -> Iterator[tuple[Path, Resources]]:
        """A place for the new file, which is there under its own name afterwards, and what may be used."""
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        with files.explained(self.rejects):
            self.rejects.unlink(missing_ok=True)
        partial = self.made / (DATA + files.PARTIAL)
        with self._scratch() as scratch:
            yield partial, self._means(scratch)
        killpoint("load.middle")
        files.publish(partial, self.made / DATA)

    def _require_room(self) -> None:
        """Raises MaxsizeTooSmall, NoSpace before the load; `--maxsize auto` chooses the size afterwards."""
        if self.options.tree is None:
            given, limits = self.options.files, limits_of(self.options, self.place)
            guard.require_room(self.target, given, limits, Meter("sample"))

    def _rules(self, claimed: Sequence[str] | None, account: bool) -> BuildRules:
        options = self.options
        return BuildRules(
            now=inputs.input_time(options),
            first=options.first,
            value_check=self._value_check(),
            check_schema=options.check_schema,
            complete_naming=options.complete_naming,
            account=account,
            file_urls=options.file_urls,
            max_rejects=options.max_rejects,
            write_context=options.write_context and not options.seeding,
            claimed=claimed,
        )

    def _value_check(self) -> mdb.ValueCheck:
        """A consumer gets what its provider has, whatever got in there long ago."""
        if self.options.seeding or self.options.claimed is not None:  # the latter: a part of one
            return "count"
        return "refuse" if self.options.check_values else "skip"

    def _means(self, scratch: Path) -> Resources:
        options = self.options
        return Resources(
            memory=options.memory or resources.memory() // SHARE,
            jobs=options.jobs or resources.processors(),
            scratch=scratch,
            rejects=self.rejects,
        )

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A place for what does not fit into memory; of the same name each time, so that a kill leaves nothing long."""
        name = "sort-" + hashlib.sha256(bytes(self.run.name)).hexdigest()[:12]
        place = (self.options.scratch or self.run.directory) / name
        files.remove_tree(place)
        with files.explained(place):
            place.mkdir(mode=0o700)
        try:
            yield place
        finally:
            files.remove_tree(place)

    def _told(self, built: Built) -> Facts:
        kept = {"rejects": str(self.rejects)} if built.rejected else {}
        return {
            "read": built.read,
            "entries": built.entries,
            "rejected": built.rejected,
            "left_out": built.duplicates + built.dropped,
            **{name: count for name, count in _left_out(built) if count},
            **({"stale": len(built.stale)} if built.stale else {}),
            "rejections": [_rejection(one) for one in built.rejections],
            "phases": built.phases,
            "tables": built.tables,
            **kept,
            **_misfits(built),
        }

    def check(self, meter: Meter, loaded: Facts) -> Facts:
        """Every entry that was read is in the database or among the rejects, and the database is sound."""
        finish.complete(self.options, self.made, self.place, meter)
        facts = meta.read_meta(self.made)
        maxsize = finish.choose_maxsize(self.options, self.place, facts.used)
        if maxsize != facts.map_size:
            edits.set_map_size(self.made / DATA, maxsize)
        written = self._verified(meter, loaded)
        expected = loaded["read"] - loaded["rejected"] - loaded["left_out"]
        if expected != written or loaded["entries"] != written:
            raise EntriesLost(read=loaded["read"], written=written, log=self.run.directory)
        told = finish.notes(self.place, self.made)
        return {"identity": files.identity(self.made / DATA), "maxsize": maxsize, **told}

    def _verified(self, meter: Meter, loaded: Facts) -> int:
        """Entries as counted in the file; at level `none` as told."""
        level = self.options.verify
        if level in verify.DEEPER:
            verify.verify(self.made, level, meter)
        if level == "none":
            return int(loaded["entries"])
        with self._scratch() as scratch:
            means = self._means(scratch)
            new = not loaded.get("stale")
            return mdb.verify(self.target, self.made / DATA, level == FULL, means, meter, new)

    def publish(self, loaded: Facts, checked: Facts) -> Facts:
        counts = (loaded["entries"], checked["maxsize"])
        return finish.publish(self.options, self.place, self.made, checked, *counts)


def _left_out(built: Built) -> tuple[tuple[str, int], ...]:
    """Why, in the parts that make up `left_out`."""
    return ("read_twice", built.duplicates), ("without_parent", built.dropped)


def _misfits(built: Built | Transferred) -> Facts:
    """Values that their syntax forbids, as the report shows them."""
    told = [f"{count} of {name} ({syntax})" for name, syntax, count in built.misfits]
    return {finish.INVALID: told} if told else {}


def _rejection(one: Rejection) -> list[object]:
    return [one.path and str(one.path), one.line, one.dn, one.reason]
