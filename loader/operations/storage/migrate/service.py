"""The service that uses the directory: stopped, started, watched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import child
from loader.errors import LoaderError, MigrationRefused, ToolFailed
from loader.server.options import Connection
from loader.server.session import session
from loader.storage import holders
from loader.storage.occupants import Occupant, occupants

PATIENCE = 60.0  # seconds for a service to let go of its files, or to come up
_LOOK = 0.1
_OTHER_COMMANDS = (
    "Give --service the commands that stop and start this service (of a container, for example), or end these "
    "processes; then run the same command again, or go back with --rollback."
)
_RESTARTED = "Find out what starts it, then run the same command again, or go back with --rollback."


def stop(command: Sequence[str], place: Path, databases: Sequence[str]) -> None:
    """Returns once no process uses `place`, whatever the status of the command: it may fail because the service is
    stopped already. Raises MigrationRefused if a process still uses `place`."""
    answer = child.run_detached(command)
    until = time.monotonic() + PATIENCE
    while left := occupants(place, databases):
        if answer.status != 0:
            reason = f"{str(_failed(command, answer)).rstrip('.')}, and {_named(left)}"
            raise MigrationRefused(path=place, reason=reason, advice=_OTHER_COMMANDS)
        if time.monotonic() > until:
            advice = (
                "End these processes, then run the same command again, or go back with --rollback."
            )
            raise MigrationRefused(
                path=place, reason=f"the service was stopped, and {_named(left)}", advice=advice
            )
        time.sleep(_LOOK)


def require_unused(place: Path, databases: Sequence[str]) -> None:
    """Something may have started the service again since it was stopped. Raises MigrationRefused."""
    if left := occupants(place, databases):
        reason = f"the service was stopped, but it is used again: {_named(left)}"
        raise MigrationRefused(path=place, reason=reason, advice=_RESTARTED)


def start(command: Sequence[str]) -> None:
    answer = child.run_detached(command)
    if answer.status != 0:
        raise _failed(command, answer)


def _failed(command: Sequence[str], answer: child.Answer) -> ToolFailed:
    reason = "; ".join(word for word in answer.words[-3:] if word) or "it said nothing"
    return ToolFailed(tool=command[0], status=answer.status, reason=reason)


def _named(found: Sequence[Occupant]) -> str:
    return ", ".join(map(str, found[:5]))


@dataclass(frozen=True)
class Signs:
    """Of a service that is up: it writes to `place` (`is_used`), has the first of `databases` open, `uri` answers."""

    place: Path
    databases: Sequence[str]
    is_used: bool
    uri: str


def watch(signs: Signs, seconds: float, note: Callable[[str], None]) -> int:
    """Wait until it is up, then look for `seconds` whether it stays; its process (0: none that it is known by). Raises
    MigrationRefused."""
    place = signs.place
    until = time.monotonic() + PATIENCE
    while (first := _up(signs))[0] is None:
        if time.monotonic() > until:
            raise _down(place, f"the service does not come up: {first[1]}")
        time.sleep(_LOOK)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        note(f"up, process {first[0]}" if first[0] else "up")
        now = _up(signs)
        if now[0] != first[0]:
            raise _down(
                place, f"the service does not stay up: {now[1] or 'it is another process now'}"
            )
        time.sleep(_LOOK)
    return first[0] or 0


def _down(place: Path, reason: str) -> MigrationRefused:
    advice = (
        "Look at the service's log. The same command looks again; --rollback mounts the former volume and starts the "
        "service on it."
    )
    return MigrationRefused(path=place, reason=reason, advice=advice)


def _up(signs: Signs) -> tuple[int | None, str]:
    """The process that has the files (0: none needs to), or what is amiss."""
    if os.statvfs(signs.place).f_flag & os.ST_RDONLY:
        return None, "the volume is read-only"
    pid = _process(signs.place, signs.databases) if signs.is_used else 0
    if pid is None:
        return None, "no process uses the directory"
    try:
        if signs.uri:
            with session(Connection(uri=signs.uri, mechanism=None)) as server:
                server.naming_contexts()
    except LoaderError as error:
        return None, str(error)
    return pid, ""


def _process(place: Path, databases: Sequence[str]) -> int | None:
    if databases:
        return holders.holder(place / databases[0])
    return next((one.pid for one in occupants(place) if one.writes), None)
