"""Makes small changes to a database that no process has open, each in one durable transaction of a child process.

`stamp` writes a contextCSN into a copy: the provider's contextCSN before the copy began. `cap_entry_csns` lowers each
entryCSN that is newer than this contextCSN. A consumer sends its contextCSN as a cookie, and ignores the deletion of
entries newer than the cookie (OpenLDAP's syncrepl.c, nonpresent_callback). So if the provider deleted such an entry
before the consumer starts, the consumer would keep the entry for ever. With the lower entryCSN the consumer deletes the
entry. If the provider still has the entry, the consumer receives it again."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

from loader import _native, csn, dn
from loader.errors import MdbDamaged, NotStampable
from loader.mdb import contents, isolated, meta
from loader.mdb.contents import CONTEXT, ENTRIES, ENTRY
from loader.mdb.environment import ID, Handle, Transaction, explained, opened, require_table, table
from loader.progress import Meter

_GLUE = ("objectClass", "structuralObjectClass")
_GLUE_FLAGS = 0x120  # slap.h: SLAP_OC_GLUE | SLAP_OC__END (marks the flags as computed)
_YEAR_0 = 365  # days; back-mdb counts from 0000-01-01, and date.toordinal from 0000-12-31


def stamp(env: Path, suffix: str, csns: Sequence[str]) -> None:
    """Replaces the contextCSN of a suffix entry as slapadd -w does: without normalised values and index. Raises
    NotStampable if there is no such entry, if `csns` is empty, or if two different CSNs have the same server ID."""
    path = meta.data_file(env)
    values = contents.ordered(csn.by_server(csns).values())
    if not values or len(values) != len(set(csns)):
        reason = f"not one CSN for each server ID: {', '.join(csns)}"
        raise NotStampable(path=path, suffix=suffix, reason=reason)
    with contents.reading(meta.data_file(env)) as snapshot:
        owner = contents.suffix_id(snapshot, suffix)
        number = contents.number_of(snapshot, CONTEXT)
        glue = [at for name in _GLUE if (at := contents.number_of(snapshot, name)) is not None]
        suffixes = ", ".join(name for name, _ in snapshot.suffixes()) or "none"
    is_new_root = owner is None and dn.key(suffix) == "" and len(glue) == len(_GLUE)
    if owner is None and not is_new_root:
        reason = f"there is no such entry (the database holds: {suffixes})"
        raise NotStampable(path=path, suffix=suffix, reason=reason)
    _stamp(env, suffix, owner, number, glue, values)


@isolated.isolated
def _stamp(env: Path, suffix: str, owner: int | None, number: int | None, glue: list[int], values: list[str]) -> None:
    """`owner`: ID of the suffix entry; None: create the entry of the empty DN, as slapd does. `number`: number of
    contextCSN in ad2i, or None. `glue`: numbers of the glue attributes in ad2i."""
    with opened(env, writable=True) as environment:
        entries, names = require_table(environment, ENTRIES), require_table(environment, "ad2i")
        with explained(env), environment.begin(write=True) as transaction:
            if number is None:
                cursor = transaction.cursor(names)
                number = int.from_bytes(cursor.key(), "little") + 1 if cursor.last() else 1
                transaction.put(number.to_bytes(4, "little"), CONTEXT.encode(), db=names, append=True)
            key = ID.pack(owner or 0)
            if owner is None:
                entry = _native.new_entry(_GLUE_FLAGS, [(at, [b"glue"]) for at in glue])
            else:
                entry = transaction.get(key, db=entries) or b""
            encoded = [text.encode() for text in values]
            try:
                entry = _native.entry_with(entry, number, encoded, normals=False)
            except _native.NativeError as error:
                path = meta.data_file(env)
                if error.code == "build.unproven":
                    raise NotStampable(path=path, suffix=suffix, reason=error.message) from error
                reason = f"entry {owner} cannot be read: {error}"
                raise MdbDamaged(path=path, reason=reason) from error
            transaction.put(key, entry, db=entries)


def cap_entry_csns(env: Path, claimed: Sequence[str], idlexp: int, meter: Meter) -> int:
    """If an entryCSN is greater than the CSN with the same server ID in `claimed`, lowers it to this CSN, in the entry
    and in the index. Returns the number of changed entries. `idlexp`: setting of the slapd that will use the copy."""
    limits = csn.by_server(claimed)
    if not limits:
        return 0
    with contents.reading(meta.data_file(env)) as snapshot:
        number = contents.number_of(snapshot, ENTRY)
        newer_csns = snapshot.csns_after(min(limits.values()))
    changes = [
        (owner, text, limits[server])
        for owner, text in newer_csns
        if (server := csn.server_id(text)) in limits and text > limits[server]
    ]
    if changes and number is not None:
        _cap(env, number, changes, (1 << idlexp) - 1, meter)
    return len(changes)


@isolated.isolated
def _cap(env: Path, number: int, changes: list[tuple[int, str, str]], longest: int, meter: Meter) -> None:
    """`number`: number of entryCSN in ad2i. `changes`: ID, entryCSN and new entryCSN of each entry. `longest`: maximum
    number of IDs in an index key; back-mdb replaces a longer list by the range (0, lowest, highest)."""
    with opened(env, writable=True) as environment:
        entries, index = require_table(environment, ENTRIES), table(environment, ENTRY)
        with meta.explained(meta.data_file(env)), environment.begin(write=True) as transaction:
            for owner, text, limit in changes:
                key = ID.pack(owner)
                entry = transaction.get(key, db=entries)
                entry = _native.entry_with(entry, number, [limit.encode()], normals=True)
                transaction.put(key, entry, db=entries)
                before, after = time_key(text), time_key(limit)
                if index is not None and before != after:
                    _move(transaction, index, owner, (before, after), longest)
                meter.add(1)


def _move(transaction: Transaction, index: Handle, owner: int, keys: tuple[bytes, bytes], longest: int) -> None:
    """Moves an ID from the first index key in `keys` to the second. If the second key would have more than `longest`
    IDs, all its IDs are replaced by a range, whose first value is 0, as in back-mdb (idl.c)."""
    before, after = keys
    cursor = transaction.cursor(index)
    if not cursor.set_key(before) or ID.unpack(cursor.value()) != (0,):
        transaction.delete(before, ID.pack(owner), db=index)
    exists = cursor.set_key(after)
    if not exists or (ID.unpack(cursor.value()) != (0,) and cursor.count() < longest):
        transaction.put(after, ID.pack(owner), db=index)
        return
    ids = [owner, *filter(None, (ID.unpack(value)[0] for value in cursor.iternext_dup()))]
    transaction.delete(after, db=index)
    for number in (0, min(ids), max(ids)):
        transaction.put(after, ID.pack(number), db=index)


def time_key(text: str) -> bytes:
    """Returns the ordering index key of a CSN or generalizedTime: 5 bytes, with a resolution of one second."""
    day = datetime.date(int(text[:4]), int(text[4:6]), int(text[6:8])).toordinal() + _YEAR_0
    second = int(text[8:10]) * 3600 + int(text[10:12]) * 60 + int(text[12:14])
    scaled = day * 675
    low = (((scaled & 0x1FFFFFF) << 7) + second) & 0xFFFFFFFF
    return bytes([((scaled >> 25) & 0x7F) ^ 0x40]) + low.to_bytes(4, "big")


@isolated.isolated
def remove_entries(env: Path, ids: Sequence[int]) -> None:
    """Removes entries from id2e only: outdated entries of a build from a live server, which are in no other table."""
    with opened(env, writable=True) as environment:
        entries = require_table(environment, ENTRIES)
        with explained(env), environment.begin(write=True) as transaction:
            for number in ids:
                transaction.delete(ID.pack(number), db=entries)


@isolated.isolated
def empty_indexes(env: Path, attributes: Sequence[str]) -> None:
    """Empties the indexes of `attributes`. Skips an attribute without an index."""
    chosen = {name.lower() for name in attributes}
    names = [name for name in contents.indexes(meta.data_file(env)) if name.lower() in chosen]
    with opened(env, writable=True) as environment:
        handles = [require_table(environment, name) for name in names]
        with explained(env), environment.begin(write=True) as transaction:
            for handle in handles:
                transaction.drop(handle, delete=False)


def set_map_size(path: Path, size: int) -> None:
    """Writes `size`, but at least the bytes in use, as the map size into both meta pages of a data file. Tools such as
    mdb_stat map that many bytes. slapd ignores the value, and maps as many bytes as its setting maxsize says."""
    facts = meta.read_meta(path)
    with path.open("r+b") as file:
        for number in (0, 1):
            file.seek(number * facts.page_size)
            page = meta.parse(file.read(facts.page_size), str(path), alone=True)
            file.seek(number * facts.page_size)
            file.write(page.page(number, page.txnid, max(size, facts.used)))
        file.flush()
        os.fsync(file.fileno())
