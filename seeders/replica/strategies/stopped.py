"""The strategies that build the database of a stopped consumer, `search` and `ldif`; what they share with `clone`; and
how `search` and `online` read a provider."""

from __future__ import annotations

import dataclasses
import logging
import shlex
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from loader import config as glue
from loader import exports, indexes, resources
from loader.config import Config, Database
from loader.defaults import ENGINES
from loader.errors import UsageProblem
from loader.operations import build, export, live, packaged, stream_build
from loader.operations.build import BuildOptions, inputs, require, target_database
from loader.operations.build.native import made_for
from loader.operations.export import ExportOptions, export_steps, trial_plan
from loader.operations.publish import TargetDatabase
from loader.operations.shards import clear
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.server.session import Session
from loader.storage import files
from seeders.replica import fitting, partial, preflight
from seeders.replica.partial import Partial
from seeders.replica.strategies import Consumer, SeedOptions, Strategy

RUN_DIR = ".ditseed-seed"  # in the database directory, so that publishing is a rename
TAKES = frozenset({"config_path", "replace", "maxsize", "verify"})
READING_TAKES = frozenset({"allow_hidden", "jobs", "pieces", "page"})

log = logging.getLogger(__name__)


def reading(options: SeedOptions, suffix: str, output: Path, partial: Partial | None = None) -> ExportOptions:
    """The provider's entries below its base (default: the consumer's suffix), into `output`."""
    assert options.connection is not None
    first, *others = (
        partial.provider(one) if partial else dataclasses.replace(one, base=one.base or suffix)
        for one in (options.connection, *options.replicas)
    )
    return ExportOptions(
        first,
        output,
        jobs=options.jobs or resources.connections(),
        pieces=options.pieces,
        page=options.page,
        narrowing=partial.narrowing() if partial else None,
        # The preflight has looked at what the provider hides; an export that is kept tells others of it.
        looked=options.keep_export is None,
        replicas=tuple(others),
    )


def read_provider(options: SeedOptions, asked: ExportOptions, run: Run) -> None:
    """The steps of an export."""
    asked.output.mkdir(exist_ok=True)
    export_steps(asked, run)
    if not options.allow_hidden:
        live.require_whole(asked.output)


def estimate(asked: ExportOptions, progress: Progress) -> Facts:
    """How the provider would be read, which must be within its limits."""
    with progress.step("plan") as meter:
        cut = trial_plan(asked, meter)
    counted = cut["expected"]
    entries = counted if counted is not None else "the provider does not tell"
    return {"entries": entries, "read_as": cut["how"]}


def run_dir_of(named: Path | None, place: TargetDatabase) -> Path:
    """--run-dir, or the one in the database directory."""
    return named.absolute() if named else place.directory / RUN_DIR


class StoppedConsumer(Strategy):
    """What `search`, `ldif` and `clone` share."""

    verb = "replica seed"

    def __init__(self, options: SeedOptions) -> None:
        self.options = options
        if options.config_path is None:
            self._lacks("the configuration of the stopped consumer: --config")
        self.config_path = options.config_path

    def _lacks(self, what: str) -> NoReturn:
        raise UsageProblem(reason=f"--strategy {self.options.strategy} needs {what}")

    @cached_property
    def place(self) -> TargetDatabase:
        """Where the consumer's configuration wants its database."""
        return target_database(self.config_path, self.options.suffix, self.options.replace)

    @cached_property
    def partial(self) -> Partial | None:
        """What the consumer's syncrepl makes a partial replica of; None: a whole one. Raises PartialReplica."""
        provider, config = self.options.connection, self.place.config
        asked = (self.options.strategy, provider.uri if provider else None, self.options.engine)
        return partial.of(config, self.place.database, *asked)

    @property
    def is_plain(self) -> bool:
        """A whole replica in one database, with a suffix."""
        place = self.place
        glued = any(one.backend == "mdb" for one in glue.subordinates(place.config, place.database))
        return self.partial is None and not glued and not packaged.is_empty(place.database.suffix)

    @cached_property
    def _made_for(self) -> str:
        return made_for(self.place.config, self.place.database, self.building())

    @property
    def run_dir(self) -> Path:
        return run_dir_of(self.options.run_dir, self.place)

    def identity(self) -> dict[str, object]:
        options = self.options
        return {
            "strategy": options.strategy,
            "config": str(self.config_path.absolute()),
            "configuration": self._made_for,
            "suffix": options.suffix,
            "source": [str(path.absolute()) for path in options.source],
            "provider": options.connection.identity() if options.connection else None,
            "write_context": options.write_context,
            "engine": options.engine,
            "maxsize": options.maxsize,
            **({"keep_export": str(options.keep_export.absolute())} if options.keep_export else {}),
            **({"replicas": [one.uri for one in options.replicas]} if options.replicas else {}),
            **({"syncrepl": self.partial.identity} if self.partial else {}),
        }

    def begins_anew(self, restart: bool) -> bool:
        return self.place.begins_anew(self.run_dir, self.verb, self.identity(), restart)

    def begin(self, run: Run, anew: bool) -> None:
        if anew:
            _clear(run.directory)
        if run.catalogue.found("publish") is None:
            self.place.require_free(run.catalogue.found("check"))

    def consumer(self) -> Consumer:
        self.place.require_free()
        self.require_buildable()
        for warning in self._warnings():
            log.warning("%s: %s", self.config_path, warning)
        return Consumer(self.place.config, self.place.database, self.partial)

    def require_buildable(self) -> None:
        require(self.building(), self.place)

    def require_fitting(self, provider: Session, base: str, consumer: Consumer) -> None:
        """A strategy that is given the entries in files looks at those."""

    def context_csns(self, provider: Session, base: str) -> list[str]:
        return live.context_csns(provider, base) or provider.context_csns(base)

    def plan(self, suffix: str, progress: Progress) -> Facts:
        facts = self.estimate(progress)
        if self.partial:
            facts["entries"] = "those that the consumer's syncrepl selects"
        return {**facts, "directory": str(self.place.directory)}

    def estimate(self, progress: Progress) -> Facts:
        """The number of entries, or of bytes, as far as that can be told."""
        return {}

    def run(self, run: Run) -> Facts:
        return {**self.fill(run), **run.told_before()}

    @abstractmethod
    def fill(self, run: Run) -> Facts:
        """The steps that make the database and put it into place."""

    def building(self, *inputs: Path) -> BuildOptions:
        """The build part of a seeding."""
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

    def _warnings(self) -> Iterator[str]:
        database, config = self.place.database, self.place.config
        if not database.consumer:
            yield f"no syncrepl for {database.suffix}: the new replica will not follow the provider"
        yield from _weaknesses(database, config)
        for one in glue.subordinates(config, database):
            if one.backend == "mdb":
                yield from (f"{one.suffix}: {weakness}" for weakness in _weaknesses(one, config))


def _weaknesses(database: Database, config: Config) -> Iterator[str]:
    tune = ["--config", str(config.path), "-b", database.suffix]
    apply = ["--apply"] if config.is_directory else []
    missing = indexes.lacking_for_sync(indexes.parse(database.indexes))
    if missing:
        add = [word for index in missing for word in ("--add", index)]
        command = shlex.join(["ditseed", "tune", "indexes", *tune, *add, *apply])
        yield f"no index {' and '.join(missing)}, so syncrepl will be slow; with slapd stopped: {command}"
    if database.nosync:
        command = shlex.join(["ditseed", "tune", "sync", *tune, "--nosync", "off", *apply])
        yield f"nosync is on, so a crash of the host can lose or damage the database; with slapd stopped: {command}"


def _clear(run_dir: Path) -> None:
    """What an abandoned run left, perhaps one of another strategy; --run-dir may hold other things too."""
    clear(run_dir)
    for name in ("export", "environment", "slices", "split"):
        files.remove_tree(run_dir / name)
    for scratch in run_dir.glob("sort-*"):
        files.remove_tree(scratch)
    for name in partial.FILES:
        (run_dir / name).unlink(missing_ok=True)


class Ldif(StoppedConsumer):
    """Builds from an export directory or LDIF files.

    The contextCSN must come from the LDIF. Taken from the entries (-w) it is right only for one consistent snapshot,
    such as a slapcat: in a search of a changing server a later change can be in the LDIF while an earlier one is not.
    """

    takes = TAKES | {"source", "engine", "write_context", "allow_hidden"}
    steps = ("preflight", partial.STEP, *build.STEPS)
    reads_ldif = True

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if not options.source:
            self._lacks("--from: LDIF files or an export directory")

    def estimate(self, progress: Progress) -> Facts:
        building = self.building(*self.options.source)
        return {} if self.partial else build.plan(building, progress)

    def require_context_csn(self, progress: Progress) -> None:
        """Where only its end tells, all LDIF is read. Raises NoContextCSN."""
        if self.partial is None and preflight.context_csns_of_ldif(self.options.source) is None:
            building = self.building(*self.options.source)
            with progress.step("scan") as meter:
                inputs.scan(building, self.place, meter)

    def fill(self, run: Run) -> Facts:
        sources = self.options.source
        if self.partial:
            return partial.build(self.partial, self.building(*sources), run, self.place, None)
        if packaged.is_empty(self.place.database.suffix):
            first = next(iter(exports.files_of(sources)))
            sources = packaged.completed(sources, first, run.directory)
        return build.build_steps(self.building(*sources), run, self.place)


class Search(StoppedConsumer):
    """Reads the provider over parallel connections, builds from what comes, and claims the contextCSN of the start.

    The native engine builds a whole replica while it reads. Anything else (slapadd, a partial replica, a glued tree,
    the empty suffix, several providers, an export that is kept) is read into files first.
    """

    takes = TAKES | READING_TAKES | {"engine", "keep_export", "replicas"}
    steps = ("preflight", *stream_build.STEPS, *export.STEPS, partial.STEP, *build.STEPS)

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if options.connection is None:
            self._lacks("the provider: -H URI (and -D, -y)")

    def require_fitting(self, provider: Session, base: str, consumer: Consumer) -> None:
        if self.partial is None:
            connection = self.options.connection
            assert connection is not None
            fitting.require(connection, provider, base, consumer, self.place, self.building())

    def estimate(self, progress: Progress) -> Facts:
        return estimate(self.reading(self.place.directory), progress)

    def fill(self, run: Run) -> Facts:
        asked = self.reading(self.options.keep_export or run.directory / "export")
        if self.streams:
            allow_hidden = self.options.allow_hidden
            return stream_build.build(asked, self.building(), run, self.place, allow_hidden)
        if run.catalogue.found("publish") is None:
            read_provider(self.options, asked, run)
        built = self._build(asked.output, run)
        if not self.options.keep_export:
            files.remove_tree(asked.output)
        return built

    def reading(self, output: Path) -> ExportOptions:
        return reading(self.options, self.place.database.suffix, output, self.partial)

    def _build(self, exported: Path, run: Run) -> Facts:
        building = self.building(exported)
        if self.partial is None:
            return build.build_steps(building, run, self.place)
        csns = (run.catalogue.found("start") or {}).get("context_csns", [])
        return partial.build(self.partial, building, run, self.place, csns)

    @property
    def streams(self) -> bool:
        """Is the database built while the provider is read, without files in between?"""
        options = self.options
        return self.is_plain and options.engine == ENGINES[0] and options.keep_export is None and not options.replicas
