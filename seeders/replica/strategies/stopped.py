"""What the strategies have in common that fill the database of a stopped consumer: `search`, `ldif` and `clone`."""

from __future__ import annotations

import logging
import shlex
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from loader import glue, indexes
from loader.config import Config, Database
from loader.errors import UsageProblem
from loader.operations import moved
from loader.operations.build import BuildOptions, require, target_database
from loader.operations.build.made_for import made_for
from loader.operations.publish import TargetDatabase
from loader.operations.shards import clear
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.server.session import Session
from loader.storage import files
from seeders.replica import partial
from seeders.replica.partial import Partial
from seeders.replica.strategies import Consumer, SeedOptions, Strategy

RUN_DIR = ".ditseed-seed"  # in the database directory, so that publishing is a rename
TAKES = frozenset({"config_path", "replace", "maxsize", "verify"})

log = logging.getLogger(__name__)


def run_dir_of(named: Path | None, place: TargetDatabase) -> Path:
    """--run-dir, or the one in the database directory."""
    return named.absolute() if named else place.directory / RUN_DIR


class StoppedConsumer(Strategy):
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
        return moved.context_csns(provider, base) or provider.context_csns(base)

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
