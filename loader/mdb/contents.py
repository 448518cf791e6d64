"""Contents of a database (entries, suffixes, contextCSN, tables, indexes), read from a snapshot by the native core.

A running provider writes its contextCSN only at checkpoints and when it stops, so a copy of its database contains an
outdated contextCSN.
"""

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
_FEW = 5000  # most entries read for a summary of a live database; they take a quarter of a second


@contextmanager
def reading(env: Path) -> Iterator[Contents]:
    """Yields the current contents of an environment directory, in use or not, or of a data file without a writer.
    Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath, LockUnused."""
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
    """Returns the number of an attribute description in ad2i; None if no entry has used it yet."""
    return next((number for number, text in contents.attributes().items() if text.lower() == name.lower()), None)


# --- suffixes and contextCSN ------------------------------------------------------------------------


def suffix_id(contents: Contents, suffix: str | None) -> int | None:
    """Returns the ID of a suffix entry; None if there is no such entry. Without `suffix`, returns the ID for the only
    suffix. The entry of the empty DN (`suffix ""`) is the invisible root of dn2i, ID 0."""
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
    """Returns the contextCSN values of a suffix entry, ascending by server ID; empty if it has none."""
    return list(summarise(env, suffix, newest=False).context_csns)


def _stored_csns(contents: Contents, suffix: str | None, env: Path) -> list[str]:
    _table(contents.tables, ENTRIES, env)
    owner = suffix_id(contents, suffix)
    values = None if owner is None else contents.values(owner, CONTEXT)
    return ordered(value.decode("ascii", "replace") for value in values or ())


def newest_csns(env: Path, suffix: str | None = None, whole: bool = True, most: int | None = None) -> dict[str, str]:
    """Returns server ID -> greatest CSN, from the stored contextCSN and the entries changed since.

    Reads the entryCSN index backwards, or all entries if there is no such index. Never returns too great a CSN, but can
    miss a late change from another server, which syncrepl then sends once more. Without a stored contextCSN to stop at,
    reads all entries (minutes for ten million), or with `whole=False` only those of the last second. `most` limits the
    entries read through the index to those with the highest IDs in the newest seconds: after a bulk load all entries
    may have the same second, and those loaded last are the newest."""
    with reading(env) as contents:
        return _newest(contents, _stored_csns(contents, suffix, env), whole, most)


def _newest(contents: Contents, stored: list[str], whole: bool, most: int | None) -> dict[str, str]:
    stop = max(csn.by_server(stored).values(), default=None if whole else "99")
    return csn.by_server((*stored, *contents.newest_csns(stop, most)))


class DatabaseSummary(Struct, frozen=True):
    """`context_csns`: as stored. `newest_csns`: the newest CSNs found. Both ascend by server ID."""

    entries: int
    suffixes: tuple[str, ...]
    context_csns: tuple[str, ...]
    newest_csns: tuple[str, ...]


def summarise(env: Path, suffix: str | None = None, newest: bool = True) -> DatabaseSummary:
    """Summarises an environment directory, live or not, or a data file. To stay quick, `newest` reads at most `_FEW`
    entries, and only if entryCSN is indexed. Without `newest`, newest_csns is empty. Raises what `reading` does."""
    with reading(env) as contents:
        tables = contents.tables
        stored = _stored_csns(contents, suffix, env)
        csns = _newest(contents, stored, False, _FEW) if newest and ENTRY in tables else {}
        return DatabaseSummary(
            _table(tables, ENTRIES, env).entries,
            tuple(name for name, _ in contents.suffixes()),
            tuple(stored),
            tuple((ordered(csns.values()) or stored) if newest else ()),
        )


def probe(env: Path) -> None:
    """Reads the first and the last record of every table. Raises what `reading` does."""
    with reading(env) as contents:
        contents.probe()


# --- tables and indexes ----------------------------------------------------------------------------


def _indexes(tables: dict[str, TableRecord]) -> dict[str, TableRecord]:
    return {name: record for name, record in tables.items() if name not in _NO_INDEXES}


def indexes(env: Path) -> dict[str, int]:
    """Returns attribute type -> number of records in its index table; empty if there is no database yet."""
    if not meta.data_file(env).exists():
        return {}
    with reading(env) as contents:
        return {name: record.entries for name, record in _indexes(contents.tables).items()}


def table_bytes(env: Path) -> dict[str, int]:
    """Returns table -> bytes, without the sub-databases of duplicate values, whose pages LMDB's statistics omit."""
    page_size = meta.read_meta(env).page_size
    with reading(env) as contents:
        return {name: record.pages * page_size for name, record in contents.tables.items()}


class IndexCounts(Struct, frozen=True):
    """`keys`: number of entry IDs -> number of index keys with that many IDs. `key_bytes`: size of one key."""

    keys: dict[int, int]
    key_bytes: int


class TableSizes(Struct, frozen=True):
    """Sizes in a data file. `tables`: table -> pages, counted like `table_bytes`. `indexes`: index -> key counts."""

    pages: int
    page_size: int
    tables: dict[str, int]
    indexes: dict[str, IndexCounts]


def table_sizes(data: Path, without: Path | None = None) -> TableSizes:
    """Returns the sizes in a data file without a writer. `without`: the file of a subset of the entries, whose IDs are
    subtracted from the counts of each index key."""
    facts = meta.read_meta(data)
    tables, counts = _key_counts(data)
    less = _key_counts(without)[1] if without else {}
    indexes = {}
    for name, keys in counts.items():
        fewer = less.get(name, {})
        ids = Counter(count - fewer.get(key, 0) for key, count in keys.items() if count > fewer.get(key, 0))
        indexes[name] = IndexCounts(dict(sorted(ids.items())), len(next(iter(keys), bytes(4))))
    return TableSizes(facts.pages, facts.page_size, tables, indexes)


def _key_counts(data: Path) -> tuple[dict[str, int], dict[str, dict[bytes, int]]]:
    """Returns table -> pages, and index -> key -> number of its IDs."""
    with reading(data) as contents:
        tables = contents.tables
        counts = {name: dict(contents.index_counts(name)) for name in _indexes(tables)}
        return {name: record.pages for name, record in tables.items()}, counts


def index_costs(env: Path, meter: Meter) -> IndexCosts:
    """Returns what the indexes of an environment directory occupy, from one snapshot. Raises what `reading` does."""
    path = meta.data_file(env)
    with snapshot.protected(env) as own, with_counters(meter, str(path)) as counters, meta.explained(path, own.path):
        return _native.index_costs(own.path, counters, txn=own.txn)
