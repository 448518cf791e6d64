"""Sink: `slapadd -q` into a private, empty environment. Quick mode is nosync by nature and syncs once at its end;
nothing of the operator's configuration is loosened for it.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import ldif
from loader.child import Child
from loader.errors import (
    EntryRefused,
    LdifUnreadable,
    LoaderError,
    MapFull,
    MissingParents,
    NoSpace,
    ToolFailed,
)
from loader.progress import Meter
from loader.server import tools

_REFUSED = re.compile(
    r'slapadd: (?:could not (?:add|parse) entry )?.*?dn="(?P<dn>[^"]*)" \(line=(?P<line>\d+)\):?\s*(?P<why>.*)'
)
_CODE = re.compile(r"^\(\d+\)\s*")


@dataclass(frozen=True)
class Target:
    """Where slapadd loads: a private slapd.d whose database of `suffix` points to `directory`."""

    config: Path
    suffix: str
    directory: Path
    maxsize: int
    server_id: int = 0


def load(
    target: Target,
    paths: Sequence[Path],
    meter: Meter,
    context_csns: Sequence[str] | None = None,
    write_context: bool = False,
) -> int:
    """Load all records of `paths`; how many. `context_csns` replaces the suffix entry's; `write_context` is slapadd -w.

    Entries without entryCSN get one of the server's own ID (plain slapadd would make it 0, which no contextCSN of that
    server covers, so that consumers miss their deletion). On success the environment is closed and synced; on an error
    it is worth nothing.
    """
    arguments = ["-q", "-F", str(target.config), "-b", target.suffix, "-S", str(target.server_id)]
    arguments += ["-w"] if write_context else []
    command = tools.server_tool("slapadd", *arguments)
    with Child(command, stdin=subprocess.PIPE) as child, meter.cancelling(child.kill):
        written = _feed(child, target, paths, meter, context_csns)
        meter.note = "slapadd is syncing to disk"
        if child.wait() != 0:
            raise _judge(child, target)
    return written


def _feed(
    child: Child,
    target: Target,
    paths: Sequence[Path],
    meter: Meter,
    context_csns: Sequence[str] | None,
) -> int:
    assert child.process.stdin is not None
    try:
        return ldif.join(paths, child.process.stdin.fileno(), meter, context_csns, target.suffix)
    except LdifUnreadable:
        # slapadd closed the pipe: what it says about why is the error worth showing.
        child.process.stdin.close()
        if child.wait() != 0:
            raise _judge(child, target) from None
        raise
    finally:
        child.process.stdin.close()


def _judge(child: Child, target: Target) -> LoaderError:
    status, words = child.wait(), child.words
    text = " ".join(words)
    if "MDB_MAP_FULL" in text or "-30792" in text:
        return MapFull(path=target.directory, map_size=target.maxsize)
    # With a writable map the kernel has no other way to say that a page found no room.
    if "No space left" in text or status in (-signal.SIGBUS, 128 + signal.SIGBUS):
        return NoSpace(path=target.directory, needed="more", free="nothing")
    if "entries missing" in text:
        return MissingParents(count="some", first="see slapadd's words: " + " ".join(words[-3:]))
    for word in words:
        refused = _REFUSED.search(word)
        if refused:
            why = _CODE.sub("", refused["why"]) or "; ".join(words[:2])
            return EntryRefused(
                dn=refused["dn"],
                reason=why,
                where=f"the record ending at line {refused['line']} of what slapadd was fed",
            )
    return ToolFailed(
        tool="slapadd", status=status, reason="; ".join(words[-3:]) or "it said nothing"
    )
