"""A repository on another host. A local temporary directory has the files that a command needs.

Manifests and records are fetched when the repository is opened. Other files are fetched when a command needs them, and
only if their lengths match the manifest. Names and contents are the same as in a local repository, so a repository can
be copied to or from a server. The server's listing is not trusted: names must match ditseed's patterns. A new backup is
written locally and then sent, the manifest last. When a backup is removed, the manifest is removed first.

A lock lets only one ditseed at a time change the repository. The lock is a file on the server with the name of its
holder, who renews it. A lock that is not renewed lapses. A lock of a process of this host is free as soon as that
process has ended. An empty lock is free, because a server that refuses removals allows only to empty the file. A
process acquires a free lock by overwriting it. If two processes do so at the same time, the later write wins, so each
checks the lock again after a moment.

Where files cannot be overwritten, a lock stays for ever. A run there goes on once that lock is free, because it cannot
damage another run. It writes leases: small files with new names, that lapse like a lock. They keep an account that may
remove files from doing so meanwhile. Nobody who can only add files can stop runs for longer than a lock takes to lapse.

A process may lose its lock: it was suspended until the lock lapsed, or an S3
server ignored If-None-Match. The process checks the lock before it publishes or removes anything, and then stops.
"""

from __future__ import annotations

import datetime
import logging
import os
import re
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import msgspec
from msgspec.structs import replace

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
from loader.operations.backup import manifest, pack, repository
from loader.operations.backup.manifest import LOG, MANIFEST, PAGES, Backup, StoredFile, now
from loader.operations.backup.options import UNLIMITED, Traffic
from loader.operations.backup.repository import Repository
from loader.progress import Progress, alongside
from loader.run.lease import boot_id
from loader.run.log import killpoint
from loader.storage import files, remote
from loader.storage.remote import Location, Store
from loader.typed import Count, Name, Unfit

log = logging.getLogger(__name__)
LOCK, LEASE = "lock.json", re.compile(r"lock-[0-9a-f]{16}\.json")
LAPSE = 15 * 60.0  # seconds; a lock that was not renewed for so long is free
_RENEWAL = 60.0  # seconds between renewals of the lock
_SETTLE = 1.0  # seconds in which a competing process has written its lock
_LARGEST = 4096  # maximum bytes of a lock that are read
_LARGEST_RECORD = 64 << 10  # maximum bytes of a record that are read
_PIECE = 64 << 10  # bytes that are sent at once if the rate is limited, and the minimum that is fetched at once
_PART = 8 << 20  # maximum bytes that are fetched at once
_STREAMS = 4  # maximum number of connections that fetch
_DATED_LATE = 2 * LAPSE  # no clock is so wrong: a lock renewed so far in the future was forged
_EXISTS = "Take a full backup (without --incremental), which needs no file of an interrupted run."
_LOST = "Nothing was published or removed since. Run the same command again."


class Remote(Repository):
    """A repository on a server. `path` is the local directory for its files. `lock` is None for a reader."""

    is_remote = True

    def __init__(
        self,
        path: Path,
        store: Store,
        progress: Progress,
        lock: Lock | None,
        traffic: Traffic = UNLIMITED,
        backups: bool = True,
    ) -> None:
        """Lists the server and, with `backups`, fetches manifests and records. Raises NoSuchPath if the repository does
        not exist."""
        super().__init__(path)
        self.store, self.progress, self.lock, self.traffic = store, progress, lock, traffic
        self.sizes: dict[str, int] = {}  # bytes of each file on the server
        self.fetched: set[str] = set()  # names of the files that were fetched or sent and are in `path`
        try:
            names = store.names()
        except FileNotFoundError as error:
            raise NoSuchPath(path=path) from error
        directories = [name for name in names if name == PAGES or repository.ID.fullmatch(name)]
        for directory in sorted(directories) if backups else ():
            listed = store.names(directory)
            self.sizes |= {f"{directory}/{name}": file.size for name, file in listed.items() if file.size >= 0}
            if MANIFEST in listed and directory != PAGES:
                (path / directory).mkdir(mode=0o700)
                if arrived := listed[MANIFEST].modified:
                    self.arrived[directory] = arrived
                self._fetch_small(f"{directory}/{MANIFEST}", typed.LARGEST)
                counting = manifest.counting(listed)
                for name in repository.records_in(listed):
                    if name in counting:
                        self._fetch_small(f"{directory}/{name}", _LARGEST_RECORD)
                    else:  # only its name matters
                        files.creating(path / directory / name).close()
        if repository.MARKER in names:
            self._fetch_small(repository.MARKER, _LARGEST_RECORD)

    def _fetch_small(self, name: str, most: int) -> None:
        content = self.store.read(name, most)
        with files.creating(self.path / name) as file:
            file.write(content)

    def size(self, name: str) -> int:
        if name not in self.sizes:
            raise BackupDamaged(path=self.path / name, reason="it is missing")
        return self.sizes[name]

    def require_space(self, needed: int, keep_free: int) -> None:
        self.store.require_space(needed)
        super().require_space(needed, keep_free)

    def bring(self, stored: Iterable[tuple[str, StoredFile]], only: bool = True) -> None:
        """Raises BackupDamaged, NoSpace, RemoteFailed."""
        needed = dict(stored)
        for name, file in needed.items():
            pack.require_length(self.path / name, self.size(name), file)
        for name in self.fetched - needed.keys() if only else ():
            (self.path / name).unlink()
            self.fetched.remove(name)
        missing = sorted(needed.keys() - self.fetched, key=self.size, reverse=True)
        total = sum(map(self.size, missing))
        files.require_space(self.path, total)
        with self.progress.step("fetch", size=total) as meter, closing(self._parts(missing, total)) as parts:
            for name in missing:
                path = self.path / name
                path.parent.mkdir(mode=0o700, exist_ok=True)
                try:
                    with files.creating(path) as target:
                        while target.tell() < self.size(name):
                            target.write(part := next(parts))
                            meter.add(size=len(part))
                            killpoint("fetch.middle")
                except FileNotFoundError as error:
                    raise BackupDamaged(path=path, reason="was removed meanwhile") from error
                self.fetched.add(name)

    def _parts(self, names: Sequence[str], total: int) -> Generator[bytes, None, None]:
        """Yields the parts of the files in their order, at up to the limited rate. Fetches several parts at the same
        time, with a connection each."""
        rate = self.traffic.download
        # A limited line is not used for more than about two seconds at its full rate.
        most = min(_PART, max(_PIECE, rate // _STREAMS)) if rate else _PART
        tasks = [
            (name, start, min(most, self.size(name) - start))
            for name in names
            for start in range(0, self.size(name), most)
        ]
        stores = SimpleQueue[Store]()  # connections that no thread uses

        def fetch(task: tuple[str, int, int]) -> bytes:
            name, start, size = task
            store = stores.get()
            try:
                part = store.part(name, start, size)
            finally:
                stores.put(store)
            if len(part) != size:
                raise BackupDamaged(path=self.path / name, reason="was changed meanwhile")
            return part

        with ExitStack() as stack:
            if total <= _PART:
                stores.put(self.store)
                yield from pack.paced(map(fetch, tasks), rate)
                return
            stack.callback(self.store.cancel)
            for number in range(min(_STREAMS, len(tasks))):
                try:
                    more = nullcontext(self.store) if self.store.serves_threads else remote.opened(self.store.location)
                    stores.put(stack.enter_context(more))
                except RemoteFailed as error:
                    if not number:
                        raise
                    log.info("%s: no further connection: %s", self.store.location, error)
            with closing(pack.in_order(fetch, tasks, _STREAMS, stack.close)) as parts:
                yield from pack.paced(parts, rate)

    def keep(self, name: str) -> None:
        self._put(name)

    def logged(self) -> list[str]:
        with suppress(FileNotFoundError):
            self.sizes |= {f"{LOG}/{name}": file.size for name, file in self.store.names(LOG).items()}
        names = [Path(name).name for name in self.sizes if name.startswith(f"{LOG}/")]
        return sorted(filter(manifest.SEGMENT.fullmatch, names))

    def bring_segment(self, name: str) -> None:
        (self.path / LOG).mkdir(mode=0o700, exist_ok=True)
        if not (self.path / LOG / name).exists():
            self._fetch_small(f"{LOG}/{name}", typed.LARGEST)

    def _put(self, name: str) -> None:
        """Uploads a file. Replaces a pack of another length. Another run may have sent the same pack meanwhile, because
        its name tells its content."""
        path, rate = self.path / name, self.traffic.upload
        size = path.stat().st_size
        try:
            with path.open("rb") as file:
                content = pack.paced(iter(lambda: file.read(_PIECE), b""), rate) if rate else None
                self.store.put(path, name, name not in self.sizes, content)
        except FileExistsError as error:
            if not name.startswith(f"{PAGES}/") or self.store.names(PAGES)[Path(name).name].size != size:
                reason = f"{name} exists there, and the server does not let this account replace it"
                raise RemoteFailed(place=self.store.location, reason=reason, advice=_EXISTS) from error
        self.sizes[name] = size

    @contextmanager
    def changing(self) -> Iterator[Repository]:
        yield self

    def tidy(self) -> None:
        """Removes unfinished backups and unneeded packs. They stay if the server refuses removals or another run is at
        work, and do no harm."""
        try:
            super().tidy()
        except (RemovalRefused, RemoteLocked) as error:
            log.info("%s", error)

    def send(self, backups: Sequence[Backup]) -> None:
        """Sends new packs, then other files, then manifests. Raises RemoteFailed, RemoteFull, RemoteLocked."""
        names = {name: stored.bytes for backup in backups for name, stored in backup.stored()}
        packs = [name for name in names if name.startswith(f"{PAGES}/") and self.sizes.get(name) != names[name]]
        others = [name for name in names if not name.startswith(f"{PAGES}/")]
        manifests = [f"{backup.id}/{MANIFEST}" for backup in reversed(backups)]
        with self.progress.step("send") as meter:
            for name in (*packs, *others, *manifests):
                if name == manifests[0]:
                    self.require_lock()
                self._put(name)
                self.fetched.add(name)
                meter.add(size=self.sizes[name])
                killpoint("send.manifest" if name in manifests else "send.middle")

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
        for directory in sorted({name.partition("/")[0] for name in self.sizes} - {PAGES, LOG}):
            listed = [name for name in self.sizes if name.startswith(f"{directory}/")]
            if f"{directory}/{MANIFEST}" not in listed:
                self.require_lock()
                self._remove(listed)
                self.store.remove_directory(directory)

    def _remove(self, names: Iterable[str]) -> None:
        if self.lock is not None:
            self.lock.require_alone()
        for name in names:
            self.store.remove(name)
            self.sizes.pop(name, None)
            killpoint("remove.middle")

    def packs(self) -> dict[str, int]:
        packs = {name.removeprefix(f"{PAGES}/"): size for name, size in self.sizes.items()}
        return {name: size for name, size in packs.items() if repository.is_pack(name)}

    def remove(self, name: str) -> None:
        self._remove([name])
        (self.path / name).unlink(missing_ok=True)


@contextmanager
def opened(
    repo: Location,
    progress: Progress,
    scratch: Path | None,
    changes: bool,
    makes_room: bool,
    traffic: Traffic,
    backups: bool,
) -> Iterator[Remote]:
    """Opens a repository on a server. The parameters are those of `repository.at`. Messages show the server's URL
    instead of the local directory."""
    top = scratch or Path(tempfile.gettempdir())
    with remote.opened(repo) as store, files.temporary_directory("backup", top) as directory, ExitStack() as stack:
        plain.register(directory, repo.url)
        stack.callback(plain.forget, directory)
        try:
            lock = None
            if changes:
                if not _is_marked(store):
                    raise repository.no_repository(repo)
                lock = stack.enter_context(exclusive(store, makes_room))
            yield Remote(directory, store, progress, lock, traffic, backups)
        except NoSpace as error:
            if str(error.facts["path"]).startswith(repo.url):
                raise NoSpace(path=top, lack=error.facts["lack"]) from error
            raise


def init(repo: Location, marker: bytes, replace: bool) -> bool:
    """Creates a repository. Returns False if it existed. Then `replace` replaces repository.json. Raises
    PackageMissing, RemoteFailed."""
    with remote.opened(repo) as store:
        is_new = not _is_marked(store)
        if is_new or replace:
            with suppress(FileExistsError):  # another account was quicker
                store.write(repository.MARKER, marker, new=is_new)
    return is_new


def _is_marked(store: Store) -> bool:
    try:
        return repository.MARKER in store.names()
    except FileNotFoundError:
        return False


# --- the lock -------------------------------------------------------------------------------------


class Holder(msgspec.Struct, frozen=True):
    """The process that has the lock. `started`: its start in clock ticks, because process IDs are reused."""

    host: Name
    boot: Name
    pid: Count
    started: Count
    made: Name
    renewed: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    format: int = 1

    @property
    def is_gone(self) -> bool:
        """Whether the lock is free: its process on this host has ended, or a lock of another host has lapsed or was
        dated far in the future."""
        if self.host == socket.gethostname() and self.boot == boot_id():
            return _started(self.pid) != self.started
        return not -_DATED_LATE < (now() - self.renewed).total_seconds() <= LAPSE

    def encoded(self) -> bytes:
        return msgspec.json.encode(replace(self, renewed=now()))

    def holds_lock(self, store: Store) -> bool:
        holder = _read(store)
        return holder is not None and replace(self, renewed=holder.renewed) == holder


# The holder of a lock that cannot be read. It was renewed when the file was written.
_UNKNOWN = Holder(
    "an unknown host", "", 0, 0, "an unknown time", datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
)


class Lock:
    """This process's lock on a repository. `is_held` is None if the server was too full for the lock. It is False if
    the server refuses to overwrite files: then `leases` has the names of this run's leases. `is_alone`: no other run
    has a lease. All methods raise RemoteFailed."""

    def __init__(self, store: Store) -> None:
        self.store, self.own = store, myself()
        self.is_held: bool | None = None
        self.is_alone = False
        self.leases: list[str] = []
        self.leased = 0.0  # time.monotonic() of the last lease

    def take(self) -> None:
        """Acquires the lock. Raises RemoteFull, or RemoteLocked if another process has it."""
        try:
            self.store.write(LOCK, self.own.encoded(), new=True)
        except FileExistsError:
            holder = _read(self.store)
            if holder is None:
                time.sleep(_SETTLE)  # another process may be writing the lock
                holder = _read(self.store)
            is_free = holder is None or holder.is_gone
            if is_free and not self._overwrite(self.own.encoded()):
                self._lease(self.store)
                holder = _read(self.store)  # an account that may overwrite files may have taken it before the lease
                if holder is None or holder.is_gone:
                    return
                is_free = False
                self.release()
            elif is_free:
                time.sleep(_SETTLE)
                is_free, holder = self.own.holds_lock(self.store), _read(self.store)
            if not is_free:
                raise self._locked(LOCK, holder or _UNKNOWN) from None
        self.is_held = True

    def _locked(self, name: str, holder: Holder) -> RemoteLocked:
        return RemoteLocked(
            place=self.store.location,
            name=name,
            host=holder.host,
            pid=holder.pid or "unknown",
            made=holder.made,
            lapse=units.duration(LAPSE),
        )

    def _lease(self, store: Store) -> None:
        """Writes a lease, if the last one is not new."""
        self.is_held = False
        if not self.leases or time.monotonic() - self.leased > LAPSE / 3:
            name = f"lock-{secrets.token_hex(8)}.json"
            store.write(name, self.own.encoded(), new=True)
            self.leases.append(name)
            self.leased = time.monotonic()

    def require_alone(self) -> None:
        """Checks that no other run has a lease, and removes leases that have lapsed. Must be called before anything is
        removed. Raises RemoteLocked, RemovalRefused."""
        if self.is_alone:
            return
        for name in sorted(self.store.names()):
            if LEASE.fullmatch(name) and name not in self.leases:
                holder = _read(self.store, name)
                if holder is not None and not holder.is_gone:
                    raise self._locked(name, holder)
                self.store.remove(name)
        self.is_alone = True

    def require(self) -> None:
        """Checks that this process still has the lock. Must be called before anything is published or removed. If the
        server was too full for a lock, tries again to acquire it. Raises RemoteLocked, RemoteFailed."""
        holder = _read(self.store) if self.is_held is False else None
        is_taken = holder is not None and not holder.is_gone and replace(self.own, renewed=holder.renewed) != holder
        if is_taken or (self.is_held and not self.own.holds_lock(self.store)):
            reason = f"another process took or removed {LOCK} during this run"
            raise RemoteFailed(place=self.store.location, reason=reason, advice=_LOST)
        if self.is_held is None:
            try:
                self.take()
            except RemoteFull:
                log.info("%s is still too full for %s", self.store.location, LOCK)

    def renew(self, store: Store) -> None:
        """Renews the lock. `store` must be a separate connection, because this runs in another thread."""
        if self.is_held and self.own.holds_lock(store) and not self._overwrite(self.own.encoded(), store):
            self.is_held = False
        if self.is_held is False:
            self._lease(store)

    def release(self) -> None:
        """Removes or empties the lock. A failure is only logged, because it must not hide an error of the run."""
        try:
            if self.is_held and self.own.holds_lock(self.store):
                try:
                    self.store.remove(LOCK)
                except RemovalRefused:
                    self._overwrite(b"")
            with suppress(RemovalRefused):  # they lapse
                for name in self.leases:
                    self.store.remove(name)
        except LoaderError as error:
            log.warning("%s/%s could not be removed: %s", self.store.location, LOCK, error)

    def _overwrite(self, content: bytes, store: Store | None = None) -> bool:
        """Overwrites the lock. Returns False if the server refuses to overwrite files."""
        try:
            (store or self.store).write(LOCK, content)
        except RemoteFailed as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            log.info("%s/%s cannot be written over: %s", self.store.location, LOCK, error)
            return False
        return True


@contextmanager
def exclusive(store: Store, makes_room: bool = False, renewal: float = _RENEWAL) -> Iterator[Lock]:
    """Has the lock during the body. A thread renews it. With `makes_room`, the server may be too full for a lock.
    Raises RemoteLocked, RemoteFailed, RemoteFull."""
    lock = Lock(store)

    def renew(ended: threading.Event) -> None:
        while not ended.wait(renewal):
            try:
                with remote.opened(store.location) as connection:
                    lock.renew(connection)
                    while not ended.wait(renewal):
                        lock.renew(connection)
            except LoaderError as error:  # the server may be full; the next attempt may succeed
                log.info("%s/%s was not renewed: %s", store.location, LOCK, error)

    try:
        lock.take()
    except RemoteFull:
        if not makes_room:
            raise
    try:
        with alongside(renew):
            yield lock
    finally:
        lock.release()


def _read(store: Store, name: str = LOCK) -> Holder | None:
    """Returns the holder of a lock or lease, None if there is none or it is empty, _UNKNOWN if it is not valid."""
    try:
        content = store.read(name, _LARGEST)
        try:
            return typed.parse(content, Holder, 1) if content else None
        except Unfit as error:
            log.debug("%s/%s %s", store.location, name, error)
            return replace(_UNKNOWN, renewed=store.modified(name))
    except FileNotFoundError:
        return None


def myself() -> Holder:
    pid, when = os.getpid(), now()
    return Holder(socket.gethostname(), boot_id(), pid, _started(pid), when.isoformat(), when)


def _started(pid: int) -> int:
    """Returns a process's start time in clock ticks (proc_pid_stat(5), field 22), or 0 if there is no such process."""
    try:
        text = files.read(Path(f"/proc/{pid}/stat")).decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[19])
