"""The free list of an environment: pages that can be used again, by the transaction that freed them.

liblmdb does not tell it. Read as bytes, every offset checked: nothing is mapped.
Layout: MDB_page and MDB_node; a record's key is the transaction, its value the pages, their number first.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from loader.errors import MdbDamaged
from loader.mdb import meta, snapshot
from loader.mdb.meta import MetaPage
from loader.storage import files

_BRANCH, _LEAF = 0x01, 0x02  # flags of a page
_BIG = 0x01  # flag of a node: its value is on pages of its own
_NODE = struct.Struct(
    "=HHHH"
)  # size or page number in two parts, flags (or its third part), length of the key
_NUMBER = struct.Struct("=Q")
_TRIES = 20
_MOST = 100_000  # pages of the list, 400 MB: a list that goes in circles is left


def read(directory: Path) -> tuple[MetaPage, dict[int, int]]:
    """The newest meta page, and how many pages each transaction freed that have not been used again.

    Pages of a snapshot are not written to before the third transaction after it, so a look during which no second one
    has ended was at one state. On a busy server a snapshot is held, which clears slots of dead readers. Raises
    NotLmdb, MdbProtected, MdbDamaged, MdbBusy, NotPermitted, NoSuchPath.
    """
    path = meta.data_file(directory)
    for _ in range(_TRIES):
        facts = meta.read_meta(directory)
        try:
            found, damage = _freed(path, facts), None
        except MdbDamaged as error:
            found, damage = {}, error
        if meta.read_meta(directory).txnid <= facts.txnid + 1:
            if damage is not None:
                raise damage
            return facts, found
    with snapshot.image(directory) as image:
        return image.facts, _freed(image.path, image.facts)


def _freed(path: Path, facts: MetaPage) -> dict[int, int]:
    with files.reading(path) as file:
        try:
            return dict(_records(file.fileno(), path, facts))
        except struct.error:
            raise MdbDamaged(path=path, reason="its free list cannot be read") from None


def _records(descriptor: int, path: Path, facts: MetaPage) -> Iterator[tuple[int, int]]:
    base = facts.header if facts.format == 3 else 0  # PAGEBASE
    left = [facts.free.root] if facts.free.root is not None else []
    for _ in range(_MOST):
        if not left:
            return
        page = _page(descriptor, left.pop(), path, facts)
        flags, lower = struct.unpack_from("=HH", page, facts.header - 6)
        for (pointer,) in struct.iter_unpack("=H", page[facts.header : base + lower]):
            at = base + pointer
            low, high, node_flags, key_length = _NODE.unpack_from(page, at)
            if flags & _BRANCH:
                left.append(low | high << 16 | node_flags << 32)
            elif flags & _LEAF:
                (txnid,) = _NUMBER.unpack_from(page, at + _NODE.size)
                (first,) = _NUMBER.unpack_from(page, at + _NODE.size + key_length)
                if node_flags & _BIG:
                    large = _page(descriptor, first, path, facts)
                    (first,) = _NUMBER.unpack_from(large, facts.header)
                yield txnid, first
    raise MdbDamaged(path=path, reason=f"its free list does not end within {_MOST} pages")


def _page(descriptor: int, number: int, path: Path, facts: MetaPage) -> bytes:
    if not 2 <= number < facts.pages:
        raise MdbDamaged(path=path, reason=f"its free list names page {number}")
    return os.pread(descriptor, facts.page_size, number * facts.page_size)
