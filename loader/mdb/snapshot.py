"""A snapshot of a database, held while others read its pages: a read transaction keeps LMDB from using them again.

py-lmdb holds the reader's slot and reads nothing but the meta pages; so a damaged file cannot end this process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader.errors import NotLmdb
from loader.mdb import meta
from loader.mdb.environment import Environment, explained, opened


@dataclass(frozen=True)
class Snapshot:
    """Of the data file `path`. Pages of the snapshot that transaction `txn` left, and of later ones, stay as they are.

    LMDB uses a page again only when all readers began after the transaction that freed it.
    """

    path: Path
    txn: int


@dataclass
class _Shared:
    """An environment that is open once, however many snapshots of it are held."""

    environment: Environment
    closing: ExitStack
    holders: int = 0


_shared: dict[tuple[int, int], _Shared] = {}
_lock = threading.Lock()


@contextmanager
def held(place: Path) -> Iterator[Snapshot]:
    """The present snapshot of an environment directory, in use or not, or of a data file that nobody writes to.

    Raises NotLmdb, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath.
    """
    facts = require_format(place)
    path = meta.data_file(place)
    status = path.stat()
    identity = (status.st_dev, status.st_ino)
    environment = _open(place, identity)
    try:
        with explained(path, facts), environment.begin(buffers=True) as transaction:
            yield Snapshot(path, int(transaction.id()))
    finally:
        _close(identity)


def require_format(place: Path) -> meta.Facts:
    """One that the native core reads: LMDB 0.9's. Raises NotLmdb, MdbDamaged, NoSuchPath, NotPermitted."""
    facts = meta.facts(place)
    if facts.format != 1:
        reason = f"data format {facts.format} (LMDB 1.0, OpenLDAP 2.7) cannot be read yet"
        raise NotLmdb(path=meta.data_file(place), reason=reason)
    return facts


def _open(place: Path, identity: tuple[int, int]) -> Environment:
    with _lock:
        if identity not in _shared:
            closing = ExitStack()
            _shared[identity] = _Shared(closing.enter_context(opened(place)), closing)
        _shared[identity].holders += 1
        return _shared[identity].environment


def _close(identity: tuple[int, int]) -> None:
    with _lock:
        shared = _shared[identity]
        shared.holders -= 1
        if not shared.holders:
            del _shared[identity]
            shared.closing.close()
