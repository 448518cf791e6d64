"""What `tune` changed in servers' configurations, and what was there before: appended, fsynced, never rewritten.

JSON lines in state_dir()/changes.jsonl, mode 0600. A change is written down before it is made, and again how it ended,
so that after `kill -9` a change without an end is one that may or may not have been made.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

from loader import log
from loader.defaults import state_dir
from loader.errors import NotPermitted
from loader.storage import files, held

FORMAT = 1
FILE = "changes.jsonl"
_SECRET = {"olcrootpw", "olcsyncrepl", "olcdbidassertbind", "olcdbaclbind", "userpassword"}


class Outcome(str, Enum):
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"  # the process ended between the two lines


@dataclass(frozen=True)
class Entry:
    """One setting of one database. `target`: slapd.d, slapd.conf or URI. `undo` puts the old value back."""

    target: str
    database: str  # its suffix
    attribute: str  # as cn=config calls it
    before: tuple[str, ...]
    after: tuple[str, ...]
    command: str
    undo: str | None = None
    time: str = ""  # UTC, ISO 8601
    by: str = ""
    id: str = ""
    outcome: Outcome = Outcome.UNKNOWN


@contextmanager
def recorded(*entries: Entry) -> Iterator[None]:
    """Write down, then change: the body makes the change. Raises NotPermitted, and then nothing is changed."""
    stamped = [_stamped(entry) for entry in entries]
    _append([{"event": "change", **_blanked(entry)} for entry in stamped])
    try:
        yield
    except BaseException as error:
        reason = log.redact(str(error) or type(error).__name__)
        _append([_end(entry, Outcome.FAILED, reason=reason) for entry in stamped])
        raise
    _append([_end(entry, Outcome.DONE) for entry in stamped])


def entries() -> list[Entry]:
    """All that was written down, oldest first."""
    found: dict[str, Entry] = {}
    for line in _lines():
        if line.get("event") == "change":
            entry = _entry(line)
            found[entry.id] = entry
        elif line.get("id") in found:
            ended = {**found[line["id"]].__dict__, "outcome": Outcome(line["outcome"])}
            found[line["id"]] = Entry(**ended)
    return list(found.values())


def path() -> Path:
    return state_dir() / FILE


def _stamped(entry: Entry) -> Entry:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Entry(**{**entry.__dict__, "id": uuid.uuid4().hex, "time": now, "by": _user()})


def _user() -> str:
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _blanked(entry: Entry) -> dict[str, Any]:
    """Values of secrets never reach the file, not even what they were before."""
    facts = asdict(entry)
    del facts["outcome"]
    for side in ("before", "after"):
        values = [log.redact(value) for value in facts[side]]
        facts[side] = ["***"] * len(values) if entry.attribute.lower() in _SECRET else values
    return {**facts, "command": log.redact(entry.command)}


def _end(entry: Entry, outcome: Outcome, **more: str) -> dict[str, str]:
    return {"event": "end", "id": entry.id, "outcome": outcome.value, **more}


def _append(lines: list[dict[str, Any]]) -> None:
    place = path()
    text = "".join(json.dumps({"format": FORMAT, **line}) + "\n" for line in lines)
    with files.explained(place), held.private(place.parent) as home:
        _append_durably(home, text)


def _append_durably(home: held.Directory, text: str) -> None:
    descriptor = home.found_or_made(FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.lseek(descriptor, 0, os.SEEK_END)
        content = (_repair(descriptor) + text).encode()
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, "the disk is full")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.fsync(home.descriptor)


def _repair(descriptor: int) -> str:
    """A newline when a crash cut the last line short."""
    size = os.fstat(descriptor).st_size
    return "\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else ""


def _lines() -> Iterator[Mapping[str, Any]]:
    try:
        text = files.read(path()).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise NotPermitted(action="read", path=path(), owner="root") from error
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue  # cut short by a crash
        if isinstance(found, dict):
            yield found


def _entry(line: Mapping[str, Any]) -> Entry:
    facts = {name: line[name] for name in Entry.__dataclass_fields__ if name in line}
    return Entry(**{**facts, "before": tuple(line["before"]), "after": tuple(line["after"])})
