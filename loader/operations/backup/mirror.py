"""A repository on another host, as the verbs see it: a directory of this host with what they need of it.

Manifests and records are fetched as they are; of every other file there is one of its length, a hole, until a verb
brings it. What is there has the same names and contents as in a directory, so that either can be copied to the other.
Nothing of its listing is trusted: names are those that ditseed gives, and what is fetched is as long as its manifest
says.

A backup is there when its manifest is, which is sent last and removed first.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loader import typed
from loader.errors import BackupDamaged, NoSuchPath, RemovalRefused
from loader.operations.backup import manifest, pack, packs, page_list, prune, records, repository
from loader.operations.backup import run as taking
from loader.operations.backup.manifest import Backup
from loader.operations.backup.place import Place
from loader.operations.backup.prune import KEEP_ALL, Policy, Pruned
from loader.operations.backup.run import BackupOptions
from loader.operations.backup.sending import Sending, hole
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.storage import files
from loader.storage.remote import Store

log = logging.getLogger(__name__)
_TOLD = (manifest.MANIFEST, records.VERIFIED, records.DRILLED)
_CONFIGS = tuple(manifest.stored_name(manifest.CONFIG, encrypted) for encrypted in (False, True))
_SMALL = (manifest.PIECES, *_CONFIGS)
_DATA = tuple(
    manifest.stored_name(name, encrypted)
    for name in (*manifest.NAMES.values(), *manifest.LDIF_NAMES.values())
    for encrypted in (False, True)
)
_LARGE = (*_DATA, manifest.MAP)
_PACK = re.compile(rf"[0-9a-f]{{64}}{re.escape(packs.PACK)}")


@contextmanager
def _as_far_as_allowed() -> Iterator[None]:
    """What an interrupted run has left on a server that lets nothing be removed stays there, and harms nobody."""
    try:
        yield
    except RemovalRefused as error:
        log.info("%s", error)


class Mirror(Place):
    """`look` comes first."""

    def __init__(self, home: Path, store: Store, progress: Progress) -> None:
        super().__init__(home)
        self.lists = None  # they are fetched of single backups only
        self.store, self.progress = store, progress
        self.backups: dict[str, dict[str, int]] = {}  # by ID: names of files, their lengths
        self.unfinished: dict[str, dict[str, int]] = {}  # the same, without a manifest
        self.packs: dict[str, int] = {}
        self.brought: set[str] = set()
        self.sending = Sending(store)
        self.require_lock: Callable[[], None] = lambda: None

    def look(self) -> None:
        """What there is. Raises NoSuchPath."""
        try:
            names = sorted(self.store.names())
        except FileNotFoundError as error:
            raise NoSuchPath(path=self.path) from error
        for name in filter(repository.ID.fullmatch, names):
            found = self.store.names(name)
            is_whole = manifest.MANIFEST in found
            (self.backups if is_whole else self.unfinished)[name] = found
        for name, listed in self.backups.items():
            self._outline(name, listed)
        if packs.PAGES in names:
            self._outline_packs()

    def _outline_packs(self) -> None:
        self.packs = self.store.names(packs.PAGES)
        (self.path / packs.PAGES).mkdir(mode=0o700)
        for name in filter(_PACK.fullmatch, self.packs):
            hole(self.path / packs.PAGES / name, self.packs[name])

    def _outline(self, name: str, listed: dict[str, int]) -> None:
        (self.path / name).mkdir(mode=0o700)
        for one in _TOLD:
            if one in listed:
                content = self.store.read(f"{name}/{one}", typed.LARGEST)
                with files.creating(self.path / name / one) as file:
                    file.write(content)
        for one in (*_SMALL, *_LARGE):
            if one in listed:
                hole(self.path / name / one, listed[one])

    # --- fetching ---------------------------------------------------------------------------------

    def bring(self, backup: Backup) -> None:
        """What was brought for another backup makes room. Raises BackupDamaged, NoSpace, RemoteFailed."""
        self._fetch(self._small(backup, *_SMALL))
        if backup.shares_pages:
            wanted = self._shared(backup)
        else:
            pack.require_whole(self.path / backup.id, backup)
            wanted = [f"{backup.id}/{backup.file}"]
        for name in self.brought.difference(wanted):
            hole(self.path / name, self._size(name))
        self.brought &= set(wanted)
        self._fetch([name for name in wanted if name not in self.brought])
        self.brought |= set(wanted)

    def bring_lists(self, backup: Backup) -> None:
        """Raises BackupDamaged, NoSpace, RemoteFailed."""
        self._fetch(self._small(backup, *_SMALL))
        if backup.shares_pages:
            self._fetch(self._shared(backup)[:1])

    def _shared(self, backup: Backup) -> list[str]:
        """The map first."""
        listed = page_list.read(self.path / backup.id, backup)
        for use in listed.packs:
            packs.require_length(self.path / packs.PAGES / packs.name(use), use)
        pack.require_length(self.path / backup.id / backup.file, listed.map_bytes)
        used = [f"{packs.PAGES}/{packs.name(use)}" for use in listed.packs]
        return [f"{backup.id}/{backup.file}", *used]

    def _bring_all_lists(self) -> None:
        """Of pieces: they tell which packs are needed. One too large for a list stays a hole, which is no list."""
        found = repository.listing(self.path)
        shared = [one.id for one in (*found.backups, *found.future) if one.shares_pages]
        sizes = {name: self.backups[name].get(manifest.PIECES, -1) for name in shared}
        self._fetch(
            [f"{name}/{manifest.PIECES}" for name in shared if 0 <= sizes[name] <= typed.LARGEST]
        )

    def _small(self, backup: Backup, *names: str) -> list[str]:
        """Those of the files that the backup has. Raises BackupDamaged."""
        listed = self.backups[backup.id]
        for name in names:
            if listed.get(name, 0) > typed.LARGEST:
                raise BackupDamaged(path=self.path / backup.id / name, reason="is too large")
        return [f"{backup.id}/{name}" for name in names if name in listed]

    def _size(self, name: str) -> int:
        directory, _, one = name.partition("/")
        return self.packs[one] if directory == packs.PAGES else self.backups[directory][one]

    def _fetch(self, names: list[str]) -> None:
        if not names:
            return
        files.require_space(self.path, sum(map(self._size, names)))
        with self.progress.step("fetch") as meter:
            for name in names:
                self._fetch_one(name, meter)

    def _fetch_one(self, name: str, meter: Meter) -> None:
        try:
            with files.creating(self.path / name) as file:
                for chunk in self.store.chunks(name, self._size(name)):
                    file.write(chunk)
                    meter.add(size=len(chunk))
                    killpoint("fetch.middle")
        except FileNotFoundError as error:
            raise BackupDamaged(path=self.path / name, reason="was removed meanwhile") from error

    # --- sending ----------------------------------------------------------------------------------

    def run(self, options: BackupOptions, progress: Progress) -> Backup:
        """Taken into the mirror, then sent. Raises NoSpace, RemoteFailed."""
        with _as_far_as_allowed():
            self._clean()
        local = dataclasses.replace(options, repo=self.path, policy=KEEP_ALL)
        made = taking.run(local, progress, bring=self.bring, outputs=self.sending)
        every = repository.members(self.path, made)
        self._send([one.id for one in every])
        if options.policy:
            for one in every:
                self._pruned(options.policy, one.suffix)
        return made

    def _send(self, made: Sequence[str]) -> None:
        """Packs that are new, then the backups that need them; the one that leads is there last."""
        fresh = [
            f"{packs.PAGES}/{path.name}"
            for path in (self.path / packs.PAGES).glob(f"*{packs.PACK}")
            if path.name not in self.packs
        ]
        own = [f"{one}/{path.name}" for one in made for path in (self.path / one).iterdir()]
        last = [f"{one}/{manifest.MANIFEST}" for one in reversed(made)]
        with self.progress.step("send") as meter:
            for name in (*fresh, *(name for name in own if name not in last)):
                self._send_one(name, meter)
                killpoint("send.middle")
            with _as_far_as_allowed():
                for name in self.sending.sent.values():  # packs in which there is no page
                    self.store.remove(name)
            self.require_lock()
            for name in last:
                self._send_one(name, meter)
                killpoint("send.manifest")
        self.backups |= {one: self.store.names(one) for one in made}

    def _send_one(self, name: str, meter: Meter) -> None:
        path = self.path / name
        there = self.sending.sent.pop(path.stat().st_ino, None)
        if there is None:
            self.store.put(path, name)
            meter.add(size=path.stat().st_size)
        elif there != name:
            self.store.move(there, name)

    def keep(self, name: str, record: str) -> None:
        self.store.put(self.path / name / record, f"{name}/{record}")

    # --- removing ---------------------------------------------------------------------------------

    def prune(self, policy: Policy, suffix: str | None, dry_run: bool) -> Pruned:
        if dry_run:
            return prune.prune(self.path, policy, suffix, dry_run, self.lists)
        self._clean()
        return self._pruned(policy, suffix)

    def _pruned(self, policy: Policy, suffix: str | None) -> Pruned:
        planned = prune.plan(self.path, policy, suffix, self.lists)
        for name in planned.removed:
            self._remove(name, self.backups.pop(name))
            files.remove_tree(self.path / name)
        return dataclasses.replace(planned, freed=planned.freed + self._collect())

    def _clean(self) -> None:
        """What interrupted runs left. Of packs the lists tell that."""
        self._bring_all_lists()
        for name, listed in self.unfinished.items():
            self._remove(name, listed)
        self._collect()

    def _remove(self, name: str, listed: Iterable[str]) -> None:
        """It is no backup any more before it loses another file."""
        self.require_lock()
        for one in sorted(listed, key=lambda one: one != manifest.MANIFEST):
            self.store.remove(f"{name}/{one}")
            killpoint("remove.middle")
        self.store.remove_directory(name)

    def _collect(self) -> int:
        """Packs that no backup needs; the bytes that they took."""
        wanted = packs.needed(self.path, repository.listing(self.path)) if self.packs else None
        if wanted is None:
            return 0
        freed = 0
        for name in packs.unneeded(self.packs, wanted):
            self.store.remove(f"{packs.PAGES}/{name}")
            freed += self.packs.pop(name)
        return freed
