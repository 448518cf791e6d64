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


def newest(directory: Path) -> dict[int, int]:
    """The same of the last transactions, as far as a page has them; of none if the writer was quicker than this look.
    Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, NoSuchPath."""
    path, facts = meta.data_file(directory), meta.read_meta(directory)
    with files.reading(path) as file:
        try:
            found = next(_leaves(file.fileno(), path, facts), [])
        except (MdbDamaged, struct.error):
            found = []
    return dict(found) if meta.read_meta(directory).txnid <= facts.txnid + 1 else {}


def _records(descriptor: int, path: Path, facts: MetaPage) -> Iterator[tuple[int, int]]:
    for leaf in _leaves(descriptor, path, facts):
        yield from leaf


def _leaves(descriptor: int, path: Path, facts: MetaPage) -> Iterator[list[tuple[int, int]]]:
    """The records of each page of them, that with the last ones first."""
    left = [facts.free.root] if facts.free.root is not None else []
    for _ in range(_MOST):
        if not left:
            return
        page = _page(descriptor, left.pop(), path, facts)
        flags, nodes = _nodes(page, facts)
        if flags & _BRANCH:
            left += [low | high << 16 | third << 32 for _, (low, high, third, _) in nodes]
        elif flags & _LEAF:
            yield [_record(descriptor, path, facts, page, at, node) for at, node in nodes]
    raise MdbDamaged(path=path, reason=f"its free list does not end within {_MOST} pages")


def _nodes(page: bytes, facts: MetaPage) -> tuple[int, list[tuple[int, tuple[int, ...]]]]:
    """The flags of a page, and where its nodes are, with their heads."""
    base = facts.header if facts.format == 3 else 0  # PAGEBASE
    flags, lower = struct.unpack_from("=HH", page, facts.header - 6)
    pointers = struct.iter_unpack("=H", page[facts.header : base + lower])
    return flags, [(base + one, _NODE.unpack_from(page, base + one)) for (one,) in pointers]


def _record(
    descriptor: int, path: Path, facts: MetaPage, page: bytes, at: int, node: tuple[int, ...]
) -> tuple[int, int]:
    """The transaction, and how many pages it freed."""
    _, _, flags, key_length = node
    (txnid,) = _NUMBER.unpack_from(page, at + _NODE.size)
    (first,) = _NUMBER.unpack_from(page, at + _NODE.size + key_length)
    if flags & _BIG:
        large = _page(descriptor, first, path, facts)
        (first,) = _NUMBER.unpack_from(large, facts.header)
    return txnid, first


def _page(descriptor: int, number: int, path: Path, facts: MetaPage) -> bytes:
    if not 2 <= number < facts.pages:
        raise MdbDamaged(path=path, reason=f"its free list names page {number}")
    return os.pread(descriptor, facts.page_size, number * facts.page_size)
