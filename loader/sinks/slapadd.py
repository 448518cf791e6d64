"""Sink: `slapadd -q` into a private, empty environment. Quick mode implies nosync and syncs once at its end, so no
setting of the operator's configuration has to be relaxed."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from loader import ldif
from loader.child import Child
from loader.errors import FULL, EntryRefused, LdifUnreadable, LoaderError, MapFull, MissingParents, NoSpace, ToolFailed
from loader.progress import Meter
from loader.server import tools

_GONE = re.compile(r"\s*entry \d+: (.*)")  # a line after "Error, entries missing!"
_REFUSED = re.compile(
    r'slapadd: (?:could not (?:add|parse) entry )?.*?dn="(?P<dn>[^"]*)" \(line=(?P<line>\d+)\):?\s*(?P<why>.*)'
)
_ELSEWHERE = re.compile(
    r'slapadd: line (?P<line>\d+): database #\d+ \(.*?\) not configured to hold "(?P<dn>[^"]*)"(?P<why>.*)'
)
_UNREAD = re.compile(r"slapadd: could not parse entry \(line=(?P<line>\d+)\)")
_CODE = re.compile(r"^\(\d+\)\s*")


@dataclass(frozen=True)
class Target:
    """Where slapadd loads: a private slapd.d whose database of `suffix` points to `directory`."""

    config: Path
    suffix: str
    directory: Path
    maxsize: int
    server_id: int = 0
    check_schema: bool = True


def load(
    target: Target,
    paths: Sequence[Path],
    meter: Meter,
    context_csns: Sequence[str] | None = None,
    write_context: bool = False,
    aliases: Mapping[str, str] | None = None,
) -> int:
    """Loads all records of `paths`; returns their number. `context_csns`: replaces the suffix entry's contextCSN.
    `write_context`: slapadd -w.

    Entries without entryCSN get an entryCSN with the server's own ID. Plain slapadd would use the ID 0, which no
    contextCSN of that server covers, so consumers would miss deletions of these entries. After success the environment
    is closed and synced; after an error it is unusable.
    """

    arguments = ["-q", "-F", str(target.config), "-b", target.suffix, "-S", str(target.server_id)]
    arguments += ["-w"] if write_context else []
    arguments += [] if target.check_schema else ["-s"]
    command = tools.server_tool("slapadd", *arguments)
    with Child(command, stdin=subprocess.PIPE) as child, meter.cancelling(child.kill):
        assert child.process.stdin is not None
        with closing(child.process.stdin) as stdin:
            try:
                entries = ldif.join(paths, stdin.fileno(), meter, context_csns, target.suffix, aliases)
            except LdifUnreadable:
                stdin.close()  # slapadd closed the pipe: its own reason is the error worth showing
                if child.wait() == 0:
                    raise
                raise _judge(child, target) from None
        meter.note = "slapadd is syncing to disk"
        if child.wait() != 0:
            raise _judge(child, target)
    return entries


def _judge(child: Child, target: Target) -> LoaderError:
    """Returns the error for a failed slapadd. The caller must recognize a slapadd that was killed on purpose."""
    status, words = child.wait(), child.words
    text = " ".join(words)
    if "MDB_MAP_FULL" in text or "-30792" in text:
        return MapFull(path=target.directory, map_size=target.maxsize)
    # With a writable map the kernel reports a full disk only by SIGBUS.
    if "No space left" in text or status in (-signal.SIGBUS, 128 + signal.SIGBUS):
        return NoSpace(path=target.directory, lack=FULL)
    if "entries missing" in text:
        gone = (found[1] for found in map(_GONE.match, words) if found)
        return MissingParents(count="some", first=next(gone, "not named"))
    matches = (pattern.search(word) for pattern in (_REFUSED, _ELSEWHERE, _UNREAD) for word in words)
    match = next(filter(None, matches), None)
    if match:
        if match.re is _REFUSED:
            reason = _CODE.sub("", match["why"]) or "; ".join(words[:2])
        elif match.re is _ELSEWHERE:
            reason = "another database holds it" if "did you mean" in match["why"] else "no database holds it"
        else:
            reason = "; ".join(word for word in words[:3] if word != match.string) or match.string
        where = f"the record ending at line {match['line']} of what slapadd was fed"
        return EntryRefused(dn=match.groupdict().get("dn", "an entry"), reason=reason, where=where, way_out="")
    return ToolFailed(tool="slapadd", status=status, reason="; ".join(words[-3:]) or "it said nothing")
