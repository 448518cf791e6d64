"""Snapshots of databases, held while others read their pages.

A process apart holds a reader slot through py-lmdb, which maps the file. The core reads the pages and maps nothing.
While the slot is held, LMDB writes changed pages to other places (mdb_page_touch), and uses a page again only when all
readers began after the transaction that freed it (mdb_find_oldest). A process that was killed keeps its slot until
somebody opens the environment, as each process here does.

`images` takes snapshots of several databases that show one moment, for a set of backups. An accesslog and its database
are two environments, so no transaction spans both. slapd commits a write to the database first and then to the log,
and the log has the writes in their order (slapo-accesslog). So the snapshot of the log is taken first: the database's
then holds all writes of the log. The log lacks no write of the database if the first write that slapd logs after the
log's snapshot is not in the database's snapshot. Otherwise both snapshots are taken again.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from loader import csn, dn
from loader._native import Contents
from loader.errors import LockUnheeded, MdbBusy, MdbDamaged, NoCommonMoment
from loader.mdb import isolated, meta
from loader.mdb.environment import UNHEEDED, Environment, Transaction, explained, opened
from loader.storage import files, holders
from loader.storage.held import checked_file

if TYPE_CHECKING:
    from loader.child import Child

_log = logging.getLogger(__name__)


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
    with slot(place) as reader:
        reader.take("slot" if clears else "look")
        yield Snapshot(reader.path, reader.txn)


@contextmanager
def image(place: Path) -> Iterator[CopyableSnapshot]:
    """As `held`, of an environment directory; raises MdbBusy too."""
    with slot(place) as reader:
        reader.take("image")
        yield reader.image()


@dataclass
class Slot:
    """A process that holds a reader slot of the environment directory `place`. `path`: its data file, held open. `txn`,
    `page`: the transaction and meta page of the snapshot that was taken last."""

    place: Path
    path: Path
    child: Child
    txn: int = 0
    page: bytes = b""

    def take(self, what: Literal["slot", "image", "look"]) -> None:
        """Takes the present snapshot in the place of the one before. `what`: image reads its meta page, too; look
        leaves slots of dead processes as they are."""
        assert self.child.process.stdin is not None
        assert self.child.process.stdout is not None
        with suppress(BrokenPipeError):  # how it ended tells more
            self.child.process.stdin.write(what.encode() + b"\n")
            self.child.process.stdin.flush()
        line = self.child.process.stdout.readline()
        if not line:
            isolated.finish(self.child, meta.data_file(self.place))
        answer = json.loads(line)
        self.txn, self.page = answer["txn"], bytes.fromhex(answer["page"])

    def image(self) -> CopyableSnapshot:
        """The snapshot that was taken as an image."""
        return CopyableSnapshot(self.path, self.page, meta.of_page(self.page, str(self.path)))

    def explained(self) -> AbstractContextManager[None]:
        return meta.explained(meta.data_file(self.place), self.path)


@contextmanager
def slot(place: Path) -> Iterator[Slot]:
    """A process that holds a reader slot as long as the body runs. Raises LockUnheeded if a writer does not heed it."""
    if place.is_dir():
        holders.require_heeded(place)
    with isolated.started(_hold, place) as child:
        assert child.process.stdin is not None
        try:
            with checked_file(meta.data_file(place)) as path:
                yield Slot(place, path, child)
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


# --- several databases at one moment ---------------------------------------------------------------

PATIENCE = 60.0  # seconds to meet such a moment
_LOOK = 0.01  # seconds
_IDLE = 5.0  # seconds; what was committed longer ago is in the log, if it is logged at all
_LEAVE_CSN = {"add", "modify", "modrdn"}  # values of reqType: their CSN is in the database then
_WRITES = _LEAVE_CSN | {"delete"}
_MOST = 1000  # entries of a log that are read at once
_ENTRY_CSN = "entryCSN"


@dataclass(frozen=True)
class AccessLog:
    """The accesslog in the directory `log` is of the database `suffix` in the directory `database`."""

    log: Path
    database: Path
    suffix: str


@contextmanager
def images(
    places: Sequence[Path], logs: Sequence[AccessLog] = (), patience: float = PATIENCE
) -> Iterator[list[CopyableSnapshot]]:
    """The snapshots of environment directories, in use or not, in this order. Raises NoCommonMoment, and what `image`
    raises."""
    with ExitStack() as stack:
        slots = {place: stack.enter_context(slot(place)) for place in places}
        _take_together(slots, logs, patience)
        for log in logs:
            if not _has_csn_index(slots[log.database]):
                text = "%s has no index of entryCSN, so it is not known whether its accesslog has the same last write"
                _log.warning(text, log.suffix)
        yield [slots[place].image() for place in places]


def _take_together(slots: dict[Path, Slot], logs: Sequence[AccessLog], patience: float) -> None:
    first = dict.fromkeys(log.log for log in logs)
    rest = [place for place in slots if place not in first]
    end = time.monotonic() + patience
    while True:
        for place in (*first, *rest):
            slots[place].take("image")
        behind = next((log for log in logs if not _agrees(log, slots)), None)
        if behind is None:
            return
        if time.monotonic() > end:
            raise NoCommonMoment(path=behind.log, suffix=behind.suffix, seconds=round(patience))


def _has_csn_index(reader: Slot) -> bool:
    with reader.explained():
        return _ENTRY_CSN in Contents(reader.path, meta=reader.page).tables


def _agrees(log: AccessLog, slots: dict[Path, Slot]) -> bool:
    """Whether the log's snapshot is not behind the database's. While slapd writes nothing, it is known after a time."""
    database = slots[log.database]
    if not _has_csn_index(database):
        return True
    end = time.monotonic() + (_IDLE if holders.holder(log.log) is not None else 0.0)
    while (write := _first_write(slots[log.log], log.suffix)) is None:
        if time.monotonic() > end:
            return True
        time.sleep(_LOOK)
    kind, text = write
    server = csn.server_id(text)
    if kind not in _LEAVE_CSN or server is None:
        return False
    with database.explained():
        newest = csn.by_server(Contents(database.path, meta=database.page).newest_csns(text))
    return newest.get(server, "") < text


def _first_write(reader: Slot, suffix: str) -> tuple[str, str] | None:
    """reqType and entryCSN of the first write below `suffix` that this log has got since its snapshot. The IDs of its
    entries are in the order of time."""
    with reader.explained():
        after = Contents(reader.path, meta=reader.page).last_id()
        contents = Contents(reader.path, txn=reader.txn)
        while entries := contents.first_values(after, ["reqType", "reqDN", _ENTRY_CSN], _MOST):
            for _, (kind, name, text) in entries:
                if kind in _WRITES and text and dn.is_below(name, suffix):
                    return kind, text
            after = entries[-1][0]
    return None


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
