"""Take a backup: one consistent moment of a database, compacted and packed into the repository, beside a running slapd.

Steps: look, copy, manifest, publish, prune. Whole or not there: it gets its name by a rename, after everything in it is
on the disk. A run that was killed is not gone on with, for its moment has passed: the next one removes what it left.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import socket
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from loader import naming, units
from loader.errors import NoSuchPath, NoSuchSuffix, UsageProblem
from loader.mdb import copy, environment, free_list, look, meta
from loader.mdb.page_stream import paged
from loader.operations.backup import manifest, pack, packs, prune, repository, sealed, sharing
from loader.operations.backup.manifest import Backup, PieceList
from loader.operations.backup.pack import PACKING, Packing
from loader.operations.backup.page_list import PageList
from loader.operations.backup.prune import KEEP_ALL, Policy
from loader.operations.backup.repository import Bring, there
from loader.operations.clone import OLD_READER, require_source
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.lock import exclusive
from loader.run.steps import Run, open_run
from loader.server import configuration
from loader.storage import files, held, holders

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BackupOptions:
    """The database of a configuration, or one in a directory (`source`); one of the two. policy: by which backups of
    this suffix are removed after a good one. incremental: only pages that the last such backup has not are stored."""

    repo: Path
    config_path: Path | None = None
    source: Path | None = None
    suffix: str | None = None
    packing: Packing = PACKING
    policy: Policy = KEEP_ALL
    incremental: bool = False


@dataclass(frozen=True)
class Origin:
    """What is backed up. `config`: cn=config as LDIF, credentials included."""

    directory: Path
    suffix: str | None
    config: bytes | None


def run(
    options: BackupOptions,
    progress: Progress,
    timeouts: dict[str, float] | None = None,
    bring: Bring = there,
) -> Backup:
    """Take one backup; its manifest. Raises Locked while another run is at work on the repository."""
    with files.explained(options.repo):
        origin = _origin(options)
        require_source(origin.directory)
        options.repo.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held.opened(options.repo) as repo, exclusive(repo.path / repository.LOCK):
            for left in repository.unfinished_backups(repo.path):
                files.remove_tree(left)
            packs.collect(repo)
            home, asked = repo.path / repository.RUN, {"source": str(origin.directory)}
            with open_run(home, "backup run", asked, progress, timeouts, restart=True) as steps:
                return _Steps(replace(options, repo=repo.path), origin, steps, bring).all()


def _origin(options: BackupOptions) -> Origin:
    if options.source is not None:
        return Origin(options.source, options.suffix, None)
    if options.config_path is None:
        raise UsageProblem(reason="say what to back up: --config, or --from DIR")
    database = configuration.read(options.config_path).database(options.suffix)
    if database.directory is None:
        raise NoSuchPath(path=f"{options.config_path}: the directory of {database.suffix}")
    return Origin(database.directory, database.suffix, configuration.dump(options.config_path))


class _Steps:
    def __init__(self, options: BackupOptions, origin: Origin, run: Run, bring: Bring) -> None:
        self.options, self.origin, self.run, self.bring = options, origin, run, bring
        self.repo, self.source = options.repo, origin.directory
        self.list: PieceList | PageList = PieceList(())

    def all(self) -> Backup:
        looked = self.run.do("look", self._look)
        final = self.repo / looked["id"]
        partial = final.with_name(final.name + files.PARTIAL)
        try:
            with held.private(partial) as home:
                copied = self.run.do(
                    "copy", lambda meter: self._copy(home.path, looked["suffix"], meter)
                )
                made = _described(looked, copied, self.origin, self.options, self.list)
                self.run.do("manifest", lambda meter: self._write(home.path, made))
            self.run.do("publish", lambda meter: self._publish(partial, final))
        except BaseException:
            files.remove_tree(partial)
            raise
        if self.options.policy:
            self.run.do("prune", lambda meter: self._prune(made.suffix))
        return made

    def _prune(self, suffix: str) -> Facts:
        with held.opened(self.repo) as repo:
            found = prune.pruned(repo, self.options.policy, suffix)
        return {"removed": found.removed, "freed": found.freed}

    def _look(self, meter: Meter) -> Facts:
        """What the manifest says of the database was so before its snapshot was taken."""
        outline = look.summarise(self.source, self.origin.suffix)
        suffix = self.origin.suffix
        if suffix is None:
            suffix = _only_suffix(self.source, outline)
        sizes = copy.Sizes.of(meta.data_file(self.source))
        self._require_space()
        _tell_old_reader(self.source)
        when = repository.now()
        return {
            "id": repository.new_id(self.repo, when, suffix),
            "made": when.isoformat(),
            "suffix": suffix,
            "entries": outline.entries,
            "context_csns": outline.context_csns,
            "newest_csns": outline.newest_csns,
            "source_apparent": sizes.apparent,
            "source_allocated": sizes.allocated,
        }

    def _require_space(self) -> None:
        """Free pages, which are not packed, are counted only where it matters. How much has changed nobody knows
        beforehand."""
        how, data = self.options.packing, meta.data_file(self.source)
        needed = (
            0
            if self.options.incremental and sharing.is_begun(self.repo)
            else pack.predicted(data, how)
        )
        if files.free_bytes(self.repo) < needed + how.keep_free:
            facts, freed = free_list.read(self.source)
            needed = pack.predicted(data, how, sum(freed.values()) * facts.page_size)
        files.require_space(self.repo, needed + how.keep_free)

    def _copy(self, home: Path, suffix: str, meter: Meter) -> Facts:
        packing = self.options.packing
        target = home / manifest.NAMES[packing.compression]
        if self.options.incremental:
            target = home / sharing.PACK
            before = sharing.earlier(self.repo, suffix, self.bring)
        with paged(self.source, meter) as stream:
            if self.options.incremental:
                self.list = sharing.store(stream, home, before, packing, meter)
            else:
                self.list = pack.pack(stream, target, packing, meter)
        files.make_durable(target)
        facts = stream.facts
        return {
            "seconds": round(meter.seconds, 3),
            "entries": stream.entries,
            "compacted": True,
            "txnid": facts.txnid,
            "lmdb_format": facts.format,
            "page_size": facts.page_size,
            "map_size": facts.map_size,
            "stored_bytes": self.list.stored_bytes,
        }

    def _publish(self, partial: Path, final: Path) -> Facts:
        if isinstance(self.list, PageList):
            sharing.publish(self.repo, partial, self.list)
            killpoint("publish.middle")
        files.publish(partial, final)
        return {"backup": final.name}

    def _write(self, home: Path, made: Backup) -> Facts:
        """Everything on the disk, before the name."""
        if self.origin.config is not None:
            files.write_durably(home / manifest.CONFIG, self.origin.config, 0o600)
        files.write_durably(home / manifest.PIECES, self.list.text(), 0o600)
        files.write_durably(home / manifest.MANIFEST, sealed.text(made), 0o600)
        return {}


def _only_suffix(directory: Path, outline: look.DatabaseSummary) -> str:
    if len(outline.suffixes) == 1:
        return outline.suffixes[0]
    known = ", ".join(outline.suffixes) or "none"
    raise NoSuchSuffix(config=directory, suffix="(say which with -b)", known=known)


def _tell_old_reader(source: Path) -> None:
    """Dead ones were cleared away when the snapshot was looked at."""
    lag = environment.oldest_reader_lag(source) if holders.holder(source) is not None else 0
    if lag > OLD_READER:
        log.warning(
            "%s: a reader is %s transactions behind, so that freed pages wait and the file grows (mdb_stat -r shows "
            "which)",
            naming.with_operator_paths(str(source)),
            units.number(lag),
        )


def _described(
    looked: Facts,
    copied: Facts,
    origin: Origin,
    options: BackupOptions,
    listed: PieceList | PageList,
) -> Backup:
    """The manifest. Facts are those of the snapshot; the others were taken just before it."""
    config = origin.config
    facts = {**looked, **{name: value for name, value in copied.items() if value is not None}}
    found = Backup(
        **facts,
        host=socket.gethostname(),
        source=str(origin.directory.absolute()),
        machine=machine(),
        data_bytes=listed.data_bytes,
        file=manifest.MAP if options.incremental else manifest.NAMES[options.packing.compression],
        compression=options.packing.compression,
        pieces=len(listed.pieces),
        pieces_sha256=hashlib.sha256(listed.text()).hexdigest(),
        with_config=config is not None,
        config_sha256=None if config is None else hashlib.sha256(config).hexdigest(),
        ditseed=version("ditseed"),
        format=listed.format,
    )
    return sealed.sealed(found)


def is_this_host(names: Collection[str]) -> bool:
    """Is one of them this host's, with or without its domain?"""
    mine = {socket.gethostname(), socket.getfqdn()}
    mine |= {name.partition(".")[0] for name in mine}
    return not mine.isdisjoint(names)


def machine() -> str:
    """What LMDB files depend on: word size and byte order."""
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"{bits}-bit {sys.byteorder}-endian ({platform.machine()})"
