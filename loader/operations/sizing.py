"""Forecasts the size and build time of a database from builds of a sample.

`require_room` compares a forecast with maxsize and with the free disk space; `choose_maxsize` returns the maxsize of a
new database. Both are called before the work begins.

The core builds the sample in a scratch directory. Glue entries replace the parents that the sample lacks, as in slapd.
The glue entries are also built alone; the difference between the two builds is the size of the sample.

Most tables grow in proportion to the entries, but an index does not: an entry ID takes 8 bytes in a key that many
entries have, and about 26 bytes in a key of its own. A key of more than 65,535 entries becomes a range of three numbers
(idlexp). So the size of an index is computed from the number of IDs in each key. The number of distinct keys is
estimated from the numbers of keys that occur once and twice in the sample (Chao's estimator for species, as
extrapolated by Colwell et al. 2012, Journal of Plant Ecology 5).
"""

from __future__ import annotations

import base64
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import defaults, dn, units
from loader.defaults import MAXSIZE_FACTOR
from loader.errors import EmptyInput, MaxsizeTooSmall
from loader.mdb import contents, copy, meta
from loader.mdb.contents import TableSizes
from loader.mdb.meta import DATA
from loader.operations.publish import TargetDatabase
from loader.operations.tune import require_stopped
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import mdb
from loader.sinks.mdb import BuildRules, Target
from loader.sources import sampling
from loader.sources.location import LdifFiles
from loader.sources.sampling import Sample, SampleSize, SizeClass
from loader.storage import files, held

GIB = 1 << 30
LARGEST = 24  # factor: upper bound of database size / LDIF size, with every attribute indexed
TIMED = 2.0  # seconds for which the sample is built, to forecast the build time
_HEADER, _NODE, _POINTER, _ID, _RECORD = 16, 8, 2, 8, 48  # bytes, from mdb.c: page header, node, pointer, ID, MDB_db
_RANGE = 3  # number of IDs that a range stores: 0, first, last
_EMPTY = 1 << 20  # bytes: upper bound for a database with all tables and no entries
_COMPRESSED = 20  # factor: upper bound of LDIF size / compressed size
_OF_FILES = SampleSize(5000, 0.0, seconds=10.0)
_ROUGH = SampleSize(2000, 0.0, seconds=0.2, whole=32 << 20, windows=32)
ROUGHLY = 2  # factor: upper bound of a database's size / its size as predicted from a rough sample
_ROOM = 1 << 44  # bytes; map size for the builds of the sample
_NOW = "20260101000000Z"
_GLUE = """objectClass: glue
structuralObjectClass: glue
entryUUID: {uuid}
entryCSN: 20000101000000.000000Z#000000#000#000000
createTimestamp: 20000101000000Z
modifyTimestamp: 20000101000000Z

"""


class Limits(Struct, frozen=True):
    """Bounds of a new database. `maxsize`: bytes, or None if maxsize is chosen once the size is known. `directory`: its
    file system must have room for the database; None: the disk space is not checked."""

    suffix: str
    maxsize: int | None
    directory: Path | None


def room_in(limits: Limits) -> float:
    """Returns the maximum bytes of the new database; infinite if nothing limits them."""
    free = math.inf if limits.directory is None else files.free_bytes(limits.directory)
    return min(free, math.inf if limits.maxsize is None else limits.maxsize)


def require_room(limits: Limits, *predictions: Callable[[], float]) -> None:
    """Raises MaxsizeTooSmall or NoSpace if the database does not fit. `predictions`: see `first_fitting`."""
    maxsize, directory, room = limits.maxsize, limits.directory, room_in(limits)
    if (needed := first_fitting(room, *predictions)) <= room:
        return
    if maxsize is not None:
        require_map(limits.suffix, maxsize, math.ceil(needed))
    if directory is not None:
        files.require_space(directory, math.ceil(needed))


def first_fitting(room: float, *predictions: Callable[[], float]) -> float:
    """Returns the first prediction of a database's size that fits into `room` bytes, otherwise the last prediction. All
    but the last are upper bounds that take less time; if one of them fits, the later predictions are not called."""
    needed = 0.0
    for predict in predictions:
        if (needed := predict()) <= room:
            break
    return needed


def require_map(suffix: str, maxsize: int, needed: int) -> None:
    """Raises MaxsizeTooSmall if `maxsize` bytes cannot hold `needed`."""
    if needed > maxsize:
        enough = f"{recommended_size(needed) // GIB}G"
        raise MaxsizeTooSmall(maxsize=units.size(maxsize), suffix=suffix, needed=units.size(needed), enough=enough)


def recommended_size(used: int) -> int:
    """Returns a maxsize with room for copy-on-write, growth and long readers: whole GiB, at least one."""
    return max(1, -(-round(used * MAXSIZE_FACTOR) // GIB)) * GIB


def choose_maxsize(place: TargetDatabase, needed: int, wanted: int | str | None, changing: bool = True) -> int:
    """Returns the map size of a new database. `wanted`: None keeps the configured maxsize, "auto" computes a maxsize.
    Raises MaxsizeTooSmall; ServerRunning if `changing`, and a running slapd uses a slapd.d that needs a new maxsize."""
    database = place.database
    setting = database.maxsize if wanted is None else wanted
    size = max(database.maxsize, recommended_size(needed)) if isinstance(setting, str) else setting
    require_map(database.suffix, size, needed)
    if changing and place.config.is_directory and size != database.maxsize:
        require_stopped(place.config)
    return size


def at_most(ldif: LdifFiles) -> int:
    """Returns an upper bound in bytes for a database of these files, from their sizes alone."""
    paths = ldif.paths()
    factor = _COMPRESSED if any(map(sampling.is_compressed, paths)) else 1
    return _EMPTY + sum(path.stat().st_size for path in paths) * factor * LARGEST


# --- extrapolation from the tables of a sample --------------------------------------------------------


class TableForecast(Struct, frozen=True):
    name: str
    bytes: int
    is_index: bool = False


class Growth(Struct, frozen=True):
    """The tables of a sample, for extrapolation. `before`: tables of the added parents alone, or None if no parents
    were added. `sampled`: number of entries in the sample, `wanted`: number of all entries, both without these parents.
    `longest`: maximum number of IDs in a key that is not a range. `is_added`: another forecast includes the parents."""

    before: TableSizes | None
    after: TableSizes
    sampled: int
    wanted: int
    longest: int
    is_added: bool = False

    @property
    def factor(self) -> float:
        return self.wanted / self.sampled


class _IndexPages(Struct, frozen=True):
    """The pages of an index; the core fills every page. `longest`: as in Growth."""

    page_size: int
    key_bytes: int
    longest: int

    def tree(self, ids: float) -> float:
        """Returns the number of pages of the tree (LMDB's sub-database) for the IDs of one key; 0 if they are stored in
        the key's node, which may take half a page at most."""
        room = self.page_size - _HEADER
        if ids > self.longest or _NODE + self.key_bytes + _HEADER + ids * _ID <= room // 2 - _POINTER:
            return 0
        leaves = math.ceil(ids * _ID / room)
        return leaves if leaves == 1 else leaves + math.ceil(leaves * 18 / room)

    def trees(self, keys: Mapping[int, int]) -> int:
        return round(sum(count * self.tree(ids) for ids, count in keys.items()))

    def whole(self, keys: Mapping[float, float] | Mapping[int, int]) -> float:
        """Returns the number of pages of the index. `keys`: number of IDs -> number of keys with this number of IDs."""
        room, key_node = self.page_size - _HEADER, _POINTER + _NODE + self.key_bytes
        total = squares = trees = 0.0
        for ids, count in keys.items():
            tree = self.tree(ids)
            if ids > self.longest:
                value = float(_HEADER + _RANGE * _ID)
            elif tree:
                value = _RECORD
            else:
                value = _HEADER + ids * _ID if ids > 1 else _ID
            node = key_node + value
            total, squares, trees = total + count * node, squares + count * node * node, trees + count * tree
        if not total:
            return trees
        leaves = total / (room - squares / total / 2)
        return leaves + leaves * key_node / room + trees


def tables(growth: Growth) -> tuple[TableForecast, ...]:
    """Returns the forecasts of id2e, of the other tables together, and of each index."""
    before, after = growth.before, growth.after
    page_size = after.page_size

    def key_trees(sizes: TableSizes) -> int:
        return sum(
            _IndexPages(page_size, index.key_bytes, growth.longest).trees(index.keys)
            for index in sizes.indexes.values()
        )

    def remaining(sizes: TableSizes) -> int:
        """Returns the pages outside id2e and the indexes, mainly those of dn2i. `tables` excludes the trees of keys."""
        index_pages = sum(sizes.tables[name] for name in sizes.indexes)
        return sizes.pages - sizes.tables.get("id2e", 0) - index_pages - key_trees(sizes)

    def linear(name: str, parents: int, sample: int) -> TableForecast:
        pages = (0 if growth.is_added else parents) + (sample - parents) * growth.factor
        return TableForecast(name, round(pages * page_size))

    forecasts = [
        linear("id2e", before.tables.get("id2e", 0) if before else 0, after.tables["id2e"]),
        # The counts of the sample's index keys exclude the parents, so the trees of the parents' keys are subtracted.
        linear(
            "dn2i and others",
            remaining(before) if before else 0,
            remaining(after) - (key_trees(before) if before else 0),
        ),
    ]
    for name, index in after.indexes.items():
        model = _IndexPages(page_size, index.key_bytes, growth.longest)
        pages = model.whole(_predicted_keys(index.keys, growth))
        if not growth.is_added:  # adds the model's error for the sample, due to parents and half-full last pages
            error = after.tables[name] + model.trees(index.keys) - model.whole(index.keys)
            pages += min(max(0.0, error), 4.0)
        forecasts.append(TableForecast(name, round(pages * page_size), is_index=True))
    return tuple(forecasts)


def _predicted_keys(keys: Mapping[int, int], growth: Growth) -> dict[float, float]:
    """Returns the keys of the complete database: number of IDs -> number of keys with this number of IDs."""
    once, twice, key_count = keys.get(1, 0), keys.get(2, 0), float(sum(keys.values()))
    predicted = {ids * growth.factor: float(count) for ids, count in keys.items() if ids > 2}
    seldom = growth.factor * (once + 2 * twice)  # number of IDs in all keys that occur once or twice in the sample
    if not seldom:
        return predicted

    distinct = key_count  # a lower bound of the number of distinct keys in the complete database
    unseen = once * once / (2 * twice) if twice else once * (once - 1) / 2
    if once and unseen:
        share = once / (growth.sampled * unseen + once)
        distinct -= unseen * math.expm1((growth.wanted - growth.sampled) * math.log1p(-share))

    mean = max(1.0, seldom / max(1.0, distinct - sum(predicted.values())))
    number = seldom / mean
    # A mean between 1 and 2 IDs is split into keys with 1 ID and keys with 2 IDs, whose nodes differ in size.
    shared = {mean: number} if mean >= 2 else {1.0: 2 * number - seldom, 2.0: seldom - number}
    for ids, count in shared.items():
        predicted[ids] = predicted.get(ids, 0.0) + count
    return predicted


# --- builds of a sample -------------------------------------------------------------------------------


class Forecast(Struct, frozen=True):
    """`bytes`: size of the finished file. `seconds`: its build time. `how`: the method of sampling, in words."""

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


def of_files(target: Target, ldif: LdifFiles, meter: Meter, is_rough: bool = False) -> Forecast:
    """Forecasts only the size, in up to 10 seconds, or half a second if `is_rough`. Raises EmptyInput, NotProven, and
    the errors of reading LDIF."""
    sample = sampling.of_files(ldif.paths(), ldif.entries(), _ROUGH if is_rough else _OF_FILES, meter)
    return forecast(sample, target, meter, timed=0.0)


def forecast(sample: Sample, target: Target, meter: Meter, timed: float = TIMED) -> Forecast:
    """Builds the sample repeatedly for `timed` seconds, because the times of short builds vary; once if `timed` is 0.
    Raises NotProven, NoSpace, or EmptyInput if no entry of the sample belongs into the database."""
    sizes: dict[str, TableForecast] = {}
    sampled = rejected = 0
    duration = 0.0
    with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
        parts: list[tuple[Sample | SizeClass, int, float]] = [(sample, sample.common, timed)]
        parts += ((larger, larger.total, 0.0) for larger in sample.larger)
        for part, total, seconds in parts:
            built = _built(part, total, target, scratch, meter, seconds)
            rejected += built.rejected
            if built.growth is None:
                if part is sample:
                    raise EmptyInput(path=f"the sample, {target.settings.suffixes[0]} and below")
                continue
            sampled += built.growth.sampled
            duration += built.seconds + (built.fixed if part is sample else 0.0)
            for table in tables(replace(built.growth, is_added=part is not sample)):
                before = sizes.get(table.name)
                sizes[table.name] = replace(table, bytes=table.bytes + (before.bytes if before else 0))
    size = sum(table.bytes for table in sizes.values())
    about = sample.total, sample.is_counted, sampled, rejected, sample.how
    return Forecast(*about, size, duration, tuple(sizes.values()))


class _Built(Struct, frozen=True):
    """A sample that was built together with the parents that it lacks. `growth` is None if no entry was accepted.
    `seconds`: expected build time of all entries without these parents. `fixed`: build time of the parents."""

    growth: Growth | None
    rejected: int
    seconds: float = 0.0
    fixed: float = 0.0


def _built(sample: Sample | SizeClass, total: int, target: Target, scratch: Path, meter: Meter, timed: float) -> _Built:
    missing = []
    for name in sampling.parents(sample.names, target.settings.suffixes[0]):
        coded = base64.b64encode(name.encode("utf-8", "surrogateescape")).decode()
        missing.append(f"dn:: {coded}\n{_GLUE.format(uuid=uuid.uuid5(uuid.NAMESPACE_X500, dn.key(name)))}".encode())
    parents_ldif, sample_ldif = scratch / "parents.ldif", scratch / "sample.ldif"
    files.write_durably(parents_ldif, b"".join(missing), 0o600)
    files.write_durably(sample_ldif, sample.text, 0o600)

    parents = scratch / "parents" if missing else None
    glue_entries, _, fixed = _build(target, [parents_ldif], parents, meter, timed) if parents else (0, 0, 0.0)
    whole, inputs = scratch / "sample", [*([parents_ldif] if parents else []), sample_ldif]
    entries, rejected, seconds = _build(target, inputs, whole, meter, timed)
    sampled = entries - glue_entries
    if sampled <= 0:
        return _Built(None, rejected)
    growth = Growth(
        before=contents.table_sizes(parents / DATA) if parents else None,
        after=contents.table_sizes(whole / DATA, parents and parents / DATA),
        sampled=sampled,
        wanted=max(sampled, total),
        longest=(1 << target.settings.idlexp) - 1,
    )
    return _Built(growth, rejected, max(0.0, seconds - fixed) * growth.factor, fixed)


def _build(target: Target, inputs: list[Path], directory: Path, meter: Meter, timed: float) -> tuple[int, int, float]:
    """Builds the inputs repeatedly for `timed` seconds. Returns the numbers of entries and of rejected records, and the
    upper quartile of the build times, because a long build also has slow moments. The first of several builds is not
    timed, because its caches are cold."""
    limits = mdb.Resources(defaults.sorting_memory(), defaults.processors(), directory)
    rules = BuildRules(_NOW, directory / "rejects.ldif", value_check="skip", check_schema=False, max_rejects=1 << 31)
    target = replace(target, map_size=_ROOM)  # a copy, whose schema is compiled in the first build
    began, durations = time.monotonic(), list[float]()
    while not durations or time.monotonic() - began < timed or (timed and len(durations) < 2):
        files.emptied(directory)
        start = time.monotonic()
        built = mdb.build(target, inputs, directory / DATA, rules, limits, meter)
        durations.append(time.monotonic() - start)
    warm = sorted(durations[1:] or durations)
    return built.entries, built.rejected, warm[3 * (len(warm) - 1) // 4]


@contextmanager
def unnamed_file(directory: Path) -> Iterator[int]:
    """Yields the descriptor of a new unlinked file in `directory`, which slapd's account may own. The kernel frees the
    file's blocks even if the process is killed. Raises LoaderError, OSError."""
    with held.scratch(directory, ".ditseed-write-") as scratch:
        descriptor = scratch.create("written")
        scratch.remove("written")
    with held.closing_descriptor(descriptor):
        yield descriptor


def write(data: Path, target: int, most: int, meter: Meter) -> int:
    """Copies up to `most` bytes of `data` to the descriptor `target`, with fsync, like `clone`. Returns the size."""
    facts = meta.read_meta(data)
    size = max(min(facts.used, most) // facts.page_size, 2) * facts.page_size
    copy.plain(data, Path(f"/proc/self/fd/{target}"), bytes(2 * facts.page_size), size, None, meter)
    return size
