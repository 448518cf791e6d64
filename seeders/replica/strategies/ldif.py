"""Strategy ldif: build from an export directory or LDIF files.

The contextCSN must come from the LDIF: taken from the entries (-w) it is right only for one consistent snapshot, such
as a slapcat; in a search of a changing server a later change can be in the LDIF while an earlier one is not.
"""

from __future__ import annotations

from loader import exports
from loader.operations import build, empty_suffix
from loader.operations.build import inputs
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from seeders.replica import claims, partial
from seeders.replica.strategies import SeedOptions
from seeders.replica.strategies.stopped import TAKES, StoppedConsumer


class Ldif(StoppedConsumer):
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
        if self.partial is None and claims.of_ldif(self.options.source) is None:
            building = self.building(*self.options.source)
            with progress.step("scan") as meter:
                inputs.scan(building, self.place, meter)

    def fill(self, run: Run) -> Facts:
        sources = self.options.source
        if self.partial:
            return partial.build(self.partial, self.building(*sources), run, self.place, None)
        if empty_suffix.is_empty(self.place.database.suffix):
            first = next(iter(exports.files_of(sources)))
            sources = empty_suffix.completed(sources, first, run.directory)
        return build.build_steps(self.building(*sources), run, self.place)
