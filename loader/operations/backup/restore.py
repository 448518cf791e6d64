"""Put a backup into a database directory: unpacked beside its place, checked, then renamed.

`Contents` is the database of a backup as a data file, whichever kind of backup it is: pages are unpacked, LDIF is built
again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from loader import config, dn, schema, units
from loader.age import Identities
from loader.common_options import OptionalConfig, Suffix, Target, VerifyCopy
from loader.config import DEFAULT_MODE, Config, Database, Entry
from loader.errors import BackupDamaged, LoaderError, UsageProblem
from loader.mdb import copy, meta
from loader.mdb.verify import Verified
from loader.operations import made_with
from loader.operations.backup import pack, repository
from loader.operations.backup.manifest import CONFIG, ENTRIES, Backup
from loader.operations.backup.repository import LATEST, EveryDatabase, IdentityFiles, RepoOption, Repository, Which
from loader.operations.backup.run import directory_of, machine
from loader.operations.clone import require_space
from loader.operations.made_with import Origin, Rebuilt
from loader.operations.publish import (
    BuildDirectory,
    TargetDatabase,
    build_directory,
    checked,
    put,
    require_readable_format,
    require_target,
)
from loader.progress import Progress
from loader.run.log import killpoint
from loader.server import configuration, private
from loader.storage import files, temporary

log = logging.getLogger(__name__)
_BUILT = "built"  # beside the data file, while it is built from LDIF
_ENVIRONMENT = "environment"  # beside the unpacked file, while indexes are made again
_ANEW = (
    "Give this configuration the schema and the multival that the backup was made with, or make the database anew from "
    "its entries: `ditseed backup restore --target`, `ditseed export` of that directory, `ditseed build`."
)


@dataclass(frozen=True)
class Contents:
    """config_path: what the backup is tried with, and LDIF is built for; None: the configuration that is part of it."""

    repo: Path
    backup: Backup
    identities: Identities | None = None
    config_path: Path | None = None

    @classmethod
    def of(cls, repo: Path, backup: Backup, paths: tuple[Path, ...], config_path: Path | None = None) -> Contents:
        """paths: files of keys. Raises BackupEncrypted, UsageProblem, NoSuchPath, NotPermitted, PackageMissing."""
        return cls(repo, backup, pack.unlocked(repo / backup.id, backup, paths), config_path)

    @property
    def directory(self) -> Path:
        return self.repo / self.backup.id

    def config(self) -> Config:
        """Raises ConfigUnreadable, BackupDamaged, BackupEncrypted, UsageProblem where there is none."""
        if self.config_path is not None:
            return configuration.read(self.config_path)
        if not self.backup.with_config:
            held = f"backup {self.backup.id} holds no configuration"
            raise UsageProblem(reason=f"{held}: give --config, the one to try it with")
        return config.parse(self.directory / self.backup.config_file, self.config_entries())

    def config_entries(self) -> list[Entry]:
        """Of the configuration that is part of it."""
        content = pack.content(self.directory, self.backup, CONFIG, self.identities)
        path = self.directory / self.backup.config_file
        return configuration.entries_of(content, path)

    def put(self, target: Path, progress: Progress, step: str = "unpack") -> float:
        """Write the data file `target` into a private directory; seconds. Raises BackupDamaged, BackupEncrypted,
        NoSpace, and of LDIF what a build raises."""
        if self.backup.is_ldif:
            return self._build(target, progress)
        with progress.step(step) as meter:
            pack.unpack(self.repo, self.backup, target, meter, self.identities)
            return meter.seconds

    def _build(self, target: Path, progress: Progress) -> float:
        """Entries are what they were: nothing is refused for the schema's sake, and nothing is added."""
        from loader.operations import build  # it takes long to load, and most backups are of pages

        found, built = self.config(), target.with_name(_BUILT)
        database = found.database(self.backup.suffix)
        for stored in self.backup.files:
            pack.require_sums(self.directory / stored.name, stored)
        files.remove_tree(built)  # of a try that was killed
        built.mkdir(mode=0o700)
        try:
            with (
                pack.plain(self.directory, self.backup, self.identities, target.with_name(ENTRIES)) as entries,
                temporary.directory("backup", configuration.tools_tmpdir()) as scratch,
                private.configured(found, database, scratch) as home,
            ):
                options = build.BuildOptions(
                    inputs=(entries,),
                    config_path=home,
                    suffix=self.backup.suffix,
                    target=built,
                    check_schema=False,
                    complete_naming=False,
                    glue=False,
                )
                report = build.build(options, progress, {})
            files.publish(built / meta.DATA, target)
        finally:
            files.remove_tree(built)
        return msgspec.convert(report["seconds"], float)


@dataclass(frozen=True)
class RestoreOptions:
    """Into the database directory of a configuration, or into a directory (`target`); one of the two.

    `verify`: a level of loader.mdb.verify; None picks one by size. every: all backups of one moment, each into the
    directory of its database. identities: files of keys. `discard`: the data file that is replaced is not kept.
    """

    repo: RepoOption
    which: Which = LATEST
    config_path: OptionalConfig = None
    suffix: Suffix = None
    target: Target = None
    replace: Annotated[
        bool,
        "Replace the existing database once the restored one is checked. Its data file is kept in the directory as "
        "data.mdb.replaced-TIME.",
    ] = False
    verify: VerifyCopy = None
    every: EveryDatabase = False
    identities: IdentityFiles = ()
    discard: Annotated[bool, "With --replace: remove the existing database instead of keeping its data file."] = False


@dataclass(frozen=True)
class RestoreTarget:
    """Where it goes. `like`: a path whose owner a directory gets that must be made."""

    directory: Path
    mode: int
    like: Path
    database: Database | None
    config: Config | None = None


@dataclass(frozen=True)
class RestorePlan:
    """What a restore would do. Bytes."""

    backup: Backup
    target: str
    needed: int
    free: int
    replaces: bool


@dataclass(frozen=True)
class RestoreReport:
    """A finished restore. Bytes, seconds. indexed: indexes that were made again. kept: the data file that was there
    before, under its new name."""

    backup: Backup
    target: str
    entries: int | None
    bytes: int
    allocated: int
    verified: str
    seconds: float
    indexed: tuple[str, ...] = ()
    kept: str | None = None


@dataclass(frozen=True)
class _Ready:
    """A database that is unpacked and checked, and still beside its place."""

    options: RestoreOptions
    backup: Backup
    place: RestoreTarget
    shop: BuildDirectory
    verified: Verified
    indexed: Rebuilt
    seconds: float

    def put(self) -> RestoreReport:
        """Raises TargetInUse, TargetNotEmpty."""
        partial, wishes = self.shop.home / copy.PARTIAL, self.options
        old = put(partial, self.shop.target, self.place.mode, wishes.replace, keep=not wishes.discard)
        sizes = copy.Sizes.of(self.place.directory / meta.DATA)
        return RestoreReport(
            backup=self.backup,
            target=str(self.place.directory),
            entries=self.verified.entries,
            bytes=sizes.apparent,
            allocated=sizes.allocated,
            verified=self.verified.level,
            seconds=self.seconds,
            indexed=self.indexed.attributes,
            kept=str(self.place.directory / old.name) if old else None,
        )


def plan(options: RestoreOptions) -> tuple[RestorePlan, ...]:
    """Every check that needs no writing and no unpacking."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        planned = _planned(options, repo)
        for one, _ in planned:
            _require_restorable(options, repo, one.backup, read=True)
        return tuple(one for one, _ in planned)


def restore(options: RestoreOptions, progress: Progress) -> tuple[RestoreReport, ...]:
    """Restore. Whatever stops it before the first is put into its place, all directories hold what they held before,
    and the same call begins again."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        planned = _planned(options, repo)
    with ExitStack() as stack:
        ready = []
        for one, target in planned:
            with files.explained(repo.path):
                repo.bring(one.backup)
                _require_restorable(options, repo, one.backup, read=True)
            contents = Contents.of(repo.path, one.backup, options.identities, options.config_path)
            ready.append(stack.enter_context(_ready(options, contents, target, progress)))
        for other in ready:
            require_target(other.shop.target, options.replace)
        return tuple(other.put() for other in ready)


def _planned(options: RestoreOptions, repo: Repository) -> list[tuple[RestorePlan, RestoreTarget]]:
    """What goes where: one backup, or those of one moment. All are looked at before the first is read."""
    if not options.every:
        place = _place(options)
        suffix = place.database.suffix if place.database else options.suffix
        backup = repository.find(repo, options.which, suffix)
        if suffix is None and backup.members and not repository.is_named(options.which):
            names = ", ".join(one.suffix for one in repository.members(repo, backup))
            raise UsageProblem(
                reason=f"the backups of one moment that {backup.id} leads are of {names}: say which one with -b"
            )
        found = [(backup, place)]
    else:
        members = repository.find_set(repo, options.which)
        found = [(one, _place(replace(options, suffix=one.suffix))) for one in members]
    for backup, place in found:
        if options.every or not repository.is_named(options.which):
            _require_restorable(options, repo, backup, read=False, alone=False)
        pack.unlocked(repo.path / backup.id, backup, options.identities)
        _require_fitting(repo.path, backup, place)
        require_target(place.directory, options.replace)
    free = _require_space(found)
    return [
        (
            RestorePlan(
                backup, str(place.directory), backup.room, free[place.directory], (place.directory / meta.DATA).exists()
            ),
            place,
        )
        for backup, place in found
    ]


def _require_space(found: Sequence[tuple[Backup, RestoreTarget]]) -> dict[Path, int]:
    """Free bytes by directory; several may be of one file system. Raises NoSpace."""
    needed: dict[int, int] = {}
    for backup, place in found:
        device = files.existing(place.directory).stat().st_dev
        needed[device] = needed.get(device, 0) + backup.room
    return {
        place.directory: require_space(place.directory, needed[files.existing(place.directory).stat().st_dev])
        for _, place in found
    }


def _require_restorable(
    options: RestoreOptions, repo: Repository, backup: Backup, read: bool, alone: bool = True
) -> None:
    problem = repository.problem(repo, backup, read, alone)
    if problem is not None:
        raise problem


@contextmanager
def _ready(options: RestoreOptions, contents: Contents, target: RestoreTarget, progress: Progress) -> Iterator[_Ready]:
    """Nothing of it stays where it is not put."""
    with files.explained(target.directory), build_directory(target.directory, target.like) as shop:
        partial = shop.home / copy.PARTIAL
        try:
            seconds = contents.put(partial, progress)
            killpoint("restore.unpacked")
            indexed = _fitted(contents, target, partial, progress)
            for note in indexed.notes:
                progress.say(note)
            verified = checked(partial, options.verify, progress)
            _tell_entries(contents.backup, verified.entries)
            yield _Ready(options, contents.backup, target, shop, verified, indexed, seconds)
        except BaseException:
            partial.unlink(missing_ok=True)
            files.remove_tree(partial.parent / _ENVIRONMENT)
            raise


def _fitted(contents: Contents, target: RestoreTarget, partial: Path, progress: Progress) -> Rebuilt:
    """Makes indexes again that the configuration would have made otherwise; which. Raises SchemaMissing,
    MadeOtherwise."""
    if target.config is None or target.database is None or contents.backup.is_ldif:
        return Rebuilt()
    origin = _origin(contents, target.config)
    with progress.step("look") as meter:
        found = made_with.look(partial, target.config, target.database, meter, origin)
    found.require(contents.directory / contents.backup.file, target.config, _ANEW)
    if found.rebuild:
        database = TargetDatabase(target.config, target.database, target.directory)
        with progress.step("index") as meter, _as_environment(partial) as made:
            return made_with.rebuild(database, made, found.rebuild, partial.parent, meter)
    return Rebuilt()


def _origin(contents: Contents, now: Config) -> Origin | None:
    """The configuration that was backed up. What is compiled into slapd is not in it."""
    backup = contents.backup
    if not backup.with_config:
        return None
    try:
        own = [one for one in contents.config_entries() if one[0].lower() != schema.ROOT]
        path = contents.directory / backup.config_file
        found = config.parse(path, [*own, *configuration.read_compiled_schema(now)])
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
    home = partial.parent / _ENVIRONMENT
    files.remove_tree(home)
    home.mkdir(mode=0o700)
    files.publish(partial, home / meta.DATA)
    yield home
    files.publish(home / meta.DATA, partial)
    files.remove_tree(home)


def _tell_entries(backup: Backup, found: int | None) -> None:
    """The data is the one that was backed up, for its checksums say so: no reason not to restore it."""
    if found not in (None, backup.entries):
        log.warning(
            "the manifest of %s says %s entries, the database holds %s",
            backup.id,
            units.number(backup.entries),
            units.number(found or 0),
        )


def _place(options: RestoreOptions) -> RestoreTarget:
    if options.target is not None:
        return RestoreTarget(options.target, DEFAULT_MODE, files.existing(options.target), None)
    if options.config_path is None:
        raise UsageProblem(reason="say where to: --config, or --target DIR")
    found = configuration.read(options.config_path)
    database = found.database(options.suffix)
    directory = directory_of(database, options.config_path)
    return RestoreTarget(directory, database.mode, options.config_path, database, found)


def _require_fitting(repo: Path, backup: Backup, place: RestoreTarget) -> None:
    """The right suffix, an LMDB that can read it, a maxsize that leaves room."""
    stored = repo / backup.id / backup.file
    if not backup.is_ldif and backup.machine.partition(" (")[0] != machine().partition(" (")[0]:
        raise BackupDamaged(path=stored, reason=f"was made on a {backup.machine} host, this one is {machine()}")
    if place.database is None:
        return
    if not any(dn.key(backup.suffix) == dn.key(suffix) for suffix in place.database.suffixes):
        wanted = place.database.suffix
        raise UsageProblem(reason=f"backup {backup.id} is of {backup.suffix}, the database is for {wanted}")
    if not backup.is_ldif:
        require_readable_format(stored, backup.lmdb_format)
    if place.database.maxsize < backup.data_bytes:
        log.warning(
            "maxsize of %s is %s, but the backup has %s in use: raise it, or writes will fail (ditseed tune maxsize)",
            place.database.suffix,
            units.size(place.database.maxsize),
            units.size(backup.data_bytes),
        )
