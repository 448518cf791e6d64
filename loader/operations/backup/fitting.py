"""A database that was unpacked, made fit for the configuration that it goes to, or refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import config, schema
from loader.age import Identities
from loader.config import Config, Database
from loader.errors import BackupDamaged, LoaderError
from loader.mdb import meta
from loader.operations import indexing, made_with
from loader.operations.backup import encryption
from loader.operations.backup.manifest import Backup
from loader.operations.indexing import Rebuilt
from loader.operations.made_with import Origin
from loader.operations.publish import TargetDatabase
from loader.progress import Progress
from loader.server import compiled_schema, configuration
from loader.storage import files

log = logging.getLogger(__name__)

ENVIRONMENT = "environment"  # beside the unpacked file, while indexes are made again
_ANEW = (
    "Give this configuration the schema and the multival that the backup was made with, or make the database anew from "
    "its entries: `ditseed backup restore --target`, `ditseed export` of that directory, `ditseed build`."
)


@dataclass(frozen=True)
class RestoreTarget:
    """Where it goes. `like`: a path whose owner a directory gets that must be made."""

    directory: Path
    mode: int
    like: Path
    database: Database | None
    config: Config | None = None


def fitted(
    repo: Path,
    backup: Backup,
    place: RestoreTarget,
    partial: Path,
    identities: Identities | None,
    progress: Progress,
) -> Rebuilt:
    """Indexes that the configuration would have made otherwise are made again; which. Raises SchemaMissing,
    MadeOtherwise."""
    if place.config is None or place.database is None or backup.is_ldif:
        return Rebuilt()
    origin = _origin(repo / backup.id, backup, place.config, identities)
    with progress.step("look") as meter:
        found = made_with.look(partial, place.config, place.database, meter, origin)
    found.require(repo / backup.id / backup.file, place.config, _ANEW)
    if found.rebuild:
        target = TargetDatabase(place.config, place.database, place.directory)
        with progress.step("index") as meter, _as_environment(partial) as made:
            return indexing.rebuild(target, made, found.rebuild, partial.parent, meter)
    return Rebuilt()


def _origin(
    directory: Path, backup: Backup, now: Config, identities: Identities | None
) -> Origin | None:
    """The configuration that was backed up. What is compiled into slapd is not in it."""
    if not backup.with_config:
        return None
    try:
        path = directory / backup.config_file
        content = encryption.config(directory, backup, identities)
        entries = configuration.entries_of(content, path)
        own = [one for one in entries if one[0].lower() != schema.ROOT]
        found = config.parse(path, [*own, *compiled_schema.read(now)])
        return Origin(found, found.database(backup.suffix))
    except BackupDamaged as error:
        log.warning("the configuration of the backup is not compared: %s", error)
        return None
    except (LoaderError, OSError) as error:
        log.info("the configuration of %s is not compared: %s", backup.id, error)
        return None


@contextmanager
def _as_environment(partial: Path) -> Iterator[Path]:
    """A data file in a directory of its own for a while."""
    home = partial.parent / ENVIRONMENT
    files.remove_tree(home)
    home.mkdir(mode=0o700)
    files.publish(partial, home / meta.DATA)
    yield home
    files.publish(home / meta.DATA, partial)
    files.remove_tree(home)
