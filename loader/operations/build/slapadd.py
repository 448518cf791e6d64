"""The steps of a build by slapadd: its input is read three times, for slapadd tells what is wrong late and briefly.

A stream is put into a file first. Several slapadds may share a load, each with a slice of the input and an environment
of its own; these are merged at the end. slapadd -q is one writer that puts index keys where they belong: it crawls once
its database outgrows memory, and uses one processor. A smaller database fits, and as many can grow at a time as there
are processors.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loader import backmdb, ldif, resources, units
from loader.child import Child
from loader.defaults import ENGINES
from loader.errors import EmptyInput, EntriesLost, LdifUnreadable, LoaderError, NotProven
from loader.mdb import contents, meta, verify
from loader.mdb.meta import DATA
from loader.operations.build import finish, inputs, native
from loader.operations.build.options import MOST_SHARDS, BuildOptions
from loader.operations.publish import TargetDatabase
from loader.operations.room import choose_maxsize
from loader.operations.sizing import sampled
from loader.piped import piped
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.server import tools
from loader.sinks import slapadd
from loader.sinks.slapadd import GeneratedAttributes, MergeTask, Slice, SlicedLdif
from loader.sources import names
from loader.storage import files

STEPS = (inputs.STEP, "scan", "schema", "size", "slice", "load", "slices", "merge", "check", "publish")
_PILOT = 8 << 20  # bytes of LDIF: some 15,000 entries, a second or two
_PILOT_MAXSIZE = 4 << 30  # bytes
_MARGIN = 1.25  # slapadd's B-trees deepen, and substring keys fill more slowly than they begin
_SMALLEST = 1 << 20  # bytes of an empty database with its indexes
_FEW = 50_000  # entries of a slice: fewer are not worth the start of a slapadd, more make each slapadd slower
_MANY = 64  # slices that are cut for speed alone
_LEAST = 5_000  # entries of a slice that has to be small for want of memory
_SHARE = 2  # this part of the memory is for environments that grow
_WORTH = 4  # shared entries are loaded with each slice: together at most this part of the others


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Facts]:
    """The steps up to a database that is made and checked; the call that publishes it. Each is done once."""
    options = inputs.spooled(options, run)
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan)
    aliases = run.do("schema", lambda meter: work.schema(scan))["aliases"]
    size = run.do("size", lambda meter: work.size(meter, scan))
    sharing = ShardSteps(options, run, place, scan, size, aliases)
    plan: Facts = {"shards": 1}
    if size["shards"] > 1:
        plan = run.do("slice", sharing.slice)
    if plan["shards"] > 1:
        loaded = _shared(run, work, sharing, plan)
    else:
        total = scan["entries"]
        loaded = run.do("load", lambda meter: work.load(meter, scan, size, aliases), total=total)
    inputs.remove(run)
    checked = run.do("check", lambda meter: work.check(meter, scan, loaded))
    entries = scan["entries"]
    told = {"read": entries, "entries": entries, "rejected": 0, **size, **shards_told(plan)}
    return lambda: {**told, **run.do("publish", lambda meter: work.publish(scan, size, checked))}


def _shared(run: Run, work: _SlapaddSteps, sharing: ShardSteps, plan: Facts) -> Facts:
    """By several slapadds."""
    total = plan["shared"] + plan["leaves"]
    run.do("slices", lambda meter: sharing.load(meter, plan), total=total)
    merged = run.do("merge", lambda meter: sharing.merge(meter, plan, work.made), total=total)
    files.remove_tree(sharing.home)
    return merged


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """slapadd follows every setting that its private configuration has. Raises SettingRefused."""
    backmdb.require(place.config, place.database, place.named)


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
        maxsize = choose_maxsize(self.place, needed, self.options.maxsize, changing=self.options.target is None)
        count = shard_count(self.options, self.place, scan["entries"], needed)
        if not scan["first_dn"]:
            count = 1  # the entry of the empty DN has no node by which slices could be merged
        # Slices lie beside what is made of them.
        if self.options.check_space:
            files.require_space(self.place.directory, needed if count == 1 else 2 * needed)
        return {"estimate": needed, "maxsize": maxsize, "shards": count}

    def _needed(self, meter: Meter, scan: Facts) -> int:
        """From a sample that the core builds, or from a pilot load if the core is not proven for the configuration or
        the input is a template."""
        options = self.options
        try:
            if options.tree is None:
                target = native.target_of(options, self.place)
                found = sampled.of_files(target, options.files, meter).bytes
                return found if options.engine == ENGINES[0] else round(found * _MARGIN)
        except (NotProven, EmptyInput):
            pass
        return self._piloted(scan["entries"])

    def _piloted(self, entries: int) -> int:
        """slapadd loads the first records into a directory of its own. What it complains about is left to the real
        load, which reports it better."""
        directory = self.run.directory / "pilot"
        files.remove_tree(directory)
        directory.mkdir(mode=0o700)
        settings = {"olcDbDirectory": [bytes(directory)], "olcDbMaxSize": [str(_PILOT_MAXSIZE).encode()]}
        text = self._first_records()
        try:
            with self.place.private_configuration(self.run.directory, settings) as copy:
                words = ("-q", "-c", "-s", "-F", str(copy), "-b", self.place.database.suffix)
                with Child(tools.server_tool("slapadd", *words), stdin=subprocess.PIPE) as child:
                    assert child.process.stdin is not None
                    with suppress(BrokenPipeError):
                        child.process.stdin.write(text)
                        child.process.stdin.close()
                    child.wait()
            facts, loaded = meta.read_meta(directory), contents.entry_count(directory)
            return _SMALLEST + (round(facts.used * _MARGIN * entries / loaded) if loaded else 0)
        finally:
            files.remove_tree(directory)

    def _first_records(self) -> bytes:
        """Whole ones."""

        def join(descriptor: int) -> None:
            with suppress(LoaderError), self.options.source.reading(Meter("pilot")) as read:
                ldif.join(names(read), descriptor, Meter("pilot"))

        with piped(join, "pilot") as (descriptor, _), open(descriptor, "rb", closefd=False) as records:
            text = records.read(_PILOT)
        return text if len(text) < _PILOT else text[: text.rindex(b"\n\n") + 2]

    def load(self, meter: Meter, scan: Facts, size: Facts, aliases: Mapping[str, str]) -> Facts:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        with (
            _target(self.options, self.place, self.run.directory, self.made, size["maxsize"]) as target,
            self.options.source.reading(meter) as read,
        ):
            own = _writes_context(self.options)
            written = slapadd.load(target, names(read), meter, scan["claimed"], own, aliases)
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


@contextmanager
def _target(
    options: BuildOptions, place: TargetDatabase, scratch: Path, made: Path, maxsize: int
) -> Iterator[slapadd.Target]:
    """Of a slapadd into the directory `made`, with a private configuration in `scratch`."""
    settings = {"olcDbDirectory": [bytes(made)], "olcDbMaxSize": [str(maxsize).encode()]}
    with place.private_configuration(scratch, settings) as copy:
        server_id = finish.server_id(options, place)
        yield slapadd.Target(copy, place.database.suffix, made, maxsize, server_id, options.check_schema)


def _writes_context(options: BuildOptions) -> bool:
    return options.write_context and not options.seeding


def shard_count(options: BuildOptions, place: TargetDatabase, entries: int, needed: int) -> int:
    """How many slices to cut; 1: none. `needed`: bytes of the database."""
    if options.shards == 1 or options.tree:
        return 1
    # sync_use_subentry puts contextCSN into an entry of its own, so one slapadd must see all entries.
    if _writes_context(options) and backmdb.settings(place.config, place.database).subentry:
        return 1
    if options.shards:
        return options.shards
    processors = resources.processors()
    fitting = -(-needed * processors * _SHARE // resources.memory())
    for_speed = min(_MANY, entries // _FEW)
    return max(1, min(max(fitting, for_speed), entries // _LEAST, MOST_SHARDS))


def parallel_slapadds(needed: int, count: int) -> int:
    """Slapadds that run at a time: as many as processors, if what they make together fits into memory."""
    fitting = resources.memory() // _SHARE // max(1, needed // count)
    return max(1, min(resources.processors(), count, fitting))


def max_useful_slices(shared: int, leaves: int, count: int) -> int:
    """As many slices as do not load shared entries for the most part."""
    return min(count, 1 + leaves // (_WORTH * max(shared, 1)))


@dataclass(frozen=True)
class ShardSteps:
    """The bodies of the steps slice, slices and merge. Each can be done again from its beginning, `slices` from the
    last slice that was loaded."""

    options: BuildOptions
    run: Run
    place: TargetDatabase
    scan: Facts
    size: Facts
    aliases: Mapping[str, str]

    @property
    def home(self) -> Path:
        """Of the environments of slices, and the shared entries."""
        return self.run.directory / "slices"

    @cached_property
    def source(self) -> SlicedLdif:
        suffixes = self.place.database.suffixes
        return SlicedLdif(self.options.files.paths(), suffixes, self.home / "shared.ldif")

    def slice(self, meter: Meter) -> Facts:
        """Where slices begin. One is none: the input is then for one slapadd, which judges it as it is."""
        files.remove_tree(self.home)
        self.home.mkdir(mode=0o700)
        found = slapadd.plan(self.source, self.size["shards"], meter)
        if found.unknown:
            why = f"{units.number(found.unknown)} parents are found under no name of the input"
            return self._none(why)
        cuts = list(found.cuts)
        count = len(cuts) if self.options.shards else max_useful_slices(found.shared, found.leaves, len(cuts))
        if count < 2:
            return self._none(f"{units.number(found.shared)} entries have children")
        kept = [cuts[at * len(cuts) // count] for at in range(count)]
        self.run.progress.say(f"{count} slices, {units.number(found.shared)} entries are in all of them")
        return {"shards": count, "shared": found.shared, "leaves": found.leaves, "cuts": kept}

    def _none(self, why: str) -> Facts:
        self.run.progress.say(f"no slices, one slapadd: {why}")
        files.remove_tree(self.home)
        return {"shards": 1}

    def load(self, meter: Meter, plan: Facts) -> Facts:
        """Each slice into an environment of its own; those that are there stay."""
        done = self._done()
        pieces = [one for one in self._pieces(plan) if one.name not in done]
        meter.add(entries=sum(facts["entries"] for facts in done.values()))
        inner = Meter(meter.name)
        with meter.counting(inner):
            self._all(pieces, inner, parallel_slapadds(self.size["estimate"], plan["shards"]))
        killpoint("slices.middle")
        facts = self._done()
        if self.scan["claimed"] and not any(one["rooted"] for one in facts.values()):
            suffix = self.place.database.suffix
            raise LdifUnreadable(
                path=self.source.paths[0], reason=f"the input has no entry {suffix} to bear contextCSN"
            )
        return {"entries": sum(one["entries"] for one in facts.values())}

    def _done(self) -> dict[str, Facts]:
        """Slices that are loaded, and whose environment is the one that was made then."""
        found = self.run.catalogue.partitions("slices")
        return {name: facts for name, facts in found.items() if self._stands(name, facts)}

    def _stands(self, name: str, facts: Facts) -> bool:
        data = self.home / name / DATA
        return data.exists() and files.identity(data) == facts["identity"]

    def _pieces(self, plan: Facts) -> Iterator[_NamedSlice]:
        making = GeneratedAttributes(
            now=inputs.input_time(self.options) if self._settings.last_mod else None,
            server_id=finish.server_id(self.options, self.place),
            claimed=self.scan["claimed"],
            root=self.place.database.suffix,
            aliases=self.aliases,
            first=self.options.first,
        )
        cuts = [tuple(cut) for cut in plan["cuts"]]
        ends = [*(cut[3] for cut in cuts[1:]), plan["leaves"]]
        for number, (cut, end) in enumerate(zip(cuts, ends, strict=True)):
            piece = Slice(self.source, plan["shared"], cut, end - cut[3], making)
            first = plan["shared"] if number == 0 else 0
            yield _NamedSlice(_name(number), piece, first)

    @cached_property
    def _settings(self) -> backmdb.Settings:
        return backmdb.settings(self.place.config, self.place.database, self.place.superior)

    def _all(self, pieces: Sequence[_NamedSlice], meter: Meter, threads: int) -> None:
        """The first failure ends the others."""
        with ThreadPoolExecutor(threads) as pool:
            running = [pool.submit(self._load, one, meter) for one in pieces]
            try:
                _heed(running)
            except BaseException:
                for one in running:
                    one.cancel()
                meter.cancel()
                raise

    def _load(self, one: _NamedSlice, meter: Meter) -> None:
        made = self.home / one.name
        files.remove_tree(made)
        made.mkdir(mode=0o700)
        with _target(self.options, self.place, made, made, self.size["maxsize"]) as target:
            own, rooted = slapadd.load_slice(target, one.piece, meter)
        files.make_durable(made / DATA)
        facts = {"entries": own + one.shared, "rooted": rooted, "identity": files.identity(made / DATA)}
        self.run.catalogue.finish_partition("slices", one.name, facts)
        killpoint("slices.each")

    def merge(self, meter: Meter, plan: Facts, made: Path) -> Facts:
        files.remove_tree(made)
        made.mkdir(mode=0o700)
        own = _writes_context(self.options)
        task = MergeTask(
            parts=[self.home / _name(number) / DATA for number in range(plan["shards"])],
            shared=plan["shared"],
            map_size=self.size["maxsize"],
            idlexp=self._settings.idlexp,
            context=self.place.database.suffix if own else None,
            jobs=resources.processors(),
        )
        partial = made / (DATA + files.PARTIAL)
        written = slapadd.merge(task, self.source, partial, meter)
        killpoint("merge.middle")
        files.publish(partial, made / DATA)
        return {"entries": written}


@dataclass(frozen=True)
class _NamedSlice:
    """A slice under its name. shared: entries besides its own that count with it."""

    name: str
    piece: Slice
    shared: int


def _name(number: int) -> str:
    return f"{number:03d}"


def _heed(running: Sequence[Future[None]]) -> None:
    """Wait for all, or for the first that fails; its error."""
    for one in wait(running, return_when=FIRST_EXCEPTION).done:
        one.result()


def shards_told(plan: Mapping[str, Any]) -> Facts:
    """For the report."""
    return {name: plan[name] for name in ("shards", "shared") if name in plan}
