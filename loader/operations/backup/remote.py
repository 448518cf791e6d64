"""A repository on another host. A local temporary directory has the files that a command needs.

Manifests and records are fetched when the repository is opened, other files when a command needs them, and only if
their lengths match the manifest. Names and contents are those of a local repository, so a repository can be copied to
or from a server. The server's listing is not trusted: names must match ditseed's patterns. A new backup is written
locally and then sent, the manifest last. When a backup is removed, the manifest is removed first.

Only the holder of the lock, a file on the server, changes the repository. A lock is free once it lapses (its holder
renews it), once its holder has ended (on this host), or if it is empty: some servers refuse to remove files, but let
them be emptied. A process acquires a free lock by overwriting it. If two processes do so at the same time, the later
write wins, so each checks the lock again after a moment.

If a server refuses to overwrite files, the lock file stays for ever. Once it is free, a run proceeds without a lock,
because no run can overwrite the files of another. Instead, it writes leases: small files with new names, which lapse
like a lock. While another run has a valid lease, no run removes files. So an account that can only add files cannot
stop other runs for longer than a lock takes to lapse.

A process may lose its lock: it was suspended until the lock lapsed, or an S3 server ignored If-None-Match. So it checks
the lock before it publishes or removes anything, and stops if the lock is lost.
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
from loader.operations.backup.options import Download
from loader.operations.backup.repository import Repository
from loader.progress import Progress, alongside
from loader.run.lease import boot_id
from loader.run.log import killpoint
from loader.storage import files, remote
from loader.storage.remote import Location, Store
from loader.typed import Count, Name, Unfit

log = logging.getLogger(__name__)
LOCK, LEASE = "lock.json", re.compile(r"lock-[0-9a-f]{16}\.json")
LAPSE = 15 * 60.0  # seconds from the last renewal of a lock until it lapses
_RENEWAL = 60.0  # seconds between renewals of the lock
_SETTLE = 1.0  # maximum seconds that a competing process needs to write its lock
_LARGEST = 4096  # maximum bytes that are read of a lock
_LARGEST_RECORD = 64 << 10  # maximum bytes that are read of a record
_PIECE = 64 << 10  # bytes sent per write if the rate is limited; minimum bytes fetched per request
_PART = 8 << 20  # maximum bytes fetched per request
_STREAMS = 4  # maximum number of connections that fetch files
_DATED_LATE = 2 * LAPSE  # seconds; a lock dated further in the future than this was forged: no clock is so wrong
_EXISTS = "Take a full backup (without --incremental), which needs no file of an interrupted run."
_LOST = "Nothing was published or removed since. Run the same command again."


class Remote(Repository):
    """A repository on a server. `path` is the local directory for its files. `lock` is None for a reader."""

    is_remote = True

    def __init__(
        self, path: Path, store: Store, progress: Progress, lock: Lock | None, traffic: Download, backups: bool
    ) -> None:
        """Lists the server and, with `backups`, fetches manifests and records. Raises NoSuchPath if the repository does
        not exist."""
        super().__init__(path)
        self.store, self.progress, self.lock, self.traffic = store, progress, lock, traffic
        self.sizes: dict[str, int] = {}  # bytes of each file on the server
        self.fetched: set[str] = set()  # names of files in `path` that were fetched or sent
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
                valid_names = manifest.valid_names(listed)
                for name in repository.records_in(listed):
                    if name in valid_names:
                        self._fetch_small(f"{directory}/{name}", _LARGEST_RECORD)
                    else:  # an empty file suffices: only the names of older records and pins are used
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
        time, each over its own connection."""
        rate = self.traffic.download
        # Limits what is fetched ahead, at the full rate of the line, to what may be fetched in two seconds.
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
                    log.info("%s: no additional connection could be opened: %s", self.store.location, error)
            with closing(pack.in_order(fetch, tasks, _STREAMS, stack.close)) as parts:
                yield from pack.paced(parts, rate)

    def logged(self) -> list[str]:
        with suppress(FileNotFoundError):
            self.sizes |= {f"{LOG}/{name}": file.size for name, file in self.store.names(LOG).items()}
        names = [Path(name).name for name in self.sizes if name.startswith(f"{LOG}/")]
        return sorted(filter(manifest.SEGMENT.fullmatch, names))

    def bring_segment(self, name: str) -> None:
        (self.path / LOG).mkdir(mode=0o700, exist_ok=True)
        if not (self.path / LOG / name).exists():
            self._fetch_small(f"{LOG}/{name}", typed.LARGEST)

    def keep(self, name: str) -> None:
        """Uploads a file. Replaces a pack of another length. If another run has sent the same pack meanwhile, does
        nothing: packs of the same name have the same content. Raises RemoteFailed, RemoteFull."""
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
        """Removes unfinished backups and unneeded packs. If the server refuses removals or another run is active, they
        stay, which does no harm."""
        try:
            super().tidy()
        except (RemovalRefused, RemoteLocked) as error:
            log.info("%s", error)

    def send(self, backups: Sequence[Backup]) -> None:
        """Raises RemoteFailed, RemoteFull, RemoteLocked."""
        names = {name: stored.bytes for backup in backups for name, stored in backup.stored()}
        packs = [name for name in names if name.startswith(f"{PAGES}/") and self.sizes.get(name) != names[name]]
        others = [name for name in names if not name.startswith(f"{PAGES}/")]
        manifests = [f"{backup.id}/{MANIFEST}" for backup in reversed(backups)]  # sent last: they complete the backups
        with self.progress.step("send") as meter:
            for name in (*packs, *others, *manifests):
                if name == manifests[0]:
                    self.require_lock()
                self.keep(name)
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
        """Removes directories without a manifest, which are unfinished or set-aside backups."""
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
    traffic: Download,
    backups: bool,
) -> Iterator[Remote]:
    """Opens a repository as `repository.at` does. Messages show the server's URL instead of the local directory."""
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
    """Creates a repository. If it exists, returns False, and overwrites repository.json only if `replace` is true.
    Raises PackageMissing, RemoteFailed."""
    with remote.opened(repo) as store:
        is_new = not _is_marked(store)
        if is_new or replace:
            with suppress(FileExistsError):  # another process has created it meanwhile
                store.write(repository.MARKER, marker, new=is_new)
    return is_new


def _is_marked(store: Store) -> bool:
    with suppress(FileNotFoundError):
        return repository.MARKER in store.names()
    return False


class Holder(msgspec.Struct, frozen=True):
    """The process that has a lock. `started`: its start time in clock ticks, because process IDs are reused."""

    host: Name
    boot: Name
    pid: Count
    started: Count
    made: Name
    renewed: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    format: int = 1

    @property
    def is_gone(self) -> bool:
        """Whether the lock is free. If a process of this host took it since the last boot, it is free once that process
        has ended. Any other lock is free once it has lapsed, or if it is dated far in the future."""
        if self.host == socket.gethostname() and self.boot == boot_id():
            return _started(self.pid) != self.started
        return not -_DATED_LATE < (now() - self.renewed).total_seconds() <= LAPSE

    def encoded(self) -> bytes:
        return msgspec.json.encode(replace(self, renewed=now()))

    def holds_lock(self, store: Store) -> bool:
        holder = _read(store)
        return holder is not None and replace(self, renewed=holder.renewed) == holder


# The holder of a lock that cannot be parsed. `_read` sets `renewed` to the time at which the file was written.
_UNKNOWN = Holder("an unknown host", "", 0, 0, "an unknown time", manifest.FOREVER)


class Lock:
    """This process's lock on a repository. `is_held` is None as long as the server is too full for the lock, and False
    if the server refuses to overwrite files: then `leases` has the names of this run's leases. `is_alone`: whether it
    was checked that no other run has a lease. All methods raise RemoteFailed."""

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
                time.sleep(_SETTLE)  # if the lock is empty, another process may be writing it
                holder = _read(self.store)
            is_free = holder is None or holder.is_gone
            if is_free and not self._overwrite(self.own.encoded()):
                self._lease(self.store)
                holder = _read(self.store)  # another account may have overwritten the lock before the lease was written
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
        facts = {"host": holder.host, "pid": holder.pid or "unknown", "made": holder.made}
        return RemoteLocked(place=self.store.location, name=name, lapse=units.duration(LAPSE), **facts)

    def _lease(self, store: Store) -> None:
        """Writes a lease, unless the last one is younger than a third of LAPSE."""
        self.is_held = False
        if not self.leases or time.monotonic() - self.leased > LAPSE / 3:
            name = f"lock-{secrets.token_hex(8)}.json"
            store.write(name, self.own.encoded(), new=True)
            self.leases.append(name)
            self.leased = time.monotonic()

    def require_alone(self) -> None:
        """Removes leases that have lapsed. Must be called before anything else is removed. Raises RemovalRefused, or
        RemoteLocked if another run has a lease."""
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
        """Must be called before anything is published or removed. Raises RemoteFailed if this process lost its lock. If
        the server was too full for a lock, tries to acquire one again, and may raise RemoteLocked."""
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
        """Renews the lock or the lease. `store` is a separate connection, because this runs in another thread."""
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
            with suppress(RemovalRefused):  # a lease that stays will lapse
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
            log.info("%s/%s cannot be overwritten: %s", self.store.location, LOCK, error)
            return False
        return True


@contextmanager
def exclusive(store: Store, makes_room: bool = False, renewal: float = _RENEWAL) -> Iterator[Lock]:
    """Holds the lock during the body. A thread renews it. With `makes_room`, runs the body without a lock if the server
    is too full for one. Raises RemoteLocked, RemoteFailed, RemoteFull."""
    lock = Lock(store)

    def renew(ended: threading.Event) -> None:
        while not ended.wait(renewal):
            try:
                with remote.opened(store.location) as connection:
                    lock.renew(connection)
                    while not ended.wait(renewal):
                        lock.renew(connection)
            except LoaderError as error:  # the next attempt may succeed
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
    """Returns the holder of a lock or lease; None if the file is missing or empty, _UNKNOWN if it is invalid."""
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
