"""What was loosened on a server for the time of a run: written down before, forgotten once it is tightened again.

One JSON file a lease in state_dir()/leases, mode 0600, without secrets. Its holders keep the file beside it locked, and
the kernel lets go of the lock with the process: a lease that stands and is not locked is of a run that was killed. One
that no process holds has an end, and ends with the boot.

A server has several URIs, so a lease is known by a mark that the server itself shows (loader/operations/leases.py).
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from loader.defaults import state_dir
from loader.errors import ConfigNotEditable, ConfigRefused, Locked, NotPermitted
from loader.run.lock import exclusive, locking_process, shared
from loader.storage import files, held

FORMAT = 1
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Lease:
    """One setting of one database.

    `undo`: the command that puts it back by hand. `taken`: UTC, ISO 8601. `before`: the value to put back, where that
    is not the same for all. `mark`: of the database, "" where it has shown none. `by`: who took it; `why`: for what.
    `expires`: as `taken`, of a lease that no process holds, which ends with the boot, too.
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
        _note(path, lease)
        yield lambda: _forget(path)


@contextmanager
def joined(
    lease: Lease, take: Callable[[], object], give_back: Callable[[], None]
) -> Iterator[None]:
    """Held together with whoever else needs the same: the first writes it down, the last one to leave gives it back.

    `take` is called by each, and must do no harm where it is so already. `give_back` raises LeaseStands where it
    cannot, and then the lease stands.
    """
    path, refused = _made(_path(lease)), False
    with ExitStack() as holding:
        with exclusive(_guard(path), wait=True):
            holding.enter_context(shared(_lock(path)))
            if not path.exists():
                _note(path, lease)
        try:
            try:
                take()
            except (ConfigNotEditable, ConfigRefused):
                refused = True  # nothing was changed
                raise
            yield
        finally:
            with exclusive(_guard(path), wait=True):
                holding.close()
                with suppress(Locked):  # then others have it still
                    _leave(path, None if refused else give_back)


def _leave(path: Path, give_back: Callable[[], None] | None) -> None:
    """Raises Locked while somebody has the lease."""
    with exclusive(_lock(path)):
        standing = _read(path)
        if standing is None or _lasts(standing):
            return
        if give_back is not None:
            give_back()
        _forget(path)


def until(lease: Lease, seconds: float, take: Callable[[], object]) -> None:
    """Taken, and held by no process, but until then or the next boot. `take` as in `joined`."""
    path = _made(_path(lease))
    end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    expires = end.isoformat(timespec="seconds")
    with exclusive(_guard(path), wait=True), shared(_lock(path)):
        # What it was before is what the first one found.
        _note(path, replace(_read(path) or lease, expires=expires, boot=boot_id()))
        take()


def stands(lease: Lease) -> bool:
    """Is there one of the same setting, whoever has it?"""
    return _path(lease).exists()


def boot_id() -> str:
    """Another one after each boot (random(4))."""
    return files.read(_BOOT).decode().strip()


def _note(path: Path, lease: Lease) -> None:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    by = lease.by or f"{getpass.getuser()}, process {os.getpid()}"
    _write(path, {"format": FORMAT, **asdict(lease), "taken": now, "by": by})


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


def lasting(server: ServerIdentity, kind: str) -> list[Lease]:
    """Those of that server that somebody has, or that last."""
    paths = sorted(_place().glob("*.json"))
    found = [_read(path) for path in paths if _is_held(path)]
    return [one for one in found if one is not None and one.kind == kind and server.has(one)]


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


def _guard(path: Path) -> Path:
    """Held while the first comes or the last goes."""
    return path.with_suffix(".guard")


def _is_held(path: Path) -> bool:
    try:
        with exclusive(_lock(path)):
            standing = _read(path)
            return standing is not None and _lasts(standing)
    except Locked:
        return True


def _lasts(lease: Lease) -> bool:
    if not lease.expires or lease.boot != boot_id():
        return False
    return datetime.now(timezone.utc) < datetime.fromisoformat(lease.expires)


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)
    files.make_durable(path.parent)
