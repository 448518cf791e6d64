"""What each kind of an index takes of a table that several share.

Most keys are hashes, so the file does not tell of which kind a key is. So the core builds a sample of the entries once
for each kind, with that kind alone, and what the table takes is divided as those tables would be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest

from loader import backmdb, indexes, units
from loader.config import Database
from loader.errors import EmptyInput, NotProven, UsageProblem
from loader.indexes import Index
from loader.mdb import contents
from loader.operations.sizing import sampled
from loader.operations.sizing.model import TableForecast
from loader.operations.tune import forecast
from loader.operations.tune.index_use import Usage
from loader.operations.tune.target import Target
from loader.progress import Meter, Progress
from loader.server import configuration
from loader.sinks.mdb import Target as BuildTarget
from loader.sources import sampling
from loader.sources.sampling import Sample, SampleSize
from loader.storage import temporary


@dataclass(frozen=True)
class IndexKind:
    """One kind of an index. `name`: in the words of --remove. `key`: attribute in lower case, and kind."""

    name: str
    key: tuple[str, str]


@dataclass(frozen=True)
class SharedTable:
    """`own`: bytes of its tree. `trees`: of the trees that the IDs of keys have."""

    kinds: Sequence[IndexKind]
    own: int
    trees: int


def kinds_of(configured: Iterable[Index]) -> list[IndexKind]:
    """Of a table's indexes. Words that change searches alone are no kind, and words for the same keys are one."""
    return [
        IndexKind(f"{index.attribute} {','.join(words)}", (index.key, kind))
        for index in configured
        for kind, words in _by_kind(index).items()
    ]


def _by_kind(index: Index) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in index.kinds:
        if kind := backmdb.kind_of(index.attribute, word):
            found.setdefault(kind, []).append(word)
    return found


def bytes_of(
    target: Target, database: Database, shared: Mapping[str, SharedTable], sample: Sample, meter: Meter
) -> dict[str, list[int]]:
    """Of each kind, table by table (in lower case). Raises NotProven, EmptyInput."""
    alone: dict[str, list[TableForecast]] = {name: [] for name in shared}
    for kinds in _rounds(shared):
        lines = tuple(kind.name for kind in kinds.values())
        asked = replace(database, indexes=lines)
        found = forecast.of_sample(target.config, asked, sample, meter, timed=0.0)
        tables = {one.name.lower(): one for one in found.tables}
        for name in kinds:
            alone[name].append(tables[name])
    return {name: list(_divided(table, alone[name])) for name, table in shared.items()}


def _rounds(shared: Mapping[str, SharedTable]) -> Iterator[dict[str, IndexKind]]:
    """Of each table one kind, until all had their turn."""
    for kinds in zip_longest(*(table.kinds for table in shared.values())):
        yield {name: kind for name, kind in zip(shared, kinds, strict=True) if kind is not None}


def _divided(table: SharedTable, alone: Sequence[TableForecast]) -> Iterator[int]:
    """slapd leaves the pages of keys, which come in no order, ln 2 full; and where the IDs of a key moved from its page
    into a tree, a page that is nearly empty. The pages of IDs, which ascend, are full."""
    full = [one.bytes - one.trees for one in alone]
    loose = min(table.own, round(sum(full) / math.log(2)))
    keys = _portions(loose, full)
    emptied = _portions(table.own - loose, [one.with_tree for one in alone])
    trees = _portions(table.trees, [one.trees for one in alone])
    return (round(sum(parts)) for parts in zip(keys, emptied, trees, strict=True))


def _portions(size: int, weights: Sequence[int]) -> list[float]:
    total = sum(weights)
    return [size * weight / total if total else size / len(weights) for weight in weights]


# --- index times -----------------------------------------------------------------------------------------------------
#
# Which part of the time of a load each index takes.
#
# The core builds a sample of the entries with all indexes and with none. What the one takes more is divided among the
# indexes by their keys, each entry of a key counted: to make a key and to sort it takes about as long for any index.
# Processor time is compared, which depends least on what else the host does. Keys that become ranges in the whole
# database, whose entries are not written one by one then, are ranges in the sample, too.


_ROUNDS = 3  # the least of so many: the first ones are those of a host that does other things, too
_LISTS = 30  # idlexp: every entry of a key counts, also where the key becomes a range


def shares(target: Target, database: Database, sample: Sample, meter: Meter) -> dict[str, float]:
    """Of each table of an index, from 0 to 1, by its name in lower case. Raises NotProven, EmptyInput."""
    given = forecast.target_of(target.config, database)
    none = forecast.target_of(target.config, replace(database, indexes=()))
    timed = [_with_idlexp(given, _scaled(given.settings.idlexp, sample)), none]
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        all_of_them, without = sampled.costs(sample, timed, scratch, meter, _ROUNDS)
        (counted,) = sampled.costs(sample, [_with_idlexp(given, _LISTS)], scratch, meter, 1)
    keys = {name: count for name, count in counted.tables.items() if name not in without.tables}
    part = max(0.0, 1 - without.processor / all_of_them.processor)
    total = sum(keys.values())
    return {name.lower(): part * count / total if total else 0.0 for name, count in keys.items()}


def _with_idlexp(given: BuildTarget, idlexp: int) -> BuildTarget:
    return replace(given, settings=replace(given.settings, idlexp=idlexp))


def _scaled(idlexp: int, sample: Sample) -> int:
    """A key is a range in the sample from as large a share of the entries on as in the whole."""
    sampled, total = len(sample.names), max(1, sample.total)
    return max(1, idlexp + round(math.log2(min(1.0, max(1, sampled) / total))))


# --- index costs -----------------------------------------------------------------------------------------------------
#
# What the indexes of a database cost, table by table, and which of them no search uses.


_SAMPLE = SampleSize(10_000, 0.0)
_LOADED = SampleSize(50_000, 0.0)  # in fewer entries keys have fewer of them than in a whole load
_WHAT = "what each index takes of a load, and each kind of a table,"


@dataclass(frozen=True)
class KindCost:
    """One kind of an index, `index` in the words of --remove. `bytes`: of its keys; None where it is not known what it
    takes of a table that it shares. `unused`: as in `IndexCost`."""

    index: str
    bytes: int | None
    unused: bool | None


@dataclass(frozen=True)
class IndexCost:
    """The table of an attribute, which all kinds of its index share.

    `indexes`: as configured; none where the table is left of an earlier configuration. `share`: of the file in use.
    `records`: each is an ID, or one of the three of a range. `ranges`: keys that have become one. `presence`: records
    of the key of a presence index. `unused`: what no search uses of `indexes`, in the words of --remove; None where no
    searches are known. `kinds`: of these indexes. `of_load`: which part of the processor time of a load it takes, where
    that is known.
    """

    attribute: str
    indexes: tuple[str, ...]
    bytes: int
    share: float
    keys: int
    records: int
    ranges: int
    presence: int
    unused: tuple[str, ...] | None
    kinds: tuple[KindCost, ...]
    of_load: float | None

    @property
    def is_unused(self) -> bool:
        """No search uses anything of it."""
        names = {name.partition(" ")[0] for name in self.indexes}
        return bool(self.indexes) and set(self.unused or ()) == names


@dataclass(frozen=True)
class Costs:
    """`used`: bytes of the file. `idlexp`: up to 2^idlexp - 1 IDs of a key are a list. `reckoned`: what the bytes of
    kinds that share a table, and the parts of a load, are reckoned from, or why they are not known."""

    suffix: str
    used: int
    idlexp: int
    reckoned: str | None
    tables: tuple[IndexCost, ...]


@dataclass(frozen=True)
class _Reckoned:
    """Table by table, in lower case: bytes of each kind where several share it, and its part of a load."""

    kinds: Mapping[str, Sequence[int]]
    of_load: Mapping[str, float]
    said: str | None


def costs(target: Target, database: Database, use: Usage | None, progress: Progress) -> Costs:
    """Those that no search uses come first, then those that cost most.

    Raises UsageProblem where the files are not on this host, NoSuchPath, NotPermitted, MdbDamaged, MdbProtected.
    """
    if not target.local or database.directory is None:
        raise UsageProblem(reason="--costs reads the database's files: give the command on the server's host")
    with progress.step("indexes") as meter:
        found = contents.index_costs(database.directory, meter)
    configured = _by_table(database)
    reckoned = _reckoned(target, database, found, configured, progress)
    unused = _unused(use) if use is not None and use.searches else None
    tables = [_cost(found, one, configured, reckoned, unused) for one in found.tables]
    return Costs(
        suffix=database.suffix,
        used=found.pages * found.page_size,
        idlexp=backmdb.idlexp(target.config),
        reckoned=reckoned.said,
        tables=tuple(sorted(tables, key=lambda one: (not one.is_unused, -one.bytes))),
    )


def _cost(
    found: contents.IndexCosts,
    table: contents.IndexCost,
    configured: Mapping[str, Sequence[Index]],
    reckoned: _Reckoned,
    unused: Set[tuple[str, str]] | None,
) -> IndexCost:
    key = table.name.lower()
    indexes = configured.get(key, ())
    named = kinds_of(indexes)
    alone = [table.pages * found.page_size] if len(named) == 1 else [None] * len(named)
    return IndexCost(
        attribute=table.name,
        indexes=tuple(map(str, indexes)),
        bytes=table.pages * found.page_size,
        share=table.pages / found.pages,
        keys=table.keys,
        records=table.records,
        ranges=table.ranges,
        presence=table.presence,
        unused=None if unused is None else tuple(_to_remove(indexes, unused)),
        kinds=tuple(
            KindCost(one.name, size, None if unused is None else one.key in unused)
            for one, size in zip(named, reckoned.kinds.get(key, alone), strict=True)
        ),
        of_load=reckoned.of_load.get(key),
    )


def _reckoned(
    target: Target,
    database: Database,
    found: contents.IndexCosts,
    configured: Mapping[str, Sequence[Index]],
    progress: Progress,
) -> _Reckoned:
    """From builds of a sample of the entries."""
    shared = dict(_shared(found, configured))
    if not configured or database.directory is None:
        return _Reckoned({}, {}, None)
    try:
        with progress.step("sample") as meter:
            sample = sampling.of_database(database.directory, _SAMPLE, meter)
        with progress.step("kinds") as meter:
            kinds = bytes_of(target, database, shared, sample, meter)
        with progress.step("load") as meter:
            loaded = sampling.of_database(database.directory, _LOADED, meter)
            of_load = shares(target, database, loaded, meter)
    except (NotProven, EmptyInput) as error:
        return _Reckoned({}, {}, f"{_WHAT} is not known: {error}")
    kinds_of, load_of, of = map(units.number, (len(sample.names), len(loaded.names), sample.total))
    said = f"each kind of a table is reckoned from {kinds_of}, and what each index takes of a load from {load_of}"
    return _Reckoned(kinds, of_load, f"{said}, of {of} entries")


def _shared(found: contents.IndexCosts, configured: Mapping[str, Sequence[Index]]) -> Iterator[tuple[str, SharedTable]]:
    for table in found.tables:
        key = table.name.lower()
        kinds = kinds_of(configured.get(key, ()))
        if len(kinds) > 1 and table.pages:
            trees = table.tree_pages * found.page_size
            yield key, SharedTable(kinds, table.pages * found.page_size - trees, trees)


def _by_table(database: Database) -> dict[str, list[Index]]:
    """In lower case. A table has the name of the attribute type, as slapd's tools show it: `cn;lang-de` shares cn's."""
    found: dict[str, list[Index]] = {}
    for index in indexes.configured(database.indexes).values():
        found.setdefault(index.key.partition(";")[0], []).append(index)
    return found


def _unused(use: Usage) -> set[tuple[str, str]]:
    """Attribute in lower case and kind."""
    return {(one.attribute.lower(), one.kind) for one in use.indexes if not one.searches and not one.needed_for_sync}


def _to_remove(configured: Iterable[Index], unused: Set[tuple[str, str]]) -> Iterator[str]:
    """In the words of --remove."""
    for index in configured:
        kinds = [kind for kind in index.kinds if backmdb.kind_of(index.attribute, kind)]
        gone = [kind for kind in kinds if (index.key, backmdb.kind_of(index.attribute, kind)) in unused]
        if gone == kinds:
            yield index.attribute
        elif gone:
            yield f"{index.attribute} {','.join(gone)}"
