"""Put a backup into a database directory: unpacked beside its place, checked, then renamed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loader import dn, units
from loader.config import DEFAULT_MODE
from loader.errors import BackupDamaged, UsageProblem
from loader.mdb import copy, meta
from loader.mdb.verify import Verified
from loader.operations.backup import encryption, fitting, pack, repository
from loader.operations.backup.contents import Contents
from loader.operations.backup.fitting import RestoreTarget
from loader.operations.backup.manifest import Backup
from loader.operations.backup.member import machine
from loader.operations.backup.origin import directory_of
from loader.operations.backup.repository import Bring, Which, there
from loader.operations.clone import require_space
from loader.operations.indexing import Rebuilt
from loader.operations.target import (
    BuildDirectory,
    build_directory,
    checked,
    put,
    require_readable_format,
    require_target,
)
from loader.progress import Progress
from loader.run.log import killpoint
from loader.server import configuration
from loader.storage import files

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RestoreOptions:
    """Into the database directory of a configuration, or into a directory (`target`); one of the two.

    `verify`: a level of loader.mdb.verify; None picks one by size. every: all backups of one moment, each into the
    directory of its database. identities: files of keys. `discard`: the data file that is replaced is not kept.
    """

    repo: Path
    which: Which
    config_path: Path | None = None
    suffix: str | None = None
    target: Path | None = None
    replace: bool = False
    verify: str | None = None
    every: bool = False
    identities: tuple[Path, ...] = ()
    discard: bool = False


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
        old = put(
            partial, self.shop.target, self.place.mode, wishes.replace, keep=not wishes.discard
        )
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


def plan(options: RestoreOptions, bring: Bring = there) -> tuple[RestorePlan, ...]:
    """Every check that needs no writing and no unpacking."""
    with files.explained(options.repo):
        found = _planned(options)
        for one, _ in found:
            _brought(options, one.backup, bring)
        return tuple(one for one, _ in found)


def restore(
    options: RestoreOptions, progress: Progress, bring: Bring = there
) -> tuple[RestoreReport, ...]:
    """Restore. Whatever stops it before the first is put into its place, all directories hold what they held before,
    and the same call begins again."""
    with files.explained(options.repo):
        found = _planned(options)
    with ExitStack() as stack:
        ready = []
        for one, place in found:
            with files.explained(options.repo):
                _brought(options, one.backup, bring)
            ready.append(stack.enter_context(_ready(options, one.backup, place, progress)))
        for other in ready:
            require_target(other.shop.target, options.replace)
        return tuple(other.put() for other in ready)


def _planned(options: RestoreOptions) -> list[tuple[RestorePlan, RestoreTarget]]:
    """What goes where: one backup, or those of one moment. All are looked at before the first is read."""
    if not options.every:
        place = _place(options)
        suffix = place.database.suffix if place.database else options.suffix
        backup = repository.find(options.repo, options.which, suffix)
        if suffix is None and backup.members and not repository.is_named(options.which):
            names = ", ".join(one.suffix for one in repository.members(options.repo, backup))
            raise UsageProblem(
                reason=f"the backups of one moment that {backup.id} leads are of {names}: say which one with -b"
            )
        found = [(backup, place)]
    else:
        members = repository.find_set(options.repo, options.which)
        found = [(one, _place(replace(options, suffix=one.suffix))) for one in members]
    for backup, place in found:
        _require_restorable(options, backup)
        encryption.unlocked(options.repo, backup, options.identities)
        _require_fitting(options, backup, place)
        require_target(place.directory, options.replace)
    free = _require_space(found)
    return [
        (
            RestorePlan(
                backup,
                str(place.directory),
                backup.room,
                free[place.directory],
                (place.directory / meta.DATA).exists(),
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
        place.directory: require_space(
            place.directory, needed[files.existing(place.directory).stat().st_dev]
        )
        for _, place in found
    }


def _require_restorable(
    options: RestoreOptions, backup: Backup, lists: Bring | None = None, alone: bool = False
) -> None:
    """Of one that is named its own data will do."""
    is_named = repository.is_named(options.which) and not options.every
    problem = None if is_named else repository.problem(options.repo, backup, lists, alone)
    if problem is not None:
        raise problem


def _brought(options: RestoreOptions, backup: Backup, bring: Bring) -> None:
    bring(backup)
    _require_restorable(options, backup, there, alone=True)
    pack.require_whole(options.repo / backup.id, backup)


@contextmanager
def _ready(
    options: RestoreOptions, backup: Backup, place: RestoreTarget, progress: Progress
) -> Iterator[_Ready]:
    """Nothing of it stays where it is not put."""
    with (
        files.explained(place.directory),
        build_directory(place.directory, place.like) as shop,
    ):
        partial = shop.home / copy.PARTIAL
        try:
            yield _unpacked(options, backup, place, shop, progress)
        except BaseException:
            partial.unlink(missing_ok=True)
            files.remove_tree(partial.parent / fitting.ENVIRONMENT)
            raise


def _unpacked(
    options: RestoreOptions,
    backup: Backup,
    place: RestoreTarget,
    shop: BuildDirectory,
    progress: Progress,
) -> _Ready:
    partial = shop.home / copy.PARTIAL
    identities = encryption.unlocked(options.repo, backup, options.identities)
    contents = Contents(options.repo, backup, identities, options.config_path)
    seconds = contents.put(partial, progress)
    killpoint("restore.unpacked")
    indexed = fitting.fitted(options.repo, backup, place, partial, identities, progress)
    for note in indexed.notes:
        progress.say(note)
    verified = checked(partial, options.verify, progress)
    _tell_entries(backup, verified.entries)
    return _Ready(options, backup, place, shop, verified, indexed, seconds)


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


def _require_fitting(options: RestoreOptions, backup: Backup, place: RestoreTarget) -> None:
    """The right suffix, an LMDB that can read it, a maxsize that leaves room."""
    stored = options.repo / backup.id / backup.file
    if not backup.is_ldif and backup.machine.partition(" (")[0] != machine().partition(" (")[0]:
        raise BackupDamaged(
            path=stored, reason=f"was made on a {backup.machine} host, this one is {machine()}"
        )
    if place.database is None:
        return
    if not any(dn.key(backup.suffix) == dn.key(suffix) for suffix in place.database.suffixes):
        wanted = place.database.suffix
        raise UsageProblem(
            reason=f"backup {backup.id} is of {backup.suffix}, the database is for {wanted}"
        )
    if not backup.is_ldif:
        require_readable_format(stored, backup.lmdb_format)
    if place.database.maxsize < backup.data_bytes:
        log.warning(
            "maxsize of %s is %s, but the backup has %s in use: raise it, or writes will fail "
            "(ditseed tune maxsize)",
            place.database.suffix,
            units.size(place.database.maxsize),
            units.size(backup.data_bytes),
        )
