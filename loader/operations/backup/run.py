"""Take a backup: one consistent moment of a database, compacted and packed into the repository, beside a running slapd.
Or of all databases of a configuration: a backup of each, of the same moment.

Steps: look, copy, manifest, publish, prune. Whole or not there: it gets its name by a rename, after everything in it is
on the disk. A run that was killed is not gone on with, for its moment has passed: the next one removes what it left.
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
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
import zstandard

from loader import dn, plain, resources, units
from loader.common_options import OptionalConfig, Suffix
from loader.config import Config, Database
from loader.errors import NoSuchPath, NoSuchSuffix, UsageProblem
from loader.mdb import contents, copy, meta, readers, snapshot
from loader.mdb.copy import paged
from loader.mdb.snapshot import AccessLog, CopyableSnapshot
from loader.operations.backup import manifest, pack, prune, repository
from loader.operations.backup.manifest import CONFIG, ENTRIES, MANIFEST, Backup, StoredFile
from loader.operations.backup.pack import PACKING, Earlier, Packing, StoredPages
from loader.operations.backup.prune import KEEP_ALL, Policy
from loader.operations.backup.repository import EveryDatabase, RepoOption, Repository, Where
from loader.operations.clone import OLD_READER, require_source
from loader.piped import piped
from loader.progress import Meter, Progress
from loader.run.log import Report, killpoint, report_of
from loader.run.steps import Run, open_run
from loader.server import configuration
from loader.sources import mdb, sampling
from loader.sources.mdb import Exported, Part
from loader.sources.sampling import SampleSize
from loader.storage import files, held, holders

log = logging.getLogger(__name__)
ROLES = PROVIDER, CONSUMER = "provider", "consumer"
_PROVIDES = "syncprov"  # the overlay
_READ = 256 << 10  # bytes of LDIF that are read at once
_SAMPLE = SampleSize(5000, 0.0)  # entries that tell how long their LDIF is


@dataclass(frozen=True)
class BackupOptions:
    """The database of a configuration, or one in a directory (`source`); one of the two. every: all mdb databases of
    the configuration, at one moment. policy: by which backups of these suffixes are removed after a good one.
    incremental: only pages that the last such backup has not are stored."""

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


def run(options: BackupOptions, progress: Progress, timeouts: dict[str, float] | None = None) -> Backup:
    """Take one backup; its manifest. Of several, that of the one that leads. Raises Locked while another run is at work
    on the repository, NoCommonMoment, NoSpace, RemoteFailed."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        origins = _origins(options)
        for one in origins.databases:
            require_source(one.directory)
        held.make_directories(repo.path, 0o700)
        with repo.changing() as changed:
            changed.tidy()
            sources = [str(one.directory) for one in origins.databases]
            home, given = changed.path / repository.RUN, {"source": sources}
            with open_run(home, "backup run", given, progress, timeouts, restart=True, resumable=False) as steps:
                return _Steps(options, changed, origins, steps).all()


# --- what is backed up ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """A database. `config`: cn=config as LDIF, credentials included."""

    directory: Path
    suffix: str | None
    config: bytes | None = None


@dataclass(frozen=True)
class Origins:
    """Data first, then the accesslogs. logs: which are whose."""

    databases: tuple[Origin, ...]
    logs: tuple[AccessLog, ...] = ()


def _origins(options: BackupOptions) -> Origins:
    """Raises NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath, UsageProblem."""
    path = options.config_path
    if options.source is not None:
        return Origins((Origin(options.source, options.suffix),))
    if path is None:
        raise UsageProblem(reason="say what to back up: --config, or --from DIR")
    config, text = configuration.read_with_text(path)
    if not options.every:
        database = config.database(options.suffix)
        return Origins((Origin(directory_of(database, path), database.suffix, text),))
    if not config.mdb_databases:
        raise NoSuchSuffix(config=path, suffix="(any)", known="none")
    logs = tuple(_logs(config))
    databases = [Origin(directory_of(one, path), one.suffix, text) for one in config.mdb_databases]
    _require_apart(databases)
    is_log = {one.log for one in logs}
    databases.sort(key=lambda one: one.directory in is_log)
    return Origins(tuple(databases), logs)


def directory_of(database: Database, path: Path) -> Path:
    """Raises NoSuchPath."""
    if database.directory is None:
        raise NoSuchPath(path=f"{path}: the directory of {database.suffix}")
    return database.directory


def _logs(config: Config) -> list[AccessLog]:
    """Those that are kept in an mdb database."""
    by_suffix = {dn.key(name): one for one in config.mdb_databases for name in one.suffixes}
    return [
        AccessLog(log.directory, database.directory, database.suffix)
        for database, name in config.logs
        if (log := by_suffix.get(dn.key(name))) is not None
        and database in config.mdb_databases
        and log.directory is not None
        and database.directory is not None
    ]


def _require_apart(databases: Sequence[Origin]) -> None:
    """Two databases in one directory are none: slapd itself warns of it."""
    suffixes: dict[Path, str | None] = {}
    for one in databases:
        if one.directory in suffixes:
            both = f"{suffixes[one.directory]} and of {one.suffix}"
            raise UsageProblem(reason=f"{one.directory} is the directory of {both}")
        suffixes[one.directory] = one.suffix


# --- one database ---------------------------------------------------------------------------------


class _Member:
    """A database of a run, from its snapshot to its backup in the repository. looked: facts of the manifest that were
    so
    before the snapshot. `made`: the manifest, once it is written."""

    made: Backup

    def __init__(self, options: BackupOptions, repo: Repository, origin: Origin, looked: Report) -> None:
        self.options, self.repo, self.origin, self.looked = options, repo, origin, looked
        self.source, self.id = origin.directory, str(looked["id"])
        self.final = repo.path / self.id
        self.partial = self.final.with_name(self.final.name + files.PARTIAL)
        self.copied: Report = {}
        self._files = list[StoredFile]()
        self._pages: StoredPages | None = None
        self._earlier: Earlier | None = None

    def look_back(self) -> Earlier:
        """Which pages an incremental backup does not store. It needs no snapshot yet."""
        if self._earlier is None:
            suffix = str(self.looked["suffix"])
            known = [one for one in repository.listing(self.repo, suffix).backups if one.incremental]
            self._earlier = pack.nothing()
            if self.options.incremental and known:
                self.repo.bring(known[-1])
                self._earlier = pack.earlier(self.repo.path, known[-1])
        return self._earlier

    def copy(self, image: CopyableSnapshot, meter: Meter) -> None:
        """Into a directory that no verb lists. Raises NoSpace, MdbDamaged."""
        with held.private(self.partial) as home, paged(image, pack.PIECE, meter) as stream:
            before, earlier = meter.seconds, self.look_back()
            self._earlier = None
            stored = pack.store(stream, home.path, earlier, self.options.packing, meter)
        self._pages = stored
        self._files = [stored.map, *[stored.own] * (not self.options.incremental)]
        sizes = (stored.pages.data_bytes, stored.stored_bytes, stored.full_bytes)
        self.copied = self._facts(stream.facts, meter.seconds - before, stream.entries, sizes)

    def copy_entries(self, meter: Meter) -> None:
        """The same of LDIF, parents first: for any version of OpenLDAP. Raises NoSpace, MdbDamaged."""
        packing, before, size = self.options.packing, meter.seconds, 0
        with held.private(self.partial) as home:

            def export(descriptor: int) -> Exported:
                jobs = resources.processors()
                return mdb.stream(Part(self.source), descriptor, False, jobs, meter, home.path)

            def compressed(parts: Iterable[bytes]) -> Iterator[bytes]:
                nonlocal size
                threads = resources.processors()
                compressor = zstandard.ZstdCompressor(packing.level, threads=threads)
                stream = compressor.compressobj()
                for part in parts:
                    size += len(part)
                    yield stream.compress(part)
                    killpoint("copy.middle")
                yield stream.flush()

            with piped(export, "read") as (descriptor, made):
                parts = iter(lambda: os.read(descriptor, _READ), b"")
                content = compressed(pack.paced(parts, packing.throttle))
                stored = pack.write(home.path / packing.stored_name(ENTRIES), content, packing)
        self._files = [stored]
        sizes = (size, stored.bytes, stored.bytes)
        facts, seconds = meta.read_meta(self.source), meter.seconds - before
        self.copied = self._facts(facts, seconds, made.result().entries, sizes)

    def _facts(self, found: meta.MetaPage, seconds: float, entries: int | None, sizes: tuple[int, int, int]) -> Report:
        """entries: None where only the look before knows how many there were. sizes: of the data, as stored, and as it
        would be in a full backup."""
        return {
            "seconds": round(seconds, 3),
            "txnid": found.txnid,
            "lmdb_format": found.format,
            "page_size": found.page_size,
            "map_size": found.map_size,
            **dict(zip(("data_bytes", "stored_bytes", "full_bytes"), sizes, strict=True)),
            **({} if entries is None else {"entries": entries}),
        }

    def write(self, members: tuple[str, ...]) -> None:
        """Everything on the disk, before the name."""
        packing = self.options.packing
        with held.private(self.partial) as home:
            if self.origin.config is not None:
                config = home.path / packing.stored_name(CONFIG)
                self._files.append(pack.write(config, [self.origin.config], packing))
            self.made = self._described(members)
            files.write_durably(home.path / MANIFEST, manifest.text(self.made), 0o600)

    def publish(self) -> None:
        if self.options.incremental and self._pages is not None:
            pack.publish(self.repo.path, self.partial, self._pages)
            killpoint("publish.middle")
        files.publish(self.partial, self.final)

    def forget(self) -> None:
        """Nothing of it stays."""
        files.remove_tree(self.partial)
        files.remove_tree(self.final)

    def _described(self, members: tuple[str, ...]) -> Backup:
        """The manifest. Facts are those of the snapshot; the others were taken just before it."""
        packing, incremental = self.options.packing, self.options.incremental
        own = {
            "host": socket.gethostname(),
            "source": str(self.source.absolute()),
            "machine": machine(),
            "files": tuple(self._files),
            "packs": self._pages.packs if self._pages is not None and incremental else (),
            "incremental": incremental,
            "is_ldif": packing.ldif,
            "members": members,
            "recipients": packing.recipients.names if packing.recipients else (),
            "ditseed": version("ditseed"),
        }
        described = msgspec.convert(report_of(self.looked, self.copied, own), Backup)
        return manifest.sealed(described)


def machine() -> str:
    """What LMDB files depend on: word size and byte order."""
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"{bits}-bit {sys.byteorder}-endian ({platform.machine()})"


# --- the steps ------------------------------------------------------------------------------------


class _Steps:
    def __init__(self, options: BackupOptions, repo: Repository, origins: Origins, run: Run) -> None:
        self.options, self.repo, self.origins, self.run = options, repo, origins, run

    def all(self) -> Backup:
        looked = self.run.do("look", self._look, list[Report])
        members = [
            _Member(self.options, self.repo, one, facts)
            for one, facts in zip(self.origins.databases, looked, strict=True)
        ]
        try:
            self.run.do("copy", lambda meter: self._copy(members, meter))
            self.run.do("manifest", lambda meter: _write(members))
            self.run.do("publish", lambda meter: _publish(members))
        except BaseException:
            if not members[0].final.exists():  # it is the last to get its name: then all are whole
                for one in members:
                    one.forget()
            raise
        made = [one.made for one in members]
        self.repo.send(made)
        for backup in made:
            _tell_no_entries(backup)
        if self.options.policy:
            self.run.do("prune", lambda meter: self._prune(made))
        return made[0]

    def _look(self, meter: Meter) -> list[Report]:
        """What the manifests say of the databases was so before their snapshots were taken."""
        when, ids, databases = repository.now(), set[str](), []
        follows = repository.follows(self.repo, when)
        _tell_clock(self.repo, when)
        for one in self.origins.databases:
            facts = _looked(one)
            id_ = repository.new_id(self.repo.path, when, str(facts["suffix"]), ids)
            ids.add(id_)
            databases.append({"id": id_, "made": when.isoformat(), "follows": follows, **facts})
        self.repo.require_space(self._predicted(), self.options.packing.keep_free)
        return databases

    def _predicted(self) -> int:
        """Bytes that will be stored. Free pages, which are not packed, are counted only where it matters. How much has
        changed since the last incremental backup nobody knows beforehand."""
        packing, directories = (self.options.packing, [one.directory for one in self.origins.databases])
        if packing.ldif:  # raises EmptyInput: nothing can be restored from no entries
            sample = sampling.of_database(directories[0], _SAMPLE, Meter("sample"))
            stored = len(zstandard.ZstdCompressor(packing.level).compress(sample.text))
            return stored * sample.total // len(sample.names)
        if self.options.incremental and self.repo.packs():
            return 0
        needed = sum(pack.predicted(meta.data_file(one), packing) for one in directories)
        if files.free_bytes(self.repo.path) < needed + packing.keep_free:
            needed = sum(map(self._predicted_exactly, directories))
        return needed

    def _predicted_exactly(self, directory: Path) -> int:
        facts, freed = readers.free_list(directory)
        free = sum(freed.values()) * facts.page_size
        return pack.predicted(meta.data_file(directory), self.options.packing, free)

    def _copy(self, members: Sequence[_Member], meter: Meter) -> None:
        """All snapshots are held from before the first is copied. What that one is compared with is read meanwhile."""
        if self.options.packing.ldif:
            members[0].copy_entries(meter)
            return
        with ThreadPoolExecutor(1, "earlier") as pool:
            looked_back = pool.submit(members[0].look_back)
            with _images([one.source for one in members], self.origins.logs) as images:
                looked_back.result()
                for one, image in zip(members, images, strict=True):
                    one.copy(image, meter)

    def _prune(self, made: Sequence[Backup]) -> None:
        for one in made:
            prune.pruned(self.repo, self.options.policy, one.suffix)


@contextmanager
def _images(places: Sequence[Path], logs: Sequence[AccessLog]) -> Iterator[list[CopyableSnapshot]]:
    if len(places) == 1:
        with snapshot.image(places[0]) as found:
            yield [found]
    else:
        with snapshot.images(places, logs) as every:
            yield every


def _tell_clock(repo: Where, when: datetime.datetime) -> None:
    newest = repository.newest(repo)
    if newest is None:
        return
    skew = repository.SKEW if newest.host != socket.gethostname() else datetime.timedelta(0)
    if newest.when > when + skew:
        log.warning(
            "the clock has gone back, or was wrong: backup %s is dated %s, later than now. The new backup counts as "
            "the later one",
            newest.id,
            newest.made,
        )


def _looked(one: Origin) -> Report:
    outline = contents.summarise(one.directory, one.suffix)
    suffix = one.suffix
    if suffix is None:
        suffix = _only_suffix(one.directory, outline)
    sizes = copy.Sizes.of(meta.data_file(one.directory))
    _tell_old_reader(one.directory)
    return {
        "suffix": suffix,
        "entries": outline.entries,
        "context_csns": outline.context_csns,
        "newest_csns": outline.newest_csns,
        "source_apparent": sizes.apparent,
        "source_allocated": sizes.allocated,
    }


def _write(members: Sequence[_Member]) -> None:
    names = tuple(one.id for one in members) if len(members) > 1 else ()
    for one in members:
        one.write(names)


def _publish(members: Sequence[_Member]) -> None:
    """The first is there last: where it is, the others are."""
    for one in (*members[1:], members[0]):
        one.publish()


def _tell_no_entries(made: Backup) -> None:
    if not made.entries:
        log.warning(
            "%s: the database of %s has no entries; backups with entries are not pruned in favour of this one",
            plain.with_operator_paths(made.source),
            made.suffix,
        )


def _only_suffix(directory: Path, outline: contents.DatabaseSummary) -> str:
    if len(outline.suffixes) == 1:
        return outline.suffixes[0]
    known = ", ".join(outline.suffixes) or "none"
    raise NoSuchSuffix(config=directory, suffix="(say which with -b)", known=known)


def _tell_old_reader(source: Path) -> None:
    """Dead ones were cleared away when the snapshot was looked at."""
    lag = readers.oldest_lag(source) if holders.holder(source) is not None else 0
    if lag > OLD_READER:
        log.warning(
            "%s: a reader is %s transactions behind, so that freed pages wait and the file grows (mdb_stat -r shows "
            "which)",
            plain.with_operator_paths(str(source)),
            units.number(lag),
        )


def has_role(path: Path, suffix: str | None, every: bool, role: str) -> bool:
    """Is the database of a configuration, or any, a consumer, or a provider? One of several providers is both."""
    found = configuration.read(path)
    databases = found.mdb_databases if every else (found.database(suffix),)
    return any(one.consumer if role == CONSUMER else _PROVIDES in one.overlays for one in databases)


def is_this_host(names: Collection[str]) -> bool:
    """Is one of them this host's, with or without its domain?"""
    mine = {socket.gethostname(), socket.getfqdn()}
    mine |= {name.partition(".")[0] for name in mine}
    return not mine.isdisjoint(names)
