"""The native core's part of a load by several slapadds: the LDIF cut into slices, their databases made one.

Every slice begins with the same shared entries, those that have children, parents first; the others follow in the
order of the input, each in one slice. The merged database is the one that a single slapadd makes of the shared entries
and then of all the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loader import _native, units
from loader.errors import FULL, EntryRefused, LoaderError, MapFull, MdbDamaged, NoSpace
from loader.ldif import with_counters
from loader.progress import Meter

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
        found = _native.plan(
            source.texts, list(source.suffixes), shards, str(source.shared), counters
        )
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


def _ours(
    error: _native.NativeError, task: MergeTask, source: SlicedLdif, out: Path
) -> LoaderError | None:
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
