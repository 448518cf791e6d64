"""The steps of a build by slapadd. The input is read three times, because slapadd reports errors late and briefly.

Several slapadds may share a load. Each loads a slice of the input into an LMDB environment of its own, and then the
environments are merged. A single slapadd -q uses one processor and inserts index keys in place, so it becomes very slow
once its database outgrows memory. The database of a slice fits into memory, and each processor can load a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec

from loader import backmdb, defaults, ldif, standard, units
from loader.backmdb import definitions, synonyms
from loader.defaults import STDIN
from loader.errors import EmptyInput, EntriesLost, LdifUnreadable, NotProven
from loader.mdb import contents, verify
from loader.mdb.meta import DATA
from loader.operations.build import native
from loader.operations.build.steps import BuildOptions, BuildSteps, Loaded, Outcome, Scanned
from loader.operations.options import MOST_SHARDS
from loader.operations.publish import Checked, Published, TargetDatabase
from loader.operations.sizing import choose_maxsize
from loader.progress import Meter
from loader.run.log import Report, killpoint, report_of
from loader.run.steps import Run
from loader.server import configuration
from loader.sinks import slapadd
from loader.sinks.slapadd import Cut, MergeOptions, Slice, SlicedLdif
from loader.sources import names
from loader.sources.location import is_stream
from loader.storage import files

SPOOL = "spool"  # name of a step, and of its directory in the run directory
STEPS = (SPOOL, "scan", "schema", "size", "slice", "load", "slices", "merge", "check", "publish")
_MARGIN = 1.25  # factor: large indexes have deeper B-trees, and more new substring keys than the prediction assumes
# Bytes of the map if the size cannot be predicted. slapadd creates a sparse file of the size of its map, and a file on
# ext4 must be smaller than 16 TiB.
_LARGEST = 8 << 40
_FEW = 50_000  # entries per slice; smaller slices need too many starts of slapadd, larger slices load more slowly
_MANY = 64  # maximum number of slices if they fit into memory
_LEAST = 5_000  # minimum number of entries per slice if memory is short
_SHARE = 2  # the environments that are being loaded may fill 1/2 of the memory
_WORTH = 4  # the shared entries, counted once per slice, are at most 1/4 of the other entries


class _Size(msgspec.Struct, frozen=True):
    """`estimate`: predicted bytes, or 0 if unknown. `maxsize`: bytes of slapadd's map. `shards`: number of slices."""

    estimate: int
    maxsize: int
    shards: int


class _Slices(msgspec.Struct, frozen=True):
    """`cuts`: the start of each slice; empty if one slapadd loads all entries. `shared`: number of entries that are in
    every slice. `leaves`: number of entries that are in one slice only."""

    shared: int = 0
    leaves: int = 0
    cuts: list[Cut] = []


class _LoadedSlice(msgspec.Struct, frozen=True):
    """`rooted`: whether the slice contains the suffix entry. `identity`: `files.identity` of the slice's data file."""

    entries: int
    rooted: bool
    identity: list[int]


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Outcome]:
    """Builds and checks the database. Returns a function that publishes it."""
    options = _spooled(options, run)
    scan, aliases, size = _sized(options, run, place)
    entries = scan.entries
    work = _Loading(options, run, place, scan, size, aliases)
    plan = run.do("slice", work.slice, _Slices) if size.shards > 1 else _Slices()
    if plan.cuts:
        run.do("slices", lambda meter: work.load_slices(meter, plan), total=entries)
        loaded = run.do("merge", lambda meter: work.merge(meter, plan), int, entries)
        files.remove_tree(work.slices)
    else:
        loaded = run.do("load", work.load, int, entries)
    files.remove_tree(run.directory / SPOOL)
    checked = run.do("check", lambda meter: work.check(meter, loaded), Checked)
    facts = report_of(size, {"shards": max(1, len(plan.cuts))}, {"shared": plan.shared} if plan.cuts else {})

    def publish() -> Outcome:
        published = run.do("publish", lambda meter: work.put_into_place(checked), Published)
        return Outcome(Loaded(entries, entries, 0), published, facts)

    return publish


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """Raises SettingRefused for an unsupported setting. slapadd applies all others, from its private configuration."""
    backmdb.require_supported(place.config, place.database, place.named)


def plan(options: BuildOptions, run: Run, place: TargetDatabase) -> Report:
    """Runs the steps before the load. Returns their facts."""
    scan, _, size = _sized(options, run, place)
    return report_of({"entries": scan.entries}, size if size.estimate else {})


def _sized(options: BuildOptions, run: Run, place: TargetDatabase) -> tuple[Scanned, dict[str, str], _Size]:
    """Runs the steps before the load. Returns their facts; the dictionary is the result of `schema`."""
    work = _Sizing(options, run, place)
    scan = run.do("scan", work.scan, Scanned)
    aliases = run.do("schema", lambda meter: work.schema(scan), dict[str, str])
    return scan, aliases, run.do("size", lambda meter: work.size(meter, scan), _Size)


def _spooled(options: BuildOptions, run: Run) -> BuildOptions:
    """Copies streams to compressed files (mode 0600) in the run directory, without folded lines. Returns the options
    with these files as inputs. The files stay until the load has ended, because messages name their lines."""
    if not options.files.streamed:
        return options
    spool = run.directory / SPOOL
    paths = [spool / f"{at}.ldif.zst" if is_stream(path) else path for at, path in enumerate(options.inputs, 1)]

    def store_stream(stream: Path, path: Path, meter: Meter) -> None:
        if str(stream) == STDIN:
            name = "standard input"
            shard = ldif.shard(standard.input("the LDIF"), path, (), meter, name)
        else:
            name = str(stream)
            with files.explained(stream), stream.open("rb", buffering=0) as file:
                shard = ldif.shard(file.fileno(), path, (), meter, name)
        if not shard.entries:
            raise EmptyInput(path=name)

    def store_streams(meter: Meter) -> None:
        files.emptied(spool)
        free = units.size(files.free_bytes(spool))
        run.progress.say(f"{SPOOL}: the stream is stored compressed in {spool} until it is loaded ({free} free)")
        try:
            for stream, path in zip(options.inputs, paths, strict=True):
                if path != stream:
                    store_stream(stream, path, meter)
        except BaseException:
            files.remove_tree(spool)
            raise
        killpoint("spool.middle")

    run.do(SPOOL, store_streams)
    return replace(options, inputs=tuple(paths))


@dataclass(frozen=True)
class _Sizing(BuildSteps):
    """The bodies of the steps before the load."""

    def schema(self, scan: Scanned) -> dict[str, str]:
        """Checks that the schema has all names in the LDIF. Maps an attribute's later names there to its first name."""
        self.require_schema(scan)
        config = self.place.config
        schema_definitions = definitions(config, configuration.read_compiled_schema(config))
        return dict(synonyms(schema_definitions, scan.attributes))

    def size(self, meter: Meter, scan: Scanned) -> _Size:
        """Predicts the size of the database. Raises MaxsizeTooSmall, NoSpace, ServerRunning."""
        options, place = self.options, self.place
        needed = 0
        with suppress(NotProven):
            needed = native.predicted(options, native.target_of(options, place), meter)
        if options.engine == "slapadd":
            needed = round(needed * _MARGIN)
        maxsize = choose_maxsize(place, needed, options.maxsize, changing=options.target is None)
        if options.maxsize == "auto" and not needed:
            maxsize = max(maxsize, min(files.free_bytes(place.directory), _LARGEST))

        can_slice = options.shards != 1 and not options.tree and options.engine == "slapadd"
        if not scan.first_dn:
            can_slice = False  # the entry of the empty DN has no node in dn2i, which the merge needs
        if can_slice and self.writes_context and backmdb.settings(place.config, place.database).subentry:
            can_slice = False  # with sync_use_subentry, one slapadd must read all entries to write the contextCSN
        count = options.shards or 1
        if can_slice and not options.shards:
            for_memory = -(-(needed or scan.bytes) * defaults.processors() * _SHARE // defaults.memory())
            for_speed = min(_MANY, scan.entries // _FEW)
            count = max(1, min(max(for_memory, for_speed), scan.entries // _LEAST, MOST_SHARDS))
        count = count if can_slice else 1

        if options.check_space:  # the slices and the merged database exist at the same time
            files.require_space(place.directory, needed if count == 1 else 2 * needed)
        return _Size(needed, maxsize, count)


@dataclass(frozen=True)
class _Loading(BuildSteps):
    """The bodies of the load and of the later steps."""

    scanned: Scanned
    size: _Size
    aliases: Mapping[str, str]

    def load(self, meter: Meter) -> int:
        with self._target(self.environment, self.run.directory) as target, self.options.source.reading(meter) as read:
            claimed = self.scanned.claimed
            written = slapadd.load(target, names(read), meter, claimed, self.writes_context, self.aliases)
        killpoint("load.middle")
        return written

    @contextmanager
    def _target(self, directory: Path, scratch: Path) -> Iterator[slapadd.Target]:
        """Yields a target for slapadd: the emptied `directory`, with a private configuration in `scratch`."""
        files.emptied(directory)
        maxsize = self.size.maxsize
        settings = {"olcDbDirectory": [bytes(directory)], "olcDbMaxSize": [str(maxsize).encode()]}
        with self.place.private_configuration(scratch, settings) as copy:
            suffix, check_schema = self.place.database.suffix, self.options.check_schema
            yield slapadd.Target(copy, suffix, directory, maxsize, self.server_id, check_schema)

    @property
    def slices(self) -> Path:
        """The directory with the environments of the slices and the file of shared entries."""
        return self.run.directory / "slices"

    @cached_property
    def source(self) -> SlicedLdif:
        return SlicedLdif(self.options.files.paths(), self.place.database.suffixes, self.slices / "shared.ldif")

    @cached_property
    def settings(self) -> backmdb.Settings:
        return backmdb.settings(self.place.config, self.place.database, self.place.superior)

    def slice(self, meter: Meter) -> _Slices:
        """Divides the input into slices. Returns no cuts if one slapadd should load the whole input."""
        files.emptied(self.slices)
        plan = self.source.plan(self.size.shards, meter)
        cuts, count, shared = plan.cuts, len(plan.cuts), units.number(plan.shared)
        if not self.options.shards:  # fewer slices, so that shared entries are only a small part of each
            count = min(count, 1 + plan.leaves // (_WORTH * max(plan.shared, 1)))
        if plan.unknown or count < 2:
            reason = f"{shared} entries have children"
            if plan.unknown:
                reason = f"{units.number(plan.unknown)} parents match no DN in the input"
            self.run.progress.say(f"no slices, one slapadd: {reason}")
            files.remove_tree(self.slices)
            return _Slices()
        self.run.progress.say(f"{count} slices, {shared} entries are in all of them")
        return _Slices(plan.shared, plan.leaves, [cuts[at * len(cuts) // count] for at in range(count)])

    def load_slices(self, meter: Meter, plan: _Slices) -> None:
        """Loads each slice into its own environment, unless an earlier run has done so. The first failure ends all
        slapadds. One slapadd runs per processor, or fewer if their environments would not fit into memory."""
        loaded_slices, count, slices_meter = self._done(), len(plan.cuts), Meter(meter.name)
        meter.add(entries=sum(part.entries for part in loaded_slices.values()))
        fitting = defaults.memory() // _SHARE * count // (self.size.estimate or self.scanned.bytes)
        threads = max(1, min(defaults.processors(), count, fitting))
        with meter.counting(slices_meter), ThreadPoolExecutor(threads) as pool:
            todo = [number for number in range(count) if _name(number) not in loaded_slices]
            futures = [pool.submit(self._load_slice, number, plan, slices_meter) for number in todo]
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                slices_meter.cancel()
                raise
        killpoint("slices.middle")
        if self.scanned.claimed and not any(part.rooted for part in self._done().values()):
            reason = f"the input has no entry {self.place.database.suffix} to hold contextCSN"
            raise LdifUnreadable(path=self.source.paths[0], reason=reason)

    def _done(self) -> dict[str, _LoadedSlice]:
        """Returns the loaded slices whose recorded data file is still there."""
        recorded = self.run.catalogue.partitions("slices", _LoadedSlice)
        data = {name: self.slices / name / DATA for name in recorded}
        return {
            name: part
            for name, part in recorded.items()
            if data[name].exists() and files.identity(data[name]) == part.identity
        }

    def _load_slice(self, number: int, plan: _Slices, meter: Meter) -> None:
        source, claimed, name = self.source, self.scanned.claimed, _name(number)
        ends = [*(cut[3] for cut in plan.cuts[1:]), plan.leaves]
        piece = Slice(
            source,
            shared=plan.shared,
            cut=plan.cuts[number],
            own=ends[number] - plan.cuts[number][3],
            now=self.options.input_time() if self.settings.last_mod else None,
            server_id=self.server_id,
            first=self.options.first,
            stamp=None if claimed is None else (self.place.database.suffix, claimed),
            aliases=self.aliases,
        )
        directory = self.slices / name
        with self._target(directory, directory) as target:
            leaves, rooted = slapadd.load_slice(target, piece, meter)
        files.make_durable(directory / DATA)
        entries = leaves + (plan.shared if number == 0 else 0)  # the shared entries are counted in the first slice only
        loaded = _LoadedSlice(entries, rooted, files.identity(directory / DATA))
        self.run.catalogue.finish_partition("slices", name, loaded)
        killpoint("slices.each")

    def merge(self, meter: Meter, plan: _Slices) -> int:
        partial = files.emptied(self.environment) / (DATA + files.PARTIAL)
        written = self.source.merge(
            [self.slices / _name(number) / DATA for number in range(len(plan.cuts))],
            partial,
            MergeOptions(
                shared=plan.shared,
                map_size=self.size.maxsize,
                idlexp=self.settings.idlexp,
                context=self.place.database.suffix if self.writes_context else None,
                jobs=defaults.processors(),
            ),
            meter,
        )
        killpoint("merge.middle")
        files.publish(partial, self.data)
        return written

    def check(self, meter: Meter, loaded: int) -> Checked:
        """Checks that the database is sound and has all entries that were read."""
        notes, maxsize = self.complete(meter)
        written, read = contents.entry_count(self.data), self.scanned.entries
        if not read == loaded == written:
            raise EntriesLost(read=read, written=written, log=self.run.directory)
        verify.verify(self.data, self.options.verify, meter)
        return Checked(files.identity(self.data), written, maxsize, notes)


def _name(number: int) -> str:
    return f"{number:03d}"
