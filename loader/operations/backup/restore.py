"""Restores a backup into a database directory: unpacks the data file beside the target, checks it, then renames it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from loader import age, backmdb, config, dn, units
from loader.age import Identities
from loader.config import DEFAULT_MODE, Config, Database, Entry
from loader.errors import BackupDamaged, BackupEncrypted, LoaderError, LogUnsuitable, NoSuchBackup, UsageProblem
from loader.mdb import copy, meta
from loader.operations import made_with
from loader.operations.backup import pack, replay, repository, segments
from loader.operations.backup.manifest import CONFIG, ENTRIES, Backup
from loader.operations.backup.options import Moment, RestoreOptions, Which
from loader.operations.backup.replay import Log, Logged, Origin, Replay
from loader.operations.backup.repository import Repository
from loader.operations.backup.run import machine
from loader.operations.clone import require_space
from loader.operations.made_with import Rebuilt
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
from loader.storage import files

log = logging.getLogger(__name__)
_BUILT = "built"  # directory beside the unpacked data file, in which a database is built from LDIF
_ENVIRONMENT = "environment"  # directory beside the unpacked data file, in which the file is changed
_ANEW = (
    "Give this configuration the schema and multival of the backup's configuration, or rebuild the database from "
    "its entries: `ditseed backup restore --target`, `ditseed export` of that directory, `ditseed build`."
)


class Contents(msgspec.Struct, frozen=True):
    """A backup, and the keys that decrypt it. `config_path`: a configuration to use instead of the stored one."""

    repo: Path
    backup: Backup
    identities: Identities | None = None
    config_path: Path | None = None

    @classmethod
    def of(cls, repo: Path, backup: Backup, paths: tuple[Path, ...], config_path: Path | None = None) -> Contents:
        """Reads the key files `paths` if the backup is encrypted. Raises UsageProblem, NoSuchPath, NotPermitted,
        PackageMissing, or BackupEncrypted if `paths` is empty."""
        if backup.is_encrypted and not paths:
            raise BackupEncrypted(path=repo / backup.id, reason="no identity is given")
        return cls(repo, backup, age.identities(paths) if backup.is_encrypted else None, config_path)

    @property
    def directory(self) -> Path:
        return self.repo / self.backup.id

    @property
    def file(self) -> Path:
        return self.directory / self.backup.file

    def config(self) -> Config:
        """Reads the configuration. Raises ConfigUnreadable, errors of the backup, or UsageProblem if there is none."""
        if self.config_path is not None:
            return configuration.read(self.config_path)
        if not self.backup.with_config:
            raise UsageProblem(reason=f"backup {self.backup.id} has no configuration: give one with --config")
        return config.parse(self.directory / self.backup.config_file, self.config_entries())

    def config_entries(self) -> list[Entry]:
        """Returns the entries of the configuration stored in the backup."""
        content = pack.content(self.directory, self.backup, CONFIG, self.identities)
        return configuration.entries_of(content, self.directory / self.backup.config_file)

    def put(self, target: Path, progress: Progress, step: str = "unpack") -> float:
        """Writes the backup's database to `target`, a file in a private directory: unpacks its pages, or builds it from
        LDIF. Returns the seconds taken. Raises BackupDamaged, BackupEncrypted, NoSpace; for LDIF, a build's errors."""
        if self.backup.is_ldif:
            return self._build(target, progress)
        with progress.step(step) as meter:
            pack.unpack(self.repo, self.backup, target, meter, self.identities)
            return meter.seconds

    def _build(self, target: Path, progress: Progress) -> float:
        """Builds a database of exactly the stored entries: checks no schema, and adds no RDN values or glue entries."""
        from loader.operations import build  # imported here: slow to load, and most backups store pages

        original = self.config()
        for stored in self.backup.files:
            pack.require_sums(self.directory / stored.name, stored)
        with (
            files.workspace(target.with_name(_BUILT)) as built,
            pack.plain(self.directory, self.backup, self.identities, target.with_name(ENTRIES)) as entries,
            files.temporary_directory("backup", configuration.tools_tmpdir()) as scratch,
            private.configured(original, original.database(self.backup.suffix), scratch) as config_path,
        ):
            options = build.BuildOptions(
                inputs=(entries,),
                config_path=config_path,
                suffix=self.backup.suffix,
                target=built,
                check_schema=False,
                complete_naming=False,
                glue=False,
            )
            report = build.build(options, progress, {})
            files.publish(built / meta.DATA, target)
        return msgspec.convert(report["seconds"], float)


class RestorePlan(msgspec.Struct, frozen=True):
    """The result of a dry run. `needed` and `free` are in bytes. `changes`: the last changes before --until."""

    backup: Backup
    target: str
    needed: int
    free: int
    replaces: bool
    changes: tuple[Logged, ...] = ()


class RestoreReport(msgspec.Struct, frozen=True):
    """A finished restore. Sizes are in bytes. `indexed` has the attributes whose indexes were rebuilt. `kept` is the
    new path of the replaced data file."""

    backup: Backup
    target: str
    entries: int | None
    bytes: int
    allocated: int
    verified: str
    seconds: float
    indexed: tuple[str, ...] = ()
    kept: str | None = None
    replayed: Replay | None = None


class RestoreTarget(msgspec.Struct, frozen=True):
    """The directory into which a database is restored. If it is new, it gets the owner of the path `like`."""

    directory: Path
    mode: int
    like: Path
    database: Database | None = None
    config: Config | None = None


def plan(options: RestoreOptions) -> tuple[RestorePlan, ...]:
    """Returns what a restore would do. Makes all checks that need no unpacking."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        chosen = _chosen(options, repo)
        for contents, _ in chosen:
            repository.require_restorable(repo, contents.backup, alone=True)
    plans = list[RestorePlan]()
    for contents, target in chosen:
        free, replaces = require_space(target.directory, 0), (target.directory / meta.DATA).exists()
        plans.append(RestorePlan(contents.backup, str(target.directory), contents.backup.room, free, replaces))
    return tuple(plans)


def restore(options: RestoreOptions, progress: Progress) -> tuple[RestoreReport, ...]:
    """Restores the selected backups. After an error or a kill before the first database is moved into its directory,
    all directories are unchanged, and the same call starts over."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        chosen = _chosen(options, repo)
    with ExitStack() as stack:
        unpacked = list[tuple[RestoreTarget, BuildDirectory, RestoreReport]]()
        for contents, target in chosen:
            with files.explained(repo.path):
                repo.bring(contents.backup.stored())
                repository.require_restorable(repo, contents.backup, alone=True)
            unpacked.append((target, *stack.enter_context(_unpacked(options, repo, contents, target, progress))))
        for _, build, _ in unpacked:
            require_target(build.target, options.replace)
        reports = list[RestoreReport]()
        for target, build, report in unpacked:
            old = put(build.home / copy.PARTIAL, build.target, target.mode, options.replace, keep=True)
            reports.append(replace(report, kept=str(target.directory / old.name) if old else None))
        return tuple(reports)


def _chosen(options: RestoreOptions, repo: Repository) -> list[tuple[Contents, RestoreTarget]]:
    """Returns the selected backup or set, with the target of each backup. Checks them without reading their data.
    Raises NoSpace if a file system has no space for all the databases that are restored there."""
    if options.every:
        backups = repository.find_set(repo, options.which)
        pairs = [(backup, _target(dataclasses.replace(options, suffix=backup.suffix))) for backup in backups]
    else:
        target = _target(options)
        suffix = target.database.suffix if target.database else options.suffix
        backup = repository.find(repo, options.which, suffix)
        if options.until:
            if options.log is not None:
                Log.of_option(options.log)
            backup = _before(repo, options.until, options.which, backup)
            contents = Contents.of(repo.path, backup, options.identities)
            origin = _origin(contents, target)
            replay.require_replayable(origin.config, origin.database)
            replay.require_changeable(contents.file, backup)
        if suffix is None and backup.members and not repository.is_id(options.which):
            names = ", ".join(member.suffix for member in repository.members(repo, backup))
            raise UsageProblem(reason=f"the set of {backup.id} has backups of {names}: choose one with -b")
        pairs = [(backup, target)]
    chosen, needed = list[tuple[Contents, RestoreTarget]](), dict[int, int]()
    for backup, target in pairs:
        if options.every or not repository.is_id(options.which):
            repository.require_restorable(repo, backup, read=False)
        contents = Contents.of(repo.path, backup, options.identities, options.config_path)
        _require_fitting(contents.file, backup, target)
        require_target(target.directory, options.replace)
        device = files.existing(target.directory).stat().st_dev
        needed[device] = needed.get(device, 0) + backup.room
        require_space(target.directory, needed[device])
        chosen.append((contents, target))
    return chosen


def _before(repo: Repository, moment: Moment, which: Which, backup: Backup) -> Backup:
    """Returns the newest backup of the same suffix that has no change after `moment`. Raises NoSuchBackup."""
    backups = repository.listing(repo, backup.suffix).backups
    if repository.is_id(which) and backup.when <= moment.time:
        return backup  # if it has a later change, the replay raises an error
    for candidate in () if repository.is_id(which) else reversed(backups):
        if replay.end_of(candidate) <= moment.time and candidate.when <= backup.when:
            return candidate
    oldest = f"the oldest is of {backups[0].made}" if backups else "there is none"
    raise NoSuchBackup(path=repo.path, name=f"of {backup.suffix} from before {moment.text}: {oldest}")


def _origin(contents: Contents, target: RestoreTarget) -> Origin:
    """Returns the backup with the configuration of the target or, if the target has none, the stored configuration."""
    configured = target.config or contents.config()
    database = target.database or configured.database(contents.backup.suffix)
    return Origin(contents.backup, configured, database)


@contextmanager
def log_of(
    options: RestoreOptions, repo: Repository, origin: Origin, progress: Progress, top: Path | None = None
) -> Iterator[Log]:
    """Yields the accesslog that --log names. Without --log, yields the segments of the log if they reach the moment to
    restore; else the segments or a backup of the log (the first after the moment, or the latest), whichever reaches
    further. Unpacks a backup to a temporary directory (in the private `top`). Raises LogUnsuitable without a log."""
    if options.log is not None:
        yield Log.of_option(options.log)
        return
    moment = options.until
    assert moment is not None
    chain, before_gap = segments.chain(repo, origin.backup, moment)
    suffix = chain[-1].log if chain else replay.log_suffix(origin.config, origin.database)
    backups = [backup for backup in repository.listing(repo, suffix).backups if backup.when >= origin.backup.when]
    logged = next((backup for backup in backups if backup.when >= moment.time), backups[-1] if backups else None)
    uses_chain = bool(chain) and (
        segments.reaches(chain[-1], moment) or logged is None or logged.when < min(chain[-1].end, moment.time)
    )
    if logged is None and not uses_chain:
        reason = f"the repository has no later backup of {suffix}"
        raise LogUnsuitable(suffix=origin.database.suffix, reason=reason, advice=replay.GIVE_LOG)
    with files.workspace(top / "log") if top else files.temporary_directory("log") as scratch:
        if logged is None or uses_chain:
            with segments.opened(repo, chain, options.identities, scratch) as paths:
                yield Log(suffix, chain[-1].end, paths, chain[0].follows, before_gap)
        else:
            repo.bring(logged.stored())
            Contents.of(repo.path, logged, options.identities).put(scratch / meta.DATA, progress, "unpack the log")
            yield Log(str(scratch), logged.when)


def _target(options: RestoreOptions) -> RestoreTarget:
    if options.target is not None:
        return RestoreTarget(options.target, DEFAULT_MODE, files.existing(options.target))
    if options.config_path is None:
        raise UsageProblem(reason="say where to: --config, or --target DIR")
    configured = configuration.read(options.config_path)
    database = configured.database(options.suffix)
    directory = database.require_directory(options.config_path)
    return RestoreTarget(directory, database.mode, options.config_path, database, configured)


def _require_fitting(stored: Path, backup: Backup, target: RestoreTarget) -> None:
    """Raises an error if the suffix is wrong, or this host's LMDB cannot read the backup. Warns of a small maxsize."""
    database = target.database
    if not backup.is_ldif and backup.machine.partition(" (")[0] != machine().partition(" (")[0]:
        raise BackupDamaged(path=stored, reason=f"was made on a {backup.machine} host, this one is {machine()}")
    if database is None:
        return
    if dn.key(backup.suffix) not in map(dn.key, database.suffixes):
        raise UsageProblem(reason=f"backup {backup.id} is of {backup.suffix}, the database is for {database.suffix}")
    if not backup.is_ldif:
        require_readable_format(stored, backup.lmdb_format)
    if database.maxsize < backup.data_bytes:
        text = "maxsize of %s is %s, but the backup uses %s: raise maxsize (ditseed tune maxsize), or writes will fail"
        log.warning(text, database.suffix, units.size(database.maxsize), units.size(backup.data_bytes))


@contextmanager
def _unpacked(
    options: RestoreOptions, repo: Repository, contents: Contents, target: RestoreTarget, progress: Progress
) -> Iterator[tuple[BuildDirectory, RestoreReport]]:
    """Unpacks and checks a database in a temporary directory inside its target directory. Yields that directory, and
    the report without `kept`. Removes the database if the body fails."""
    with files.explained(target.directory), build_directory(target.directory, target.like) as build:
        partial, backup = build.home / copy.PARTIAL, contents.backup
        try:
            seconds = contents.put(partial, progress)
            killpoint("restore.unpacked")
            rebuilt = _fitted(contents, target, partial, progress)
            for note in rebuilt.index_notes:
                progress.say(note)
            replayed = None
            if options.until:
                with _environment(partial) as environment:
                    replayed = replay_log(options, repo, _origin(contents, target), environment, progress)
            verified = checked(partial, options.verify, progress)
            # Only a warning: all checksums matched.
            if replayed is None and verified.entries not in (None, backup.entries):
                text = "the manifest of %s says %s entries, the database holds %s"
                log.warning(text, backup.id, units.number(backup.entries), units.number(verified.entries or 0))
            sizes = copy.Sizes.of(partial)
            report = RestoreReport(
                backup,
                str(target.directory),
                verified.entries,
                sizes.apparent,
                sizes.allocated,
                verified.level,
                seconds,
                rebuilt.indexed,
                replayed=replayed,
            )
            yield build, report
        except BaseException:
            partial.unlink(missing_ok=True)
            files.remove_tree(partial.parent / _ENVIRONMENT)
            raise


def replay_log(
    options: RestoreOptions, repo: Repository, origin: Origin, environment: Path, progress: Progress
) -> Replay:
    """Brings the unpacked database in `environment` to the moment of --until. Creates working directories beside
    `environment`. Raises LogUnsuitable, LogIncomplete."""
    with log_of(options, repo, origin, progress, environment.parent) as source:
        replayed = replay.replay(origin, environment, source, options, progress)
    for note in (*replayed.gaps, *replayed.notes):
        log.warning("%s", note)
    return replayed


def _fitted(contents: Contents, target: RestoreTarget, partial: Path, progress: Progress) -> Rebuilt:
    """Rebuilds the indexes that the target's configuration defines differently. Raises SchemaMissing, MadeOtherwise."""
    backup = contents.backup
    if target.config is None or target.database is None or backup.is_ldif:
        return Rebuilt(())

    # The stored configuration lacks the schema that is compiled into slapd: take that of the installed slapd.
    origin = None
    if backup.with_config:
        try:
            stored_entries = [entry for entry in contents.config_entries() if entry[0].lower() != backmdb.ROOT]
            path = contents.directory / backup.config_file
            original = config.parse(path, [*stored_entries, *configuration.read_compiled_schema(target.config)])
            origin = made_with.Origin(original, original.database(backup.suffix))
        except BackupDamaged as error:
            log.warning("the configuration of the backup is not compared: %s", error)
        except (LoaderError, OSError) as error:
            log.info("the configuration of %s is not compared: %s", backup.id, error)

    with progress.step("look") as meter:
        fit = made_with.look(partial, target.config, target.database, meter, origin)
    fit.require(contents.file, target.config, _ANEW)
    if not fit.rebuild:
        return Rebuilt(())
    database = TargetDatabase(target.config, target.database, target.directory)
    with progress.step("index") as meter, _environment(partial) as environment:
        return made_with.rebuild(database, environment, fit.rebuild, partial.parent, meter)


@contextmanager
def _environment(partial: Path) -> Iterator[Path]:
    """Yields an environment directory that has the data file `partial`, and moves this file back after the body."""
    environment = partial.parent / _ENVIRONMENT
    files.emptied(environment)
    files.publish(partial, environment / meta.DATA)
    yield environment
    files.publish(environment / meta.DATA, partial)
    files.remove_tree(environment)
