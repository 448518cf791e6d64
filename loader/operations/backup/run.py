"""Take a backup: one consistent moment of a database, compacted and packed into the repository, beside a running slapd.
Or of all databases of a configuration: a backup of each, of the same moment.

Steps: look, copy, manifest, publish, prune. Whole or not there: it gets its name by a rename, after everything in it is
on the disk. A run that was killed is not gone on with, for its moment has passed: the next one removes what it left.
"""

from __future__ import annotations

import datetime
import logging
import socket
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loader import naming, units
from loader.errors import NoSuchSuffix, UsageProblem
from loader.mdb import contents, copy, meta, one_moment, readers, snapshot
from loader.mdb.one_moment import Log
from loader.mdb.snapshot import CopyableSnapshot
from loader.operations.backup import (
    ldif_stream,
    origin,
    pack,
    prune,
    repository,
    sharing,
)
from loader.operations.backup.manifest import Backup
from loader.operations.backup.member import Member
from loader.operations.backup.origin import Origin, Origins
from loader.operations.backup.output import ON_DISK, Outputs
from loader.operations.backup.pack import PACKING, Packing
from loader.operations.backup.prune import KEEP_ALL, Policy
from loader.operations.backup.repository import Bring, there
from loader.operations.clone import OLD_READER, require_source
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.lock import exclusive
from loader.run.steps import Run, open_run
from loader.server import configuration
from loader.storage import files, held, holders

log = logging.getLogger(__name__)
ROLES = PROVIDER, CONSUMER = "provider", "consumer"
_PROVIDES = "syncprov"  # the overlay


@dataclass(frozen=True)
class BackupOptions:
    """The database of a configuration, or one in a directory (`source`); one of the two. every: all mdb databases of
    the configuration, at one moment. policy: by which backups of these suffixes are removed after a good one.
    incremental: only pages that the last such backup has not are stored."""

    repo: Path
    config_path: Path | None = None
    source: Path | None = None
    suffix: str | None = None
    packing: Packing = PACKING
    policy: Policy = KEEP_ALL
    incremental: bool = False
    every: bool = False


def run(
    options: BackupOptions,
    progress: Progress,
    timeouts: dict[str, float] | None = None,
    bring: Bring = there,
    outputs: Outputs = ON_DISK,
) -> Backup:
    """Take one backup; its manifest. Of several, that of the one whose `members` they are. Raises Locked while another
    run is at work on the repository, NoCommonMoment."""
    with files.explained(options.repo):
        origins = _origins(options)
        for one in origins.databases:
            require_source(one.directory)
        held.make_directories(options.repo, 0o700)
        with held.opened(options.repo) as repo, exclusive(repo.path / repository.LOCK):
            prune.remove_unfinished(repo)
            prune.collect(repo)
            sources = [str(one.directory) for one in origins.databases]
            home, asked = repo.path / repository.RUN, {"source": sources}
            with open_run(
                home, "backup run", asked, progress, timeouts, restart=True, resumable=False
            ) as steps:
                return _Steps(
                    replace(options, repo=repo.path), origins, steps, bring, outputs
                ).all()


def _origins(options: BackupOptions) -> Origins:
    if options.source is not None:
        return origin.of_directory(options.source, options.suffix)
    if options.config_path is None:
        raise UsageProblem(reason="say what to back up: --config, or --from DIR")
    if options.every:
        return origin.all_of(options.config_path)
    return origin.of_configuration(options.config_path, options.suffix)


class _Steps:
    def __init__(
        self, options: BackupOptions, origins: Origins, run: Run, bring: Bring, outputs: Outputs
    ) -> None:
        self.options, self.origins, self.run = options, origins, run
        self.bring, self.outputs = bring, outputs
        self.repo = options.repo

    def all(self) -> Backup:
        looked = self.run.do("look", self._look)["databases"]
        members = [
            Member(self.options, one, facts)
            for one, facts in zip(self.origins.databases, looked, strict=True)
        ]
        try:
            self.run.do("copy", lambda meter: self._copy(members, meter))
            self.run.do("manifest", lambda meter: _written(members))
            self.run.do("publish", lambda meter: _published(members))
        except BaseException:
            if not members[0].final.exists():  # it is the last to get its name: then all are whole
                for one in members:
                    one.forget()
            raise
        for one in members:
            _tell_no_entries(one.made)
        if self.options.policy:
            self.run.do("prune", lambda meter: self._prune(members))
        return members[0].made

    def _look(self, meter: Meter) -> Facts:
        """What the manifests say of the databases was so before their snapshots were taken."""
        when, ids, found = repository.now(), set[str](), []
        follows = repository.follows(self.repo, when)
        _tell_clock(self.repo, when)
        for one in self.origins.databases:
            facts = _looked(one)
            facts["id"] = repository.new_id(self.repo, when, facts["suffix"], ids)
            ids.add(facts["id"])
            found.append({"made": when.isoformat(), "follows": follows, **facts})
        self._require_space()
        return {"databases": found}

    def _require_space(self) -> None:
        """Free pages, which are not packed, are counted only where it matters. How much has changed nobody knows
        beforehand."""
        how = self.options.packing
        if self.options.incremental and sharing.is_begun(self.repo):
            self.outputs.require_room(self.repo, 0, how.keep_free)
            return
        places = [one.directory for one in self.origins.databases]
        self.outputs.require_room(self.repo, self._predicted(places), how.keep_free)

    def _predicted(self, places: Sequence[Path]) -> int:
        how = self.options.packing
        if how.ldif:
            level = how.level if how.compression == "zstd" else None
            return ldif_stream.predicted(places[0], level)
        needed = sum(pack.predicted(meta.data_file(one), how) for one in places)
        if files.free_bytes(self.repo) < needed + how.keep_free:
            needed = sum(map(self._predicted_exactly, places))
        return needed

    def _predicted_exactly(self, place: Path) -> int:
        facts, freed = readers.free_list(place)
        free = sum(freed.values()) * facts.page_size
        return pack.predicted(meta.data_file(place), self.options.packing, free)

    def _copy(self, members: Sequence[Member], meter: Meter) -> Facts:
        """All snapshots are held from before the first is copied. What that one is compared with is read meanwhile."""
        if self.options.packing.ldif:
            members[0].copy_entries(self.outputs, meter)
            return {"databases": [members[0].copied]}
        places = [one.source for one in members]
        with ThreadPoolExecutor(1, "earlier") as pool:
            looked_back = pool.submit(members[0].look_back, self.bring)
            with _images(places, self.origins.logs) as found:
                looked_back.result()
                for one, image in zip(members, found, strict=True):
                    one.copy(image, self.bring, self.outputs, meter)
        return {"databases": [one.copied for one in members]}

    def _prune(self, members: Sequence[Member]) -> Facts:
        with held.opened(self.repo) as repo:
            found = [prune.pruned(repo, self.options.policy, one.made.suffix) for one in members]
        removed = [name for one in found for name in one.removed]
        return {"removed": removed, "freed": sum(one.freed for one in found)}


@contextmanager
def _images(places: Sequence[Path], logs: Sequence[Log]) -> Iterator[list[CopyableSnapshot]]:
    if len(places) == 1:
        with snapshot.image(places[0]) as found:
            yield [found]
    else:
        with one_moment.images(places, logs) as every:
            yield every


def _tell_clock(repo: Path, when: datetime.datetime) -> None:
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


def _looked(one: Origin) -> Facts:
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


def _written(members: Sequence[Member]) -> Facts:
    names = tuple(one.id for one in members) if len(members) > 1 else ()
    for one in members:
        one.write(names)
    return {}


def _published(members: Sequence[Member]) -> Facts:
    """The first is there last: where it is, the others are."""
    for one in (*members[1:], members[0]):
        one.publish()
    return {"backup": members[0].id}


def _tell_no_entries(made: Backup) -> None:
    if not made.entries:
        log.warning(
            "%s: the database of %s has no entries; backups with entries are not pruned in favour of this one",
            naming.with_operator_paths(made.source),
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
            naming.with_operator_paths(str(source)),
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
