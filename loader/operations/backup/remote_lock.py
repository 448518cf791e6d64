"""One ditseed at a time changes a repository on another host: an object that tells who has it.

No kernel drops it with the process. What a process of this host has left behind is taken over, for it can be seen that
the process is gone; of another host nobody here can know. A server that ignores If-None-Match (some that speak S3 do)
lets two in that begin within the same moment: each writes a backup of its own name, but may take what the other is
sending for what an interrupted run left. `verify` tells.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from loader import typed
from loader.errors import LoaderError, RemoteLocked
from loader.run.lease import boot_id
from loader.storage import files
from loader.storage.remote import Store
from loader.typed import Count, Name, Unfit

log = logging.getLogger(__name__)
LOCK = "lock.json"
_LARGEST = 4096  # bytes


@dataclass(frozen=True)
class Holder:
    """A process: `started` in clock ticks since the boot, so that no later one of its number is taken for it."""

    host: Name
    boot: Name
    pid: Count
    started: Count
    made: Name
    format: int = 1

    @property
    def is_gone(self) -> bool:
        """As far as this host knows."""
        if self.host != socket.gethostname():
            return False
        return self.boot != boot_id() or _started(self.pid) != self.started


@contextmanager
def exclusive(store: Store) -> Iterator[None]:
    """Raises RemoteLocked, RemoteFailed."""
    own = msgspec.json.encode(myself())
    _take(store, own)
    try:
        yield
    finally:
        _released(store)


def _take(store: Store, own: bytes) -> None:
    for _ in range(2):
        try:
            return store.create(LOCK, own)
        except FileExistsError:
            _require_gone(store)
            store.remove(LOCK)
    raise _locked(store, "an unknown host", "unknown", "just now")


def _released(store: Store) -> None:
    """That the server is gone is no reason to hide what it broke; the next run on this host takes the lock over."""
    try:
        store.remove(LOCK)
    except LoaderError as error:
        log.warning("%s/%s could not be removed: %s", store.place, LOCK, error)


def _require_gone(store: Store) -> None:
    """Raise RemoteLocked while the holder may be at work."""
    try:
        found = typed.parse(store.read(LOCK, _LARGEST), Holder, 1)
    except FileNotFoundError:
        return
    except Unfit as error:
        log.debug("%s/%s %s", store.place, LOCK, error)
        raise _locked(store, "an unknown host", "unknown", "an unknown time") from error
    if not found.is_gone:
        raise _locked(store, found.host, found.pid, found.made)


def _locked(store: Store, host: str, pid: object, made: str) -> RemoteLocked:
    return RemoteLocked(place=store.place, name=LOCK, host=host, pid=pid, made=made)


def myself() -> Holder:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    pid = os.getpid()
    return Holder(socket.gethostname(), boot_id(), pid, _started(pid), now)


def _started(pid: int) -> int:
    """proc_pid_stat(5), field 22; 0: there is no such process."""
    try:
        text = files.read(Path(f"/proc/{pid}/stat")).decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[19])
