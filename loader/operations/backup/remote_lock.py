"""One ditseed at a time changes a repository on another host: an object that tells who has it.

No kernel drops it with the process, so its holder renews it, and a lock that nobody renews lapses. Whether a process of
this host is gone, this host can see at once. An empty lock is nobody's: where nothing may be removed, it is released by
emptying it. A lock is taken over by writing over it, so that of two that do so at the same time the later one has it;
each looks again after a moment. Whoever was suspended for longer than a lock lasts finds another's, and stops before it
publishes or removes anything.

A server that ignores If-None-Match (some that speak S3 do) lets two in that begin within the same moment: the one whose
lock was overwritten stops likewise.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from loader import typed, units
from loader.errors import LoaderError, RemoteFailed, RemoteFull, RemoteLocked, RemovalRefused
from loader.run.lease import boot_id
from loader.storage import files, remote
from loader.storage.remote import Store
from loader.typed import Count, Name, Unfit

log = logging.getLogger(__name__)
LOCK = "lock.json"
LAPSE = 15 * 60.0  # seconds without a renewal, after which a lock is nobody's
_RENEWAL = 60.0  # seconds
_SETTLE = 1.0  # seconds in which another that takes the same lock over has written its own
_LARGEST = 4096  # bytes
_LOST = "Nothing was published or removed since. Run the same command again."


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
            self._require_free()
            self._take_over()
        self._is_held = self._is_possible

    def _take_over(self) -> None:
        try:
            self.store.write(LOCK, self._encoded())
        except RemoteFailed as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            # Nor can anybody else there remove what this run sends.
            log.info("%s/%s cannot be written over: %s", self.store.place, LOCK, error)
            self._is_possible = False
            return
        time.sleep(_SETTLE)
        found = self._found()
        if found is None or not found.is_same(self.own):
            raise self._locked(found)

    def _require_free(self) -> None:
        """Raise RemoteLocked while the holder may be at work. An empty lock may be one that is just being written."""
        if not self._content():
            time.sleep(_SETTLE)
        found = self._found()
        if found is not None and not found.is_gone:
            raise self._locked(found)

    def require(self) -> None:
        """Before anything is published or removed. On a server that was too full for a lock, it is taken as soon as
        there is room. Raises RemoteLocked, RemoteFailed."""
        if not self._is_possible:
            return
        if not self._is_held:
            try:
                self.take()
            except RemoteFull:
                log.info("%s is still too full for %s", self.store.place, LOCK)
        elif not self._is_own(self.store):
            reason = f"{LOCK} is another's, or was removed, while this run was at work"
            raise RemoteFailed(place=self.store.place, reason=reason, advice=_LOST)

    def renew(self, store: Store) -> None:
        """Through a connection of its own: this is another thread."""
        if self._is_held and self._is_own(store):
            store.write(LOCK, self._encoded())

    def release(self) -> None:
        """That the server is gone is no reason to hide what it broke; the lock lapses."""
        try:
            if self._is_held and self._is_own(self.store):
                self._remove()
        except LoaderError as error:
            log.warning("%s/%s could not be removed: %s", self.store.place, LOCK, error)

    def _remove(self) -> None:
        try:
            self.store.remove(LOCK)
        except RemovalRefused:
            try:
                self.store.write(LOCK, b"")
            except RemoteFailed as error:
                if not isinstance(error.__cause__, PermissionError):
                    raise
                log.info("%s/%s cannot be released: %s", self.store.place, LOCK, error)

    def _encoded(self) -> bytes:
        return msgspec.json.encode(replace(self.own, renewed=_now()))

    def _is_own(self, store: Store) -> bool:
        try:
            return self._parsed(_content(store)).is_same(self.own)
        except Unfit:
            return False

    def _content(self) -> bytes:
        return _content(self.store)

    def _found(self) -> Holder | None:
        """None: nobody. Raises RemoteLocked if it cannot be read."""
        text = self._content()
        if not text:
            return None
        try:
            return self._parsed(text)
        except Unfit as error:
            log.debug("%s/%s %s", self.store.place, LOCK, error)
            raise self._locked(None) from error

    @staticmethod
    def _parsed(text: bytes) -> Holder:
        return typed.parse(text, Holder, 1)

    def _locked(self, found: Holder | None) -> RemoteLocked:
        return RemoteLocked(
            place=self.store.place,
            name=LOCK,
            host=found.host if found else "an unknown host",
            pid=found.pid if found else "unknown",
            made=found.made if found else "an unknown time",
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
