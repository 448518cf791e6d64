"""A clone for a slapd that could not open a copy, because its LMDB has another data format: of a database of OpenLDAP
2.6 for a consumer of 2.7, or the other way round. In the place of the pages, the parts of `ditseed migrate` bring the
records into a file of the consumer's format, or make the entries again. All other steps are those of a clone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loader.mdb import contents, copy, meta
from loader.operations.build import native
from loader.operations.build.finish import INVALID
from loader.operations.migrate import AGAIN, MigrateOptions, planning
from loader.operations.migrate.steps import MigrateSteps
from loader.operations.publish import TargetDatabase
from loader.progress import Meter, Progress
from loader.run.log import Facts, killpoint
from loader.server import version
from loader.storage import files
from seeders.replica.strategies import SeedOptions
from seeders.replica.strategies.cloning import CloneSteps

COMPARE = "compare"  # the step that a clone of pages does not need
CONVERTED = "converted"  # among the facts of the step `schema`: from which format to which
TOLD = (CONVERTED, AGAIN, INVALID)  # in the report


@dataclass(frozen=True)
class Conversion:
    """Of the database in `source` for the consumer's slapd, which is installed here."""

    asked: SeedOptions
    place: TargetDatabase
    source: Path

    @cached_property
    def _formats(self) -> tuple[int, int]:
        """Data formats: the source's, and the consumer's."""
        found = meta.read_meta(self.source).format
        return found, version.lmdb_format() or found

    @property
    def is_needed(self) -> bool:
        before, after = self._formats
        return before != after

    @property
    def told(self) -> str:
        before, after = self._formats
        return f"data format {before} to {after}"

    @property
    def options(self) -> MigrateOptions:
        """Of a migration with the same result but for the contextCSN."""
        return MigrateOptions(
            source=self.source,
            target=self.place.directory,
            config_path=self.place.config.path,
            suffix=self.place.database.suffix,
            replace=self.asked.replace,
            maxsize=self.asked.maxsize,
        )

    def require(self) -> None:
        """Raises NotProven for a configuration that the core does not follow."""
        native.require(self.options.building(self.place), self.place)

    def estimate(self, progress: Progress) -> Facts:
        """From the first entries, which are converted apart. Raises what they are refused for, MaxsizeTooSmall,
        NoSpace."""
        source = contents.summarise(self.source, newest=False)
        found = planning.plan(self.options, self.place, source, progress, strict=True)
        size = max(found["needed"] or 0, files.allocated_bytes(meta.data_file(self.source)))
        files.require_space(self.place.directory, size)
        return {
            "entries": source.entries,
            "bytes": size,
            CONVERTED: self.told,
            "copy_seconds": found["seconds"],
        }


class ConvertingSteps(CloneSteps):
    """Whatever the consumer's slapd would store otherwise is made again."""

    @cached_property
    def _migrating(self) -> MigrateSteps:
        options = Conversion(self.options, self.place, self.source).options
        return MigrateSteps(options, self.run, self.place)

    def copied(self) -> Facts:
        """What was made is compared with what was read before the stamp changes it."""
        loaded = self.run.do("copy", self.copy)
        return self.run.do(COMPARE, lambda meter: self.compare(meter, loaded), loaded["entries"])

    def copy(self, meter: Meter) -> Facts:
        """Of one snapshot, which is held while a slapd writes. Raises NoSpace, MapFull, MadeOtherwise,
        SchemaMissing."""
        copy.require_space(self.source, self.place.directory)
        loaded = self._migrating.load(meter)
        killpoint("copy.middle")
        return loaded

    def compare(self, meter: Meter, loaded: Facts) -> Facts:
        """Raises MdbDamaged, EntriesLost, MaxsizeTooSmall."""
        self._migrating.compare(meter, loaded)
        checked = self._migrating.building.check(meter, loaded)
        told = {name: loaded[name] for name in TOLD if loaded.get(name)}
        return {"maxsize": checked["maxsize"], **told}
