"""What was loosened on a server for the time of a run: written down before, forgotten once it is tightened again.

One JSON file a lease in state_dir()/leases, mode 0600, without secrets. Its holder keeps the file beside it locked, and
the kernel lets go of the lock with the process: a lease that stands and is not locked is of a run that was killed.

A server has several URIs, so a lease is known by a mark that the server itself shows (loader/operations/leases.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from loader.defaults import state_dir
from loader.errors import Locked, NotPermitted
from loader.run.lock import exclusive, locking_process
from loader.storage import files, held

FORMAT = 1


@dataclass(frozen=True)
class Lease:
    """One setting of one database. `undo`: the command that tightens it by hand. `taken`: UTC, ISO 8601. `before`: the
    value to put back, where that is not the same for all. `mark`: of the database, "" where it has shown none."""

    kind: str  # "nosync", "updatedn", "sessionlog"
    target: str  # URI
    database: str  # its suffix
    undo: str
    taken: str = ""
    before: str = ""
    mark: str = ""


@dataclass(frozen=True)
class ServerIdentity:
    """A server: its URI, and the marks of its databases, none where it shows none."""

    uri: str
    marks: frozenset[str] = frozenset()

    def has(self, lease: Lease) -> bool:
        return lease.mark in self.marks or lease.target == self.uri


@contextmanager
def taken(lease: Lease) -> Iterator[Callable[[], None]]:
    """Write the lease down, durably; then the body may take it. It calls what it gets once it has given it back.

    Raises Locked while another ditseed holds the same, NotPermitted.
    """
    path = _made(_path(lease))
    with exclusive(_lock(path)):
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        _write(path, {"format": FORMAT, **asdict(lease), "taken": now})
        yield lambda: _forget(path)


def of(target: str) -> list[tuple[Lease, int | None]]:
    """All of a server with the process that holds each; None: nobody does any more."""
    found = [
        (_read(path), locking_process(_lock(path))) for path in sorted(_place().glob("*.json"))
    ]
    return [(one, pid) for one, pid in found if one is not None and one.target == target]


def any_open() -> bool:
    """Is there a lease at all, of whichever server?"""
    return any(_place().glob("*.json"))


def left() -> list[Lease]:
    """Those of all servers that nobody holds any more, oldest first: their runs were killed, or could not give back."""
    paths = sorted(_place().glob("*.json"))
    found = [_read(path) for path in paths if not _is_held(path)]
    return sorted((one for one in found if one is not None), key=lambda one: one.taken)


def open_leases(server: ServerIdentity, kind: str) -> list[Lease]:
    """Those of that server."""
    return [one for one in left() if one.kind == kind and server.has(one)]


def _place() -> Path:
    return state_dir() / "leases"


def _path(lease: Lease) -> Path:
    text = json.dumps([lease.kind, lease.mark or lease.target, lease.database])
    return _place() / f"{lease.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _lock(path: Path) -> Path:
    return path.with_suffix(".lock")


def _made(path: Path) -> Path:
    try:
        with held.private(path.parent):
            return path
    except PermissionError as error:
        raise NotPermitted(action="make", path=path.parent, owner="root") from error


def _write(path: Path, facts: dict[str, object]) -> None:
    """A cut file is none that counts: nothing is loosened before this returns."""
    files.write_durably(path, f"{json.dumps(facts)}\n".encode(), 0o600)


def _read(path: Path) -> Lease | None:
    try:
        facts = json.loads(files.read(path))
        return Lease(**{name: facts[name] for name in Lease.__dataclass_fields__ if name in facts})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(path: Path) -> bool:
    try:
        with exclusive(_lock(path)):
            return False
    except Locked:
        return True


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)
    files.make_durable(path.parent)
