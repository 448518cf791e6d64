"""The strategies of `replica seed`, which are ways to get the entries into the consumer. `search`, `ldif` and `clone`
fill the database of a stopped consumer. `online` (online.py) fills the database of a running consumer."""

from __future__ import annotations

import dataclasses
import logging
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import msgspec

from loader import backmdb, csn, defaults, dn, indexes, ldif, plain
from loader import config as glue
from loader.config import Config, Database
from loader.errors import EmptyInput, GlueRefused, LoaderError, NoContextCSN, NoSuchSuffix, UsageProblem
from loader.mdb import contents, copy, edits, meta, verify
from loader.operations import build, export, live, made_with, migrate, packaged, stream_build
from loader.operations.build import BuildOptions, native, steps
from loader.operations.options import MigrateOptions
from loader.operations.publish import Checked, Published, TargetDatabase, require_empty
from loader.operations.shards import SCRATCH
from loader.operations.sizing import choose_maxsize
from loader.progress import Meter, Progress
from loader.run.log import Report, killpoint, report_of
from loader.run.steps import Run
from loader.server import configuration, tools
from loader.server.session import Session, session
from loader.sources import selection
from loader.storage import files
from seeders.replica import partial
from seeders.replica.catchup import Preflight
from seeders.replica.options import SeedOptions
from seeders.replica.partial import Partial

RUN_DIR = ".ditseed-seed"  # in the database directory, so that publishing is a rename
READING_TAKES = frozenset({"allow_hidden", "jobs", "pieces", "page"})
COMPARE = "compare"  # name of the step of `clone` that exists only for a source in another data format
_TAKES = frozenset({"config_path", "prepare_consumer", "replace", "maxsize", "verify"})
_ANEW = (
    "Build the database from the entries: --strategy search, or --strategy ldif with the output of "
    "`ditseed export DATABASE-DIRECTORY`."
)
SELECT = "select"  # name of the step that exists only for partial replicas
SELECTED = ("selected.ldif", "glue.ldif")  # in the run directory: the selected entries, and glue entries above them
_HEAD = 1 << 18  # bytes of an LDIF file that are searched for contextCSN, which is in the first entry, the suffix entry
_LINE = re.compile(rb"^contextCSN: ([0-9A-Za-z.#]+)\s*$", re.MULTILINE | re.IGNORECASE)

log = logging.getLogger(__name__)


class Strategy(ABC):
    """One way to seed. The constructor raises UsageProblem if an option that the strategy needs is missing. `takes`:
    the fields of SeedOptions that this strategy accepts, without those that all strategies accept. `reads_ldif`: --from
    names LDIF. `identity`: the options that must not change between a run and its resumption. `errors`: the errors of
    the checks, which a dry run collects; None in a run, which ends at the first error."""

    takes: ClassVar[frozenset[str]]
    steps: ClassVar[tuple[str, ...]]
    verb: ClassVar[str]
    reads_ldif: ClassVar[bool] = False

    def __init__(self, options: SeedOptions) -> None:
        self.options = options
        self.errors: list[LoaderError] | None = None

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Collects the body's error in `errors`, so that a dry run goes on with checks that do not depend on the body.
        Raises the error if `errors` is None."""
        try:
            yield
        except LoaderError as error:
            if self.errors is None:
                raise
            self.errors.append(error)

    @property
    @abstractmethod
    def run_dir(self) -> Path: ...

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, object]: ...

    @abstractmethod
    def begins_anew(self, restart: bool) -> bool:
        """Returns True if the run recorded in `run_dir` must be discarded, not resumed."""

    @abstractmethod
    def begin(self, run: Run, anew: bool) -> None:
        """Removes files and temporary settings of an earlier run."""

    @abstractmethod
    def consumer(self) -> tuple[Config, Database]:
        """Returns the consumer's configuration and the database to fill. Raises LoaderError if this strategy cannot
        seed that database."""

    @abstractmethod
    def run(self, run: Run) -> Report:
        """Runs the steps after the preflight. Returns the facts for the report."""

    @cached_property
    def partial(self) -> Partial | None:
        """The partial replica; None for a whole replica. Raises PartialReplica if the strategy cannot seed it."""
        return None

    def context_csns(self, provider: Session, base: str) -> list[str]:
        """Returns the provider's contextCSN. Raises NoContextCSN if it has none."""
        return live.context_csns(provider, base) or provider.context_csns(base)

    def plan(self, suffix: str, progress: Progress) -> Report:
        """Returns the facts about the steps for the report of a dry run. Changes nothing."""
        with progress.step("plan") as meter:
            _, cut = export.trial_plan(self.reading(suffix, self.run_dir), meter)
        return {"entries": "not known" if cut.expected is None else cut.expected, "read_as": cut.how}

    def reading(self, suffix: str, output: Path) -> export.ExportOptions:
        """Returns the options of an export of the provider's base (default: the consumer's suffix) into `output`."""
        options, partial = self.options, self.partial
        assert options.connection is not None
        first, *others = (
            msgspec.structs.replace(provider, base=partial.syncrepl.searchbase if partial else provider.base or suffix)
            for provider in (options.connection, *options.replicas)
        )
        return export.ExportOptions(
            first,
            output,
            jobs=options.jobs or defaults.connections(),
            pieces=options.pieces,
            page=options.page,
            narrowing=partial.narrowing() if partial else None,
            is_visibility_checked=True,  # the preflight has checked whether the provider hides data
            replicas=tuple(others),
        )

    def read_provider(self, exporting: export.ExportOptions, run: Run) -> None:
        """Runs the steps of an export. Without --allow-hidden, raises an error if the provider has hidden data."""
        exporting.output.mkdir(exist_ok=True)
        export.export_steps(exporting, run)
        if not self.options.allow_hidden:
            live.require_whole(exporting.output)


def run_dir_of(run_dir: Path | None, place: TargetDatabase) -> Path:
    """Returns --run-dir, or RUN_DIR in the database directory if the option is not given."""
    return run_dir.absolute() if run_dir else place.directory / RUN_DIR


class StoppedConsumer(Strategy):
    """Base class of `search`, `ldif` and `clone`."""

    verb = "replica seed"

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if options.config_path is None:
            raise self._needs("the configuration of the stopped consumer: --config")
        self.config_path = options.config_path

    def _needs(self, what: str) -> UsageProblem:
        return UsageProblem(reason=f"--strategy {self.options.strategy} needs {what}")

    @cached_property
    def place(self) -> TargetDatabase:
        """The database directory and database that the consumer's configuration names."""
        return build.target_database(self.config_path, self.options.suffix, self.options.replace)

    @cached_property
    def partial(self) -> Partial | None:
        provider = self.options.connection.uri if self.options.connection else None
        strategy, engine = self.options.strategy, self.options.engine
        return partial.of(self.place.config, self.place.database, strategy, provider, engine)

    @property
    def is_plain(self) -> bool:
        """Whether the consumer is a whole replica in one database without subordinates, and with a non-empty suffix."""
        place = self.place
        glued = any(database.backend == "mdb" for database in glue.subordinates(place.config, place.database))
        return self.partial is None and not glued and bool(dn.key(place.database.suffix))

    @property
    def run_dir(self) -> Path:
        return run_dir_of(self.options.run_dir, self.place)

    @cached_property
    def identity(self) -> dict[str, object]:
        options = self.options
        return {
            "strategy": options.strategy,
            "config": str(self.config_path.absolute()),
            "configuration": native.made_for(self.place.config, self.place.database, self.building()),
            "suffix": options.suffix,
            "source": [str(path.absolute()) for path in options.source],
            "provider": options.connection.identity() if options.connection else None,
            "write_context": options.write_context,
            "engine": options.engine,
            "maxsize": options.maxsize,
            **({"replicas": [provider.uri for provider in options.replicas]} if options.replicas else {}),
            **({"syncrepl": repr(self.partial.syncrepl.content)} if self.partial else {}),
        }

    def begins_anew(self, restart: bool) -> bool:
        return self.place.begins_anew(self.run_dir, self.verb, self.identity, restart)

    def begin(self, run: Run, anew: bool) -> None:
        """Removes the files of all strategies by name, because the directory of --run-dir may contain other files."""
        for name in (*SCRATCH, "export", "environment", "slices", "split", "sort") if anew else ():
            for tree in run.directory.glob(name):
                files.remove_tree(tree)
        for name in SELECTED if anew else ():
            (run.directory / name).unlink(missing_ok=True)
        self.place.require_still_free(run)

    def consumer(self) -> tuple[Config, Database]:
        with self.attempt():
            self.place.require_free()
        if self.errors and not self.options.replace:  # a dry run reports this error besides that of a running slapd
            with self.attempt():
                require_empty(self.place.directory)
        with self.attempt():
            self.require_buildable()
        config, database = self.place.config, self.place.database
        prepared = self.options.prepare_consumer
        if not database.consumer and not prepared:
            lacking = f"no syncrepl for {database.suffix}: the new replica will not follow the provider"
            log.warning("%s: %s (--prepare-consumer writes one)", self.config_path, lacking)
        for part in (database, *glue.subordinates(config, database)):
            if part.backend != "mdb":
                continue
            where = f"{self.config_path}{'' if part is database else f': {part.suffix}'}"
            problems = []
            missing = indexes.lacking_for_sync(indexes.parse(part.indexes))
            if missing and not (prepared and part is database):
                slow = f"no index {' and '.join(missing)}, so syncrepl will be slow"
                problems.append((slow, "indexes", [word for index in missing for word in ("--add", index)]))
            if part.nosync:
                unsafe = "nosync is on, so a crash of the host can lose or damage the database"
                problems.append((unsafe, "sync", ["--nosync", "off"]))
            for problem, verb, change in problems:
                # The texts are not passed as arguments, because the log would escape the line break between them.
                tune = plain.printable(self.tune_command(verb, part.suffix, *change))
                log.warning(f"{plain.printable(where)}: {problem}; with slapd stopped:\n{tune}")
        _ = self.partial  # raises PartialReplica before any work
        return config, database

    def tune_command(self, verb: str, suffix: str, *change: str) -> str:
        apply = ["--apply"] if self.place.config.is_directory else []
        return shlex.join(["ditseed", "tune", verb, "--config", str(self.config_path), "-b", suffix, *change, *apply])

    def require_buildable(self) -> None:
        build.require(self.building(), self.place)

    def build(self, run: Run, inputs: Sequence[Path], context_csns: Sequence[str] | None) -> Report:
        """Builds the database from LDIF. A partial replica gets the entries that its syncrepl selects. `context_csns`:
        contextCSN of entries that the provider has filtered; None for unfiltered LDIF, which contains contextCSN."""
        options, replica = self.building(*inputs), self.partial
        if replica is None:
            return build.build_steps(options, run, self.place)
        entries, glue = (run.directory / name for name in SELECTED)

        def select(meter: Meter) -> _Selected:
            chosen, claimed = replica.unevaluated, context_csns
            with ldif.verified_inputs(inputs, meter) as paths:
                if claimed is None:  # the contextCSN is computed from all entries, including those not selected
                    chosen, scan = replica.evaluated, ldif.scan(paths, meter)
                    claimed = steps.claimed_csns(scan, inputs[0], replica.database.suffix, options.write_context)
                counts = selection.select(paths, entries, glue, chosen, claimed, meter)
            ldif.require_read(inputs, counts.read)
            killpoint("select.middle")
            if not counts.kept:
                raise EmptyInput(path=f"{inputs[0]}, below {replica.syncrepl.searchbase}, {replica.syncrepl.filter}")
            return _Selected(counts.read, counts.kept, counts.read - counts.kept, counts.glue)

        selected = run.do(SELECT, select, _Selected)
        options = dataclasses.replace(
            options,
            inputs=(glue, entries) if selected.glue else (entries,),
            write_context=False,
            check_schema=replica.syncrepl.schemachecking,
            complete_naming=False,
        )
        facts = build.build_steps(options, run, self.place)
        for path in (entries, glue):
            path.unlink(missing_ok=True)
        return report_of(facts, selected)

    def building(self, *inputs: Path) -> BuildOptions:
        """Returns the options of the build that is part of this seeding."""
        return BuildOptions(
            inputs=inputs,
            config_path=self.config_path,
            suffix=self.options.suffix,
            replace=self.options.replace,
            maxsize=self.options.maxsize,
            write_context=self.options.write_context,
            engine=self.options.engine,
            verify=self.options.verify,
            seeding=True,
        )


class _Selected(msgspec.Struct, frozen=True):
    """Result of "select": numbers of entries. `examined` is the sum of `selected` and `left_out`. The build gets
    `selected` and `glue`."""

    examined: int
    selected: int
    left_out: int
    glue: int


def context_csns_of_ldif(paths: Sequence[Path]) -> list[str] | None:
    """Returns the contextCSN in the manifests of exports, or in the first _HEAD bytes of plain LDIF, where the suffix
    entry is. Returns None if these places have no contextCSN, so that all the LDIF must be read."""
    manifests = [ldif.read_manifest(path) for path in paths if path.is_dir()]
    if manifests and None not in manifests:
        csns = [text for manifest in manifests if manifest for text in manifest.context_csns]
    else:
        first, csns = next(iter(ldif.input_files(paths)), None), []
        if first is not None and first.is_file():
            with first.open("rb") as file:
                csns = [match[1].decode() for match in _LINE.finditer(file.read(_HEAD))]
    return sorted(csn.by_server(csns).values()) or None


class Ldif(StoppedConsumer):
    """Builds from an export directory or LDIF files.

    The LDIF must contain the contextCSN. With -w it is computed from the entries, which must then be a snapshot, such
    as the output of slapcat: a search of a changing server can return a later change and miss an earlier one."""

    takes = _TAKES | {"source", "engine", "write_context", "allow_hidden"}
    steps = ("preflight", SELECT, *build.STEPS)
    reads_ldif = True

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if not options.source:
            raise self._needs("--from: LDIF files or an export directory")

    def plan(self, suffix: str, progress: Progress) -> Report:
        return {} if self.partial else build.plan(self.building(*self.options.source), progress)

    def require_context_csn(self, progress: Progress) -> None:
        """Raises NoContextCSN if the LDIF has no contextCSN. Scans all the LDIF if its beginning has none."""
        if self.partial is None and context_csns_of_ldif(self.options.source) is None:
            with progress.step("scan") as meter:
                steps.scan(self.building(*self.options.source), self.place, meter)

    def run(self, run: Run) -> Report:
        sources = self.options.source
        if self.partial is None and not dn.key(self.place.database.suffix):
            first = next(iter(ldif.input_files(sources)))
            sources = packaged.with_root_entry(sources, first, run.directory)
        return self.build(run, sources, None)


class Search(StoppedConsumer):
    """Builds the database from parallel searches. Its contextCSN is the one that the provider had before the searches.

    The native engine builds a whole replica while it reads. In all other cases (slapadd, a partial replica, subordinate
    databases, the empty suffix, several providers) the entries are read into files first."""

    takes = _TAKES | READING_TAKES | {"engine", "replicas"}
    steps = ("preflight", *stream_build.STEPS, *export.STEPS, SELECT, *build.STEPS)
    check: Callable[[Meter], None] | None = None  # runs while the provider is read; an error of it ends the reading

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if options.connection is None:
            raise self._needs("the provider: -H URI (and -D, -y)")

    @property
    def streams(self) -> bool:
        """Whether the database is built while the provider is read, without LDIF files in between."""
        return self.is_plain and self.options.engine == defaults.ENGINES[0] and not self.options.replicas

    def run(self, run: Run) -> Report:
        exporting = self.reading(self.place.database.suffix, run.directory / "export")
        if self.streams:
            terms = run, self.place, self.options.allow_hidden, self.check
            return stream_build.build(exporting, self.building(), *terms)
        if not run.catalogue.is_done("publish"):
            self.read_provider(exporting, run)
        start = run.catalogue.facts_of("start", export.Start)
        facts = self.build(run, (exporting.output,), start.context_csns if start else [])
        files.remove_tree(exporting.output)
        return facts


class Clone(StoppedConsumer):
    """Copies an existing database, which may be in use, and writes into the copy the contextCSN that it has reached.

    A running provider stores its contextCSN only at checkpoints (syncprov-checkpoint) and at shutdown, so the stored
    contextCSN may be old. Before the copy begins, the provider is asked for its present contextCSN. Every change up to
    that contextCSN was committed, so the copy contains the change.

    The consumer's LMDB may have another data format (OpenLDAP 2.6 and 2.7). In that case the steps of `ditseed migrate`
    convert the records to that format, or build the entries again."""

    takes = _TAKES | {"source"}
    steps = ("preflight", "schema", "copy", COMPARE, "stamp", "index", "check", "publish")

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if len(options.source) != 1:
            raise self._needs("one --from: a database directory")
        (self.source,) = options.source

    @cached_property
    def conversion(self) -> str | None:
        """Describes the data formats of the source and of the installed slapd; None if they are the same."""
        before = meta.read_meta(self.source).format
        after = tools.lmdb_format() or before
        return None if before == after else f"data format {before} to {after}"

    @property
    def migrating(self) -> MigrateOptions:
        """The options for the steps of `ditseed migrate`, which convert the source."""
        return MigrateOptions(
            source=self.source,
            target=self.place.directory,
            config_path=self.place.config.path,
            suffix=self.place.database.suffix,
            replace=self.options.replace,
            maxsize=self.options.maxsize,
        )

    def require_buildable(self) -> None:
        """Raises GlueRefused if there are subordinate databases, because copies of several databases would show
        different moments."""
        for part in glue.subordinates(self.place.config, self.place.database):
            reason = f"the database of {part.suffix} holds a part of the same tree, and a clone copies one database"
            raise GlueRefused(suffix=self.place.database.suffix, reason=reason, advice="Use --strategy search or ldif.")

    def plan(self, suffix: str, progress: Progress) -> Report:
        """Returns the bytes to copy. If the format must be converted, converts the first entries to predict time and
        size, and raises the errors of this conversion. Raises MaxsizeTooSmall or NoSpace if the database does not
        fit."""
        fit = made_with.Fit()
        with self.attempt(), progress.step("schema") as meter:
            fit = self.fit(meter)
        size, facts = files.allocated_bytes(meta.data_file(self.source)), Report(indexed=list(fit.rebuild))
        if self.conversion:
            source = contents.summarise(self.source, newest=False)
            planned = migrate.planned(self.migrating, self.place, source, progress, strict=True)
            size = max(planned.needed or 0, size)
            facts = {"entries": source.entries, "converted": self.conversion, "copy_seconds": planned.seconds}
        else:
            with self.attempt():
                choose_maxsize(self.place, meta.read_meta(self.source).used, self.options.maxsize, changing=False)
        files.require_space(self.place.directory, size)
        return {"bytes": size, **facts}

    def fit(self, meter: Meter) -> made_with.Fit:
        """Compares the source with the consumer's configuration. Raises NoSuchSuffix, SchemaMissing; with a conversion,
        NotProven; without a conversion, MadeOtherwise if the consumer would store the entries differently."""
        suffix = self.place.database.suffix
        suffixes = contents.summarise(self.source, newest=False).suffixes
        if dn.key(suffix) and dn.key(suffix) not in map(dn.key, suffixes):
            raise NoSuchSuffix(config=self.source, suffix=suffix, known=", ".join(suffixes) or "none")
        origin = None  # the configuration of the server that owns the source, if the account may read it
        if self.options.connection:
            with suppress(LoaderError), session(self.options.connection) as provider:
                config = configuration.read_online(provider)
                origin = made_with.Origin(config, config.database(suffix))
        fit = made_with.look(self.source, self.place.config, self.place.database, meter, origin)
        if self.conversion:
            native.require(self.building(), self.place)
            fit = made_with.Fit(unknown=fit.unknown, entries=fit.entries)
        fit.require(meta.data_file(self.source), self.place.config, _ANEW)
        return fit

    def run(self, run: Run) -> Report:
        """Runs the steps, each of which can be repeated from its beginning."""
        work = steps.BuildSteps(self.building(), run, self.place)
        database, data = work.environment, work.data

        def copy_pages(meter: Meter) -> _Copied:
            files.emptied(database)
            facts = meta.read_meta(self.source)
            maxsize = choose_maxsize(self.place, facts.pages * facts.page_size, self.options.maxsize)
            copy.hot_copy(self.source, database, meter)
            killpoint("copy.middle")
            files.publish(database / copy.PARTIAL, data)
            return _Copied(maxsize)

        def check(meter: Meter) -> Checked:
            verify.verify(data, self.options.verify, meter)
            verify.require_unique_uuids(data, meter, run.directory)
            return Checked(files.identity(data), contents.entry_count(data), copied.maxsize)

        schema = run.do("schema", lambda meter: _Schema(list(self.fit(meter).rebuild), self.conversion), _Schema)
        copied = self._convert(run) if schema.converted else run.do("copy", copy_pages, _Copied)
        preflight = run.catalogue.facts_of("preflight", Preflight)
        csns = (preflight and preflight.context_csns) or []
        stamped = run.do("stamp", lambda meter: self._stamp(data, csns, meter), _Stamped)
        # slapd assumes that the indexes match the configuration.
        remake = (self.place, database, schema.rebuild, run.directory)
        indexed = run.do("index", lambda meter: made_with.rebuild(*remake, meter), made_with.Rebuilt)
        checked = run.do("check", check, Checked)
        published = run.do("publish", lambda meter: work.put_into_place(checked), Published)
        converted = {"converted": schema.converted} if schema.converted else {}
        return report_of(checked, stamped, indexed, converted, copied, published)

    def _convert(self, run: Run) -> _Copied:
        """Converts a snapshot of the source; a slapd may write to the source meanwhile. Rebuilds everything that the
        consumer's slapd would store differently. Compares the result with the source before `_stamp` changes it.

        Raises NoSpace, MapFull, MadeOtherwise, SchemaMissing, MdbDamaged, EntriesLost, MaxsizeTooSmall."""
        steps = migrate.MigrateSteps(self.migrating, run, self.place)

        def load(meter: Meter) -> migrate.MigrateLoaded:
            copy.require_space(self.source, self.place.directory)
            loaded = steps.load(meter)
            killpoint("copy.middle")
            return loaded

        def compare(meter: Meter) -> _Copied:
            steps.compare(meter, loaded)
            checked = steps.building.check(meter, loaded)
            return _Copied(checked.maxsize, loaded.made_again, loaded.invalid)

        loaded = run.do("copy", load, migrate.MigrateLoaded)
        return run.do(COMPARE, compare, _Copied, loaded.entries)

    def _stamp(self, data: Path, csns: Sequence[str], meter: Meter) -> _Stamped:
        """Writes contextCSN into the copy. `csns`: the provider's, from before the copy; empty without a provider."""
        suffix = self.place.database.suffix
        claimed = csn.by_server(contents.context_csns(data, suffix))
        newest = contents.newest_csns(data, suffix, whole=False)
        # If the contextCSN is too old, some changes are replicated again; if it is too new, changes are lost. The
        # source may be of another server, which has fewer changes than the provider. So no CSN may exceed the newest
        # entryCSN of its server ID in the copy.
        for sid, text in csn.by_server(csns).items():
            if sid in newest:
                claimed[sid] = max(claimed.get(sid, ""), min(text, newest[sid]))
        if not claimed:
            advice = "Give -H (and -D, -y) of the server whose database this is, so that its contextCSN can be read."
            raise NoContextCSN(where=self.source, suffix=suffix, advice=advice, commands=())
        context_csns = sorted(claimed.values())
        held_back = edits.cap_entry_csns(data.parent, context_csns, backmdb.idlexp(self.place.config), meter)
        edits.stamp(data.parent, suffix, context_csns)
        return _Stamped(context_csns, held_back)


class _Schema(msgspec.Struct, frozen=True):
    """The result of "schema". `rebuild`: attributes whose indexes must be rebuilt. `converted`: `Clone.conversion`."""

    rebuild: list[str]
    converted: str | None


class _Copied(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of "copy". `made_again`, `invalid`: as in MigrateLoaded; set only if the format was converted."""

    maxsize: int
    made_again: str = ""
    invalid: list[str] = msgspec.field(default_factory=list, name="invalid values")


class _Stamped(msgspec.Struct, frozen=True):
    """The result of "stamp". `held_back`: number of entries whose newer entryCSN was lowered to `context_csns`."""

    context_csns: list[str]
    held_back: int
