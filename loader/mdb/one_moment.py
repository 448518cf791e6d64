"""Snapshots of several databases that show one moment, for a set of backups.

An accesslog and the database that it is of are two environments, so no transaction spans both. slapd commits a write to
the database first and then to the log, and the log has the writes in their order (slapo-accesslog). So the snapshot of
the log is taken first: the database's then holds all that the log tells of. The log lacks nothing that the database
holds if the first write that slapd logs after that is not in the database's snapshot. Otherwise both are taken again.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader import csn, dn
from loader.errors import NoCommonMoment
from loader.mdb import context_csn, entry, isolated, meta, snapshot
from loader.mdb.environment import ID, Environment, Transaction, opened, require_table, table
from loader.mdb.names import attribute_number
from loader.mdb.snapshot import CopyableSnapshot
from loader.storage import holders
from loader.storage.held import checked_file

if TYPE_CHECKING:
    from loader.child import Child

PATIENCE = 60.0  # seconds to meet such a moment
_LOOK = 0.01  # seconds
_IDLE = 5.0  # seconds; what was committed longer ago is in the log, if it is logged at all
_LEAVE_CSN = {"add", "modify", "modrdn"}  # values of reqType: their CSN is in the database then
_WRITES = _LEAVE_CSN | {"delete"}
_OF_A_WRITE = ("reqType", "reqDN", "entryCSN")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Log:
    """The accesslog in the directory `log` is of the database `suffix` in the directory `database`."""

    log: Path
    database: Path
    suffix: str


@dataclass(frozen=True)
class _Write:
    """One that the log tells of."""

    kind: str
    csn: str

    @property
    def can_be_found(self) -> bool:
        return self.kind in _LEAVE_CSN and csn.server_id(self.csn) is not None


@dataclass
class _Holder:
    """A process that holds a reader's slot of one environment, and reads in it."""

    place: Path
    child: Child
    taken: dict[str, Any] = field(default_factory=dict)

    def ask(self, **what: Any) -> Any:
        assert self.child.process.stdin is not None
        assert self.child.process.stdout is not None
        with suppress(BrokenPipeError):  # how it ended tells more
            self.child.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.child.process.stdin.flush()
        line = self.child.process.stdout.readline()
        if not line:
            isolated.finish(self.child, meta.data_file(self.place))
        return json.loads(line)

    def take(self) -> None:
        """The present snapshot, in the place of the one before."""
        self.taken = self.ask(do="take")

    def first_write(self, suffix: str) -> _Write | None:
        """The first below `suffix` that this log has got since it was taken."""
        found = self.ask(do="write", after=self.taken["last"], suffix=suffix)
        return None if found is None else _Write(*found)

    def holds(self, text: str) -> bool:
        """Has an entry of the snapshot this CSN, or a later one of the same server?"""
        return bool(self.ask(do="holds", text=text))


@contextmanager
def images(
    places: Sequence[Path], logs: Sequence[Log] = (), patience: float = PATIENCE
) -> Iterator[list[CopyableSnapshot]]:
    """The snapshots of environment directories, in use or not, in this order. Raises NoCommonMoment, and what
    `snapshot.image` raises."""
    with ExitStack() as stack:
        found = {place: stack.enter_context(_holding(place)) for place in places}
        _taken(found, logs, patience)
        _tell_not_compared(found, logs)
        yield [stack.enter_context(_image(found[place])) for place in places]


@contextmanager
def _image(holder: _Holder) -> Iterator[CopyableSnapshot]:
    with checked_file(meta.data_file(holder.place)) as path:
        page = bytes.fromhex(holder.taken["page"])
        yield CopyableSnapshot(path, page, meta.of_page(page, str(path)))


@contextmanager
def _holding(place: Path) -> Iterator[_Holder]:
    with snapshot.slot(place, _answer) as child:
        yield _Holder(place, child)


def _taken(found: dict[Path, _Holder], logs: Sequence[Log], patience: float) -> None:
    first = list(dict.fromkeys(one.log for one in logs))
    rest = [place for place in found if place not in first]
    end = time.monotonic() + patience
    while True:
        for place in (*first, *rest):
            found[place].take()
        behind = next((one for one in logs if not _agrees(one, found)), None)
        if behind is None:
            return
        if time.monotonic() > end:
            raise NoCommonMoment(path=behind.log, suffix=behind.suffix, seconds=round(patience))


def _tell_not_compared(found: dict[Path, _Holder], logs: Sequence[Log]) -> None:
    for one in logs:
        if not found[one.database].taken["indexed"]:
            _log.warning(
                "%s has no index of entryCSN, so it is not known whether its accesslog tells of the same last write",
                one.suffix,
            )


def _agrees(log: Log, found: dict[Path, _Holder]) -> bool:
    """Is the log's snapshot not behind the database's? While slapd writes nothing, after a while."""
    if not found[log.database].taken["indexed"]:
        return True
    end = time.monotonic() + (_IDLE if holders.holder(log.log) is not None else 0.0)
    while (write := found[log.log].first_write(log.suffix)) is None:
        if time.monotonic() > end:
            return True
        time.sleep(_LOOK)
    return write.can_be_found and not found[log.database].holds(write.csn)


# --- in the process apart ------------------------------------------------------------------------


def _answer(text: str) -> None:
    """What the other process asks, a line each, until it asks no more."""
    with opened(Path(text)) as environment:
        environment.reader_check()
        with closing(_Asked(environment, Path(text))) as asked, os.fdopen(os.dup(0), "rb") as lines:
            for line in lines:
                told = json.loads(line)
                isolated.say(getattr(asked, told.pop("do"))(**told))


class _Asked:
    """What can be asked. A transaction knows only tables that were opened before it began."""

    def __init__(self, environment: Environment, place: Path) -> None:
        self.environment, self.place = environment, place
        self.entries = require_table(environment, context_csn.ENTRIES)
        self.index = table(environment, context_csn.ENTRY)
        self.number = attribute_number(environment, context_csn.ENTRY)
        self.of_a_write: list[int | None] = [None]  # numbers of _OF_A_WRITE, once all are known
        self.taken: Transaction | None = None

    def close(self) -> None:
        if self.taken is not None:
            self.taken.abort()
            self.taken = None

    def take(self) -> dict[str, object]:
        self.close()
        self.taken, page = snapshot.begun(self.environment, meta.data_file(self.place))
        return {"page": page.hex(), "last": self._last(), "indexed": self.index is not None}

    def _last(self) -> int:
        """The highest entry ID: those of a log are in the order of time."""
        assert self.taken is not None
        cursor = self.taken.cursor(self.entries)
        return int(ID.unpack(cursor.key())[0]) if cursor.last() else 0

    def write(self, after: int, suffix: str) -> tuple[str, str] | None:
        """The first below `suffix` of an entry of the log behind `after`, by now: its reqType and entryCSN."""
        if None in self.of_a_write:
            self.of_a_write = [attribute_number(self.environment, one) for one in _OF_A_WRITE]
        with self.environment.begin() as transaction:
            cursor = transaction.cursor(self.entries)
            more = cursor.set_range(ID.pack(after + 1))
            while more:
                kind, name, text = (_text(cursor.value(), number) for number in self.of_a_write)
                if kind in _WRITES and text and dn.is_below(name, suffix):
                    return kind, text
                more = cursor.next()
        return None

    def holds(self, text: str) -> bool:
        """By the index of entryCSN, whose keys are seconds."""
        if self.number is None or self.index is None:
            return False
        for texts in context_csn.by_second(self.taken, self.index, self.entries, self.number):
            if any(csn.server_id(one) == csn.server_id(text) and one >= text for one in texts):
                return True
            if max(texts)[:14] < text[:14]:
                return False
        return False


def _text(blob: bytes, number: int | None) -> str:
    """The first value of an attribute; empty where the entry has none."""
    found = () if number is None else entry.values_of(blob, number)
    return found[0].decode("utf-8", "replace") if found else ""
