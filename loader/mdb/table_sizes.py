"""How large the tables of a database are, and how many IDs the keys of its indexes have. Read in a process apart."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader.mdb import isolated, meta, names
from loader.mdb.environment import Environment, Handle, opened, require_table, table

_ID = struct.Struct("=Q")


@dataclass(frozen=True)
class IndexCounts:
    """`keys`: number of IDs -> keys of the index that have so many. `key_bytes`: of a key."""

    keys: dict[int, int]
    key_bytes: int


@dataclass(frozen=True)
class TableSizes:
    """Of a data file. `own`: table -> its pages, without those of the trees that its values have of their own, which
    LMDB does not count. `indexes`: without what a second file has, too."""

    pages: int
    page_size: int
    own: dict[str, int]
    indexes: dict[str, IndexCounts]


def read(place: Path, without: Path | None = None) -> TableSizes:
    """Of a database that nobody writes to. `without`: one whose entries are among those of the first; what its index
    keys have is taken off."""
    facts = meta.read_meta(place)
    own, counted = _read(place, str(without) if without else None)
    indexes = {
        name: IndexCounts({int(ids): keys for ids, keys in counts}, key_bytes)
        for name, (counts, key_bytes) in counted.items()
    }
    return TableSizes(facts.pages, facts.page_size, own, indexes)


def of_tables(place: Path) -> dict[str, int]:
    """Table -> its bytes, as `TableSizes.own` has its pages: at once, however large the database is."""
    page_size = meta.read_meta(place).page_size
    return {name: pages * page_size for name, pages in _read_own(place).items()}


@isolated.isolated
def _read_own(place: Path) -> dict[str, int]:
    return _own_pages(place)


Counted = tuple[list[tuple[int, int]], int]


@isolated.isolated
def _read(place: Path, without: str | None) -> tuple[dict[str, int], dict[str, Counted]]:
    indexed = names.indexed(place)
    base = {name: _counts(Path(without), [name])[name] for name in indexed} if without else {}
    own = _own_pages(place)
    counted = {}
    for name, counts in _counts(place, indexed).items():
        less = base.get(name, {})
        left = Counter(
            ids - less.get(key, 0) for key, ids in counts.items() if ids > less.get(key, 0)
        )
        counted[name] = (sorted(left.items()), len(next(iter(counts), b"\0" * 4)))
    return own, counted


def _own_pages(place: Path) -> dict[str, int]:
    with opened(place) as environment:
        with environment.begin() as transaction:
            found = [bytes(key).rstrip(b"\0").decode() for key, _ in transaction.cursor()]
        handles = {name: require_table(environment, name) for name in found}
        with environment.begin() as transaction:
            return {name: _pages(transaction.stat(handle)) for name, handle in handles.items()}


def _pages(told: dict[str, int]) -> int:
    return told["branch_pages"] + told["leaf_pages"] + told["overflow_pages"]


def _counts(place: Path, wanted: Sequence[str]) -> dict[str, dict[bytes, int]]:
    with opened(place) as environment:
        handles = {name: table(environment, name) for name in wanted}
        return {
            name: dict(_keys(environment, handle)) if handle is not None else {}
            for name, handle in handles.items()
        }


def _keys(environment: Environment, handle: Handle) -> Iterator[tuple[bytes, int]]:
    """Key and number of its IDs. A range is stored as 0, its first and its last ID."""
    with environment.begin() as transaction, transaction.cursor(handle) as cursor:
        for key, value in cursor.iternext_nodup(keys=True, values=True):
            count = cursor.count()
            if count == 3 and value == bytes(8):
                ids = [_ID.unpack(one)[0] for one in cursor.iternext_dup()]
                count = ids[2] - ids[1] + 1
            yield bytes(key), count
