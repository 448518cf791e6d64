"""Strategy search: read the provider over parallel connections, build the database from what comes, and claim the
contextCSN of the start.

The native engine builds a whole replica while it reads. Anything else (slapadd, a partial replica, a glued tree, the
empty suffix, several providers, an export that is kept) is read into files first.
"""

from __future__ import annotations

from pathlib import Path

from loader import glue
from loader.defaults import ENGINES
from loader.operations import build, empty_suffix, export, stream_build
from loader.operations.export import ExportOptions
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.server.session import Session
from loader.storage import files
from seeders.replica import fitting, partial
from seeders.replica.strategies import Consumer, SeedOptions, reading
from seeders.replica.strategies.stopped import TAKES, StoppedConsumer


class Search(StoppedConsumer):
    takes = TAKES | reading.TAKES | {"engine", "keep_export", "replicas"}
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
        return reading.estimate(self.reading(self.place.directory), progress)

    def fill(self, run: Run) -> Facts:
        asked = self.reading(self.options.keep_export or run.directory / "export")
        if self.streams:
            allow_hidden = self.options.allow_hidden
            return stream_build.build(asked, self.building(), run, self.place, allow_hidden)
        if run.catalogue.found("publish") is None:
            reading.export(self.options, asked, run)
        built = self._build(asked.output, run)
        if not self.options.keep_export:
            files.remove_tree(asked.output)
        return built

    def reading(self, output: Path) -> ExportOptions:
        return reading.reading(self.options, self.place.database.suffix, output, self.partial)

    def _build(self, exported: Path, run: Run) -> Facts:
        building = self.building(exported)
        if self.partial is None:
            return build.build_steps(building, run, self.place)
        csns = (run.catalogue.found("start") or {}).get("context_csns", [])
        return partial.build(self.partial, building, run, self.place, csns)

    @property
    def streams(self) -> bool:
        """Is the database built while the provider is read, without files in between?"""
        options, place = self.options, self.place
        glued = any(one.backend == "mdb" for one in glue.subordinates(place.config, place.database))
        return (
            options.engine == ENGINES[0]
            and options.keep_export is None
            and not options.replicas
            and self.partial is None
            and not glued
            and not empty_suffix.is_empty(place.database.suffix)
        )
