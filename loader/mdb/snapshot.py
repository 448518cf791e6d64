"""A snapshot of a database, held while others read its pages: a read transaction keeps LMDB from using them again.

A process apart holds the reader's slot, through py-lmdb, which maps the file. The core reads the pages and maps
nothing. A process that was killed keeps its slots until somebody looks: whoever opens an environment here does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader.errors import MdbBusy, MdbDamaged
from loader.mdb import isolated, meta
from loader.mdb.environment import Environment, Transaction, explained, opened, require_table, rows
from loader.storage import files, holders
from loader.storage.held import checked_file

if TYPE_CHECKING:
    from loader.child import Child


@dataclass(frozen=True)
class Snapshot:
    """Of the data file `path`. Pages of the snapshot that transaction `txn` left, and of later ones, stay as they are.

    LMDB uses a page again only when all readers began after the transaction that freed it.
    """

    path: Path
    txn: int
    entries: int | None = None


@dataclass(frozen=True)
class CopyableSnapshot:
    """A snapshot that can be copied: `page` is the meta page that tells of it."""

    path: Path
    page: bytes
    facts: meta.MetaPage

    @property
    def head(self) -> bytes:
        """Both meta pages of a copy as it stands: either alone is enough, LMDB goes on with the next transaction."""
        return b"".join(self._page(number) for number in range(2))

    def _page(self, number: int) -> bytes:
        """Transaction N writes meta page N % 2 (mdb_env_write_meta). In format 3 both tell of the same transaction:
        pages have the number of theirs, and those of a later one than the meta page's would count as not written."""
        txnid = self.facts.txnid
        if self.facts.format == 1 and txnid % 2 != number:
            txnid = max(0, txnid - 1)
        return meta.renumbered(self.page, self.facts, number, txnid)


@contextmanager
def held(place: Path, counted: bool = False) -> Iterator[Snapshot]:
    """The present snapshot of an environment directory, in use or not, or of a data file that nobody writes to.

    `counted`: with its number of entries. Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, ReadersFull,
    NoSuchPath.
    """
    meta.read_meta(place)
    with (
        _holding(place, "counted" if counted else "slot") as found,
        checked_file(meta.data_file(place)) as path,
    ):
        yield Snapshot(path, found["txn"], found["entries"])


@contextmanager
def image(place: Path) -> Iterator[CopyableSnapshot]:
    """As `held`; raises MdbBusy too."""
    with _holding(place, "image") as found, checked_file(meta.data_file(place)) as path:
        page = bytes.fromhex(found["page"])
        yield CopyableSnapshot(path, page, meta.of_page(page, str(path)))


@contextmanager
def _holding(place: Path, what: str) -> Iterator[dict[str, Any]]:
    with slot(place, _hold, what) as child:
        assert child.process.stdout is not None
        line = child.process.stdout.readline()
        if not line:
            isolated.finish(child, meta.data_file(place))
        yield json.loads(line)


@contextmanager
def slot(place: Path, work: Callable[..., None], *arguments: object) -> Iterator[Child]:
    """A process that does `work(place, ...)`, which holds a slot until its stdin ends: as long as the body runs. At its
    end it tells whether all writers heeded the slot."""
    if place.is_dir():
        holders.require_heeded(place)
    with isolated.started(work, place, *arguments) as child:
        assert child.process.stdin is not None
        try:
            yield child
        except (MdbBusy, MdbDamaged):  # the pages of a snapshot that nobody heeds
            _give_back(child, place)
            raise
        finally:  # a slot that is not given back keeps pages until somebody looks
            with suppress(BrokenPipeError):
                child.process.stdin.close()
            child.process.wait()
        _give_back(child, place)


def _give_back(child: Child, place: Path) -> None:
    """Raises LockUnheeded."""
    assert child.process.stdin is not None
    child.process.stdin.close()
    isolated.finish(child, meta.data_file(place))


# --- in the process apart ------------------------------------------------------------------------

_TRIES = 10_000  # to read a meta page before a busy writer writes over it


def _hold(text: str, what: str) -> None:
    place = Path(text)
    path = meta.data_file(place)
    with opened(place) as environment, explained(path):
        environment.reader_check()
        entries = require_table(environment, "id2e") if what == "counted" else None
        if what == "image":
            transaction, page = begun(environment, path)
        else:
            transaction, page = environment.begin(), b""
        with transaction:
            count = rows(transaction, entries) if entries is not None else None
            isolated.say({"txn": int(transaction.id()), "entries": count, "page": page.hex()})
            os.read(0, 1)  # until nobody wants it any more


def begun(environment: Environment, path: Path) -> tuple[Transaction, bytes]:
    """A read transaction, and the meta page that tells of it. Raises MdbBusy."""
    for _ in range(_TRIES):
        transaction = environment.begin()
        page = _meta_page(environment, path, int(transaction.id()))
        if page is not None:
            return transaction, page
        transaction.abort()
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
