"""What each kind of an index takes of a table that several share.

Most keys are hashes, so the file does not tell of which kind a key is. So the core builds a sample of the entries once
for each kind, with that kind alone, and what the table takes is divided as those tables would be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from loader import backmdb
from loader.config import Database
from loader.indexes import Index
from loader.operations.sizing.model import TableForecast
from loader.operations.tune import forecast
from loader.operations.tune.target import Target
from loader.progress import Meter
from loader.sources.sampling import Sample


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
    target: Target,
    database: Database,
    shared: Mapping[str, SharedTable],
    sample: Sample,
    meter: Meter,
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
