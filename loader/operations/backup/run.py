"""Takes a backup: a consistent snapshot of a database, compacted and packed into the repository while slapd runs. With
--all-databases: one backup of each database of a configuration, all of the same moment (a set).

Steps: look, copy, manifest, publish, prune. A backup gets its final name by a rename once all its files are durable.
A backup shows one moment, so a killed run is not resumed: the next run removes its remains.
"""

from __future__ import annotations

import datetime
import logging
import os
import platform
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
import zstandard

from loader import dn, plain, resources
from loader.common_options import OptionalConfig, Suffix
from loader.config import Config, Database
from loader.errors import NoSuchPath, NoSuchSuffix, UsageProblem
from loader.mdb import contents, meta, snapshot
from loader.mdb.copy import paged
from loader.mdb.snapshot import AccessLog, Snapshot
from loader.operations.backup import manifest, pack, repository
from loader.operations.backup.manifest import CONFIG, ENTRIES, MANIFEST, Backup, StoredFile
from loader.operations.backup.pack import PACKING, Packing, PreviousBackup, StoredPages
from loader.operations.backup.repository import KEEP_ALL, EveryDatabase, Policy, RepoOption, Repository
from loader.operations.clone import require_source
from loader.piped import piped
from loader.progress import Meter, Progress
from loader.run.log import Report, killpoint, report_of
from loader.run.steps import Run, open_run
from loader.server import configuration
from loader.sources import mdb, sampling
from loader.sources.mdb import Exported, Part
from loader.sources.sampling import SampleSize
from loader.storage import files, held

log = logging.getLogger(__name__)
ROLES = PROVIDER, CONSUMER = "provider", "consumer"
_READ = 256 << 10  # bytes of LDIF per read
_SAMPLE = SampleSize(5000, 0.0)  # sample of 5000 entries that predicts the bytes of the LDIF


@dataclass(frozen=True)
class BackupOptions:
    """Exactly one of `config_path` and `source` (a database directory) names the database. `every`: back up all mdb
    databases of the configuration at one moment. `policy`: which backups of the same suffixes a successful run keeps;
    others are removed. `incremental`: store only pages that the last incremental backup lacks."""

    repo: RepoOption
    config_path: OptionalConfig = None
    source: Annotated[Path | None, "--from DIR", "Database directory, if there is no configuration."] = None
    suffix: Suffix = None
    packing: Packing = PACKING
    policy: Policy = KEEP_ALL
    incremental: Annotated[
        bool, "Store only the pages that the last incremental backup of this suffix does not have."
    ] = False
    every: EveryDatabase = False


def run(options: BackupOptions, progress: Progress) -> Backup:
    """Takes a backup; returns its manifest (for a set, the leader's). Raises Locked while another run changes the
    repository; NoCommonMoment, NoSpace, RemoteFailed."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        origins, logs = _origins(options)
        for origin in origins:
            require_source(origin.directory)
        held.make_directories(repo.path, 0o700)
        with repo.changing() as locked:
            locked.tidy()
            run_dir, about = locked.path / repository.RUN, {"source": [str(origin.directory) for origin in origins]}
            with open_run(run_dir, "backup run", about, progress, restart=True, resumable=False) as steps:
                members = [_Member(options, locked, origin) for origin in origins]
                return _take(options, locked, members, logs, steps)


# --- what is backed up ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """A database to back up. `config`: cn=config as LDIF, credentials included."""

    directory: Path
    suffix: str | None
    config: bytes | None = None


def _origins(options: BackupOptions) -> tuple[list[Origin], list[AccessLog]]:
    """Returns the databases to back up, accesslogs last, and the accesslogs with the databases that they log. Raises
    NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath, UsageProblem."""
    path = options.config_path
    if options.source is not None:
        return [Origin(options.source, options.suffix)], []
    if path is None:
        raise UsageProblem(reason="say what to back up: --config, or --from DIR")
    config, text = configuration.read_with_text(path)
    if options.every and not config.mdb_databases:
        raise NoSuchSuffix(config=path, suffix="(any)", known="none")
    databases = config.mdb_databases if options.every else [config.database(options.suffix)]
    origins, suffixes = list[Origin](), dict[Path, str | None]()
    for database in databases:
        directory = directory_of(database, path)
        if directory in suffixes:  # slapd itself only logs a warning
            both = f"{suffixes[directory]} and of {database.suffix}"
            raise UsageProblem(reason=f"{directory} is the directory of {both}")
        suffixes[directory] = database.suffix
        origins.append(Origin(directory, database.suffix, text))
    logs = _logs(config) if options.every else []
    accesslogs = {log.log for log in logs}
    return sorted(origins, key=lambda origin: origin.directory in accesslogs), logs


def directory_of(database: Database, path: Path) -> Path:
    """Returns the database's directory. Raises NoSuchPath if the configuration (`path`) gives none."""
    if database.directory is None:
        raise NoSuchPath(path=f"{path}: the directory of {database.suffix}")
    return database.directory


def _logs(config: Config) -> list[AccessLog]:
    """Returns the accesslogs for which both the log and the logged database are mdb databases."""
    by_suffix = {dn.key(name): database for database in config.mdb_databases for name in database.suffixes}
    return [
        AccessLog(accesslog.directory, database.directory, database.suffix)
        for database, name in config.logs
        if (accesslog := by_suffix.get(dn.key(name))) is not None
        and database in config.mdb_databases
        and accesslog.directory is not None
        and database.directory is not None
    ]


def machine() -> str:
    """Returns the word size and byte order, on which LMDB's file format depends, and the architecture."""
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"{bits}-bit {sys.byteorder}-endian ({platform.machine()})"


def has_role(options: BackupOptions, role: str) -> bool:
    """Returns whether the database (one of them, if there are several) has the role: with syncrepl it is a consumer,
    with slapo-syncprov a provider, with both it is both."""
    if options.config_path is None:
        raise UsageProblem(reason="--only-role looks at the configuration: give --config")
    config = configuration.read(options.config_path)
    databases = config.mdb_databases if options.every else [config.database(options.suffix)]
    return any(database.consumer if role == CONSUMER else "syncprov" in database.overlays for database in databases)


def is_this_host(names: Collection[str]) -> bool:
    """Returns whether any of the names is this host's, with or without its domain."""
    mine = {socket.gethostname(), socket.getfqdn()}
    mine |= {name.partition(".")[0] for name in mine}
    return not mine.isdisjoint(names)


# --- one database ---------------------------------------------------------------------------------


class _Member:
    """One database of a run, from its snapshot to its published backup. `facts`: fields of the manifest; those set by
    `look` were read just before the snapshot. `backup`: the manifest, set by `write`."""

    backup: Backup

    def __init__(self, options: BackupOptions, repo: Repository, origin: Origin) -> None:
        self.options, self.repo, self.origin = options, repo, origin
        self.facts: Report = {}
        self._files = list[StoredFile]()
        self._pages: StoredPages | None = None

    @property
    def final(self) -> Path:
        return self.repo.path / str(self.facts["id"])

    @property
    def partial(self) -> Path:
        return self.final.with_name(self.final.name + files.PARTIAL)

    def look(self, when: datetime.datetime, follows: str, used_ids: Collection[str]) -> None:
        directory = self.origin.directory
        outline = contents.summarise(directory, self.origin.suffix)
        suffix = _only_suffix(directory, outline) if self.origin.suffix is None else self.origin.suffix
        self.facts = {
            "id": repository.new_id(self.repo.path, when, suffix, used_ids),
            "made": when.isoformat(),
            "follows": follows,
            "suffix": suffix,
            "entries": outline.entries,
            "context_csns": tuple(outline.context_csns),
            "newest_csns": tuple(outline.newest_csns),
        }

    @cached_property
    def previous(self) -> PreviousBackup:
        """The pages that an incremental backup can share. They can be read before there is a snapshot."""
        if self.options.incremental:
            every = repository.listing(self.repo, str(self.facts["suffix"])).backups
            if last := next((backup for backup in reversed(every) if backup.incremental), None):
                self.repo.bring(last)
                return pack.previous(self.repo.path, last)
        return PreviousBackup()

    def copy(self, image: Snapshot, meter: Meter) -> None:
        """Packs the pages of a snapshot into the unpublished directory `partial`. Raises NoSpace, MdbDamaged."""
        with held.private(self.partial) as directory, paged(image, pack.PIECE, meter) as stream:
            before, previous = meter.seconds, self.previous
            del self.previous  # frees about 60 bytes of memory per page
            stored = pack.store(stream, directory.path, previous, self.options.packing, meter)
        self._pages = stored
        self._files = [stored.map, *[stored.own] * (not self.options.incremental)]
        if stream.entries is not None:
            self.facts["entries"] = stream.entries
        self._note(stream.facts, meter.seconds - before, stream.size, stored.map.bytes + stored.own.bytes)

    def copy_entries(self, meter: Meter) -> None:
        """Stores the entries as compressed LDIF, parents first. Raises NoSpace, MdbDamaged."""
        packing, before, size = self.options.packing, meter.seconds, 0
        threads = resources.processors()
        with held.private(self.partial) as directory:

            def export(descriptor: int) -> Exported:
                return mdb.stream(Part(self.origin.directory), descriptor, False, threads, meter, directory.path)

            def compressed(parts: Iterable[bytes]) -> Iterator[bytes]:
                nonlocal size
                stream = zstandard.ZstdCompressor(packing.level, threads=threads).compressobj()
                for part in parts:
                    size += len(part)
                    yield stream.compress(part)
                    killpoint("copy.middle")
                yield stream.flush()

            with piped(export, "read") as (descriptor, exported):
                parts = iter(lambda: os.read(descriptor, _READ), b"")
                content = compressed(pack.paced(parts, packing.throttle))
                stored = pack.write(directory.path / packing.stored_name(ENTRIES), content, packing)
        self._files = [stored]
        self.facts["entries"] = exported.result().entries
        facts = meta.read_meta(self.origin.directory)
        self._note(facts, meter.seconds - before, size, stored.bytes)

    def _note(self, page: meta.MetaPage, seconds: float, data_bytes: int, stored_bytes: int) -> None:
        self.facts |= {
            "seconds": round(seconds, 3),
            "txnid": page.txnid,
            "lmdb_format": page.format,
            "page_size": page.page_size,
            "map_size": page.map_size,
            "data_bytes": data_bytes,
            "stored_bytes": stored_bytes,
        }

    def write(self, members: tuple[str, ...]) -> None:
        """Writes the configuration and the manifest, durably: `publish` only renames."""
        packing, incremental = self.options.packing, self.options.incremental
        with held.private(self.partial) as directory:
            if self.origin.config is not None:
                path = directory.path / packing.stored_name(CONFIG)
                self._files.append(pack.write(path, [self.origin.config], packing))
            own = {
                "host": socket.gethostname(),
                "source": str(self.origin.directory.absolute()),
                "machine": machine(),
                "files": self._files,
                "packs": self._pages.packs if self._pages is not None and incremental else (),
                "incremental": incremental,
                "is_ldif": packing.ldif,
                "members": members,
                "recipients": packing.recipients.names if packing.recipients else (),
                "ditseed": version("ditseed"),
            }
            self.backup = manifest.sealed(msgspec.convert(report_of(self.facts, own), Backup))
            files.write_durably(directory.path / MANIFEST, manifest.text(self.backup), 0o600)

    def publish(self) -> None:
        if self.options.incremental and self._pages is not None:
            self._pages.publish(self.repo.path, self.partial)
            killpoint("publish.middle")
        files.publish(self.partial, self.final)


def _only_suffix(directory: Path, outline: contents.DatabaseSummary) -> str:
    if len(outline.suffixes) == 1:
        return outline.suffixes[0]
    known = ", ".join(outline.suffixes) or "none"
    raise NoSuchSuffix(config=directory, suffix="(say which with -b)", known=known)


# --- the steps ------------------------------------------------------------------------------------


def _take(
    options: BackupOptions, repo: Repository, members: Sequence[_Member], logs: Sequence[AccessLog], steps: Run
) -> Backup:
    leader = members[0]
    steps.do("look", lambda meter: _look(options, repo, members))
    try:
        steps.do("copy", lambda meter: _copy(options, members, logs, meter))
        steps.do("manifest", lambda meter: _write(members))
        steps.do("publish", lambda meter: _publish(members))
    except BaseException:
        if not leader.final.exists():
            for member in members:
                files.remove_tree(member.partial)
                files.remove_tree(member.final)
        raise
    backups = [member.backup for member in members]
    repo.send(backups)
    for backup in backups:
        if not backup.entries:
            log.warning(
                "%s: the database of %s has no entries; backups with entries are not pruned in favour of this one",
                plain.with_operator_paths(backup.source),
                backup.suffix,
            )
    if options.policy:
        steps.do("prune", lambda meter: _prune(options, repo, backups))
    return backups[0]


def _look(options: BackupOptions, repo: Repository, members: Sequence[_Member]) -> None:
    when, ids = repository.now(), set[str]()
    follows = repository.follows(repo, when)
    for member in members:
        member.look(when, follows, ids)
        ids.add(str(member.facts["id"]))
    repo.require_space(_predicted(options, repo, members), options.packing.keep_free)


def _predicted(options: BackupOptions, repo: Repository, members: Sequence[_Member]) -> int:
    """Returns the expected bytes to store; 0 for an incremental backup that follows others, since the amount of change
    is unknown. Free pages, which are not packed, are subtracted only if space is short."""
    packing, directories = options.packing, [member.origin.directory for member in members]
    if packing.ldif:  # raises EmptyInput: nothing can be restored from no entries
        sample = sampling.of_database(directories[0], _SAMPLE, Meter("sample"))
        stored = len(zstandard.ZstdCompressor(packing.level).compress(sample.text))
        return stored * sample.total // len(sample.names)
    if options.incremental and repo.packs():
        return 0
    needed = sum(pack.predicted(directory, packing.level, exact=False) for directory in directories)
    if files.free_bytes(repo.path) < needed + packing.keep_free:
        needed = sum(pack.predicted(directory, packing.level, exact=True) for directory in directories)
    return needed


def _copy(options: BackupOptions, members: Sequence[_Member], logs: Sequence[AccessLog], meter: Meter) -> None:
    """Copies the databases. All snapshots are opened before the first is copied; meanwhile another thread reads the
    leader's previous backup."""
    leader = members[0]
    if options.packing.ldif:
        leader.copy_entries(meter)
    else:
        with ThreadPoolExecutor(1, "previous") as pool:
            looked_back = pool.submit(lambda: leader.previous)
            directories = [member.origin.directory for member in members]
            with snapshot.images(directories, logs) as images:
                looked_back.result()
                for member, image in zip(members, images, strict=True):
                    member.copy(image, meter)


def _write(members: Sequence[_Member]) -> None:
    ids = tuple(str(member.facts["id"]) for member in members) if len(members) > 1 else ()
    for member in members:
        member.write(ids)


def _publish(members: Sequence[_Member]) -> None:
    """Publishes the leader last: if its directory exists, those of all members do."""
    for member in (*members[1:], members[0]):
        member.publish()


def _prune(options: BackupOptions, repo: Repository, backups: Sequence[Backup]) -> None:
    for backup in backups:
        repository.prune_locked(repo, options.policy, backup.suffix)
