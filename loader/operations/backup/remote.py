"""A repository on another host: a temporary directory of this host with what a verb needs of it.

Manifests and records are fetched when it is opened; other files whole, when a verb needs them, and only if they have
the length that the manifest says. What is there has the same names and contents as in a directory, so that either can
be copied to the other. Nothing of its listing is trusted: names are those that ditseed gives. A backup is taken here
and then sent, its manifest last; it is removed with its manifest first.

One ditseed at a time changes it: an object, the lock, tells who has it. No kernel drops it with the process, so its
holder renews it, and a lock that nobody renews lapses. Whether a process of this host is gone, this host can see at
once. An empty lock is nobody's: where nothing may be removed, it is released by emptying it. A lock is taken over by
writing over it, so that of two that do so at the same time the later one has it; each looks again after a moment.
Whoever was suspended for longer than a lock lasts finds another's, and stops before it publishes or removes anything.

A server that ignores If-None-Match (some that speak S3 do) lets two in that begin within the same moment: the one whose
lock was overwritten stops likewise.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from loader import plain, typed, units
from loader.errors import (
    BackupDamaged,
    LoaderError,
    NoSpace,
    NoSuchPath,
    RemoteFailed,
    RemoteFull,
    RemoteLocked,
    RemovalRefused,
)
from loader.operations.backup import pack, records, repository
from loader.operations.backup.manifest import MANIFEST, PACK_NAME, PAGES, Backup
from loader.operations.backup.repository import Repository
from loader.progress import Meter, Progress
from loader.run.lease import boot_id
from loader.run.log import killpoint
from loader.storage import files, remote, temporary
from loader.storage.remote import Location, Store
from loader.typed import Count, Name, Unfit

log = logging.getLogger(__name__)
LOCK = "lock.json"
LAPSE = 15 * 60.0  # seconds without a renewal, after which a lock is nobody's
_RENEWAL = 60.0  # seconds
_SETTLE = 1.0  # seconds in which another that takes the same lock over has written its own
_LARGEST = 4096  # bytes
_LOST = "Nothing was published or removed since. Run the same command again."

# --- the repository -------------------------------------------------------------------------------


class Remote(Repository):
    """`look` comes first. path: a directory of this host. lock: None, if nothing may be changed."""

    is_remote = True

    def __init__(self, path: Path, store: Store, progress: Progress) -> None:
        super().__init__(path)
        self.store, self.progress = store, progress
        self.sizes: dict[str, int] = {}  # of all files there
        self.fetched: set[str] = set()  # those with data that are here
        self.lock: Lock | None = None

    def look(self) -> None:
        """What there is. Raises NoSuchPath."""
        try:
            names = sorted(self.store.names())
        except FileNotFoundError as error:
            raise NoSuchPath(path=self.path) from error
        for directory in filter(repository.ID.fullmatch, names):
            self._look(directory, self.store.names(directory))
        if PAGES in names:
            self._look(PAGES, self.store.names(PAGES))

    def _look(self, directory: str, listed: dict[str, int]) -> None:
        self.sizes |= {f"{directory}/{name}": size for name, size in listed.items() if size >= 0}
        if MANIFEST not in listed:
            return
        (self.path / directory).mkdir(mode=0o700)
        for name in (MANIFEST, records.VERIFIED, records.DRILLED):
            if name in listed:
                content = self.store.read(f"{directory}/{name}", typed.LARGEST)
                with files.creating(self.path / directory / name) as file:
                    file.write(content)

    def size(self, name: str) -> int:
        if name not in self.sizes:
            raise BackupDamaged(path=self.path / name, reason="it is missing")
        return self.sizes[name]

    def require_space(self, needed: int, keep_free: int) -> None:
        self.store.require_space(needed)
        super().require_space(needed, keep_free)

    def bring(self, backup: Backup, data: bool = True) -> None:
        """What was fetched for another backup makes room. Raises BackupDamaged, NoSpace, RemoteFailed."""
        told = {f"{backup.id}/{one.name}" for one in pack.small(backup)}
        wanted = [(name, one) for name, one in backup.stored() if data or name in told]
        for name, stored in wanted:
            pack.require_length(self.path / name, self.size(name), stored)
        names = {name for name, _ in wanted}
        for name in sorted(self.fetched - names) if data else ():
            (self.path / name).unlink()
            self.fetched.remove(name)
        missing = [name for name, _ in wanted if name not in self.fetched]
        if missing:
            files.require_space(self.path, sum(map(self.size, missing)))
            with self.progress.step("fetch") as meter:
                for name in missing:
                    self._fetch(name, meter)

    def _fetch(self, name: str, meter: Meter) -> None:
        path = self.path / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with files.creating(path) as file:
                for chunk in self.store.chunks(name, self.size(name)):
                    file.write(chunk)
                    meter.add(size=len(chunk))
                    killpoint("fetch.middle")
        except FileNotFoundError as error:
            raise BackupDamaged(path=path, reason="was removed meanwhile") from error
        self.fetched.add(name)

    def keep(self, name: str) -> None:
        self.store.put(self.path / name, name)
        self.sizes[name] = (self.path / name).stat().st_size

    @contextmanager
    def changing(self) -> Iterator[Repository]:
        yield self

    def tidy(self) -> None:
        """On a server that lets nothing be removed the remains stay, and harm nobody."""
        try:
            super().tidy()
        except RemovalRefused as error:
            log.info("%s", error)

    def send(self, made: Sequence[Backup]) -> None:
        """Packs that are new, then the backups that need them. Raises RemoteFailed, RemoteFull, RemoteLocked."""
        files_of = [name for backup in made for name, _ in backup.stored()]
        packs = [name for name in files_of if name.startswith(PAGES) and name not in self.sizes]
        others = [name for name in files_of if not name.startswith(PAGES)]
        with self.progress.step("send") as meter:
            for name in dict.fromkeys((*packs, *others)):
                self._send(name, meter)
                killpoint("send.middle")
            self.require_lock()
            for backup in reversed(made):
                self._send(f"{backup.id}/{MANIFEST}", meter)
                killpoint("send.manifest")

    def _send(self, name: str, meter: Meter) -> None:
        self.store.put(self.path / name, name)
        self.sizes[name] = (self.path / name).stat().st_size
        self.fetched.add(name)
        meter.add(size=self.sizes[name])

    def require_lock(self) -> None:
        if self.lock is not None:
            self.lock.require()

    def set_aside(self, name: str) -> None:
        self.require_lock()
        self._remove([f"{name}/{MANIFEST}"])
        files.remove_tree(self.path / name)
        self.fetched = {one for one in self.fetched if not one.startswith(f"{name}/")}

    def clean(self) -> None:
        """Removes directories without a manifest."""
        names = {name.partition("/")[0] for name in self.sizes} - {PAGES}
        for directory in sorted(names):
            listed = [name for name in self.sizes if name.startswith(f"{directory}/")]
            if f"{directory}/{MANIFEST}" not in listed:
                self.require_lock()
                self._remove(listed)
                self.store.remove_directory(directory)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.store.remove(name)
            self.sizes.pop(name, None)
            killpoint("remove.middle")

    def packs(self) -> dict[str, int]:
        names = [name.partition("/") for name in self.sizes]
        return {
            one: self.sizes[f"{PAGES}/{one}"]
            for directory, _, one in names
            if directory == PAGES and PACK_NAME.fullmatch(one.removesuffix(files.PARTIAL))
        }

    def remove_pack(self, name: str) -> None:
        self._remove([f"{PAGES}/{name}"])


@contextmanager
def opened(
    repo: Location, progress: Progress, scratch: Path | None, changes: bool, makes_room: bool
) -> Iterator[Remote]:
    """As `repository.at`."""
    top = scratch or Path(tempfile.gettempdir())
    with ExitStack() as stack:
        store = stack.enter_context(remote.opened(repo))
        home = stack.enter_context(temporary.directory("backup", top))
        stack.enter_context(_called(home, repo, top))
        found = Remote(home, store, progress)
        if changes:
            if repository.MARKER not in _names(store):
                raise repository.no_repository(repo)
            found.lock = stack.enter_context(exclusive(store, makes_room))
        found.look()
        yield found


def init(repo: Location) -> bool:
    """Create a repository; False if it was there. Raises PackageMissing, RemoteFailed."""
    with remote.opened(repo) as store:
        if repository.MARKER in _names(store):
            return False
        store.write(repository.MARKER, repository.MARK)
    return True


def _names(store: Store) -> list[str]:
    try:
        return list(store.names())
    except FileNotFoundError:
        return []


@contextmanager
def _called(home: Path, repo: Location, top: Path) -> Iterator[None]:
    """Messages about the files in `home` name those that it is of; where the disk is full, it is this one."""
    plain.register(home, repo.url)
    try:
        yield
    except NoSpace as error:
        if str(error.facts["path"]).startswith(repo.url):
            raise NoSpace(path=top, lack=error.facts["lack"]) from error
        raise
    finally:
        plain.forget(home)


# --- the lock -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A process: `started` in clock ticks since the boot, so that no later one of its number is taken for it."""

    host: Name
    boot: Name
    pid: Count
    started: Count
    made: Name
    renewed: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    format: int = 1

    @property
    def is_gone(self) -> bool:
        """As far as this host knows."""
        if self.host == socket.gethostname() and self.boot == boot_id():
            return _started(self.pid) != self.started
        return (_now() - self.renewed).total_seconds() > LAPSE

    def is_same(self, other: Holder) -> bool:
        return replace(self, renewed=other.renewed) == other


class Lock:
    """Of this process. Raises RemoteFailed like its store."""

    def __init__(self, store: Store) -> None:
        self.store, self.own = store, myself()
        self._is_held = False
        self._is_possible = True

    def take(self) -> None:
        """Raises RemoteLocked, RemoteFull."""
        try:
            self.store.create(LOCK, self._encoded())
        except FileExistsError:
            if not _content(self.store):
                time.sleep(_SETTLE)  # it may be one that is just being written
            holder = self._holder()
            if holder is not None and not holder.is_gone:
                raise self._locked(holder) from None
            # Where nothing can be written over, nor can anybody remove what this run sends.
            self._is_possible = self._overwrite(self._encoded())
            if self._is_possible:
                time.sleep(_SETTLE)
                holder = self._holder()
                if holder is None or not holder.is_same(self.own):
                    raise self._locked(holder) from None
        self._is_held = self._is_possible

    def require(self) -> None:
        """Before anything is published or removed. On a server that was too full for a lock, it is taken as soon as
        there is room. Raises RemoteLocked, RemoteFailed."""
        if self._is_held and not self._is_own(self.store):
            reason = f"{LOCK} is another's, or was removed, while this run was at work"
            raise RemoteFailed(place=self.store.place, reason=reason, advice=_LOST)
        if self._is_possible and not self._is_held:
            try:
                self.take()
            except RemoteFull:
                log.info("%s is still too full for %s", self.store.place, LOCK)

    def renew(self, store: Store) -> None:
        """Through a connection of its own: this is another thread."""
        if self._is_held and self._is_own(store):
            store.write(LOCK, self._encoded())

    def release(self) -> None:
        """That the server is gone is no reason to hide what it broke; the lock lapses."""
        try:
            if self._is_held and self._is_own(self.store):
                try:
                    self.store.remove(LOCK)
                except RemovalRefused:
                    self._overwrite(b"")
        except LoaderError as error:
            log.warning("%s/%s could not be removed: %s", self.store.place, LOCK, error)

    def _overwrite(self, content: bytes) -> bool:
        """False if the server does not let a file be written over."""
        try:
            self.store.write(LOCK, content)
        except RemoteFailed as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            log.info("%s/%s cannot be written over: %s", self.store.place, LOCK, error)
            return False
        return True

    def _encoded(self) -> bytes:
        return msgspec.json.encode(replace(self.own, renewed=_now()))

    def _is_own(self, store: Store) -> bool:
        try:
            return typed.parse(_content(store), Holder, 1).is_same(self.own)
        except Unfit:
            return False

    def _holder(self) -> Holder | None:
        """None: nobody. Raises RemoteLocked if it cannot be read."""
        content = _content(self.store)
        try:
            return typed.parse(content, Holder, 1) if content else None
        except Unfit as error:
            log.debug("%s/%s %s", self.store.place, LOCK, error)
            raise self._locked(None) from error

    def _locked(self, holder: Holder | None) -> RemoteLocked:
        return RemoteLocked(
            place=self.store.place,
            name=LOCK,
            host=holder.host if holder else "an unknown host",
            pid=holder.pid if holder else "unknown",
            made=holder.made if holder else "an unknown time",
            lapse=units.duration(LAPSE),
        )


@contextmanager
def exclusive(store: Store, makes_room: bool = False, renewal: float = _RENEWAL) -> Iterator[Lock]:
    """makes_room: a full server is no obstacle. Raises RemoteLocked, RemoteFailed, RemoteFull."""
    lock = Lock(store)
    try:
        lock.take()
    except RemoteFull:
        if not makes_room:
            raise
    try:
        with _renewed(lock, renewal):
            yield lock
    finally:
        lock.release()


@contextmanager
def _renewed(lock: Lock, every: float) -> Iterator[None]:
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every):
            try:
                with remote.opened(lock.store.place) as store:
                    lock.renew(store)
                    while not ended.wait(every):
                        lock.renew(store)
            except LoaderError as error:  # such as a full server; the next attempt may succeed
                log.info("%s/%s was not renewed: %s", lock.store.place, LOCK, error)

    thread = threading.Thread(target=work, name="renew lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _content(store: Store) -> bytes:
    try:
        return store.read(LOCK, _LARGEST)
    except FileNotFoundError:
        return b""


def myself() -> Holder:
    now = _now().isoformat(timespec="seconds")
    pid = os.getpid()
    return Holder(socket.gethostname(), boot_id(), pid, _started(pid), now, _now())


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _started(pid: int) -> int:
    """proc_pid_stat(5), field 22; 0: there is no such process."""
    try:
        text = files.read(Path(f"/proc/{pid}/stat")).decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[19])
