"""Forecasts the size and the build time of a database from builds of a sample of its entries.

The core builds the sample in a scratch directory. Parents that the sample lacks are replaced by glue entries, as
in slapd. These parents are also built alone: the difference between the two builds is due to the sample.

Most tables grow with the entries. An index does not: an ID in a key that many entries have takes 8 bytes, a key of its
own some 26, and a key of more than 65,535 entries becomes a range of three numbers (idlexp). So each index is computed
from the numbers of IDs of its keys. The number of distinct keys is estimated as ecologists estimate species: from
the numbers of keys that occur once and twice in the sample (Chao's estimator as extrapolated by Colwell et al. 2012,
Journal of Plant Ecology 5).
"""

from __future__ import annotations

import base64
import math
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loader import dn, resources
from loader.errors import EmptyInput
from loader.mdb import contents, copy, meta
from loader.mdb.contents import IndexCounts, TableSizes
from loader.mdb.meta import DATA
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import mdb
from loader.sinks.mdb import BuildRules, Target
from loader.sources import sampling
from loader.sources.location import LdifFiles
from loader.sources.sampling import Sample, SampleSize, SizeClass
from loader.storage import files, held, temporary

LARGEST = 24  # factor: upper bound of database size / LDIF size, with every attribute indexed
TIMED = 2.0  # seconds of building for the time forecast
_HEADER, _NODE, _POINTER, _ID, _RECORD = 16, 8, 2, 8, 48  # bytes: mdb.c, page, node, MDB_db
_RANGE = 3  # IDs of a range: 0, first, last
_EMPTY = 1 << 20  # bytes: upper bound for a database with all tables and no entries
_COMPRESSED = 20  # factor: upper bound of LDIF size / compressed size
_OF_FILES = SampleSize(5000, 0.0, seconds=10.0)
_ROOM = 1 << 44  # bytes: maxsize of the sample's database
_NOW = "20260101000000Z"
_GLUE = """objectClass: glue
structuralObjectClass: glue
entryUUID: {uuid}
entryCSN: 20000101000000.000000Z#000000#000#000000
createTimestamp: 20000101000000Z
modifyTimestamp: 20000101000000Z

"""
_PREFIX = ".ditseed-write-"


@dataclass(frozen=True)
class TableForecast:
    name: str
    bytes: int
    is_index: bool = False


@dataclass(frozen=True)
class Forecast:
    """`bytes`: size of the finished file. `seconds`: its build time. `how`: the way the sample was taken."""

    entries: int
    is_counted: bool
    sampled: int
    rejected: int
    how: str
    bytes: int
    seconds: float
    tables: tuple[TableForecast, ...]

    @property
    def largest_index(self) -> int:
        return max((table.bytes for table in self.tables if table.is_index), default=0)


@dataclass(frozen=True)
class Growth:
    """`before`: tables of the parents alone; None without parents. `sampled`, `wanted`: entries besides the parents in
    the sample, and in the whole. `longest`: IDs of a key that is no range. `is_added`: the forecast is added to one
    that includes the parents."""

    before: TableSizes | None
    after: TableSizes
    sampled: int
    wanted: int
    longest: int
    is_added: bool = False

    @property
    def factor(self) -> float:
        return self.wanted / self.sampled


def tables(growth: Growth) -> tuple[TableForecast, ...]:
    """Returns the forecasts of id2e, of the remaining tables together, and of each index."""
    before, after, longest = growth.before, growth.after, growth.longest

    def linear(name: str, parents: int, sample: int) -> TableForecast:
        pages = (0 if growth.is_added else parents) + (sample - parents) * growth.factor
        return TableForecast(name, round(pages * after.page_size))

    # The rest is dn2i above all. The trees of parents' keys are not counted in the indexes of the sample.
    remaining = _remaining(after, longest) - (_trees(before, longest) if before else 0)
    return (
        linear("id2e", before.own.get("id2e", 0) if before else 0, after.own["id2e"]),
        linear("dn2i and others", _remaining(before, longest) if before else 0, remaining),
        *(_index(name, counts, growth) for name, counts in after.indexes.items()),
    )


def _remaining(sizes: TableSizes, longest: int) -> int:
    """Returns the pages outside id2e and the indexes. Pages of keys' own trees, which no table counts, are excluded."""
    own = sum(sizes.own[name] for name in sizes.indexes)
    return sizes.pages - sizes.own.get("id2e", 0) - own - _trees(sizes, longest)


def _trees(sizes: TableSizes, longest: int) -> int:
    return sum(_tree_pages(counts, sizes.page_size, longest) for counts in sizes.indexes.values())


def _index(name: str, counts: IndexCounts, growth: Growth) -> TableForecast:
    size, longest, key_bytes = growth.after.page_size, growth.longest, counts.key_bytes
    fixed = 0.0
    if not growth.is_added:  # the model's error for the sample itself: parents, half-full last pages
        now = growth.after.own[name] + _tree_pages(counts, size, longest)
        fixed = min(max(0.0, now - _pages(counts.keys, key_bytes, size, longest)), 4.0)
    pages = _pages(_predicted(counts.keys, growth), key_bytes, size, longest) + fixed
    return TableForecast(name, round(pages * size), is_index=True)


def _predicted(keys: Mapping[int, int], growth: Growth) -> dict[float, float]:
    """Returns, for the whole, a map from IDs per key to the number of such keys."""
    many = {ids * growth.factor: float(count) for ids, count in keys.items() if ids > 2}
    seldom = growth.factor * (keys.get(1, 0) + 2 * keys.get(2, 0))  # IDs of keys that occur once or twice in the sample
    if seldom:
        mean = max(1.0, seldom / max(1.0, _distinct(keys, growth) - sum(many.values())))
        number = seldom / mean
        # A key with one ID has no page of values, so no key has between one ID and two.
        shared = {mean: number} if mean >= 2 else {1.0: 2 * number - seldom, 2.0: seldom - number}
        for ids, count in shared.items():
            many[ids] = many.get(ids, 0.0) + count
    return many


def _distinct(keys: Mapping[int, int], growth: Growth) -> float:
    """Returns a lower bound of the number of distinct keys in the whole."""
    once, twice, seen = keys.get(1, 0), keys.get(2, 0), float(sum(keys.values()))
    unseen = once * once / (2 * twice) if twice else once * (once - 1) / 2
    if not once or not unseen:
        return seen
    share = once / (growth.sampled * unseen + once)
    return seen - unseen * math.expm1((growth.wanted - growth.sampled) * math.log1p(-share))


def _pages(keys: Mapping[float, float] | Mapping[int, int], key_bytes: int, page_size: int, longest: int) -> float:
    """Returns the pages of an index, which the core fills completely."""
    room = page_size - _HEADER
    total = squares = trees = 0.0
    for ids, count in keys.items():
        if ids > longest:
            value = float(_HEADER + _RANGE * _ID)
        elif _has_tree(ids, key_bytes, page_size):
            value = _RECORD
        else:
            value = _HEADER + ids * _ID if ids > 1 else _ID
        node = _POINTER + _NODE + key_bytes + value
        total, squares = total + count * node, squares + count * node * node
        trees += count * _tree(ids, key_bytes, page_size, longest)
    if not total:
        return trees
    leaves = total / (room - squares / total / 2)
    return leaves + leaves * (_POINTER + _NODE + key_bytes) / room + trees


def _has_tree(ids: float, key_bytes: int, page_size: int) -> bool:
    """Returns whether a key's IDs need a tree of their own, because a node may take half a page at most."""
    return _NODE + key_bytes + _HEADER + ids * _ID > (page_size - _HEADER) // 2 - _POINTER


def _tree(ids: float, key_bytes: int, page_size: int, longest: int) -> float:
    """Returns the pages of the separate tree for one key's IDs; 0 if they have none."""
    if ids > longest or not _has_tree(ids, key_bytes, page_size):
        return 0
    leaves = math.ceil(ids * _ID / (page_size - _HEADER))
    return leaves if leaves == 1 else leaves + math.ceil(leaves * 18 / (page_size - _HEADER))


def _tree_pages(counts: IndexCounts, page_size: int, longest: int) -> int:
    """Returns the pages of the separate trees of all keys in an index of the sample."""
    return round(sum(count * _tree(ids, counts.key_bytes, page_size, longest) for ids, count in counts.keys.items()))


def at_most(ldif: LdifFiles) -> int:
    """Returns an upper bound in bytes for a database of these files, from their sizes alone."""
    paths = ldif.paths()
    factor = _COMPRESSED if any(map(sampling.is_compressed, paths)) else 1
    return _EMPTY + sum(path.stat().st_size for path in paths) * factor * LARGEST


def of_files(target: Target, ldif: LdifFiles, meter: Meter) -> Forecast:
    """Forecasts the size only. Raises EmptyInput, NotProven, and the errors of reading LDIF."""
    sample = sampling.of_files(ldif.paths(), ldif.entries(), _OF_FILES, meter)
    return forecast(sample, target, meter, timed=0.0)


def forecast(sample: Sample, target: Target, meter: Meter, timed: float = TIMED) -> Forecast:
    """Builds the sample again and again for `timed` seconds, because one short build says little about the next one;
    with `timed` 0 once. Raises EmptyInput if no entry of the sample belongs into the database, NotProven, NoSpace."""
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        common = _built(sample, sample.common, target, scratch, meter, timed)
        if common.growth is None:
            raise EmptyInput(path=f"the sample, {target.settings.suffixes[0]} and below")
        parts = [common]
        parts += (_built(larger, larger.total, target, scratch, meter, 0.0) for larger in sample.larger)
    sizes: dict[str, TableForecast] = {}
    for part in parts:
        for table in tables(replace(part.growth, is_added=part is not common)) if part.growth else ():
            known = sizes.get(table.name)
            sizes[table.name] = replace(table, bytes=table.bytes + (known.bytes if known else 0))
    return Forecast(
        entries=sample.total,
        is_counted=sample.is_counted,
        sampled=sum(part.growth.sampled for part in parts if part.growth),
        rejected=sum(part.rejected for part in parts),
        how=sample.how,
        bytes=sum(table.bytes for table in sizes.values()),
        seconds=common.fixed + sum(part.seconds for part in parts),
        tables=tuple(sizes.values()),
    )


@dataclass(frozen=True)
class _Built:
    """A sample that was built with the parents that it lacks. `growth`: None if no entry of it was accepted. `seconds`:
    for the whole without these parents, which take `fixed` seconds."""

    growth: Growth | None
    rejected: int
    seconds: float = 0.0
    fixed: float = 0.0


def _built(sample: Sample | SizeClass, total: int, target: Target, scratch: Path, meter: Meter, timed: float) -> _Built:
    parents, inputs = _inputs(sample, target, scratch)
    without, whole = scratch / "parents", scratch / "sample"
    glued, _, fixed = _build(target, parents, without, meter, timed) if parents else (0, 0, 0.0)
    entries, rejected, seconds = _build(target, inputs, whole, meter, timed)
    sampled = entries - glued
    if sampled <= 0:
        return _Built(None, rejected)
    growth = Growth(
        before=contents.table_sizes(without) if parents else None,
        after=contents.table_sizes(whole, without if parents else None),
        sampled=sampled,
        wanted=max(sampled, total),
        longest=(1 << target.settings.idlexp) - 1,
    )
    return _Built(growth, rejected, max(0.0, seconds - fixed) * growth.factor, fixed)


def _inputs(sample: Sample | SizeClass, target: Target, scratch: Path) -> tuple[list[Path], list[Path]]:
    """Writes LDIF files. Returns those of the parents that the sample lacks, and those of parents and sample."""
    parents, text, missing = scratch / "parents.ldif", scratch / "sample.ldif", []
    for name in sampling.parents(sample.names, target.settings.suffixes[0]):
        coded = base64.b64encode(name.encode("utf-8", "surrogateescape")).decode()
        missing.append(f"dn:: {coded}\n{_GLUE.format(uuid=uuid.uuid5(uuid.NAMESPACE_X500, dn.key(name)))}".encode())
    files.write_durably(parents, b"".join(missing), 0o600)
    files.write_durably(text, sample.text, 0o600)
    above = [parents] if missing else []
    return above, [*above, text]


def _build(target: Target, inputs: list[Path], directory: Path, meter: Meter, timed: float) -> tuple[int, int, float]:
    """Builds the inputs for `timed` seconds again and again. Returns the numbers of entries and of rejected records,
    and the upper quartile of the durations, because a long build also has slow moments. A first, cold build is not
    timed if others follow."""
    memory, jobs = resources.sorting_memory(), resources.processors()
    limits = mdb.Resources(memory, jobs, scratch=directory, rejects=directory / "rejects.ldif")
    rules = BuildRules(now=_NOW, value_check="skip", check_schema=False, max_rejects=1 << 31)
    began, durations = time.monotonic(), list[float]()
    while not durations or time.monotonic() - began < timed or (timed and len(durations) < 2):
        files.remove_tree(directory)
        directory.mkdir(mode=0o700)
        started = time.monotonic()
        built = mdb.build(replace(target, map_size=_ROOM), inputs, directory / DATA, rules, limits, meter)
        durations.append(time.monotonic() - started)
    warm = sorted(durations[1:] or durations)
    return built.entries, built.rejected, warm[3 * (len(warm) - 1) // 4]


@contextmanager
def unnamed_file(directory: Path) -> Iterator[int]:
    """Yields the descriptor of a new file in `directory`, which slapd's account may own. Its name is removed before
    anything is written, so the kernel frees its blocks even if the process is killed. Raises LoaderError, OSError."""
    with held.scratch(directory, _PREFIX) as scratch:
        descriptor = scratch.create("written")
        scratch.remove("written")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write(data: Path, target: int, most: int, meter: Meter) -> int:
    """Copies the start of `data` to the descriptor `target` with the engine of `clone` and fsync; returns the bytes."""
    facts = meta.read_meta(data)
    pages = max(min(facts.used, most) // facts.page_size, 2)
    place, head = Path(f"/proc/self/fd/{target}"), bytes(2 * facts.page_size)
    copy.plain(data, place, head, pages * facts.page_size, None, meter)
    return pages * facts.page_size
