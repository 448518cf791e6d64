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

# Commits that leave the meta pages of a snapshot alone: there are two, written in turn.
METAS = 2


@dataclass(frozen=True)
class Snapshot:
    """What transaction `txn` left in the data file `path`."""

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
    """The newest snapshot of an environment directory, in use or not, or of a data file that nobody writes to.

    Raises NotLmdb, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath.
    """
    facts = meta.facts(place)
    path = meta.data_file(place)
    if facts.format != 1:
        reason = f"data format {facts.format} (LMDB 1.0, OpenLDAP 2.7) cannot be read yet"
        raise NotLmdb(path=path, reason=reason)
    status = path.stat()
    identity = (status.st_dev, status.st_ino)
    environment = _open(place, identity)
    try:
        with explained(path, facts), environment.begin(buffers=True) as transaction:
            yield Snapshot(path, int(transaction.id()))
    finally:
        _close(identity)


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
