"""From the tables of a sample to those of the whole.

Most tables grow with the entries. An index does not: a key that many entries have takes 8 bytes for each, a key of its
own some 26; and a key of more than 65,535 entries becomes a range of three numbers (idlexp). So each index is computed
from how many entries its keys have in the sample. How many keys will be there is what ecologists ask of species: of
those that were met once and twice in so many samples follows how many more there will be in so many others (Chao's
estimator as extrapolated by Colwell et al. 2012, Journal of Plant Ecology 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loader.mdb.contents import IndexCounts, TableSizes

_HEADER, _NODE, _POINTER, _ID, _RECORD = 16, 8, 2, 8, 48  # bytes: mdb.c, page, node, MDB_db
_RANGE = 3  # IDs of a range: 0, first, last


@dataclass(frozen=True)
class TableForecast:
    """`how`: "linear", "by its keys". `sample`: bytes in the sample. `degenerated`: keys that become ranges. `trees`:
    of the bytes, those of trees that the IDs of a key have of their own. `with_tree`: keys that have one."""

    name: str
    sample: int
    bytes: int
    how: str
    degenerated: int = 0
    trees: int = 0
    with_tree: int = 0


@dataclass(frozen=True)
class Forecast:
    """bytes: of the finished file. seconds: of its build. `how`: the sample was taken."""

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
        return max((one.bytes for one in self.tables if one.how == BY_KEYS), default=0)


BY_KEYS, LINEAR = "by its keys", "linear"


@dataclass(frozen=True)
class Growth:
    """`before`: tables of the parents alone; None: there are none. `sampled`: entries that the sample has besides.
    `wanted`: entries that the whole has besides. `longest`: IDs of a key that is no range. `is_added`: to tables that
    are there, with the parents in them."""

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
    """Of each index, id2e, and the rest."""
    indexes = tuple(_index(name, counts, growth) for name, counts in growth.after.indexes.items())
    return (_id2e(growth), _rest(growth), *indexes)


def added(tables: Sequence[TableForecast], more: Sequence[TableForecast]) -> Iterator[TableForecast]:
    """Tables with what other entries add to them."""
    besides = {one.name: one for one in more}
    for one in tables:
        other = besides.pop(one.name, None)
        yield one if other is None else _sum(one, other)
    yield from besides.values()


def _sum(one: TableForecast, other: TableForecast) -> TableForecast:
    return replace(
        one,
        sample=one.sample + other.sample,
        bytes=one.bytes + other.bytes,
        degenerated=one.degenerated + other.degenerated,
        trees=one.trees + other.trees,
        with_tree=one.with_tree + other.with_tree,
    )


def _id2e(growth: Growth) -> TableForecast:
    before = growth.before.own.get("id2e", 0) if growth.before else 0
    return _linear("id2e", before, growth.after.own["id2e"], growth)


def _rest(growth: Growth) -> TableForecast:
    """dn2i above all; a tree that the values of a key have is in nobody's count, so it is what the others leave."""
    before = _remaining(growth.before, growth.longest) if growth.before else 0
    after = _remaining(growth.after, growth.longest)
    if growth.before:  # whose keys are not counted in the indexes of the sample
        after -= _trees(growth.before, growth.longest)
    return _linear("dn2i and others", before, after, growth)


def _remaining(sizes: TableSizes, longest: int) -> int:
    """Pages that are neither id2e's nor an index's."""
    own = sum(sizes.own[name] for name in sizes.indexes)
    return sizes.pages - sizes.own.get("id2e", 0) - own - _trees(sizes, longest)


def _trees(sizes: TableSizes, longest: int) -> int:
    """Pages of all trees that keys of indexes have of their own."""
    return sum(_tree_pages(counts, sizes.page_size, longest) for counts in sizes.indexes.values())


def _linear(name: str, before: int, after: int, growth: Growth) -> TableForecast:
    size = growth.after.page_size
    pages = (0 if growth.is_added else before) + (after - before) * growth.factor
    return TableForecast(name, after * size, round(pages * size), LINEAR)


def _index(name: str, counts: IndexCounts, growth: Growth) -> TableForecast:
    size, longest = growth.after.page_size, growth.longest
    predicted, degenerated = _predicted(counts.keys, growth)
    now = growth.after.own[name] + _tree_pages(counts, size, longest)
    modelled = _pages(counts.keys, counts.key_bytes, size, longest)
    # What the model has of the sample itself, against what is there: parents, half-full last pages.
    fixed = 0.0 if growth.is_added else min(max(0.0, now - modelled), 4.0)
    then = _pages(predicted, counts.key_bytes, size, longest) + fixed
    trees = [(_tree(ids, counts.key_bytes, size, longest), keys) for ids, keys in predicted.items()]
    return TableForecast(
        name,
        now * size,
        round(then * size),
        BY_KEYS,
        degenerated,
        trees=round(sum(pages * keys for pages, keys in trees) * size),
        with_tree=round(sum(keys for pages, keys in trees if pages)),
    )


def _predicted(keys: Mapping[int, int], growth: Growth) -> tuple[dict[float, float], int]:
    """IDs -> keys, of the whole; and how many keys become ranges."""
    many = {ids * growth.factor: float(count) for ids, count in keys.items() if ids > 2}
    degenerated = sum(count for ids, count in many.items() if ids > growth.longest)
    seldom = growth.factor * (keys.get(1, 0) + 2 * keys.get(2, 0))
    if seldom:
        for ids, count in _shared(seldom, _distinct(keys, growth) - sum(many.values())):
            many[ids] = many.get(ids, 0.0) + count
    return many, round(degenerated)


def _shared(ids: float, keys: float) -> Iterator[tuple[float, float]]:
    """IDs among keys, evenly: (IDs of a key, keys). A key with one ID has no page of values, so none has between one
    and two."""
    mean = max(1.0, ids / max(1.0, keys))
    if mean >= 2:
        yield mean, ids / mean
    else:
        number = ids / mean
        yield 1.0, 2 * number - ids
        yield 2.0, ids - number


def _distinct(keys: Mapping[int, int], growth: Growth) -> float:
    """Keys of the whole, at least."""
    once, twice, seen = keys.get(1, 0), keys.get(2, 0), float(sum(keys.values()))
    unseen = once * once / (2 * twice) if twice else once * (once - 1) / 2
    if not once or not unseen:
        return seen
    share = once / (growth.sampled * unseen + once)
    return seen - unseen * math.expm1((growth.wanted - growth.sampled) * math.log1p(-share))


def _pages(keys: Mapping[float, float] | Mapping[int, int], key_bytes: int, page_size: int, longest: int) -> float:
    """Of a table of keys with so many IDs, as the core writes it: full pages."""
    room = page_size - _HEADER
    total = squares = trees = 0.0
    for ids, count in keys.items():
        node = _POINTER + _NODE + key_bytes + _value(ids, key_bytes, page_size, longest)
        total, squares = total + count * node, squares + count * node * node
        trees += count * _tree(ids, key_bytes, page_size, longest)
    if not total:
        return trees
    leaves = total / (room - squares / total / 2)
    return leaves + leaves * (_POINTER + _NODE + key_bytes) / room + trees


def _value(ids: float, key_bytes: int, page_size: int, longest: int) -> float:
    if ids > longest:
        return _HEADER + _RANGE * _ID
    if _has_tree(ids, key_bytes, page_size):
        return _RECORD
    return _HEADER + ids * _ID if ids > 1 else _ID


def _has_tree(ids: float, key_bytes: int, page_size: int) -> bool:
    """A node takes half a page at most."""
    largest = (page_size - _HEADER) // 2 - _POINTER
    return _NODE + key_bytes + _HEADER + ids * _ID > largest


def _tree(ids: float, key_bytes: int, page_size: int, longest: int) -> float:
    """Pages of the tree that the IDs of a key have of their own."""
    if ids > longest or not _has_tree(ids, key_bytes, page_size):
        return 0
    leaves = math.ceil(ids * _ID / (page_size - _HEADER))
    return leaves if leaves == 1 else leaves + math.ceil(leaves * 18 / (page_size - _HEADER))


def _tree_pages(counts: IndexCounts, page_size: int, longest: int) -> int:
    """Of all keys of an index as it is."""
    told = (count * _tree(ids, counts.key_bytes, page_size, longest) for ids, count in counts.keys.items())
    return round(sum(told))
