"""Sink: `slapadd -q` into a private, empty environment. Quick mode is nosync by nature and syncs once at its end;
nothing of the operator's configuration is loosened for it.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from loader import ldif
from loader.child import Child
from loader.errors import (
    FULL,
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
from loader.sinks.shards import Slice

Fed = TypeVar("Fed")
Where = Callable[[int], tuple[str, str]]  # DN and place of the record at a line of what was fed

_GONE = re.compile(r"\s*entry \d+: (.*)")  # below "Error, entries missing!"
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
    """Load all records of `paths`; how many. `context_csns` replaces the suffix entry's; `write_context` is slapadd -w.

    Entries without entryCSN get one of the server's own ID (plain slapadd would make it 0, which no contextCSN of that
    server covers, so that consumers miss their deletion). On success the environment is closed and synced; on an error
    it is worth nothing.
    """

    def feed(descriptor: int) -> int:
        return ldif.join(paths, descriptor, meter, context_csns, target.suffix, aliases)

    def place(line: int) -> tuple[str, str]:
        return "an entry", f"the record ending at line {line} of what slapadd was fed"

    return _load(target, feed, place, meter, write_context)


def load_slice(target: Target, piece: Slice, meter: Meter) -> tuple[int, bool]:
    """The same of one slice; how many entries of its own, and whether the suffix's entry was among all of them.

    What slapadd refuses is named with its place in the input.
    """

    def feed(descriptor: int) -> tuple[int, bool]:
        return piece.feed(descriptor, meter)

    def place(line: int) -> tuple[str, str]:
        return piece.place(line, Meter("place"))

    return _load(target, feed, place, meter)


def _load(
    target: Target,
    feed: Callable[[int], Fed],
    place: Where,
    meter: Meter,
    write_context: bool = False,
) -> Fed:
    arguments = ["-q", "-F", str(target.config), "-b", target.suffix, "-S", str(target.server_id)]
    arguments += ["-w"] if write_context else []
    arguments += [] if target.check_schema else ["-s"]
    command = tools.server_tool("slapadd", *arguments)
    with Child(command, stdin=subprocess.PIPE) as child, meter.cancelling(child.kill):
        written = _feed(child, target, feed, place)
        meter.note = "slapadd is syncing to disk"
        if child.wait() != 0:
            raise _judge(child, target, place)
    return written


def _feed(child: Child, target: Target, feed: Callable[[int], Fed], place: Where) -> Fed:
    assert child.process.stdin is not None
    try:
        return feed(child.process.stdin.fileno())
    except LdifUnreadable:
        # slapadd closed the pipe: what it says about why is the error worth showing.
        child.process.stdin.close()
        if child.wait() != 0:
            raise _judge(child, target, place) from None
        raise
    finally:
        child.process.stdin.close()


def _judge(child: Child, target: Target, place: Where) -> LoaderError:
    """What slapadd meant. After a kill that was our own it is for the caller to know better."""
    status, words = child.wait(), child.words
    text = " ".join(words)
    if "MDB_MAP_FULL" in text or "-30792" in text:
        return MapFull(path=target.directory, map_size=target.maxsize)
    # With a writable map the kernel has no other way to say that a page found no room.
    if "No space left" in text or status in (-signal.SIGBUS, 128 + signal.SIGBUS):
        return NoSpace(path=target.directory, lack=FULL)
    if "entries missing" in text:
        gone = (found[1] for found in map(_GONE.match, words) if found)
        return MissingParents(count="some", first=next(gone, "not named"))
    for word in words:
        refused = _REFUSED.search(word)
        if refused:
            why = _CODE.sub("", refused["why"]) or "; ".join(words[:2])
            return EntryRefused(
                dn=refused["dn"], reason=why, where=place(int(refused["line"]))[1], way_out=""
            )
    for word in words:
        elsewhere = _ELSEWHERE.search(word)
        if elsewhere:
            why = (
                "another database holds it"
                if "did you mean" in elsewhere["why"]
                else "no database holds it"
            )
            where = place(int(elsewhere["line"]))[1]
            return EntryRefused(dn=elsewhere["dn"], reason=why, where=where, way_out="")
    for word in words:
        unread = _UNREAD.search(word)
        if unread:
            dn, where = place(int(unread["line"]))
            why = "; ".join(one for one in words[:3] if one != word) or word
            return EntryRefused(dn=dn, reason=why, where=where, way_out="")
    return ToolFailed(
        tool="slapadd", status=status, reason="; ".join(words[-3:]) or "it said nothing"
    )
