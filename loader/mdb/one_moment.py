"""Snapshots of several databases that show one moment, for a set of backups.

An accesslog and the database that it is of are two environments, so no transaction spans both. slapd commits a write to
the database first and then to the log, and the log has the writes in their order (slapo-accesslog). So the snapshot of
the log is taken first: the database's then holds all that the log tells of. The log lacks nothing that the database
holds if the first write that slapd logs after that is not in the database's snapshot. Otherwise both are taken again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import csn, dn
from loader._native import Contents
from loader.errors import NoCommonMoment
from loader.mdb import meta, snapshot
from loader.mdb.contents import ENTRY
from loader.mdb.snapshot import CopyableSnapshot, Slot
from loader.storage import holders
from loader.storage.held import checked_file

PATIENCE = 60.0  # seconds to meet such a moment
_LOOK = 0.01  # seconds
_IDLE = 5.0  # seconds; what was committed longer ago is in the log, if it is logged at all
_LEAVE_CSN = {"add", "modify", "modrdn"}  # values of reqType: their CSN is in the database then
_WRITES = _LEAVE_CSN | {"delete"}
_OF_A_WRITE = ["reqType", "reqDN", "entryCSN"]
_MOST = 1000  # entries of a log that are read at once
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Log:
    """The accesslog in the directory `log` is of the database `suffix` in the directory `database`."""

    log: Path
    database: Path
    suffix: str


@dataclass
class _Holder:
    """A reader slot of one environment, the transaction of the snapshot that it holds, and the meta page of that."""

    slot: Slot
    path: Path  # of the data file, held open
    txn: int = 0
    page: bytes = b""
    last: int = 0  # the highest entry ID of the snapshot
    is_indexed: bool = False  # there is an index of entryCSN

    def take(self) -> None:
        """The present snapshot, in the place of the one before."""
        answer = self.slot.take("image")
        self.txn, self.page = answer["txn"], bytes.fromhex(answer["page"])

    def look(self) -> None:
        """Reads what is compared of the snapshot."""
        with self._explained():
            contents = Contents(self.path, meta=self.page)
            self.last, self.is_indexed = contents.last_id(), ENTRY in contents.tables

    def first_write(self, suffix: str) -> tuple[str, str] | None:
        """reqType and entryCSN of the first write below `suffix` that this log has got since the snapshot. The IDs of
        its entries are in the order of time."""
        with self._explained():
            contents, after = Contents(self.path, txn=self.txn), self.last
            while entries := contents.first_values(after, _OF_A_WRITE, _MOST):
                for _, (kind, name, text) in entries:
                    if kind in _WRITES and text and dn.is_below(name, suffix):
                        return kind, text
                after = entries[-1][0]
        return None

    def has(self, text: str) -> bool:
        """Has an entry of the snapshot this CSN, or a later one of the same server?"""
        with self._explained():
            newest = csn.by_server(Contents(self.path, meta=self.page).newest_csns(text))
        return newest.get(csn.server_id(text) or "", "") >= text

    def _explained(self) -> AbstractContextManager[None]:
        return meta.explained(meta.data_file(self.slot.place), self.path)


@contextmanager
def images(
    places: Sequence[Path], logs: Sequence[Log] = (), patience: float = PATIENCE
) -> Iterator[list[CopyableSnapshot]]:
    """The snapshots of environment directories, in use or not, in this order. Raises NoCommonMoment, and what
    `snapshot.image` raises."""
    with ExitStack() as stack:
        taken = {place: stack.enter_context(_holding(place)) for place in places}
        _take(taken, logs, patience)
        for one in logs:
            if not taken[one.database].is_indexed:
                text = "%s has no index of entryCSN, so it is not known whether its accesslog has the same last write"
                _log.warning(text, one.suffix)
        every = [taken[place] for place in places]
        yield [stack.enter_context(one.slot.image(one.page)) for one in every]


@contextmanager
def _holding(place: Path) -> Iterator[_Holder]:
    with snapshot.slot(place) as slot, checked_file(meta.data_file(place)) as path:
        yield _Holder(slot, path)


def _take(found: dict[Path, _Holder], logs: Sequence[Log], patience: float) -> None:
    first = list(dict.fromkeys(one.log for one in logs))
    rest = [place for place in found if place not in first]
    end = time.monotonic() + patience
    while True:
        for place in (*first, *rest):
            found[place].take()
        for holder in found.values():
            holder.look()
        behind = next((one for one in logs if not _agrees(one, found)), None)
        if behind is None:
            return
        if time.monotonic() > end:
            raise NoCommonMoment(path=behind.log, suffix=behind.suffix, seconds=round(patience))


def _agrees(log: Log, found: dict[Path, _Holder]) -> bool:
    """Is the log's snapshot not behind the database's? While slapd writes nothing, after a while."""
    if not found[log.database].is_indexed:
        return True
    end = time.monotonic() + (_IDLE if holders.holder(log.log) is not None else 0.0)
    while (write := found[log.log].first_write(log.suffix)) is None:
        if time.monotonic() > end:
            return True
        time.sleep(_LOOK)
    kind, text = write
    is_findable = kind in _LEAVE_CSN and csn.server_id(text) is not None
    return is_findable and not found[log.database].has(text)
