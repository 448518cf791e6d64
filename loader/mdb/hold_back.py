"""Entries of a copy that are newer than the contextCSN it shall claim, held back to it.

A consumer that starts with a cookie ignores the deletion of entries newer than the cookie (OpenLDAP's syncrepl.c,
nonpresent_callback), so such an entry, deleted on the provider before the consumer starts, would stay for ever. Held
back it goes like any other; and where it still stands, the provider's is newer and syncrepl sends it again.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import csn
from loader.mdb import entry, isolated
from loader.mdb.context_csn import ENTRIES, ENTRY
from loader.mdb.entry import Attribute
from loader.mdb.environment import ID, Handle, Transaction, opened, require_table, table
from loader.mdb.names import attribute_number
from loader.progress import Meter

_YEAR_0 = (
    365  # days from 0000-01-01 (a leap year, as back-mdb counts) to where date.toordinal() is 1
)


# Anywhere in a stored entry: decoding all of it takes five times as long.
_CSNS = re.compile(rb"\d{14}(?:\.\d+)?Z#[0-9a-fA-F]+#[0-9a-fA-F]+#[0-9a-fA-F]+")


@dataclass(frozen=True)
class _Tables:
    """`longest`: IDs of a list in the index of entryCSN; for more, back-mdb keeps (0, lowest, highest)."""

    entries: Handle
    index: Handle | None
    longest: int


@isolated.isolated
def cap_entry_csns(place: Path, claimed: Sequence[str], idlexp: int, meter: Meter) -> int:
    """Set entryCSN of every newer entry to the claim of its server ID, in the entry and in the index; how many.

    `place` is a copy that no process has open, `idlexp` that of the slapd which will have it. One durable transaction:
    all of it or nothing.
    """
    limits = csn.by_server(claimed)
    with opened(place, writable=True) as environment:
        number = attribute_number(environment, ENTRY)
        if number is None or not limits:
            return 0
        entries, index = require_table(environment, ENTRIES), table(environment, ENTRY)
        tables = _Tables(entries, index, (1 << idlexp) - 1)
        held = 0
        with environment.begin(write=True) as transaction:
            for owner in list(_candidates(transaction, entries, index, min(limits.values()))):
                held += _hold(transaction, tables, owner, number, limits)
                meter.add(1)
        return held


def _candidates(
    transaction: Transaction, entries: Handle, index: Handle | None, since: str
) -> Iterator[int]:
    """IDs of entries that changed in the second of `since` or later: by the index, or all where there is none."""
    if index is None or not transaction.stat(index)["entries"]:
        yield from (ID.unpack(key)[0] for key, _ in transaction.cursor(entries))
        return
    cursor = transaction.cursor(index)
    more = cursor.set_range(time_key(since))
    while more:
        yield from _listed([ID.unpack(value)[0] for value in cursor.iternext_dup()])
        more = cursor.next_nodup()


def _listed(ids: Sequence[int]) -> Sequence[int] | range:
    return range(ids[1], ids[2] + 1) if ids and ids[0] == 0 else ids


def _hold(
    transaction: Transaction,
    tables: _Tables,
    owner: int,
    number: int,
    limits: Mapping[str, str],
) -> bool:
    blob = transaction.get(ID.pack(owner), db=tables.entries)
    least = min(limits.values()).encode()
    if not blob or not any(one > least for one in _CSNS.findall(blob)):
        return False
    old = entry.decode(blob)
    found = old.attribute(number)
    if found is None or not found.values:
        return False
    text = found.values[0].decode("ascii", "replace")
    limit = limits.get(csn.server_id(text) or "")
    if limit is None or text <= limit:
        return False
    value = (limit.encode(),)
    new = Attribute(number, value, value if found.has_normalised else None, found.flags)
    transaction.put(ID.pack(owner), entry.encode(old.replaced(new)), db=tables.entries)
    _move(transaction, tables, owner, time_key(text), time_key(limit))
    return True


def _move(
    transaction: Transaction, tables: _Tables, owner: int, before: bytes, after: bytes
) -> None:
    index = tables.index
    if index is None or before == after:
        return
    if not _is_range(transaction, index, before):
        transaction.delete(before, ID.pack(owner), db=index)
    cursor = transaction.cursor(index)
    held = cursor.count() if cursor.set_key(after) else 0
    if held and (held >= tables.longest or _is_range(transaction, index, after)):
        _stretch(transaction, index, after, owner)
    else:
        transaction.put(after, ID.pack(owner), db=index)


def _is_range(transaction: Transaction, index: Handle, key: bytes) -> bool:
    first = transaction.get(key, db=index)
    return first is not None and ID.unpack(first)[0] == 0


def _stretch(transaction: Transaction, index: Handle, key: bytes, owner: int) -> None:
    """Make the key a range that holds `owner` too, as back-mdb does (idl.c)."""
    cursor = transaction.cursor(index)
    cursor.set_key(key)
    ids = [ID.unpack(value)[0] for value in cursor.iternext_dup()]
    known = [one for one in ids if one]
    transaction.delete(key, db=index)
    for value in (0, min(*known, owner), max(*known, owner)):
        transaction.put(key, ID.pack(value), db=index)


def time_key(text: str) -> bytes:
    """The ordered index key of a CSN or generalizedTime: 5 bytes, of its whole second."""
    day = datetime.date(int(text[:4]), int(text[4:6]), int(text[6:8])).toordinal() + _YEAR_0
    second = int(text[8:10]) * 3600 + int(text[10:12]) * 60 + int(text[12:14])
    scaled = day * 675
    low = (((scaled & 0x1FFFFFF) << 7) + second) & 0xFFFFFFFF
    return bytes([((scaled >> 25) & 0x7F) ^ 0x40]) + low.to_bytes(4, "big")
