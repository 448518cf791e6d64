"""Sink: `slapadd -q` into a private, empty environment. Quick mode is nosync by nature and syncs once at its end;
nothing of the operator's configuration is loosened for it."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from loader import _native, ldif, units
from loader.child import Child
from loader.errors import (
    FULL,
    EntryRefused,
    LdifUnreadable,
    LoaderError,
    MapFull,
    MdbDamaged,
    MissingParents,
    NoSpace,
    ToolFailed,
)
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import tools

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


def _load(target: Target, feed: Callable[[int], Fed], place: Where, meter: Meter, write_context: bool = False) -> Fed:
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
            return EntryRefused(dn=refused["dn"], reason=why, where=place(int(refused["line"]))[1], way_out="")
    for word in words:
        elsewhere = _ELSEWHERE.search(word)
        if elsewhere:
            why = "another database holds it" if "did you mean" in elsewhere["why"] else "no database holds it"
            where = place(int(elsewhere["line"]))[1]
            return EntryRefused(dn=elsewhere["dn"], reason=why, where=where, way_out="")
    for word in words:
        unread = _UNREAD.search(word)
        if unread:
            dn, where = place(int(unread["line"]))
            why = "; ".join(one for one in words[:3] if one != word) or word
            return EntryRefused(dn=dn, reason=why, where=where, way_out="")
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

    @property
    def texts(self) -> list[str]:
        return [str(path) for path in self.paths]


@dataclass(frozen=True)
class Plan:
    """shared: entries that have children. leaves: the others. unknown: parents that no entry of the input is, as far as
    names tell without a schema. cuts: where each slice begins."""

    shared: int
    leaves: int
    unknown: int
    cuts: Sequence[Cut]


def plan(source: SlicedLdif, shards: int, meter: Meter) -> Plan:
    """Write the shared entries to their file (mode 0600), and choose slices. Their number may be less than `shards`."""
    with with_counters(meter) as counters:
        found = _native.plan(source.texts, list(source.suffixes), shards, str(source.shared), counters)
    return Plan(found.shared, found.leaves, found.unknown, found.cuts)


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
        """Write it to a descriptor; how many entries of its own, and whether the root was among all of them."""
        with with_counters(meter) as counters:
            return self._core().feed(descriptor, counters)

    def place(self, line: int, meter: Meter) -> tuple[str, str]:
        """DN and place in the input of the record at a line of what was fed."""
        with with_counters(meter) as counters:
            found = self._core().find_line(line, counters)
        if found is None:
            return "an entry", f"the record at line {line} of what slapadd was fed"
        path, at, dn = found
        return dn, f"{path}, line {at}"

    def _core(self) -> _native.Slice:
        making = self.making
        return _native.Slice(
            self.source.texts,
            list(self.source.suffixes),
            str(self.source.shared),
            shared=self.shared,
            cut=self.cut,
            own=self.own,
            now=making.now,
            server_id=making.server_id,
            root=None if making.claimed is None else making.root,
            context_csns=None if making.claimed is None else list(making.claimed),
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
    """Write the data file, synced; its entries. Raises EntryRefused for an entry that two slices have."""
    with with_counters(meter) as counters, meter.following(counters):
        try:
            made = _native.merge(
                [str(path) for path in task.parts],
                str(out),
                counters,
                shared=task.shared,
                map_size=task.map_size,
                idlexp=task.idlexp,
                context=task.context,
                jobs=task.jobs,
            )
        except _native.NativeError as error:
            ours = _ours(error, task, source, out)
            if ours is None:
                raise  # counting() knows it
            raise ours from error
    return made.entries


def _ours(error: _native.NativeError, task: MergeTask, source: SlicedLdif, out: Path) -> LoaderError | None:
    if error.code == "build.duplicate":
        where = _both(source, error.dn or "", Meter("merge"))
        return EntryRefused(dn=error.dn, reason=error.message, where=where, way_out="")
    if error.code == "build.map_full":
        return MapFull(path=out.parent, map_size=units.size(task.map_size))
    if error.code == "build.damaged":
        return MdbDamaged(path=out.parent, reason=error.message)
    if error.code == "ldif.no_space":
        return NoSpace(path=out.parent, lack=FULL)
    return None


def _both(source: SlicedLdif, dn: str, meter: Meter) -> str:
    """Where the two records of a name stand in the input."""
    with with_counters(meter) as counters:
        found = _native.find_name(source.texts, list(source.suffixes), dn, counters)
    return " and ".join(f"{path}, line {line}" for path, line, _ in found) or "it is there twice"
