"""Takes a backup: a consistent snapshot of a database, compressed and without free pages. slapd may be running. With
--all-databases, takes a set: a backup of each database of a configuration, all of the same moment.

Steps: look, copy, manifest, publish, prune. Once all files of a backup are durable, a rename gives it its final name. A
backup shows one moment, so a killed run is not resumed. The next run removes its remains.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import msgspec
import zstandard

from loader import defaults, dn, plain
from loader.errors import NoSuchSuffix, RemoteLocked, RemovalRefused, UsageProblem
from loader.mdb import contents, meta, snapshot
from loader.mdb.copy import paged
from loader.mdb.snapshot import AccessLog
from loader.operations.backup import manifest, pack, repository
from loader.operations.backup.manifest import CONFIG, ENTRIES, MANIFEST, Backup, StoredFile
from loader.operations.backup.options import BackupOptions, Packing
from loader.operations.backup.pack import PreviousBackup, StoredPages
from loader.operations.backup.repository import Repository
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
_READ = 256 << 10  # bytes of LDIF per read
_SAMPLE = SampleSize(5000, 0.0)  # a sample of 5000 entries predicts the bytes of the LDIF


@dataclass
class _Member:
    """A database to back up. `config`: cn=config as LDIF, with credentials. `final`: directory of the published backup,
    set by the step `look`. `facts`: fields of the manifest, set by `look` and `copy`. `copy` also sets `files` and, for
    an incremental backup, `pages`. `manifest` sets `backup`."""

    directory: Path
    suffix: str | None
    config: bytes | None = None
    final: Path = field(init=False)
    facts: Report = field(default_factory=dict)
    pages: StoredPages | None = None
    files: list[StoredFile] = field(default_factory=list)
    backup: Backup = field(init=False)

    @property
    def partial(self) -> Path:
        return self.final.with_name(self.final.name + files.PARTIAL)


def run(options: BackupOptions, progress: Progress) -> Backup:
    """Takes a backup. Returns its manifest, or that of the leader of a set. Raises NoCommonMoment, NoSpace,
    RemoteFailed, or Locked if another run changes the repository."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        members, logs = _members(options)
        for member in members:
            require_source(member.directory)
        held.make_directories(repo.path, 0o700)
        with repo.changing() as locked:
            locked.tidy()
            run_dir, about = locked.path / repository.RUN, {"source": [str(member.directory) for member in members]}
            with open_run(run_dir, "backup run", about, progress, restart=True, resumable=False) as steps:
                return _take(options, locked, members, logs, steps)


def _members(options: BackupOptions) -> tuple[list[_Member], list[AccessLog]]:
    """Returns the databases to back up, accesslogs last; and for a set, each accesslog with the database that it logs.
    Raises NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath, UsageProblem."""
    path = options.config_path
    if options.source is not None:
        return [_Member(options.source, options.suffix)], []
    if path is None:
        raise UsageProblem(reason="say what to back up: --config, or --from DIR")
    config, text = configuration.read_with_text(path)
    databases = options.databases(config)
    if not databases:
        raise NoSuchSuffix(config=path, suffix="(any)", known="none")
    members: dict[Path, _Member] = {}
    for database in databases:
        directory = database.require_directory(path)
        if directory in members:  # slapd accepts this, and logs a warning
            both = f"{members[directory].suffix} and of {database.suffix}"
            raise UsageProblem(reason=f"{directory} is the directory of {both}")
        members[directory] = _Member(directory, database.suffix, text)
    if not options.every:
        return list(members.values()), []
    by_suffix = {dn.key(name): database.directory for database in databases for name in database.suffixes}
    logs = [
        AccessLog(log_directory, database.directory, database.suffix)
        for database, name, _ in config.logs
        if (log_directory := by_suffix.get(dn.key(name))) and database in databases and database.directory
    ]
    return sorted(members.values(), key=lambda member: member.directory in {log.log for log in logs}), logs


def machine() -> str:
    """Returns the word size and byte order, on which LMDB's file format depends, and the architecture."""
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"{bits}-bit {sys.byteorder}-endian ({platform.machine()})"


def _take(
    options: BackupOptions, repo: Repository, members: Sequence[_Member], logs: Sequence[AccessLog], steps: Run
) -> Backup:
    steps.do("look", lambda meter: _look(options, repo, members))
    try:
        steps.do("copy", lambda meter: _copy(options, repo, members, logs, meter))
        steps.do("manifest", lambda meter: _write_manifests(options, members))
        steps.do("publish", lambda meter: _publish(repo, members))
    except BaseException:
        if not members[0].final.exists():
            for member in members:
                files.remove_tree(member.partial)
                files.remove_tree(member.final)
        raise
    backups = [member.backup for member in members]
    repo.send(backups)
    for backup in backups:
        if not backup.entries:
            text = "%s: the database of %s has no entries; pruning keeps older backups that have entries"
            log.warning(text, plain.with_operator_paths(backup.source), backup.suffix)

    policy = options.policy or repo.policy()

    def prune(meter: Meter) -> None:
        try:
            for backup in backups:
                repository.prune_locked(repo, policy, backup.suffix)
        except (RemovalRefused, RemoteLocked) as error:
            if options.policy:
                raise
            log.info("%s", error)  # this account may only add files: another account applies the stored policy

    if policy:
        steps.do("prune", prune)
    return backups[0]


def _look(options: BackupOptions, repo: Repository, members: Sequence[_Member]) -> None:
    """Reads facts for the manifests. Raises NoSpace or RemoteFull if there is too little space for the backups."""
    when, ids = repository.now(), set[str]()
    follows = repository.follows(repo, when)
    for member in members:
        outline = contents.summarise(member.directory, member.suffix)
        if member.suffix is None and len(outline.suffixes) != 1:
            known = ", ".join(outline.suffixes) or "none"
            raise NoSuchSuffix(config=member.directory, suffix="(say which with -b)", known=known)
        suffix = outline.suffixes[0] if member.suffix is None else member.suffix
        name = repository.new_id(repo.path, when, suffix, ids)
        ids.add(name)
        member.final = repo.path / name
        member.facts = {
            "id": name,
            "made": when.isoformat(),
            "follows": follows,
            "suffix": suffix,
            "entries": outline.entries,
            "context_csns": tuple(outline.context_csns),
            "newest_csns": tuple(outline.newest_csns),
        }

    packing, needed = options.packing, 0
    if packing.ldif:  # without entries, taking the sample raises EmptyInput
        sample = sampling.of_database(members[0].directory, _SAMPLE, Meter("sample"))
        needed = len(zstandard.ZstdCompressor(packing.level).compress(sample.text)) * sample.total // len(sample.names)
    elif not (options.incremental and repo.packs()):  # the first stores all pages; later sizes are unknown
        needed = sum(pack.predicted(member.directory, packing.level) for member in members)
    repo.require_space(needed, packing.keep_free)


def _copy(
    options: BackupOptions, repo: Repository, members: Sequence[_Member], logs: Sequence[AccessLog], meter: Meter
) -> None:
    """Writes the data of all databases to their `partial` directories. Opens all snapshots before it copies the first,
    so that all are of one moment. Raises NoSpace, MdbDamaged."""
    if options.packing.ldif:
        _copy_entries(members[0], options.packing, meter)
        return
    # The previous map is read before the snapshots are opened: while they are open, slapd cannot reuse freed pages.
    previous_of_leader = [_previous(options, repo, members[0])]
    with snapshot.images([member.directory for member in members], logs) as images:
        for member, image in zip(members, images, strict=True):
            previous = previous_of_leader.pop() if previous_of_leader else _previous(options, repo, member)
            before = meter.seconds
            with held.private(member.partial) as directory, paged(image, pack.PIECE, meter) as stream:
                pages = pack.store(stream, directory.path, previous, options.packing, meter)
            del previous  # frees about 60 bytes of memory per page
            if options.incremental:
                member.pages = pages
            member.files = [pages.map, *[pages.own] * (not options.incremental)]
            if stream.entries is not None:
                member.facts["entries"] = stream.entries
            stored_bytes = pages.map.bytes + pages.own.bytes
            member.facts |= _facts(stream.facts, meter.seconds - before, stream.size, stored_bytes)


def _previous(options: BackupOptions, repo: Repository, member: _Member) -> PreviousBackup:
    """Returns the pages of the last incremental backup; none if the new backup is a full one."""
    if options.incremental:
        every = repository.listing(repo, str(member.facts["suffix"])).backups
        if last := next((backup for backup in reversed(every) if backup.incremental), None):
            repo.bring(last.stored())
            return pack.previous(repo.path, last)
    return PreviousBackup()


def _copy_entries(member: _Member, packing: Packing, meter: Meter) -> None:
    """Stores the entries as compressed LDIF, parents first. Raises NoSpace, MdbDamaged."""
    before = meter.seconds
    with held.private(member.partial) as directory:
        stored, exported = store_entries(Part(member.directory), directory.path / ENTRIES, packing, meter)
    member.files = [stored]
    facts = _facts(meta.read_meta(member.directory), meter.seconds - before, exported.bytes, stored.bytes)
    member.facts |= {"entries": exported.entries, **facts}


def store_entries(part: Part, path: Path, packing: Packing, meter: Meter) -> tuple[StoredFile, Exported]:
    """Writes entries as compressed LDIF, parents first, as `pack.write` does. Raises NoSpace, MdbDamaged."""
    threads = defaults.processors()

    def export(descriptor: int) -> Exported:
        return mdb.stream(part, descriptor, threads, meter, scratch=path.parent)

    def compressed(parts: Iterable[bytes]) -> Iterator[bytes]:
        stream = zstandard.ZstdCompressor(packing.level, threads=threads).compressobj()
        for piece in parts:
            yield stream.compress(piece)
            killpoint("copy.middle")
        yield stream.flush()

    with piped(export, "read") as (descriptor, exported):
        parts = pack.paced(iter(lambda: os.read(descriptor, _READ), b""), packing.throttle)
        stored = pack.write(path, compressed(parts), packing)
    return stored, exported.result()


def _facts(page: meta.MetaPage, seconds: float, data_bytes: int, stored_bytes: int) -> Report:
    return {
        "seconds": round(seconds, 3),
        "txnid": page.txnid,
        "lmdb_format": page.format,
        "page_size": page.page_size,
        "map_size": page.map_size,
        "data_bytes": data_bytes,
        "stored_bytes": stored_bytes,
    }


def _write_manifests(options: BackupOptions, members: Sequence[_Member]) -> None:
    """Writes the configurations and manifests durably, because `_publish` only renames."""
    packing = options.packing
    for member in members:
        with held.private(member.partial) as directory:
            if member.config is not None:
                member.files.append(pack.write(directory.path / CONFIG, [member.config], packing))
            facts = {
                "host": socket.gethostname(),
                "source": plain.printable(str(member.directory.absolute())),
                "machine": machine(),
                "files": member.files,
                "packs": member.pages.packs if member.pages else (),
                "incremental": options.incremental,
                "is_ldif": packing.ldif,
                "members": tuple(other.final.name for other in members) if len(members) > 1 else (),
                "recipients": packing.recipients.names if packing.recipients else (),
                "ditseed": version("ditseed"),
            }
            member.backup = manifest.sealed(msgspec.convert(report_of(member.facts, facts), Backup))
            files.write_durably(directory.path / MANIFEST, manifest.text(member.backup), 0o600)


def _publish(repo: Repository, members: Sequence[_Member]) -> None:
    """Publishes the leader last: if its directory exists, the set is complete."""
    for member in (*members[1:], members[0]):
        if member.pages is not None:
            member.pages.publish(repo.path, member.partial)
            killpoint("publish.middle")
        files.publish(member.partial, member.final)
