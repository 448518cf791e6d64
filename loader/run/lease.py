"""Leases: records of server settings that ditseed changed for a time, in the file `leases.log` of the state directory.

A lease is recorded before the setting is changed, and removed after the setting was restored. Each run that needs the
setting locks a file in `leases/`. The kernel releases the lock when the process ends. So a lease without a lock was
left by a killed run, or was made by `lease_for`, which sets an expiry time instead. A server has several URIs, so a
lease identifies the database by a mark that the server itself shows (loader/operations/leases.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
from msgspec.structs import replace

from loader.defaults import state_dir
from loader.errors import ConfigNotEditable, ConfigRefused, Locked, NotPermitted
from loader.run.log import Log, Row, exclusive, killpoint, locking_process, shared
from loader.storage import files, held

LEASES = "leases.log"
_LEASE = "lease"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Lease(msgspec.Struct, frozen=True):
    """One setting of one database that is changed for a time.

    `undo`: the command that restores the setting by hand. `taken`: UTC, ISO 8601. `before`: the value to restore.
    `mark`: identifies the database; may be empty. `by`: the account and process that took the lease. `why`: the
    purpose. Only for `lease_for`: `expires` is when the lease ends (UTC), and `boot` the ID of the boot in which it is
    valid."""

    kind: str  # "nosync", "envflags", "checkpoint", "updatedn", "sessionlog"
    target: str  # URI
    database: str  # suffix
    undo: str
    taken: str = ""
    before: str = ""
    mark: str = ""
    by: str = ""
    expires: str = ""
    boot: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """The key of the lease: identical for all leases of one setting of one database."""
        text = json.dumps([self.kind, self.mark or self.target, self.database])
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def is_active(self) -> bool:
        """Whether a process holds the lease, or the lease has not expired."""
        try:
            with exclusive(_lock(self)):
                return _is_unexpired(self)
        except Locked:
            return True

    @property
    def process(self) -> int | None:
        """The ID of a process that holds the lease, or None."""
        return locking_process(_lock(self))


class ServerIdentity(msgspec.Struct, frozen=True):
    """A server's URI, and the marks that it shows for its databases (see `Lease`)."""

    uri: str
    marks: frozenset[str] = frozenset()

    def has(self, lease: Lease) -> bool:
        return lease.mark in self.marks or lease.target == self.uri


@contextmanager
def leased(
    lease: Lease, change: Callable[[], object], restore: Callable[[], None], alone: bool = False
) -> Iterator[None]:
    """Changes a setting while the body runs. The first run that needs the change records the lease, and the last run to
    end restores the setting. With `alone`, raises Locked while another run holds the lease.

    Each run calls `change`. If `restore` fails, it raises SettingNotRestored, and the lease remains in the log.
    """
    guard, lock, is_refused = _lock(lease, ".guard"), _lock(lease), False
    with ExitStack() as locks:
        with exclusive(guard, wait=True):
            locks.enter_context(exclusive(lock) if alone else shared(lock))
            record(lease, overwrite=False)
        killpoint(f"{lease.kind}.written-down")
        try:
            try:
                change()
            except (ConfigNotEditable, ConfigRefused):
                is_refused = True  # the server refused the change, so there is nothing to restore
                raise
            killpoint(f"{lease.kind}.taken")
            yield
        finally:
            with exclusive(guard, wait=True):
                locks.close()
                with suppress(Locked), exclusive(lock):  # Locked: another run still holds the lease
                    written = _find(lease)
                    if written is not None and not _is_unexpired(written):
                        if not is_refused:
                            restore()
                        killpoint(f"{lease.kind}.given-back")
                        _forget(lease)


def lease_for(lease: Lease, seconds: float, change: Callable[[], object]) -> None:
    """Changes a setting for `seconds` or until the next boot; no process holds this lease."""
    end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    with exclusive(_lock(lease, ".guard"), wait=True), shared(_lock(lease)):
        # If there is an earlier lease of the setting, its `before` is the original value.
        first = _find(lease) or lease
        record(replace(first, expires=end.isoformat(timespec="seconds"), boot=boot_id()))
        change()


def record(lease: Lease, overwrite: bool = True) -> None:
    """Records a lease in the log. Without `overwrite`, an existing record of the lease stays."""
    by = lease.by or f"{files.account_name(os.geteuid())}, process {os.getpid()}"
    with _writing() as log:
        if overwrite or (_LEASE, lease.name) not in log.rows:
            taken = datetime.now(timezone.utc).isoformat(timespec="seconds")
            log.append(Row(_LEASE, lease.name, msgspec.structs.asdict(replace(lease, taken=taken, by=by))))


def end(lease: Lease, restore: Callable[[], object] | None = None) -> None:
    """Restores the setting of a lease, and removes the lease. Raises Locked if a run holds it; SettingNotRestored."""
    with exclusive(_lock(lease)):
        if restore is not None:
            restore()
        _forget(lease)


def all_leases(server: ServerIdentity | None = None, kind: str | None = None) -> list[Lease]:
    """Returns the leases of a server (None: all servers) and kind (None: all kinds), oldest first. Returns [] if the
    state directory cannot be read."""
    try:
        rows = Log(state_dir(), LEASES, strict=False).of(_LEASE)
    except OSError:
        return []
    leases = sorted((msgspec.convert(row.facts, Lease) for row in rows), key=lambda lease: lease.taken)
    return [lease for lease in leases if kind in (None, lease.kind) and (server is None or server.has(lease))]


def abandoned(server: ServerIdentity | None = None, kind: str | None = None) -> list[Lease]:
    """Returns the leases that are no longer active: their runs were killed or could not restore the setting, or the
    leases have expired."""
    return [lease for lease in all_leases(server, kind) if not lease.is_active]


def active(server: ServerIdentity, kind: str) -> list[Lease]:
    """Returns the leases that a process holds, or that have not expired."""
    return [lease for lease in all_leases(server, kind) if lease.is_active]


def boot_id() -> str:
    """Returns the boot ID, which changes with each boot (random(4))."""
    return files.read(_BOOT).decode().strip()


def _find(lease: Lease) -> Lease | None:
    return next((other for other in all_leases() if other.name == lease.name), None)


def _forget(lease: Lease) -> None:
    """Removes a lease. If no other lease is left, empties the log, so that it stays small."""
    with _writing() as log:
        if log.rows.keys() <= {(_LEASE, lease.name)}:
            log.clear()
        else:
            log.append(Row(_LEASE, lease.name, {}, undone=True))


def _is_unexpired(lease: Lease) -> bool:
    if not lease.expires or lease.boot != boot_id():
        return False
    return datetime.now(timezone.utc) < datetime.fromisoformat(lease.expires)


def _lock(lease: Lease, suffix: str = ".lock") -> Path:
    """Returns the lock file of a lease. The file with `suffix` ".guard" is locked while the lease begins or ends."""
    directory = state_dir() / "leases"
    try:
        with held.private(directory):
            return directory / f"{lease.name}{suffix}"
    except PermissionError as error:
        raise NotPermitted(action="make", path=directory, owner="root") from error


@contextmanager
def _writing() -> Iterator[Log]:
    """Yields the log of leases. Other ditseed processes cannot change the log meanwhile."""
    with (
        files.explained(state_dir() / LEASES),
        held.private(state_dir()) as directory,
        exclusive(directory.path / f"{LEASES}.lock", wait=True),
        closing(Log(directory.path, LEASES, strict=False)) as written,
    ):
        yield written
