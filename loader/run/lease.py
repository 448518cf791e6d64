"""The settings of servers that ditseed changed for a time: `leases.log` of the state directory (mode 0600).

A lease is written down before the change and removed after the setting was restored. Its holders lock a file in
`leases/`, and the kernel releases the lock with the process: a lease that is not locked was left by a run that was
killed. A lease that no process holds has an end, and ends with the boot. A server has several URIs, so a lease is
identified by a mark that the server itself shows (loader/operations/leases.py).
"""

from __future__ import annotations

import getpass
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

    `undo`: the command that restores it by hand. `taken`: UTC, ISO 8601. `before`: the value to restore. `mark`: of the
    database, "" if it has none. `by`: the account and process that took it; `why`: the purpose. `expires`: UTC, of a
    lease that no process holds; `boot`: the boot that it ends with.
    """

    kind: str  # "nosync", "envflags", "checkpoint", "updatedn", "sessionlog"
    target: str  # URI
    database: str  # its suffix
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
    def is_held(self) -> bool:
        """Whether a process holds it, or it has not expired."""
        try:
            with exclusive(_lock(self)):
                return _lasts(self)
        except Locked:
            return True

    @property
    def process(self) -> int | None:
        """The process that holds it; None if none does."""
        return locking_process(_lock(self))


class ServerIdentity(msgspec.Struct, frozen=True):
    """A server: its URI, and the marks of its databases, none if it shows none."""

    uri: str
    marks: frozenset[str] = frozenset()

    def has(self, lease: Lease) -> bool:
        return lease.mark in self.marks or lease.target == self.uri


@contextmanager
def lent(
    lease: Lease, change: Callable[[], object], restore: Callable[[], None], alone: bool = False
) -> Iterator[None]:
    """Changes a setting for the time of the body. The first run that needs it writes the lease down, the last one to
    leave restores the setting. `alone`: raises Locked while another run holds the lease.

    `change` is called by each run. `restore` raises LeaseStands if it fails, and then the lease stays.
    """
    guard, lock, refused = _lock(lease, ".guard"), _lock(lease), False
    with ExitStack() as holding:
        with exclusive(guard, wait=True):
            holding.enter_context(exclusive(lock) if alone else shared(lock))
            note(lease, anew=False)
        killpoint(f"{lease.kind}.written-down")
        try:
            try:
                change()
            except (ConfigNotEditable, ConfigRefused):
                refused = True  # the server changed nothing
                raise
            killpoint(f"{lease.kind}.taken")
            yield
        finally:
            with exclusive(guard, wait=True):
                holding.close()
                with suppress(Locked), exclusive(lock):  # Locked: another run still holds it
                    standing = _find(lease)
                    if standing is not None and not _lasts(standing):
                        if not refused:
                            restore()
                        killpoint(f"{lease.kind}.given-back")
                        _forget(lease)


def lend_until(lease: Lease, seconds: float, change: Callable[[], object]) -> None:
    """Changes a setting for `seconds` or until the next boot; no process holds this lease."""
    end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    with exclusive(_lock(lease, ".guard"), wait=True), shared(_lock(lease)):
        # Keeps the original value: `before` of a lease that exists already.
        first = _find(lease) or lease
        note(replace(first, expires=end.isoformat(timespec="seconds"), boot=boot_id()))
        change()


def note(lease: Lease, anew: bool = True) -> None:
    """Records a lease in the log. With `anew` False, an existing record is kept."""
    by = lease.by or f"{getpass.getuser()}, process {os.getpid()}"
    with _writing() as written:
        if anew or (_LEASE, lease.name) not in written.rows:
            taken = datetime.now(timezone.utc).isoformat(timespec="seconds")
            written.append(
                Row(_LEASE, lease.name, msgspec.structs.asdict(msgspec.structs.replace(lease, taken=taken, by=by)))
            )


def end(lease: Lease, restore: Callable[[], object] | None = None) -> None:
    """Restores the setting of a lease that nobody holds, and forgets the lease. Raises Locked, LeaseStands."""
    with exclusive(_lock(lease)):
        if restore is not None:
            restore()
        _forget(lease)


def standing() -> list[Lease]:
    """All leases, oldest first; none if the state directory cannot be read."""
    try:
        rows = Log(state_dir(), LEASES, strict=False).of(_LEASE)
    except OSError:
        return []
    return sorted((msgspec.convert(row.facts, Lease) for row in rows), key=lambda lease: lease.taken)


def left(server: ServerIdentity | None = None, kind: str | None = None) -> list[Lease]:
    """The leases that nobody holds any more: their runs were killed, or could not restore the setting."""
    return [one for one in _chosen(server, kind) if not one.is_held]


def lasting(server: ServerIdentity, kind: str) -> list[Lease]:
    """The leases that are held, or have not expired."""
    return [one for one in _chosen(server, kind) if one.is_held]


def boot_id() -> str:
    """Returns the boot ID, which changes with each boot (random(4))."""
    return files.read(_BOOT).decode().strip()


def _chosen(server: ServerIdentity | None, kind: str | None) -> list[Lease]:
    return [one for one in standing() if kind in (None, one.kind) and (server is None or server.has(one))]


def _find(lease: Lease) -> Lease | None:
    return next((one for one in standing() if one.name == lease.name), None)


def _forget(lease: Lease) -> None:
    """The log is emptied with the last lease, so that it stays small."""
    with _writing() as written:
        if written.rows.keys() <= {(_LEASE, lease.name)}:
            written.clear()
        else:
            written.append(Row(_LEASE, lease.name, {}, undone=True))


def _lasts(lease: Lease) -> bool:
    if not lease.expires or lease.boot != boot_id():
        return False
    return datetime.now(timezone.utc) < datetime.fromisoformat(lease.expires)


def _lock(lease: Lease, suffix: str = ".lock") -> Path:
    """Returns the lock file of a lease. Its ".guard" serialises the taking and the ending of the lease."""
    directory = state_dir() / "leases"
    try:
        with held.private(directory):
            return directory / f"{lease.name}{suffix}"
    except PermissionError as error:
        raise NotPermitted(action="make", path=directory, owner="root") from error


@contextmanager
def _writing() -> Iterator[Log]:
    """The log of leases, which no other ditseed writes meanwhile."""
    with (
        files.explained(state_dir() / LEASES),
        held.private(state_dir()) as directory,
        exclusive(directory.path / f"{LEASES}.lock", wait=True),
        closing(Log(directory.path, LEASES, strict=False)) as written,
    ):
        yield written
