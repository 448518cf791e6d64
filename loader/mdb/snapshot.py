"""A snapshot of a database, held while others read its pages: a read transaction keeps LMDB from using them again.

py-lmdb holds the reader's slot and reads nothing but the meta pages; so a damaged file cannot end this process.
A process that was killed keeps its slots until somebody looks: whoever opens an environment here does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader.errors import MdbBusy, OtherFormat
from loader.mdb import meta
from loader.mdb.environment import Environment, explained, opened
from loader.storage import files
from loader.storage.held import pinned

FORMAT = 1  # what the native core reads and writes


@dataclass(frozen=True)
class Snapshot:
    """Of the data file `path`. Pages of the snapshot that transaction `txn` left, and of later ones, stay as they are.

    LMDB uses a page again only when all readers began after the transaction that freed it.
    """

    path: Path
    txn: int


@dataclass(frozen=True)
class Image:
    """A snapshot that can be copied: `page` is the meta page that tells of it."""

    path: Path
    page: bytes
    facts: meta.Facts

    @property
    def head(self) -> bytes:
        """Both meta pages of a copy as it stands: either alone is enough, LMDB goes on with the next transaction."""
        return b"".join(self._page(number) for number in range(2))

    def _page(self, number: int) -> bytes:
        """Transaction N writes meta page N % 2 (mdb_env_write_meta)."""
        txnid = self.facts.txnid
        if txnid % 2 != number:
            txnid = max(0, txnid - 1)
        return meta.renumbered(self.page, self.facts, number, txnid)


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

    Raises OtherFormat, NotLmdb, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath.
    """
    facts, path = require_format(place), meta.data_file(place)
    with (
        _shared_environment(place) as environment,
        pinned(path) as path,
        explained(path, facts),
        environment.begin(buffers=True) as transaction,
    ):
        yield Snapshot(path, int(transaction.id()))


_TRIES = 10_000  # to read a meta page before a busy writer writes over it


@contextmanager
def image(place: Path) -> Iterator[Image]:
    """As `held`, of any format; raises MdbBusy too."""
    data = meta.data_file(place)
    with _shared_environment(place) as environment, pinned(data) as path, explained(path):
        for _ in range(_TRIES):
            with environment.begin() as transaction:
                page = _meta_page(environment, path, int(transaction.id()))
                if page is not None:
                    yield Image(path, page, meta.of_page(page, str(path)))
                    return
    raise MdbBusy(path=path, tries=_TRIES)


def _meta_page(environment: Environment, path: Path, txnid: int) -> bytes | None:
    """The page that tells of transaction `txnid`, which the second commit after it writes over: None when one has.

    While no newer transaction than this has ended, that cannot have begun.
    """
    with files.reading(path) as file:
        head = os.pread(file.fileno(), meta.HEAD_BYTES, 0)
    size = meta.parse(head, str(path)).page_size
    page = head[txnid % 2 * size :][:size]
    fresh = int(environment.info()["last_txnid"]) == txnid
    return page if fresh and meta.of_page(page, str(path)).txnid == txnid else None


def require_format(place: Path) -> meta.Facts:
    """One that the native core reads: LMDB 0.9's. Raises OtherFormat, NotLmdb, MdbDamaged, NoSuchPath, NotPermitted."""
    facts = meta.facts(place)
    require_known(facts, meta.data_file(place), "ditseed's own reader")
    return facts


def require_known(facts: meta.Facts, path: Path, who: str) -> None:
    """Raise OtherFormat unless the file is LMDB 0.9's, which is what `who` reads."""
    if facts.format != FORMAT:
        raise OtherFormat(path=path, found=facts.format, who=who, needed=FORMAT)


@contextmanager
def _shared_environment(place: Path) -> Iterator[Environment]:
    status = meta.data_file(place).stat()
    identity = (status.st_dev, status.st_ino)
    environment = _open(place, identity)
    try:
        yield environment
    finally:
        _close(identity)


def _open(place: Path, identity: tuple[int, int]) -> Environment:
    with _lock:
        if identity not in _shared:
            closing = ExitStack()
            environment = closing.enter_context(opened(place))
            environment.reader_check()
            _shared[identity] = _Shared(environment, closing)
        _shared[identity].holders += 1
        return _shared[identity].environment


def _close(identity: tuple[int, int]) -> None:
    with _lock:
        shared = _shared[identity]
        shared.holders -= 1
        if not shared.holders:
            del _shared[identity]
            shared.closing.close()
