"""A snapshot of a database, held while others read its pages.

A process apart holds a reader slot through py-lmdb, which maps the file. The core reads the pages and maps nothing.
While the slot is held, LMDB writes changed pages to other places (mdb_page_touch), and uses a page again only when all
readers began after the transaction that freed it (mdb_find_oldest). A process that was killed keeps its slot until
somebody opens the environment, as each process here does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader._native import Contents
from loader.errors import LockUnheeded, MdbBusy, MdbDamaged
from loader.mdb import isolated, meta
from loader.mdb.environment import UNHEEDED, Environment, Transaction, explained, opened
from loader.storage import files, holders
from loader.storage.held import checked_file

if TYPE_CHECKING:
    from loader.child import Child


@dataclass(frozen=True)
class Snapshot:
    """A data file whose pages stay as they are, those of the snapshot of transaction `txn` and of all later ones."""

    path: Path
    txn: int

    def entries(self) -> int:
        """Records of id2e; 0 without that table."""
        with meta.explained(self.path):
            return _entries(Contents(self.path, txn=self.txn))


@dataclass(frozen=True)
class CopyableSnapshot:
    """A snapshot that can be copied: `page` is its meta page."""

    path: Path
    page: bytes
    facts: meta.MetaPage

    @property
    def head(self) -> bytes:
        """Both meta pages of a copy as it stands: LMDB can start from either."""
        return self.facts.of_copy()

    def entries(self) -> int:
        """Records of id2e; 0 without that table."""
        with meta.explained(self.path):
            return _entries(Contents(self.path, meta=self.page))


def _entries(contents: Contents) -> int:
    record = contents.tables.get("id2e")
    return record.entries if record else 0


@contextmanager
def held(place: Path, clears: bool = True) -> Iterator[Snapshot]:
    """The present snapshot of an environment directory, in use or not, or of a data file that nobody writes to.
    `clears`: slots of dead processes are released first.

    Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath, LockUnheeded.
    """
    txn = meta.read_meta(place).txnid
    if not place.is_dir():
        with checked_file(place) as path:
            yield Snapshot(path, txn)
        return
    with slot(place) as reader, checked_file(meta.data_file(place)) as path:
        yield Snapshot(path, reader.take("slot" if clears else "look")["txn"])


@contextmanager
def image(place: Path) -> Iterator[CopyableSnapshot]:
    """As `held`, of an environment directory; raises MdbBusy too."""
    with slot(place) as reader, reader.image() as image:
        yield image


@dataclass(frozen=True)
class Slot:
    """A process that holds a reader slot of the environment directory `place`."""

    place: Path
    child: Child

    def take(self, what: str) -> dict[str, Any]:
        """Takes the present snapshot in the place of the one before. `what`: slot; image for its meta page, too; look,
        which leaves slots of dead processes as they are."""
        assert self.child.process.stdin is not None
        assert self.child.process.stdout is not None
        with suppress(BrokenPipeError):  # how it ended tells more
            self.child.process.stdin.write(what.encode() + b"\n")
            self.child.process.stdin.flush()
        line = self.child.process.stdout.readline()
        if not line:
            isolated.finish(self.child, meta.data_file(self.place))
        answer: dict[str, Any] = json.loads(line)
        return answer

    @contextmanager
    def image(self, page: bytes | None = None) -> Iterator[CopyableSnapshot]:
        """The snapshot of the meta page `page` that was taken, or the present one."""
        page = page or bytes.fromhex(self.take("image")["page"])
        with checked_file(meta.data_file(self.place)) as path:
            yield CopyableSnapshot(path, page, meta.of_page(page, str(path)))


@contextmanager
def slot(place: Path) -> Iterator[Slot]:
    """A process that holds a reader slot as long as the body runs. Raises LockUnheeded if a writer does not heed it."""
    if place.is_dir():
        holders.require_heeded(place)
    with isolated.started(_hold, place) as child:
        assert child.process.stdin is not None
        try:
            yield Slot(place, child)
        except (MdbBusy, MdbDamaged):  # the pages of a snapshot that nobody heeds
            _release(child, place)
            raise
        finally:  # a slot that is not released keeps pages until somebody looks
            with suppress(BrokenPipeError):
                child.process.stdin.close()
            child.process.wait()
        _release(child, place)


def _release(child: Child, place: Path) -> None:
    """Raises LockUnheeded."""
    assert child.process.stdin is not None
    child.process.stdin.close()
    isolated.finish(child, meta.data_file(place))


@contextmanager
def unlocked(place: Path) -> Iterator[None]:
    """An environment directory is read without a reader slot while the body runs. Refuses a writer that is seen before,
    and one that is not seen if the file has changed meanwhile. Raises LockUnheeded."""
    holders.require_heeded(place)
    before = meta.read_meta(place).txnid
    try:
        yield
    except (MdbBusy, MdbDamaged):  # the pages of a snapshot that nobody heeds
        _require_unwritten(place, before)
        raise
    _require_unwritten(place, before)


def _require_unwritten(place: Path, before: int) -> None:
    if meta.read_meta(place).txnid != before and holders.locker(place) is None:
        raise LockUnheeded(path=meta.data_file(place), reason=UNHEEDED)


# --- in the process apart ------------------------------------------------------------------------

_TRIES = 10_000  # to read a meta page before a busy writer writes over it


def _hold(text: str) -> None:
    """Takes a snapshot for each line of stdin, until that ends."""
    path = meta.data_file(Path(text))
    with opened(Path(text)) as environment, explained(path), os.fdopen(os.dup(0), "rb") as lines:
        transaction: Transaction = None
        try:
            for line in lines:
                if transaction is not None:
                    transaction.abort()
                if line != b"look\n":
                    environment.reader_check()
                page = b""
                if line == b"image\n":
                    transaction, page = _begun(environment, path)
                else:
                    transaction = environment.begin()
                isolated.say({"txn": int(transaction.id()), "page": page.hex()})
        finally:
            if transaction is not None:
                transaction.abort()


def _begun(environment: Environment, path: Path) -> tuple[Transaction, bytes]:
    """A read transaction and its meta page. Raises MdbBusy."""
    for _ in range(_TRIES):
        transaction = environment.begin()
        page = _meta_page(environment, path, int(transaction.id()))
        if page is not None:
            return transaction, page
        transaction.abort()
    raise MdbBusy(path=path, tries=_TRIES)


def _meta_page(environment: Environment, path: Path, txnid: int) -> bytes | None:
    """The meta page of transaction `txnid`; None if the second commit after it has written over it, which cannot have
    begun while no newer transaction than `txnid` has ended."""
    with files.reading(path) as file:
        head = os.pread(file.fileno(), meta.HEAD_BYTES, 0)
    size = meta.parse(head, str(path)).page_size
    page = head[txnid % 2 * size :][:size]
    fresh = int(environment.info()["last_txnid"]) == txnid
    return page if fresh and meta.of_page(page, str(path)).txnid == txnid else None
