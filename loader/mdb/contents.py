"""Reads the contents of a database (entries, suffixes, contextCSN, tables, indexes) from a snapshot.

slapd writes the contextCSN only at checkpoints and when it stops, so a copy of a live database has an old
contextCSN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

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
_SUMMARY_ENTRIES = 5000  # `summarise` reads at most this many entries for newest_csns, in a quarter of a second


@contextmanager
def reading(env: Path) -> Iterator[Contents]:
    """Yields the current contents of an environment directory, which slapd may be using, or of a data file that no
    process writes. Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath, LockUnused."""
    with snapshot.protected(env, clears=False) as image, meta.explained(meta.data_file(env), image.path):
        yield Contents(image.path, txn=image.txn)


def _table(tables: dict[str, TableRecord], name: str, env: Path) -> TableRecord:
    if name not in tables:
        raise NotLmdb(path=env, reason=f"it has no table {name}")
    return tables[name]


def row_counts(env: Path, names: Sequence[str]) -> list[int]:
    """Returns the number of records of each table in `names`. Raises NotLmdb if a table is missing."""
    with reading(env) as contents:
        tables = contents.tables
    return [_table(tables, name, env).entries for name in names]


def entry_count(env: Path) -> int:
    """Returns the number of records in id2e, including placeholders for parents that were never added."""
    return row_counts(env, (ENTRIES,))[0]


def attributes(env: Path) -> list[str]:
    """Returns the attribute descriptions that entries of the database use, as the schema spells them."""
    with reading(env) as contents:
        _table(contents.tables, "ad2i", env)
        return list(contents.attributes().values())


def number_of(contents: Contents, name: str) -> int | None:
    """Returns the number of an attribute description in ad2i; None if no entry has used the description yet."""
    return next((number for number, text in contents.attributes().items() if text.lower() == name.lower()), None)


# --- suffixes and contextCSN ------------------------------------------------------------------------


def suffix_id(contents: Contents, suffix: str | None) -> int | None:
    """Returns the entry ID of `suffix`; None if there is no such entry. If `suffix` is None, returns the ID of the only
    suffix; None if there are several. The suffix "" has the ID 0, because its entry is the root of dn2i."""
    is_root = suffix is None or dn.key(suffix) == ""
    if is_root and contents.values(0, "objectClass") is not None:
        return 0
    suffixes = contents.suffixes()
    if suffix is None:
        return suffixes[0][1] if len(suffixes) == 1 else None
    return next((number for name, number in suffixes if dn.key(name) == dn.key(suffix)), None)


def ordered(csns: Iterable[str]) -> list[str]:
    """Returns CSNs in the order in which slapadd -w writes them: ascending by server ID."""
    return sorted(csns, key=lambda text: (csn.server_id(text) or "", text))


def context_csns(env: Path, suffix: str | None = None) -> list[str]:
    """Returns the contextCSN values of a suffix entry, ascending by server ID; empty if there are none."""
    return list(summarise(env, suffix, newest=False).context_csns)


def _stored_csns(contents: Contents, suffix: str | None, env: Path) -> list[str]:
    _table(contents.tables, ENTRIES, env)
    owner = suffix_id(contents, suffix)
    values = None if owner is None else contents.values(owner, CONTEXT)
    return ordered(value.decode("ascii", "replace") for value in values or ())


def newest_csns(env: Path, suffix: str | None = None, whole: bool = True, most: int | None = None) -> dict[str, str]:
    """Maps each server ID to its greatest CSN in the stored contextCSN and in the entries that changed later.

    No returned CSN is too great. A late change from another server can be missed; syncrepl then sends the change again.
    Reads the index of entryCSN backwards, down to the stored contextCSN. Without this index or a contextCSN, reads all
    entries, which takes minutes for ten million; but if the contextCSN is missing and `whole` is false, reads only the
    entries of the last second. `most`: maximum number of entries that are read through the index. If only a part of a
    second's entries is read, it has the highest IDs, because a bulk load adds the newest entries last."""
    with reading(env) as contents:
        return _newest_by_server(contents, _stored_csns(contents, suffix, env), whole, most)


def _newest_by_server(contents: Contents, stored: list[str], whole: bool, most: int | None) -> dict[str, str]:
    stop = max(csn.by_server(stored).values(), default=None if whole else "99")
    return csn.by_server((*stored, *contents.newest_csns(stop, most)))


class DatabaseSummary(Struct, frozen=True):
    """`context_csns`: the stored contextCSN. `newest_csns`: as the function returns it. Both ascend by server ID."""

    entries: int
    suffixes: tuple[str, ...]
    context_csns: tuple[str, ...]
    newest_csns: tuple[str, ...]


def summarise(env: Path, suffix: str | None = None, newest: bool = True) -> DatabaseSummary:
    """Summarises an environment directory, which slapd may be using, or a data file. Without `newest`, newest_csns is
    empty. At most `_SUMMARY_ENTRIES` entries are read for newest_csns, and only if entryCSN is indexed."""
    with reading(env) as contents:
        tables = contents.tables
        stored_csns = _stored_csns(contents, suffix, env)
        csns = _newest_by_server(contents, stored_csns, False, _SUMMARY_ENTRIES) if newest and ENTRY in tables else {}
        return DatabaseSummary(
            _table(tables, ENTRIES, env).entries,
            tuple(name for name, _ in contents.suffixes()),
            tuple(stored_csns),
            tuple((ordered(csns.values()) or stored_csns) if newest else ()),
        )


def probe(env: Path) -> None:
    """Reads the first and the last record of every table. Raises the errors of `reading`."""
    with reading(env) as contents:
        contents.probe()


# --- tables and indexes ----------------------------------------------------------------------------


def _indexes(tables: dict[str, TableRecord]) -> dict[str, TableRecord]:
    return {name: record for name, record in tables.items() if name not in _NO_INDEXES}


def indexes(env: Path) -> dict[str, int]:
    """Maps each indexed attribute type to the number of records in its index table; empty without a database."""
    if not meta.data_file(env).exists():
        return {}
    with reading(env) as contents:
        return {name: record.entries for name, record in _indexes(contents.tables).items()}


def table_bytes(env: Path) -> dict[str, int]:
    """Maps each table to its size in bytes, without sub-databases of duplicates: LMDB's statistics omit them."""
    page_size = meta.read_meta(env).page_size
    with reading(env) as contents:
        return {name: record.pages * page_size for name, record in contents.tables.items()}


class IndexCounts(Struct, frozen=True):
    """`keys`: maps a number of entry IDs to the number of keys that have so many IDs. `key_bytes`: size of a key."""

    keys: dict[int, int]
    key_bytes: int


class TableSizes(Struct, frozen=True):
    """The sizes in a data file. `tables`: number of pages of each table, counted as in `table_bytes`."""

    pages: int
    page_size: int
    tables: dict[str, int]
    indexes: dict[str, IndexCounts]


def table_sizes(data: Path, without: Path | None = None) -> TableSizes:
    """Returns the sizes in a data file that no process writes. From each index key's number of entry IDs, subtracts the
    number in the data file `without`, so that a forecast excludes the ancestors of sampled entries."""
    facts = meta.read_meta(data)
    tables, counts = _key_counts(data)
    subset_counts = _key_counts(without)[1] if without else {}
    indexes = {}
    for name, keys in counts.items():
        subset_ids = subset_counts.get(name, {})
        ids = Counter(count - subset_ids.get(key, 0) for key, count in keys.items() if count > subset_ids.get(key, 0))
        indexes[name] = IndexCounts(dict(sorted(ids.items())), len(next(iter(keys), bytes(4))))
    return TableSizes(facts.pages, facts.page_size, tables, indexes)


def _key_counts(data: Path) -> tuple[dict[str, int], dict[str, dict[bytes, int]]]:
    """Returns the number of pages of each table, and the number of entry IDs of each key of each index."""
    with reading(data) as contents:
        tables = contents.tables
        counts = {name: dict(contents.index_counts(name)) for name in _indexes(tables)}
        return {name: record.pages for name, record in tables.items()}, counts


def index_costs(env: Path, meter: Meter) -> IndexCosts:
    """Returns the space that each index takes in an environment directory. Raises the errors of `reading`."""
    path = meta.data_file(env)
    with snapshot.protected(env) as view, with_counters(meter, str(path)) as counters, meta.explained(path, view.path):
        return _native.index_costs(view.path, counters, txn=view.txn)
