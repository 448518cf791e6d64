"""The steps of a build by slapadd. Its input is read three times, because slapadd reports errors late and briefly.

Several slapadds may share a load, each with a slice of the input and an environment of its own, which are merged at the
end. slapadd -q is a single writer that inserts index keys in place, so it becomes very slow once its database outgrows
memory, and it uses one processor. A slice's database fits into memory, and one slice per processor can be loaded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from loader import backmdb, ldif, resources, units
from loader.child import Child
from loader.errors import EmptyInput, LdifUnreadable, LoaderError, NotProven
from loader.mdb import contents, meta, verify
from loader.mdb.meta import DATA
from loader.operations import sizing
from loader.operations.build import inputs, native
from loader.operations.build.inputs import MOST_SHARDS, BuildOptions, Scanned
from loader.operations.build.steps import BuildSteps, Loaded, Outcome
from loader.operations.publish import Checked, Published, TargetDatabase
from loader.operations.room import choose_maxsize
from loader.piped import piped
from loader.progress import Meter
from loader.run.log import Report, killpoint, report_of
from loader.run.steps import Run
from loader.schema import definitions, synonyms
from loader.server import configuration, tools
from loader.sinks import slapadd
from loader.sinks.slapadd import Cut, GeneratedAttributes, MergeTask, Slice, SlicedLdif
from loader.sources import names
from loader.storage import files

STEPS = (inputs.SPOOL, "scan", "schema", "size", "slice", "load", "slices", "merge", "check", "publish")
_PILOT = 8 << 20  # bytes of LDIF: some 15,000 entries, a second or two
_PILOT_MAXSIZE = 4 << 30  # bytes
_MARGIN = 1.25  # slapadd's B-trees deepen, and substring keys fill more slowly than they begin
_SMALLEST = 1 << 20  # bytes of an empty database with its indexes
_FEW = 50_000  # target entries per slice: a smaller slice costs too many starts of slapadd, a larger one loads slower
_MANY = 64  # slices that are cut for speed alone
_LEAST = 5_000  # minimum entries per slice if memory is short
_SHARE = 2  # 1/2 of the memory is for growing environments
_WORTH = 4  # the shared entries, loaded with each slice, are at most 1/4 of all others in total


@dataclass(frozen=True)
class _Size:
    """The predicted size of the database in bytes, the maxsize that it gets, and the number of slices to cut."""

    estimate: int
    maxsize: int
    shards: int


class _Slices(msgspec.Struct, frozen=True):
    """Where slices begin; `shared` entries are in all of them, and `leaves` in one each."""

    shards: int = 1
    shared: int = 0
    leaves: int = 0
    cuts: list[Cut] = []


@dataclass(frozen=True)
class _LoadedSlice:
    """`rooted`: the suffix entry is in it. `identity`: of the file of its environment."""

    entries: int
    rooted: bool
    identity: list[int]


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Outcome]:
    """Runs the steps up to a database that is built and checked; returns the call that publishes it."""
    options = inputs.spooled(options, run)
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan, Scanned)
    entries = scan.entries
    aliases = run.do("schema", lambda meter: work.schema(scan), dict[str, str])
    size = run.do("size", lambda meter: work.size(meter, scan), _Size)
    sharing = _ShardSteps(options, run, place, scan, size, aliases)
    plan = run.do("slice", sharing.slice, _Slices) if size.shards > 1 else _Slices()
    if plan.shards > 1:
        run.do("slices", lambda meter: sharing.load_slices(meter, plan), total=entries)
        loaded = run.do("merge", lambda meter: sharing.merge(meter, plan), int, entries)
        files.remove_tree(sharing.slices)
    else:
        loaded = run.do("load", lambda meter: work.load(meter, scan, size, aliases), int, entries)
    files.remove_tree(run.directory / inputs.SPOOL)
    checked = run.do("check", lambda meter: work.check(meter, scan, loaded, size), Checked)
    sizes = report_of(size, {"shards": plan.shards}, {"shared": plan.shared} if plan.shards > 1 else {})

    def publish() -> Outcome:
        published = run.do("publish", lambda meter: work.put_into_place(checked), Published)
        return Outcome(Loaded(entries, entries, 0), published, sizes)

    return publish


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """slapadd follows every setting that its private configuration has. Raises SettingRefused."""
    backmdb.require(place.config, place.database, place.named)


def plan(options: BuildOptions, run: Run, place: TargetDatabase) -> Report:
    """Runs the steps before the load."""
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan, Scanned)
    run.do("schema", lambda meter: work.schema(scan), dict[str, str])
    return report_of({"entries": scan.entries}, run.do("size", lambda meter: work.size(meter, scan), _Size))


@dataclass(frozen=True)
class _SlapaddSteps(BuildSteps):
    """The bodies of the steps of one slapadd."""

    def schema(self, scan: Scanned) -> dict[str, str]:
        """Checks all names before the load. Returns the synonyms among the attribute names in the LDIF."""
        self.require_schema(scan)
        config = self.place.config
        known = definitions(config, configuration.read_compiled_schema(config))
        return dict(synonyms(known, scan.attributes))

    def size(self, meter: Meter, scan: Scanned) -> _Size:
        """Predicts the size of the database. Raises MaxsizeTooSmall, NoSpace."""
        options, place = self.options, self.place
        needed = self._needed(meter, scan)
        maxsize = choose_maxsize(place, needed, options.maxsize, changing=options.target is None)
        count = shard_count(options, place, scan.entries, needed)
        if not scan.first_dn:
            count = 1  # the entry of the empty DN has no node by which slices could be merged
        if options.check_space:  # the slices and the merged database exist at the same time
            files.require_space(place.directory, needed if count == 1 else 2 * needed)
        return _Size(needed, maxsize, count)

    def _needed(self, meter: Meter, scan: Scanned) -> int:
        """Bytes, from a sample that the core builds; from a pilot load if the core is not proven for the configuration,
        or the input is a template."""
        options = self.options
        try:
            if options.tree is None:
                size = sizing.of_files(native.target_of(options, self.place), options.files, meter).bytes
                return size if options.engine == "native" else round(size * _MARGIN)
        except (NotProven, EmptyInput):
            pass
        return self._piloted(scan.entries)

    def _piloted(self, entries: int) -> int:
        """slapadd loads the first records. What it complains about is left to the real load, which reports it
        better."""
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
            used, loaded = meta.read_meta(directory).used, contents.entry_count(directory)
            return _SMALLEST + (round(used * _MARGIN * entries / loaded) if loaded else 0)
        finally:
            files.remove_tree(directory)

    def _first_records(self) -> bytes:
        def join(descriptor: int) -> None:
            with suppress(LoaderError), self.options.source.reading(Meter("pilot")) as read:
                ldif.join(names(read), descriptor, Meter("pilot"))

        with piped(join, "pilot") as (descriptor, _), open(descriptor, "rb", closefd=False) as records:
            text = records.read(_PILOT)
        return text if len(text) < _PILOT else text[: text.rindex(b"\n\n") + 2]

    @contextmanager
    def target(self, directory: Path, scratch: Path, maxsize: int) -> Iterator[slapadd.Target]:
        """Yields a new environment in `directory` for slapadd, with a private configuration in `scratch`."""
        files.remove_tree(directory)
        directory.mkdir(mode=0o700)
        settings = {"olcDbDirectory": [bytes(directory)], "olcDbMaxSize": [str(maxsize).encode()]}
        with self.place.private_configuration(scratch, settings) as copy:
            suffix, check_schema = self.place.database.suffix, self.options.check_schema
            yield slapadd.Target(copy, suffix, directory, maxsize, self.server_id, check_schema)

    def load(self, meter: Meter, scan: Scanned, size: _Size, aliases: Mapping[str, str]) -> int:
        with (
            self.target(self.made, self.run.directory, size.maxsize) as target,
            self.options.source.reading(meter) as read,
        ):
            written = slapadd.load(target, names(read), meter, scan.claimed, self.writes_context, aliases)
        killpoint("load.middle")
        return written

    def check(self, meter: Meter, scan: Scanned, loaded: int, size: _Size) -> Checked:
        """Every entry that was read is in the database, and the database is sound."""
        notes, written = self.complete(meter), contents.entry_count(self.made)
        self.require_entries(scan.entries, scan.entries, loaded, written)
        verify.verify(self.made, self.options.verify, meter)
        return Checked(self.identity(), written, size.maxsize, notes)


def shard_count(options: BuildOptions, place: TargetDatabase, entries: int, needed: int) -> int:
    """The number of slices to cut; 1: none. `needed`: bytes of the database."""
    if options.shards == 1 or options.tree:
        return 1
    # sync_use_subentry puts contextCSN into an entry of its own, so one slapadd must see all entries.
    if options.write_context and not options.seeding and backmdb.settings(place.config, place.database).subentry:
        return 1
    if options.shards:
        return options.shards
    fitting = -(-needed * resources.processors() * _SHARE // resources.memory())
    for_speed = min(_MANY, entries // _FEW)
    return max(1, min(max(fitting, for_speed), entries // _LEAST, MOST_SHARDS))


@dataclass(frozen=True)
class _ShardSteps(_SlapaddSteps):
    """The bodies of the steps slice, slices and merge. `slices` goes on after the slices that are loaded."""

    scanned: Scanned
    sized: _Size
    aliases: Mapping[str, str]

    @property
    def slices(self) -> Path:
        """The directory of the slices' environments and of the shared entries."""
        return self.run.directory / "slices"

    @cached_property
    def source(self) -> SlicedLdif:
        return SlicedLdif(self.options.files.paths(), self.place.database.suffixes, self.slices / "shared.ldif")

    @cached_property
    def settings(self) -> backmdb.Settings:
        return backmdb.settings(self.place.config, self.place.database, self.place.superior)

    def slice(self, meter: Meter) -> _Slices:
        """Chooses where slices begin. Without slices, one slapadd loads and checks the whole input."""
        files.remove_tree(self.slices)
        self.slices.mkdir(mode=0o700)
        plan = slapadd.plan(self.source, self.sized.shards, meter)
        cuts, count, say = list(plan.cuts), len(plan.cuts), self.run.progress.say
        if not self.options.shards:  # fewer slices, so that they do not load mostly shared entries
            count = min(count, 1 + plan.leaves // (_WORTH * max(plan.shared, 1)))
        if plan.unknown or count < 2:
            reason = f"{units.number(plan.shared)} entries have children"
            if plan.unknown:
                reason = f"{units.number(plan.unknown)} parents are found under no name of the input"
            say(f"no slices, one slapadd: {reason}")
            files.remove_tree(self.slices)
            return _Slices()
        kept = [cuts[at * len(cuts) // count] for at in range(count)]
        say(f"{count} slices, {units.number(plan.shared)} entries are in all of them")
        return _Slices(count, plan.shared, plan.leaves, kept)

    def load_slices(self, meter: Meter, plan: _Slices) -> None:
        """Loads each slice into an environment of its own; the first failure ends the others. As many slapadds run as
        there are processors, if their environments together fit into memory."""
        done = self._done()
        meter.add(entries=sum(one.entries for one in done.values()))
        count, inner = plan.shards, Meter(meter.name)
        fitting = resources.memory() // _SHARE // max(1, self.sized.estimate // count)
        threads = max(1, min(resources.processors(), count, fitting))
        with meter.counting(inner), ThreadPoolExecutor(threads) as pool:
            todo = [number for number in range(count) if _name(number) not in done]
            running = [pool.submit(self._load_slice, number, plan, inner) for number in todo]
            try:
                for future in wait(running, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                for future in running:
                    future.cancel()
                inner.cancel()
                raise
        killpoint("slices.middle")
        done = self._done()
        if self.scanned.claimed and not any(one.rooted for one in done.values()):
            reason = f"the input has no entry {self.place.database.suffix} to bear contextCSN"
            raise LdifUnreadable(path=self.source.paths[0], reason=reason)

    def _done(self) -> dict[str, _LoadedSlice]:
        """Slices that are loaded, and whose environment is still the one that was recorded."""

        def exists(name: str, one: _LoadedSlice) -> bool:
            data = self.slices / name / DATA
            return data.exists() and files.identity(data) == one.identity

        recorded = self.run.catalogue.partitions("slices", _LoadedSlice)
        return {name: one for name, one in recorded.items() if exists(name, one)}

    def _load_slice(self, number: int, plan: _Slices, meter: Meter) -> None:
        making = GeneratedAttributes(
            now=inputs.input_time(self.options) if self.settings.last_mod else None,
            server_id=self.server_id,
            claimed=self.scanned.claimed,
            root=self.place.database.suffix,
            aliases=self.aliases,
            first=self.options.first,
        )
        cuts, name = plan.cuts, _name(number)
        cut, end = cuts[number], cuts[number + 1][3] if number + 1 < len(cuts) else plan.leaves
        piece = Slice(self.source, plan.shared, cut, end - cut[3], making)
        directory = self.slices / name
        with self.target(directory, directory, self.sized.maxsize) as target:
            own, rooted = slapadd.load_slice(target, piece, meter)
        files.make_durable(directory / DATA)
        entries = own + (plan.shared if number == 0 else 0)  # shared entries count once
        loaded = _LoadedSlice(entries, rooted, files.identity(directory / DATA))
        self.run.catalogue.finish_partition("slices", name, loaded)
        killpoint("slices.each")

    def merge(self, meter: Meter, plan: _Slices) -> int:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        task = MergeTask(
            parts=[self.slices / _name(number) / DATA for number in range(plan.shards)],
            shared=plan.shared,
            map_size=self.sized.maxsize,
            idlexp=self.settings.idlexp,
            context=self.place.database.suffix if self.writes_context else None,
            jobs=resources.processors(),
        )
        partial = self.made / (DATA + files.PARTIAL)
        written = slapadd.merge(task, self.source, partial, meter)
        killpoint("merge.middle")
        files.publish(partial, self.made / DATA)
        return written


def _name(number: int) -> str:
    return f"{number:03d}"
