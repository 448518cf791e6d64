"""What the indexes of a database cost, which of them searches use, and which ones searches lack.

The searches come from slapd's log or from files of filters. Bytes and keys of each table are read from the file. What
the file does not tell is reckoned from builds of a sample of the entries: of a table that several kinds share, what
each kind takes; of the time of a load, which part each table takes; and what a table would take that is not there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from loader import backmdb, indexes, units
from loader.backmdb import Settings
from loader.config import Database
from loader.errors import EmptyInput, NotProven, UsageProblem
from loader.indexes import Index
from loader.mdb import contents, meta
from loader.operations import sizing
from loader.operations.build import native
from loader.operations.sizing import TableForecast
from loader.operations.tune.target import Target
from loader.progress import Meter, Progress
from loader.sinks.mdb import Target as BuildTarget
from loader.sources import sampling, selection
from loader.sources.sampling import Sample, SampleSize
from loader.sources.selection import SearchesFound, SearchGroup
from loader.storage import files

_SYNC = frozenset(name.lower() for name in indexes.SYNC)
_ROUNDS = 3  # builds of which the fastest counts, for the first ones meet a host that does other things, too
_LISTS = 30  # idlexp: every entry of a key counts, also if the key becomes a range
_SAMPLE = SampleSize(10_000, 0.0)
_LOADED = SampleSize(50_000, 0.0)  # in fewer entries keys have fewer of them than in a whole load
_WHAT = "what each index takes of a load, and each kind of a table,"


@dataclass(frozen=True)
class Asked:
    """Where the searches come from: `logs` of slapd, and files of `filters`."""

    logs: Annotated[
        tuple[Path, ...],
        "--stats-log FILE",
        "slapd's log (loglevel stats), compressed or not, several times if need be: shows which indexes its searches "
        "use, which searches have none, and what an index for them would take.",
    ] = ()
    filters: Annotated[
        tuple[Path, ...], "--filters FILE", "The same for a file with a search filter on each line."
    ] = ()

    def __bool__(self) -> bool:
        return bool(self.logs or self.filters)


@dataclass(frozen=True)
class IndexUse:
    """How many of the searches use one kind of one index."""

    attribute: str
    kind: str
    searches: int
    needed_for_sync: bool


@dataclass(frozen=True)
class Unindexed:
    """Searches that look at every entry in their scope. `entries` and `seconds`: of each, on average; None where the
    log does not tell."""

    filter: str
    searches: int
    lacking: tuple[str, ...]
    entries: float | None
    seconds: float | None


@dataclass(frozen=True)
class Proposal:
    """An index, the searches that lack it, the seconds they took, and what its table would take (bytes; None where that
    is not known)."""

    index: str
    searches: int
    seconds: float
    bytes: int | None


@dataclass(frozen=True)
class Usage:
    """`searches`: all that are of this database but for those of a single entry by its DN (`of_base`)."""

    suffix: str
    searches: int
    of_base: int
    indexes: tuple[IndexUse, ...]
    unindexed: tuple[Unindexed, ...]
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]


def usage(target: Target, database: Database, asked: Asked, progress: Progress) -> Usage:
    """Raises NotProven, NoSuchPath, NotPermitted, ConfigUnreadable."""
    for path in (*asked.logs, *asked.filters):
        files.require_readable(path)
    with progress.step("searches") as meter:
        found = selection.read(target.config, database, asked.logs, asked.filters, meter)
    groups = [one for part in found for one in part.groups]
    proposed = dict(_proposed(groups))
    prices, unpriced = _prices(target, database, list(proposed), progress)
    by_searches = sorted(proposed.items(), key=lambda one: (-one[1][0], one[0]))
    return Usage(
        suffix=database.suffix,
        searches=sum(one.searches for one in groups),
        of_base=sum(part.of_base for part in found),
        indexes=tuple(_uses(backmdb.settings(target.config, database), groups)),
        unindexed=tuple(_unindexed(groups)),
        proposals=tuple(
            Proposal(" ".join(index), count, seconds, prices.get(index[0].lower()))
            for index, (count, seconds) in by_searches
        ),
        notes=(*_search_notes(found, groups), *unpriced),
    )


def _uses(settings: Settings, groups: Sequence[SearchGroup]) -> Iterator[IndexUse]:
    """Every kind that is configured, those that no search uses among them."""
    used = Counter[tuple[str, str]]()
    for group in groups:
        for attribute, kind in group.used:
            used[attribute.lower(), kind] += group.searches
    for attribute, kinds in settings.indexes:
        key = attribute.lower()
        for kind in kinds:
            yield IndexUse(attribute, kind, used[key, kind], kind == "eq" and key in _SYNC)


def _unindexed(groups: Sequence[SearchGroup]) -> Iterator[Unindexed]:
    """Those that cost most come first."""
    without = (one for one in groups if not one.indexed)
    for one in sorted(without, key=lambda one: (-one.seconds, -one.searches, one.filter)):
        yield Unindexed(
            one.filter,
            one.searches,
            tuple(map(" ".join, one.lacking)),
            one.entries / one.answered if one.answered else None,
            one.seconds / one.answered if one.seconds else None,
        )


def _proposed(groups: Sequence[SearchGroup]) -> Iterator[tuple[tuple[str, str], tuple[int, float]]]:
    lacking: dict[tuple[str, str], list[SearchGroup]] = {}
    for group in groups:
        if not group.indexed:
            for index in group.lacking:
                lacking.setdefault(index, []).append(group)
    for index, of_it in lacking.items():
        yield index, (sum(one.searches for one in of_it), sum(one.seconds for one in of_it))


def _prices(
    target: Target, database: Database, wanted: Sequence[tuple[str, str]], progress: Progress
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Bytes of each attribute's table, by a build of a sample with these indexes: where the database is on this host.
    And a note, where the core does not build such a one."""
    directory = database.directory if target.local else None
    if not wanted or directory is None or not (directory / meta.DATA).exists():
        return {}, ()
    present = indexes.parse(database.indexes)
    lines = map(str, indexes.added(present, map(" ".join, wanted)).values())
    asked = replace(database, indexes=tuple(lines))
    try:
        with progress.step("sample") as meter:
            sample = sampling.of_database(directory, SampleSize(), meter)
        with progress.step("build") as meter:
            found = sizing.forecast(sample, native.sample_target(target.config, asked), meter, timed=0.0)
    except (NotProven, EmptyInput) as error:
        return {}, (f"what their tables would take is not known: {error}",)
    return {one.name.lower(): one.bytes for one in found.tables}, ()


def _search_notes(found: Sequence[SearchesFound], groups: Sequence[SearchGroup]) -> Iterator[str]:
    if sum(one.lines for one in found) and not groups:
        yield "no search of this database is among them: does slapd log with loglevel stats?"
    for count, words in (
        (sum(one.elsewhere for one in found), "are of other databases"),
        (sum(one.unreadable for one in found), "have filters that cannot be read"),
        (sum(one.others for one in found), "are left out: too many different filters"),
    ):
        if count:
            yield f"{units.number(count)} of the searches {words}"
    short = [one.filter for one in groups if not one.indexed and not one.lacking]
    if short:
        yield (
            f"no index serves {short[0]}"
            + (f" and {len(short) - 1} more" if len(short) > 1 else "")
            + ": a NOT, a substring too short for index_substr_if_minlen or index_substr_any_len, or objectClass=*"
        )


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


def costs(target: Target, database: Database, use: Usage | None, progress: Progress) -> Costs:
    """Those that no search uses come first, then those that cost most.

    Raises UsageProblem if the files are not on this host, NoSuchPath, NotPermitted, MdbDamaged, MdbProtected.
    """
    if not target.local or database.directory is None:
        raise UsageProblem(reason="--costs reads the database's files: give the command on the server's host")
    with progress.step("indexes") as meter:
        found = contents.index_costs(database.directory, meter)
    configured = _by_table(database)
    kinds, of_load, reckoned = _reckoned(target, database, found, configured, progress)
    unused = _unused(use) if use is not None and use.searches else None

    def cost(table: contents.IndexCost) -> IndexCost:
        key, size = table.name.lower(), table.pages * found.page_size
        of_table = configured.get(key, ())
        named = kinds_of(of_table)
        sizes = kinds.get(key, [size] if len(named) == 1 else [None] * len(named))
        return IndexCost(
            attribute=table.name,
            indexes=tuple(map(str, of_table)),
            bytes=size,
            share=table.pages / found.pages,
            keys=table.keys,
            records=table.records,
            ranges=table.ranges,
            presence=table.presence,
            unused=None if unused is None else tuple(_to_remove(of_table, unused)),
            kinds=tuple(
                KindCost(kind.name, part, None if unused is None else kind.key in unused)
                for kind, part in zip(named, sizes, strict=True)
            ),
            of_load=of_load.get(key),
        )

    return Costs(
        suffix=database.suffix,
        used=found.pages * found.page_size,
        idlexp=backmdb.idlexp(target.config),
        reckoned=reckoned,
        tables=tuple(sorted(map(cost, found.tables), key=lambda one: (not one.is_unused, -one.bytes))),
    )


def _reckoned(
    target: Target,
    database: Database,
    found: contents.IndexCosts,
    configured: Mapping[str, Sequence[Index]],
    progress: Progress,
) -> tuple[Mapping[str, Sequence[int]], Mapping[str, float], str | None]:
    """From builds of a sample of the entries, by table (in lower case): the bytes of each kind if several share it, and
    its part of a load. And what that follows from, or why it is not known."""
    if not configured or database.directory is None:
        return {}, {}, None
    shared = {}
    for table in found.tables:
        kinds = kinds_of(configured.get(table.name.lower(), ()))
        if len(kinds) > 1 and table.pages:
            trees = table.tree_pages * found.page_size
            shared[table.name.lower()] = SharedTable(kinds, table.pages * found.page_size - trees, trees)
    try:
        with progress.step("sample") as meter:
            sample = sampling.of_database(database.directory, _SAMPLE, meter)
        with progress.step("kinds") as meter:
            bytes_of_kinds = bytes_of(target, database, shared, sample, meter)
        with progress.step("load") as meter:
            loaded = sampling.of_database(database.directory, _LOADED, meter)
            of_load = shares(target, database, loaded, meter)
    except (NotProven, EmptyInput) as error:
        return {}, {}, f"{_WHAT} is not known: {error}"
    of_kinds, of_loads, of = map(units.number, (len(sample.names), len(loaded.names), sample.total))
    said = f"each kind of a table is reckoned from {of_kinds}, and what each index takes of a load from {of_loads}"
    return bytes_of_kinds, of_load, f"{said}, of {of} entries"


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
    kinds: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for index in configured:
        for word in index.kinds:
            if kind := backmdb.kind_of(index.attribute, word):
                kinds.setdefault((index.key, kind), (index.attribute, []))[1].append(word)
    return [IndexKind(f"{attribute} {','.join(words)}", key) for key, (attribute, words) in kinds.items()]


def bytes_of(
    target: Target, database: Database, shared: Mapping[str, SharedTable], sample: Sample, meter: Meter
) -> dict[str, list[int]]:
    """Of each kind, table by table (in lower case). Most keys are hashes, so the file does not tell of which kind a key
    is: the sample is built for each kind alone, and the table divided as those tables would be. Raises NotProven,
    EmptyInput."""
    alone: dict[str, list[TableForecast]] = {name: [] for name in shared}
    for row in zip_longest(*(table.kinds for table in shared.values())):  # of each table one kind, until none is left
        kinds = {name: kind for name, kind in zip(shared, row, strict=True) if kind is not None}
        asked = replace(database, indexes=tuple(kind.name for kind in kinds.values()))
        found = sizing.forecast(sample, native.sample_target(target.config, asked), meter, timed=0.0)
        tables = {one.name.lower(): one for one in found.tables}
        for name in kinds:
            alone[name].append(tables[name])
    return {name: list(_divided(table, alone[name])) for name, table in shared.items()}


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


def shares(target: Target, database: Database, sample: Sample, meter: Meter) -> dict[str, float]:
    """The part of the processor time of a load that each index takes, from 0 to 1, by its table's name in lower case.
    Raises NotProven, EmptyInput.

    A sample is built with all indexes and with none. The difference is divided by keys, each entry of a key counted: to
    make a key and to sort it takes about as long for any index. Keys that become ranges in the whole database, whose
    entries are not written one by one then, are ranges in the sample, too.
    """
    given = native.sample_target(target.config, database)
    none = native.sample_target(target.config, replace(database, indexes=()))
    timed = [_with_idlexp(given, _scaled(given.settings.idlexp, sample)), none]
    all_of_them, without = sizing.costs(sample, timed, meter, _ROUNDS)
    (counted,) = sizing.costs(sample, [_with_idlexp(given, _LISTS)], meter, 1)
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
