"""A repository on another host: a temporary directory of this host with the files that a verb needs.

Manifests and records are fetched when it is opened; other files whole, when a verb needs them, and only if they have
the length that the manifest says. Names and contents are the same as in a directory, so that either can be copied to
the other. Its listing is not trusted: names must be such as ditseed gives. A backup is taken here and then sent, its
manifest last; it is removed with its manifest first.

One ditseed at a time changes it: an object, the lock, names its holder, who renews it. A lock that nobody renews
lapses, and that of a process of this host that is gone is free at once. An empty lock is nobody's: where nothing may be
removed, it is released by emptying it. A lock is taken over by overwriting it, so that of two that do so at the same
time the later one has it; each looks again after a moment. A process that was suspended for longer than a lock lasts
finds another's, and stops before it publishes or removes anything. So does the one whose lock was overwritten on a
server that ignores If-None-Match (some that speak S3 do).
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
from loader.operations.backup import pack, repository
from loader.operations.backup.manifest import DRILLED, MANIFEST, PACK_NAME, PAGES, VERIFIED, Backup
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


class Remote(Repository):
    """path: a directory of this host. lock: None, if nothing may be changed."""

    is_remote = True

    def __init__(self, path: Path, store: Store, progress: Progress, lock: Lock | None) -> None:
        """Raises NoSuchPath."""
        super().__init__(path)
        self.store, self.progress, self.lock = store, progress, lock
        self.sizes: dict[str, int] = {}  # of all files on the server
        self.fetched: set[str] = set()  # those with data that are on this host
        try:
            names = store.names()
        except FileNotFoundError as error:
            raise NoSuchPath(path=path) from error
        for directory in sorted(name for name in names if name == PAGES or repository.ID.fullmatch(name)):
            listed = store.names(directory)
            self.sizes |= {f"{directory}/{name}": size for name, size in listed.items() if size >= 0}
            if MANIFEST in listed and directory != PAGES:
                (path / directory).mkdir(mode=0o700)
                for name in (MANIFEST, VERIFIED, DRILLED):
                    if name in listed:
                        content = store.read(f"{directory}/{name}", typed.LARGEST)
                        with files.creating(path / directory / name) as file:
                            file.write(content)

    def size(self, name: str) -> int:
        if name not in self.sizes:
            raise BackupDamaged(path=self.path / name, reason="it is missing")
        return self.sizes[name]

    def require_space(self, needed: int, keep_free: int) -> None:
        self.store.require_space(needed)
        super().require_space(needed, keep_free)

    def bring(self, backup: Backup, data: bool = True) -> None:
        """Removes what was fetched for another backup. Raises BackupDamaged, NoSpace, RemoteFailed."""
        small = {f"{backup.id}/{stored.name}" for stored in backup.small_files}
        wanted = {name: stored for name, stored in backup.stored() if data or name in small}
        for name, stored in wanted.items():
            pack.require_length(self.path / name, self.size(name), stored)
        for name in sorted(self.fetched - wanted.keys()) if data else ():
            (self.path / name).unlink()
            self.fetched.remove(name)
        missing = [name for name in wanted if name not in self.fetched]
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

    def send(self, backups: Sequence[Backup]) -> None:
        """New packs first, then the other files, then the manifests. Raises RemoteFailed, RemoteFull, RemoteLocked."""
        names = dict.fromkeys(name for backup in backups for name, _ in backup.stored())
        packs = [name for name in names if name.startswith(f"{PAGES}/") and name not in self.sizes]
        others = [name for name in names if not name.startswith(f"{PAGES}/")]
        with self.progress.step("send") as meter:
            for name in (*packs, *others):
                self._send(name, meter)
                killpoint("send.middle")
            self.require_lock()
            for backup in reversed(backups):
                self._send(f"{backup.id}/{MANIFEST}", meter)
                killpoint("send.manifest")

    def _send(self, name: str, meter: Meter) -> None:
        self.keep(name)
        self.fetched.add(name)
        meter.add(size=self.sizes[name])

    def require_lock(self) -> None:
        if self.lock is not None:
            self.lock.require()

    def set_aside(self, name: str) -> None:
        self.require_lock()
        self._remove([f"{name}/{MANIFEST}"])
        files.remove_tree(self.path / name)
        self.fetched = {fetched for fetched in self.fetched if not fetched.startswith(f"{name}/")}

    def clean(self) -> None:
        """Removes directories without a manifest."""
        for directory in sorted({name.partition("/")[0] for name in self.sizes} - {PAGES}):
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
        packs = {name.removeprefix(f"{PAGES}/"): size for name, size in self.sizes.items()}
        return {name: size for name, size in packs.items() if PACK_NAME.fullmatch(name.removesuffix(files.PARTIAL))}

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
        directory = stack.enter_context(temporary.directory("backup", top))
        stack.enter_context(_named(directory, repo, top))
        lock = None
        if changes:
            if not _is_marked(store):
                raise repository.no_repository(repo)
            lock = stack.enter_context(exclusive(store, makes_room))
        yield Remote(directory, store, progress, lock)


def init(repo: Location) -> bool:
    """Creates a repository; False if it existed. Raises PackageMissing, RemoteFailed."""
    with remote.opened(repo) as store:
        if _is_marked(store):
            return False
        store.write(repository.MARKER, repository.MARK)
    return True


def _is_marked(store: Store) -> bool:
    try:
        return repository.MARKER in store.names()
    except FileNotFoundError:
        return False


@contextmanager
def _named(directory: Path, repo: Location, top: Path) -> Iterator[None]:
    """Messages about files in `directory` name those on the server; if the disk is full, it is this host's."""
    plain.register(directory, repo.url)
    try:
        yield
    except NoSpace as error:
        if str(error.facts["path"]).startswith(repo.url):
            raise NoSpace(path=top, lack=error.facts["lack"]) from error
        raise
    finally:
        plain.forget(directory)


# --- the lock -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A process: `started` in clock ticks since the boot, for a later process may have its number."""

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

    def encoded(self) -> bytes:
        return msgspec.json.encode(replace(self, renewed=_now()))

    def has(self, store: Store) -> bool:
        """Whether the lock is this process's."""
        try:
            holder = _read(store)
        except Unfit:
            return False
        return holder is not None and replace(self, renewed=holder.renewed) == holder


class Lock:
    """Of this process. Raises RemoteFailed like its store."""

    def __init__(self, store: Store) -> None:
        self.store, self.own = store, myself()
        self._is_held = False
        self._is_possible = True

    def take(self) -> None:
        """Raises RemoteLocked, RemoteFull."""
        try:
            self.store.create(LOCK, self.own.encoded())
        except FileExistsError:
            if not _content(self.store):
                time.sleep(_SETTLE)  # it may be being written
            self._require_free()
            # Where nothing can be overwritten, nobody can remove what this run sends either.
            self._is_possible = self._overwrite(self.own.encoded())
            if self._is_possible:
                time.sleep(_SETTLE)
                if not self.own.has(self.store):
                    self._require_free()
                    raise self._locked(None) from None
        self._is_held = self._is_possible

    def require(self) -> None:
        """Before anything is published or removed. On a server that was too full for a lock, it is taken as soon as
        there is room. Raises RemoteLocked, RemoteFailed."""
        if self._is_held and not self.own.has(self.store):
            reason = f"{LOCK} is another's, or was removed, while this run was at work"
            raise RemoteFailed(place=self.store.place, reason=reason, advice=_LOST)
        if self._is_possible and not self._is_held:
            try:
                self.take()
            except RemoteFull:
                log.info("%s is still too full for %s", self.store.place, LOCK)

    def renew(self, store: Store) -> None:
        """store: another connection, for this is another thread."""
        if self._is_held and self.own.has(store):
            store.write(LOCK, self.own.encoded())

    def release(self) -> None:
        """A lock that cannot be removed lapses; a warning does not hide the error that ends the run."""
        try:
            if self._is_held and self.own.has(self.store):
                try:
                    self.store.remove(LOCK)
                except RemovalRefused:
                    self._overwrite(b"")
        except LoaderError as error:
            log.warning("%s/%s could not be removed: %s", self.store.place, LOCK, error)

    def _overwrite(self, content: bytes) -> bool:
        """False if the server lets no file be overwritten."""
        try:
            self.store.write(LOCK, content)
        except RemoteFailed as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            log.info("%s/%s cannot be written over: %s", self.store.place, LOCK, error)
            return False
        return True

    def _require_free(self) -> None:
        """Raises RemoteLocked if another process holds the lock, or if it cannot be read."""
        try:
            holder = _read(self.store)
        except Unfit as error:
            log.debug("%s/%s %s", self.store.place, LOCK, error)
            raise self._locked(None) from error
        if holder is not None and not holder.is_gone:
            raise self._locked(holder)

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
    lock, ended = Lock(store), threading.Event()

    def renew() -> None:
        while not ended.wait(renewal):
            try:
                with remote.opened(store.place) as connection:
                    lock.renew(connection)
                    while not ended.wait(renewal):
                        lock.renew(connection)
            except LoaderError as error:  # such as a full server; the next attempt may succeed
                log.info("%s/%s was not renewed: %s", store.place, LOCK, error)

    try:
        lock.take()
    except RemoteFull:
        if not makes_room:
            raise
    thread = threading.Thread(target=renew, name="renew lock", daemon=True)
    thread.start()
    try:
        yield lock
    finally:
        ended.set()
        thread.join()
        lock.release()


def _content(store: Store) -> bytes:
    try:
        return store.read(LOCK, _LARGEST)
    except FileNotFoundError:
        return b""


def _read(store: Store) -> Holder | None:
    """None: nobody. Raises Unfit."""
    content = _content(store)
    return typed.parse(content, Holder, 1) if content else None


def myself() -> Holder:
    pid, now = os.getpid(), _now()
    return Holder(socket.gethostname(), boot_id(), pid, _started(pid), now.isoformat(timespec="seconds"), now)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _started(pid: int) -> int:
    """proc_pid_stat(5), field 22; 0: there is no such process."""
    try:
        text = files.read(Path(f"/proc/{pid}/stat")).decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[19])
