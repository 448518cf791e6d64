"""What is in a database: entries, suffixes, contextCSN, tables and indexes, read by the native core from a snapshot.

A running provider writes its contextCSN only at checkpoints and when it stops, so a copy of its database holds an old
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, csn, dn
from loader._native import Contents, IndexCost, IndexCosts, TableRecord
from loader.errors import NotLmdb
from loader.ldif import with_counters
from loader.mdb import meta, snapshot
from loader.progress import Meter

__all__ = ["Contents", "IndexCost", "IndexCosts"]

CONTEXT, ENTRY = "contextCSN", "entryCSN"
ENTRIES = "id2e"
_NO_INDEXES = {"ad2i", "dn2i", "id2e", "id2v", "ixck"}
_FEW = 5000  # entries that a look at a live server reads: a quarter of a second


@contextmanager
def reading(place: Path) -> Iterator[Contents]:
    """The present snapshot of an environment directory, in use or not, or of a data file that nobody writes to.

    Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath, LockUnheeded.
    """
    with snapshot.held(place, clears=False) as held, meta.explained(meta.data_file(place), held.path):
        yield Contents(held.path, txn=held.txn)


def _table(tables: dict[str, TableRecord], name: str, place: Path) -> TableRecord:
    if name not in tables:
        raise NotLmdb(path=place, reason=f"it has no table {name}")
    return tables[name]


def row_counts(place: Path, names: Sequence[str]) -> list[int]:
    """Records of tables that every database has."""
    with reading(place) as contents:
        tables = contents.tables
    return [_table(tables, name, place).entries for name in names]


def entry_count(place: Path) -> int:
    """Records of id2e; a parent that was never added is one, too."""
    return row_counts(place, (ENTRIES,))[0]


def attributes(place: Path) -> list[str]:
    """Attribute descriptions that entries in the database use, as the schema spells them."""
    with reading(place) as contents:
        _table(contents.tables, "ad2i", place)
        return list(contents.attributes().values())


def number_of(contents: Contents, name: str) -> int | None:
    """The number of an attribute description in ad2i; None before its first use."""
    names = contents.attributes().items()
    return next((number for number, text in names if text.lower() == name.lower()), None)


# --- suffixes and contextCSN ------------------------------------------------------------------------


def suffix_id(contents: Contents, suffix: str | None) -> int | None:
    """The entry ID of a suffix (None: of the only one); None if there is no such entry. The entry of the empty DN
    (`suffix ""`) is the invisible root of dn2i itself."""
    is_root = suffix is None or dn.key(suffix) == ""
    if is_root and contents.values(0, "objectClass") is not None:
        return 0
    suffixes = contents.suffixes()
    if suffix is None:
        return suffixes[0][1] if len(suffixes) == 1 else None
    return next((number for name, number in suffixes if dn.key(name) == dn.key(suffix)), None)


def ordered(csns: Iterable[str]) -> list[str]:
    """As slapadd -w writes them: ascending by server ID."""
    return sorted(csns, key=lambda text: (csn.server_id(text) or "", text))


def context_csns(place: Path, suffix: str | None = None) -> list[str]:
    """contextCSN values of a suffix entry, ascending by server ID; empty when it has none."""
    with reading(place) as contents:
        return _context_csns(contents, suffix, place)


def _context_csns(contents: Contents, suffix: str | None, place: Path) -> list[str]:
    _table(contents.tables, ENTRIES, place)
    owner = suffix_id(contents, suffix)
    values = None if owner is None else contents.values(owner, CONTEXT)
    return ordered(value.decode("ascii", "replace") for value in values or ())


def newest_csns(place: Path, suffix: str | None = None, whole: bool = True, most: int | None = None) -> dict[str, str]:
    """The greatest CSN of each server ID: of the stored contextCSN and of the entries changed since it was stored.

    Goes back through the entryCSN index, or through all entries where there is none. Never too great; a change of
    another server that arrived late can be overlooked, then syncrepl sends it once more. Without a contextCSN to stop
    at, all entries are read (minutes for ten millions), or with `whole=False` those of the last second. With the
    index, at most `most` entries are read, those with the highest IDs of the newest seconds: a database that was
    loaded at once may have all of its entries in one second, and the last ones loaded are the newest.
    """
    with reading(place) as contents:
        return _newest(contents, _context_csns(contents, suffix, place), whole, most)


def _newest(contents: Contents, stored: list[str], whole: bool, most: int | None) -> dict[str, str]:
    known = csn.by_server(stored)
    stop = max(known.values(), default=None if whole else "99")
    return csn.by_server((*known.values(), *contents.newest_csns(stop, most)))


@dataclass(frozen=True)
class DatabaseSummary:
    """contextCSN as stored, and the newest CSNs known, each ascending by server ID."""

    entries: int
    suffixes: tuple[str, ...]
    context_csns: tuple[str, ...]
    newest_csns: tuple[str, ...]


def summarise(place: Path, suffix: str | None = None, newest: bool = True) -> DatabaseSummary:
    """Of an environment directory (a live one too) or data file. The newest CSNs are read only with an index of
    entryCSN and from a few entries, so that it takes no minutes; without `newest` there are none.

    Raises what `reading` does.
    """
    with reading(place) as contents:
        tables = contents.tables
        stored = _context_csns(contents, suffix, place)
        found = _newest(contents, stored, False, _FEW) if newest and ENTRY in tables else {}
        return DatabaseSummary(
            _table(tables, ENTRIES, place).entries,
            tuple(name for name, _ in contents.suffixes()),
            tuple(stored),
            tuple((ordered(found.values()) or stored) if newest else ()),
        )


def probe(place: Path) -> None:
    """Reads the first and the last record of every table. Raises what `reading` does."""
    with reading(place) as contents:
        contents.probe()


# --- tables and indexes ----------------------------------------------------------------------------


def _indexes(tables: dict[str, TableRecord]) -> dict[str, TableRecord]:
    return {name: record for name, record in tables.items() if name not in _NO_INDEXES}


def indexes(place: Path) -> dict[str, int]:
    """Attribute type -> records of its index table, which may be none; nothing where there is no database yet."""
    if not meta.data_file(place).exists():
        return {}
    with reading(place) as contents:
        return {name: record.entries for name, record in _indexes(contents.tables).items()}


def table_bytes(place: Path) -> dict[str, int]:
    """Table -> its bytes, without those of the trees that its values have of their own, which LMDB does not count."""
    page_size = meta.read_meta(place).page_size
    with reading(place) as contents:
        return {name: record.pages * page_size for name, record in contents.tables.items()}


@dataclass(frozen=True)
class IndexCounts:
    """`keys`: number of IDs -> keys of the index that have so many. `key_bytes`: of a key."""

    keys: dict[int, int]
    key_bytes: int


@dataclass(frozen=True)
class TableSizes:
    """Of a data file. `own`: table -> its pages, as `table_bytes` counts. `indexes`: without what a second file has."""

    pages: int
    page_size: int
    own: dict[str, int]
    indexes: dict[str, IndexCounts]


def table_sizes(place: Path, without: Path | None = None) -> TableSizes:
    """Of a database that nobody writes to. `without`: one whose entries are among those of the first; what its index
    keys have is taken off."""
    facts = meta.read_meta(place)
    with reading(place) as contents:
        own = {name: record.pages for name, record in contents.tables.items()}
        counts = {name: dict(contents.index_counts(name)) for name in _indexes(contents.tables)}
    less: dict[str, dict[bytes, int]] = {}
    if without:
        with reading(without) as contents:
            known = contents.tables
            less = {name: dict(contents.index_counts(name)) for name in counts if name in known}
    return TableSizes(
        facts.pages, facts.page_size, own, {name: _counted(keys, less.get(name, {})) for name, keys in counts.items()}
    )


def _counted(keys: dict[bytes, int], less: dict[bytes, int]) -> IndexCounts:
    counts = Counter(ids - less.get(key, 0) for key, ids in keys.items() if ids > less.get(key, 0))
    return IndexCounts(dict(sorted(counts.items())), len(next(iter(keys), bytes(4))))


def index_costs(place: Path, meter: Meter) -> IndexCosts:
    """What the indexes of one snapshot of an environment directory take. Raises what `reading` does."""
    path = meta.data_file(place)
    with snapshot.held(place) as held, with_counters(meter, str(path)) as counters, meta.explained(path, held.path):
        return _native.index_costs(held.path, counters, txn=held.txn)
