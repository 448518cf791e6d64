"""What a migration was asked for, and the database that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice

from loader import settings
from loader.common_options import Config, Placing, Sorting, SpaceCheck, Suffix, VerifyNew
from loader.declared import Argument
from loader.defaults import LEVELS
from loader.errors import EmptyInput, UsageProblem
from loader.mdb import contents
from loader.mdb.contents import DatabaseSummary
from loader.operations.build.options import FULL, BuildOptions
from loader.operations.publish import TargetDatabase
from loader.server import configuration
from loader.sources import mdb
from loader.sources.mdb import Part
from loader.storage import files


@dataclass(frozen=True)
class MigrateOptions(Placing, Sorting):
    """`source`, `target`: database directories. `config_path`: of the slapd that will use the target. `suffix`: its
    database there (None: the one that has the source's). The rest as in BuildOptions."""

    source: Annotated[Path, Argument()]
    target: Annotated[Path, Argument()]
    config_path: Config
    suffix: Suffix = None
    verify: Annotated[VerifyNew, Choice([*LEVELS, FULL])] = "quick"
    check_space: SpaceCheck = True

    @property
    def part(self) -> Part:
        return Part(self.source)

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        return {
            "source": str(self.source.absolute()),
            "config": str(self.config_path.absolute()),
            "suffix": self.suffix,
            "maxsize": self.maxsize,
        }

    def building(self, place: TargetDatabase) -> BuildOptions:
        """Entries are taken as they are stored, as for a replica; values that their syntax forbids are counted."""
        beside = not files.same(place.database.directory, self.target)
        return BuildOptions(
            config_path=self.config_path,
            suffix=place.database.suffix,
            replace=self.replace,
            maxsize=self.maxsize,
            verify=self.verify,
            seeding=True,
            target=self.target if beside else None,
            memory=self.memory,
            jobs=self.jobs,
            scratch=self.scratch,
            check_space=self.check_space,
            glue=False,
        )


def source_of(options: MigrateOptions) -> DatabaseSummary:
    """What is in it. Raises NotLmdb, MdbDamaged, MdbProtected, NoSuchPath, NotPermitted, EmptyInput, UsageProblem."""
    mdb.require_database(options.source)
    if files.same(options.source, options.target):
        raise UsageProblem(
            reason=f"{options.target} is the source itself: name another directory for the new database, and keep the "
            "old one until the new slapd has proved itself"
        )
    found = contents.summarise(options.source, newest=False)
    if not found.entries:
        raise EmptyInput(path=options.source)
    return found


def place_of(options: MigrateOptions, source: DatabaseSummary) -> TargetDatabase:
    """Where the new database goes. Raises NoSuchSuffix, ManySuffixes, NotMdb, ConfigUnreadable, SettingRefused."""
    config = configuration.read(options.config_path)
    database = config.database_of(source.suffixes, "the source", options.suffix)
    settings.require(config, database)
    return TargetDatabase(config, database, options.target.absolute(), options.replace)
