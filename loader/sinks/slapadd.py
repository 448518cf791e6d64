"""Sink: `slapadd -q` into a private, empty environment. Quick mode is nosync by nature and syncs once at its end;
nothing of the operator's configuration is loosened for it."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from loader import _native, ldif
from loader._native import Plan
from loader.child import Child
from loader.errors import FULL, EntryRefused, LdifUnreadable, LoaderError, MapFull, MissingParents, NoSpace, ToolFailed
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import tools
from loader.sinks.mdb import failure

__all__ = ["Plan"]

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
    """Loads all records of `paths`; returns their number. `context_csns` replaces the suffix entry's; `write_context`
    is slapadd -w.

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
    """Loads one slice; returns the number of its own entries, and whether the suffix's entry was among all of them.

    An entry that slapadd refuses is named with its place in the input.
    """
    return _load(target, lambda descriptor: piece.feed(descriptor, meter), piece.place, meter)


def _load(target: Target, feed: Callable[[int], Fed], place: Where, meter: Meter, write_context: bool = False) -> Fed:
    arguments = ["-q", "-F", str(target.config), "-b", target.suffix, "-S", str(target.server_id)]
    arguments += ["-w"] if write_context else []
    arguments += [] if target.check_schema else ["-s"]
    command = tools.server_tool("slapadd", *arguments)
    with Child(command, stdin=subprocess.PIPE) as child, meter.cancelling(child.kill):
        assert child.process.stdin is not None
        with closing(child.process.stdin) as stdin:
            try:
                fed = feed(stdin.fileno())
            except LdifUnreadable:
                stdin.close()  # slapadd closed the pipe: its own reason is the error worth showing
                if child.wait() == 0:
                    raise
                raise _judge(child, target, place) from None
        meter.note = "slapadd is syncing to disk"
        if child.wait() != 0:
            raise _judge(child, target, place)
    return fed


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
    matches = (pattern.search(word) for pattern in (_REFUSED, _ELSEWHERE, _UNREAD) for word in words)
    match = next(filter(None, matches), None)
    if match:
        dn, where = place(int(match["line"]))
        if match.re is _REFUSED:
            reason = _CODE.sub("", match["why"]) or "; ".join(words[:2])
        elif match.re is _ELSEWHERE:
            reason = "another database holds it" if "did you mean" in match["why"] else "no database holds it"
        else:
            reason = "; ".join(word for word in words[:3] if word != match.string) or match.string
        return EntryRefused(dn=match.groupdict().get("dn", dn), reason=reason, where=where, way_out="")
    return ToolFailed(tool="slapadd", status=status, reason="; ".join(words[-3:]) or "it said nothing")


# --- shards ----------------------------------------------------------------------------------------------------------
#
# The native core's part of a load by several slapadds: the LDIF cut into slices, their databases made one.
#
# Every slice begins with the same shared entries, those that have children, parents first; the others follow in the
# order of the input, each in one slice. The merged database is the one that a single slapadd makes of the shared
# entries and then of all the others.


Cut = tuple[int, int, int, int]  # index of the file, byte and line in it, entries before it


@dataclass(frozen=True)
class SlicedLdif:
    """What is sliced. suffixes: of the database; their entries have no parent in it."""

    paths: Sequence[Path]
    suffixes: Sequence[str]
    shared: Path  # the file of shared entries


def plan(source: SlicedLdif, shards: int, meter: Meter) -> Plan:
    """Writes the shared entries to their file (mode 0600), and chooses at most `shards` slices."""
    with with_counters(meter) as counters:
        return _native.plan(source.paths, source.suffixes, shards, source.shared, counters)


@dataclass(frozen=True)
class GeneratedAttributes:
    """What each slapadd would make on its own: the same CSNs. now: as in createTimestamp; None with `lastmod off`.
    first: the number of the first CSN."""

    now: str | None
    server_id: int
    claimed: Sequence[str] | None  # contextCSN of `root`, which no entryCSN may exceed
    root: str
    aliases: Mapping[str, str] = field(default_factory=dict)  # of `loader.schema.synonyms`
    first: int = 0


@dataclass(frozen=True)
class Slice:
    """One slice of a plan; `own` entries besides the shared ones."""

    source: SlicedLdif
    shared: int
    cut: Cut
    own: int
    making: GeneratedAttributes

    def feed(self, descriptor: int, meter: Meter) -> tuple[int, bool]:
        """Writes it to a descriptor; how many entries of its own, and whether the root was among all of them."""
        with with_counters(meter) as counters:
            return self._core().feed(descriptor, counters)

    def place(self, line: int) -> tuple[str, str]:
        """DN and place in the input of the record at a line of what was fed."""
        with with_counters(Meter("place")) as counters:
            record = self._core().find_line(line, counters)
        if record is None:
            return "an entry", f"the record at line {line} of what slapadd was fed"
        path, at, dn = record
        return dn, f"{path}, line {at}"

    def _core(self) -> _native.Slice:
        making = self.making
        return _native.Slice(
            self.source.paths,
            self.source.suffixes,
            self.source.shared,
            shared=self.shared,
            cut=self.cut,
            own=self.own,
            now=making.now,
            server_id=making.server_id,
            root=None if making.claimed is None else making.root,
            context_csns=making.claimed,
            aliases=making.aliases,
            first=making.first,
        )


@dataclass(frozen=True)
class MergeTask:
    """Data files of slices in their order, and what the one file shall be. context: the suffix whose entry gets
    contextCSN, as with slapadd -w. idlexp: as configured. jobs: threads that read."""

    parts: Sequence[Path]
    shared: int
    map_size: int
    idlexp: int
    context: str | None
    jobs: int


def merge(task: MergeTask, source: SlicedLdif, out: Path, meter: Meter) -> int:
    """Writes the data file, synced; returns its entries. Raises EntryRefused for an entry that two slices have."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code != "build.duplicate":
            return failure(error, out.parent, task.map_size)
        with with_counters(Meter("merge")) as counters:
            records = _native.find_name(source.paths, source.suffixes, error.dn or "", counters)
        where = " and ".join(f"{path}, line {line}" for path, line, _ in records) or "it is there twice"
        return EntryRefused(dn=error.dn, reason=error.message, where=where, way_out="")

    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.merge(
            task.parts,
            out,
            counters,
            shared=task.shared,
            map_size=task.map_size,
            idlexp=task.idlexp,
            context=task.context,
            jobs=task.jobs,
        ).entries
