"""contextCSN, the mark from which syncrepl goes on: what a database has stored, the newest entryCSN, and stamping.

A running provider writes its contextCSN only at checkpoints and when it stops, so a copy of its database holds an old
one. `stamp` puts into the copy what the provider said before the copy began.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loader import csn, dn
from loader.errors import MdbDamaged, NotStampable
from loader.mdb import entry, isolated, meta
from loader.mdb.entry import ELSEWHERE, Attribute, Entry
from loader.mdb.environment import (
    ID,
    Environment,
    Handle,
    Transaction,
    opened,
    require_table,
    table,
)
from loader.mdb.names import attribute_number, suffix_id, suffixes

CONTEXT, ENTRY = "contextCSN", "entryCSN"
_GLUE = ("objectClass", "structuralObjectClass")
_GLUE_FLAGS = 0x120  # slap.h: SLAP_OC_GLUE, and SLAP_OC__END, which says that the flags are known
ENTRIES, VALUES = "id2e", "id2v"


@isolated.isolated
def stored(place: Path, suffix: str | None = None) -> list[str]:
    """contextCSN values of a suffix entry, ascending by server ID; empty when it has none."""
    with opened(place) as environment:
        return _stored(environment, place, suffix)


def _stored(environment: Environment, place: Path, suffix: str | None) -> list[str]:
    entries, values = require_table(environment, ENTRIES), table(environment, VALUES)
    owner = suffix_id(environment, suffix)
    number = attribute_number(environment, CONTEXT)
    if owner is None or number is None:
        return []
    with environment.begin() as transaction:
        found = _read(transaction, entries, owner, place).attribute(number)
        if found is None:
            return []
        texts = found.values
        if found.flags & ELSEWHERE and values is not None:
            texts = tuple(_elsewhere(transaction, values, owner, number))
    return ordered(text.decode("ascii", "replace") for text in texts)


def ordered(csns: Iterable[str]) -> list[str]:
    """As slapadd -w writes them: ascending by server ID."""
    return sorted(csns, key=lambda text: (csn.server_id(text) or "", text))


def _read(transaction: Transaction, entries: Handle, number: int, place: Path) -> Entry:
    blob = transaction.get(ID.pack(number), db=entries)
    try:
        return entry.decode(blob or b"")
    except entry.Malformed as error:
        raise MdbDamaged(
            path=meta.data_file(place), reason=f"entry {number} cannot be read: {error}"
        ) from error


def _elsewhere(
    transaction: Transaction, values: Handle, owner: int, number: int
) -> Iterator[bytes]:
    """Values in id2v, by going through it: slapd orders that table by rules that py-lmdb does not have."""
    wanted = ID.pack(owner) + number.to_bytes(2, "little")
    for key, value in transaction.cursor(values):
        if key == wanted:
            length = int.from_bytes(value[-2:], "little")
            yield value[-3 - length : -3] if length else value[:-3]


@isolated.isolated
def newest(
    place: Path, suffix: str | None = None, whole: bool = True, most: int | None = None
) -> dict[str, str]:
    """The greatest CSN of each server ID: of the stored contextCSN and of the entries changed since it was stored.

    Goes back through the entryCSN index, or through all entries where there is none. Never too great; a change of
    another server that arrived late can be overlooked, then syncrepl sends it once more. Without a contextCSN to stop
    at, all entries are looked at (minutes for ten millions), or with `whole=False` those of the last second.
    most: no more entries are looked at where there is the index, those with the highest IDs of the newest seconds: a
    database that was loaded at once may have all of its entries in one second, and the last ones loaded are the newest.
    """
    with opened(place) as environment:
        found = csn.by_server(_stored(environment, place, suffix))
        entries, index = require_table(environment, ENTRIES), table(environment, ENTRY)
        number = attribute_number(environment, ENTRY)
        if number is None:
            return found
        with environment.begin() as transaction:
            if index is None or not transaction.stat(index)["entries"]:
                return _merged(found, _all(transaction, entries, number))
            stop = max(found.values(), default=None if whole else "99")
            for texts in by_second(transaction, index, entries, number, most):
                found = _merged(found, texts)
                if stop is not None and max(texts)[:14] < stop[:14]:
                    break
    return found


def _merged(known: Mapping[str, str], texts: Iterable[str]) -> dict[str, str]:
    return csn.by_server((*known.values(), *texts))


def _all(transaction: Transaction, entries: Handle, number: int) -> Iterator[str]:
    for _, blob in transaction.cursor(entries):
        yield from _csn_of(blob, number)


def _csn_of(blob: bytes, number: int) -> Iterator[str]:
    for value in entry.values_of(blob, number) if blob else ():
        yield value.decode("ascii", "replace")


def by_second(
    transaction: Transaction,
    index: Handle,
    entries: Handle,
    number: int,
    most: int | None = None,
) -> Iterator[list[str]]:
    """entryCSN values, the newest second first; one list for each second (each key of the index)."""
    cursor = transaction.cursor(index)
    more, left = cursor.last(), sys.maxsize if most is None else most
    while more and left > 0:
        ids = [ID.unpack(value)[0] for value in cursor.iternext_dup()] if cursor.first_dup() else []
        chosen = _listed(ids)[-left:]
        left -= len(chosen)
        texts = [
            text
            for one in chosen
            for text in _csn_of(transaction.get(ID.pack(one), db=entries), number)
        ]
        if texts:
            yield texts
        more = cursor.prev_nodup()


def _listed(ids: Sequence[int]) -> Sequence[int]:
    """The IDs of an index key; 0, low, high stands for all between (more than 65535 of them)."""
    return range(ids[1], ids[2] + 1) if ids and ids[0] == 0 else ids


@isolated.isolated
def stamp(place: Path, suffix: str, csns: Sequence[str]) -> None:
    """Replace contextCSN of the suffix entry in a database that no process has open; durable when it returns.

    As slapadd -w does: no normalised values, no index. Raises NotStampable.
    """
    path = meta.data_file(place)
    values = tuple(text.encode() for text in ordered(csn.by_server(csns).values()))
    if not values or len(values) != len(set(csns)):
        raise NotStampable(
            path=path, suffix=suffix, reason=f"not one CSN for each server ID: {', '.join(csns)}"
        )
    with opened(place, writable=True) as environment:
        owner = suffix_id(environment, suffix)
        if owner is None and dn.key(suffix) == "":
            owner = _add_root(environment)
        if owner is None:
            known = ", ".join(suffixes(environment)) or "none"
            raise NotStampable(
                path=path,
                suffix=suffix,
                reason=f"there is no such entry (the database holds: {known})",
            )
        _write(environment, place, suffix, owner, values)


def _add_root(environment: Environment) -> int | None:
    """The entry of the empty DN, as slapd makes it to bear contextCSN; None where no entry has its attributes."""
    entries = require_table(environment, ENTRIES)
    numbers = [attribute_number(environment, name) for name in _GLUE]
    if None in numbers:
        return None
    attributes = tuple(Attribute(number, (b"glue",)) for number in numbers if number is not None)
    with environment.begin(write=True) as transaction:
        transaction.put(ID.pack(0), entry.encode(Entry(_GLUE_FLAGS, attributes)), db=entries)
    return 0


def _write(
    environment: Environment, place: Path, suffix: str, owner: int, values: tuple[bytes, ...]
) -> None:
    entries, names = require_table(environment, ENTRIES), require_table(environment, "ad2i")
    number = attribute_number(environment, CONTEXT)
    with environment.begin(write=True) as transaction:
        if number is None:
            number = _next_number(transaction, names)
            transaction.put(number.to_bytes(4, "little"), CONTEXT.encode(), db=names, append=True)
        old = _read(transaction, entries, owner, place)
        known = old.attribute(number)
        if known is not None and known.flags & ELSEWHERE:
            reason = "its values are kept in id2v (multival)"
            raise NotStampable(path=meta.data_file(place), suffix=suffix, reason=reason)
        new = old.replaced(Attribute(number, values))
        transaction.put(ID.pack(owner), entry.encode(new), db=entries)


def _next_number(transaction: Transaction, names: Handle) -> int:
    cursor = transaction.cursor(names)
    return int.from_bytes(cursor.key(), "little") + 1 if cursor.last() else 1
