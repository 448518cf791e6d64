"""Loads LDIF with `slapadd -q` into a private, empty environment. Quick mode implies nosync and syncs once at its end,
so that no setting of the operator's configuration needs a change.

Several slapadds may share a load. Each loads one slice of the LDIF. Every slice begins with the shared entries: all
entries with children, parents first. Each other entry is in exactly one slice, in the order of the input. The merged
database equals a database that a single slapadd builds from the shared entries followed by all other entries."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from loader import _native, ldif
from loader._native import Counters, Plan
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
    UsageProblem,
)
from loader.ldif import with_counters
from loader.mdb import contents
from loader.progress import Meter
from loader.server import tools
from loader.sinks.mdb import failure

__all__ = ["Plan"]

Out = TypeVar("Out")
Cut = tuple[int, int, int, int]  # start of a slice: index of its file, byte and line in the file, entries before it
# Maps a line of slapadd's input to the path, line and DN of the record in the operator's input.
FindRecord = Callable[[int], tuple[str, int, str] | None]

_MISSING = re.compile(r"\s*entry \d+: (.*)")  # a line after "Error, entries missing!"
_REFUSAL = re.compile(
    r'slapadd: (?:could not (?:add|parse) entry )?.*?dn="(?P<dn>[^"]*)" \(line=(?P<line>\d+)\):?\s*(?P<why>.*)'
)
_FOREIGN_DN = re.compile(
    r'slapadd: line (?P<line>\d+): database #\d+ \(.*?\) not configured to hold "(?P<dn>[^"]*)"(?P<why>.*)'
)
_PARSE_ERROR = re.compile(r"slapadd: could not parse entry \(line=(?P<line>\d+)\)")
_CODE = re.compile(r"^\(\d+\)\s*")


class Target(Struct, frozen=True):
    """A database to load. `config`: a private slapd.d, which has the database of `suffix` in `directory`."""

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
    """Loads all records of `paths`, and returns their number. `context_csns` replaces the suffix entry's contextCSN.
    `write_context` gives slapadd the option -w.

    An entry without entryCSN gets an entryCSN with the server's own ID. slapadd by itself would use the ID 0, which no
    contextCSN of that server covers, so consumers would miss deletions of the entry. After success the environment is
    closed and synced; after an error it is unusable."""

    def feed(descriptor: int) -> int:
        return ldif.join(paths, descriptor, meter, context_csns, target.suffix, aliases)

    count = _load(target, feed, lambda line: None, meter, write_context)
    if write_context:
        try:
            contents.context_csns(target.directory)
        except MdbDamaged as error:
            reason = "slapadd -w damages a contextCSN that multival keeps in id2v: build without -w, or raise multival"
            raise UsageProblem(reason=reason) from error
    return count


def load_slice(target: Target, piece: Slice, meter: Meter) -> tuple[int, bool]:
    """Loads one slice. Returns the number of entries that are only in this slice, and whether the slice has the suffix
    entry. The error for a refused entry names the entry's file and line in the operator's input."""

    def feed(descriptor: int) -> tuple[int, bool]:
        with with_counters(meter) as counters:
            return piece.feed(descriptor, counters)

    def find_record(line: int) -> tuple[str, int, str] | None:
        with with_counters(Meter("find")) as counters:
            return piece.find_line(line, counters)

    return _load(target, feed, find_record, meter)


def _load(
    target: Target, feed: Callable[[int], Out], find: FindRecord, meter: Meter, write_context: bool = False
) -> Out:
    arguments = ["-q", "-F", str(target.config), "-b", target.suffix, "-S", str(target.server_id)]
    arguments += ["-w"] if write_context else []
    arguments += [] if target.check_schema else ["-s"]
    command = tools.server_tool("slapadd", *arguments)
    with Child(command, stdin=subprocess.PIPE) as child, meter.cancelling(child.kill):
        assert child.process.stdin is not None
        with closing(child.process.stdin) as stdin:
            try:
                result = feed(stdin.fileno())
            except LdifUnreadable:
                stdin.close()
                if child.wait() == 0:
                    raise
                raise _failure(child, target, find) from None  # slapadd had closed the pipe after an error
        meter.note = "slapadd is syncing to disk"
        if child.wait() != 0:
            raise _failure(child, target, find)
    return result


def _failure(child: Child, target: Target, find: FindRecord) -> LoaderError:
    """Returns the error of a slapadd that failed, but was not killed by ditseed."""
    status, lines = child.wait(), child.stderr_lines
    text = " ".join(lines)
    if "MDB_MAP_FULL" in text or "-30792" in text:
        return MapFull(path=target.directory, map_size=target.maxsize)
    # With a writable map, a process learns of a full disk only by SIGBUS.
    if "No space left" in text or status in (-signal.SIGBUS, 128 + signal.SIGBUS):
        return NoSpace(path=target.directory, lack=FULL)
    if "entries missing" in text:
        parents = (match[1] for match in map(_MISSING.match, lines) if match)
        return MissingParents(count="some", first=next(parents, "not named"))
    matches = (pattern.search(line) for pattern in (_REFUSAL, _FOREIGN_DN, _PARSE_ERROR) for line in lines)
    match = next(filter(None, matches), None)
    if match:
        if match.re is _REFUSAL:
            reason = _CODE.sub("", match["why"]) or "; ".join(lines[:2])
        elif match.re is _FOREIGN_DN:
            reason = "another database holds it" if "did you mean" in match["why"] else "no database holds it"
        else:
            reason = "; ".join(line for line in lines[:3] if line != match.string) or match.string
        where, dn = f"the record ending at line {match['line']} of slapadd's input", "an entry"
        if record := find(int(match["line"])):
            path, number, dn = record
            where = f"{path}, line {number}"
        return EntryRefused(dn=match.groupdict().get("dn", dn), reason=reason, where=where, way_out="")
    return ToolFailed(tool="slapadd", status=status, reason="; ".join(lines[-3:]) or "it printed nothing")


class MergeOptions(Struct, frozen=True):
    """`shared` is the number of shared entries. The entry of the suffix `context` gets a contextCSN, as with slapadd
    -w. `jobs` threads read the files."""

    shared: int
    map_size: int  # bytes
    idlexp: int
    context: str | None
    jobs: int


class SlicedLdif(Struct, frozen=True):
    """The LDIF for several slapadds. `suffixes`: the database's suffixes. `shared`: file for the shared entries."""

    paths: Sequence[Path]
    suffixes: Sequence[str]
    shared: Path

    def plan(self, shards: int, meter: Meter) -> Plan:
        """Writes the file `shared` (mode 0600), and returns a plan with at most `shards` slices."""
        with with_counters(meter) as counters:
            return _native.plan(self, shards, counters)

    def merge(self, parts: Sequence[Path], out: Path, options: MergeOptions, meter: Meter) -> int:
        """Merges the data files of the slices into `out`, and syncs it. Returns the number of entries in `out`. Raises
        EntryRefused if an entry is in two slices."""

        def translate(error: _native.NativeError) -> LoaderError | None:
            if error.code != "build.duplicate":
                return failure(error, out.parent, options.map_size)
            with with_counters(Meter("find")) as counters:
                records = _native.find_name(self, error.dn or "", counters)
            where = " and ".join(f"{path}, line {line}" for path, line, _ in records) or "the input contains it twice"
            return EntryRefused(dn=error.dn, reason=error.message, where=where, way_out="")

        with with_counters(meter, translate=translate) as counters, meter.following(counters):
            return _native.merge(parts, out, options, counters)


class Slice(Struct, frozen=True):
    """A slice of a plan: the shared entries, then `own` other entries from `cut` on. The core reads these fields.

    `now` is the time in generated entryUUIDs, timestamps and entryCSNs; if it is None, none of these are generated.
    `first` is the counter of the first generated entryCSN. `stamp`: the suffix and its contextCSNs, which no entryCSN
    may exceed. `aliases` is as in `ldif.join`."""

    ldif: SlicedLdif
    shared: int
    cut: Cut
    own: int
    now: str | None
    server_id: int
    first: int
    stamp: tuple[str, Sequence[str]] | None
    aliases: Mapping[str, str]

    def feed(self, descriptor: int, counters: Counters) -> tuple[int, bool]:
        """Writes the input of slapadd. Returns the number of own entries, and whether the slice has the entry that gets
        `stamp`."""
        return _native.feed_slice(self, descriptor, counters)

    def find_line(self, line: int, counters: Counters) -> tuple[str, int, str] | None:
        """Returns path, line and DN of the input record that `feed` writes at line `line`."""
        return _native.find_line(self, line, counters)
