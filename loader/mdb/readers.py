"""Reports the readers of an environment (from the slots in lock.mdb), the free pages that LMDB cannot reuse because of
these readers, and the growth of the file meanwhile.

lock.mdb is read as bytes: if py-lmdb opened the environment, liblmdb would clear the slots of dead processes. Only
`clear` changes anything. The layout is that of MDB_txninfo and MDB_reader in LMDB 0.9 and 1.0, with glibc's mutexes. In
both versions the slots have the same offsets."""

from __future__ import annotations

import os
import platform
import statistics
import struct
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from loader._native import Contents
from loader.config import Database
from loader.errors import MdbDamaged, NotLmdb, NotPermitted
from loader.mdb import environment, isolated, meta, snapshot
from loader.mdb.environment import LOCK
from loader.mdb.meta import MetaPage
from loader.storage import files, held, holders

_FORMAT = 0x00010001  # MDB_LOCK_FORMAT of LMDB 0.9 on Linux
# MDB_LOCK_FORMAT of LMDB 1.0 has the version in its lower 12 bits, and the layout of the slots in the other bits.
_VERSION, _VERSION_BITS = 2, 12
_LINE_KINDS = 6  # the lower layout bits modulo 6 encode the size of a cache line; 0: 64 bytes
_LONG_IDS, _LARGE_SLOTS, _PID_LOCKS = 1 << 15, 1 << 16, 1 << 17
_LINE = 64  # bytes of a processor's cache line; each mutex and each slot is padded to this size
_MUTEX = {"aarch64": 48}.get(platform.machine(), 40)  # bytes of a pthread_mutex_t
_HEAD, _SLOT = struct.Struct("=II"), struct.Struct("=QI")
_IDLE_SLOT = 2**64 - 1  # transaction ID in a slot whose thread has no read transaction
_READ_BYTES = 4 << 20  # maximum number of bytes read from a lock.mdb; they have room for 65,000 slots


class Slot(msgspec.Struct, frozen=True):
    """A used reader slot. `txnid`: transaction of its snapshot; None if it has no read transaction now."""

    pid: int
    txnid: int | None
    is_alive: bool


def slots(directory: Path) -> tuple[Slot, ...]:
    """Returns the used reader slots of an environment directory. Raises NotPermitted; NotLmdb for an unknown format."""
    path = directory / LOCK
    try:
        with held.opened(directory) as open_dir:
            descriptor = open_dir.open(LOCK)
    except FileNotFoundError:
        return ()
    except PermissionError:
        raise NotPermitted(action="read", path=path, owner=files.owner_name(path)) from None
    with held.closing_descriptor(descriptor):
        head = os.pread(descriptor, _READ_BYTES, 0)
        if len(head) < _HEAD.size:
            return ()
        magic, lock_format = _HEAD.unpack_from(head)
        if magic == 0:  # lock.mdb has just been created
            return ()
        if magic != meta.MAGIC or not (lock_format == _FORMAT or _is_of_1_0(lock_format)):
            raise NotLmdb(path=path, reason=f"lock format {lock_format:#x} of another LMDB or machine")
        slot_records = (_SLOT.unpack_from(head, offset) for offset in range(_START, len(head) - _LINE + 1, _LINE))
        # A living reader locks the byte of lock.mdb at the offset of its PID (mdb_reader_pid).
        return tuple(
            Slot(pid, None if txnid == _IDLE_SLOT else txnid, holders.lock_holder(descriptor, pid) is not None)
            for txnid, pid in slot_records
            if pid
        )


def capacity(directory: Path) -> int:
    """Returns the number of slots in lock.mdb, or 0 without lock.mdb. Raises OSError."""
    path = directory / LOCK
    return max(0, (path.lstat().st_size - _START) // _LINE) if path.exists() else 0


def _is_of_1_0(lock_format: int) -> bool:
    """Returns whether this is LMDB 1.0's format with PID locks and 64-byte slots that begin with a 64-bit ID."""
    layout = lock_format >> _VERSION_BITS
    return (
        lock_format & (1 << _VERSION_BITS) - 1 == _VERSION
        and layout & (_LONG_IDS | _LARGE_SLOTS | _PID_LOCKS) == _LONG_IDS | _PID_LOCKS
        and (layout & (_LONG_IDS - 1)) % _LINE_KINDS == 0
    )


# The offset of the first slot. The head and the mutexes are each padded to a cache line.
_START = -(-(_HEAD.size + _MUTEX + 12) // _LINE) * _LINE + -(-_MUTEX // _LINE) * _LINE


def clear(directory: Path) -> int:
    """Releases the slots of dead processes (mdb_reader_check). Returns their number. Raises LoaderError."""
    dead_slots = sum(not slot.is_alive for slot in slots(directory))
    if dead_slots:
        _check(directory)
    return dead_slots - sum(not slot.is_alive for slot in slots(directory))


@isolated.isolated
def _check(env: Path) -> None:
    with environment.opened(env) as handle:
        handle.reader_check()


# --- the free list ---------------------------------------------------------------------------------

_TRIES = 20


def free_list(directory: Path) -> tuple[MetaPage, dict[int, int]]:
    """Returns the newest meta page, and maps each transaction to the number of its freed pages that are still free.

    LMDB overwrites the pages of a snapshot only from the third transaction after the snapshot. So the result is
    consistent if at most one transaction ended meanwhile. On a busier server, takes a reader slot, which clears the
    slots of dead readers. Raises NotLmdb, MdbProtected, MdbDamaged, MdbBusy, NotPermitted, NoSuchPath."""
    for _ in range(_TRIES):
        facts = meta.read_meta(directory)
        try:
            freed, damage = _pages_freed(directory, facts), None
        except MdbDamaged as error:
            freed, damage = {}, error
        if meta.read_meta(directory).txnid <= facts.txnid + 1:
            if damage is not None:
                raise damage
            return facts, freed
    with snapshot.image(directory) as image:
        return image.facts, _pages_freed(directory, image.facts)


def _pages_freed(directory: Path, facts: MetaPage, since: int = 0) -> dict[int, int]:
    """Maps each transaction from `since` on to the number of its freed pages that are still free."""
    path = meta.data_file(directory)
    with held.checked_file(path) as pin, meta.explained(path, pin):
        page = facts.page(facts.txnid % 2, facts.txnid, facts.map_size)
        return Contents(pin, meta=page).freed(since)


# --- growth ----------------------------------------------------------------------------------------

PAGES = 25  # new pages per transaction that are assumed if no transaction was observed
MARGIN = 1.25  # factor for the observed pages per transaction, because later transactions may need more
_OBSERVATION = 0.5  # seconds of the whole observation
_PAUSE = 0.02  # seconds between two observations


class Growth(msgspec.Struct, frozen=True):
    """The growth of a busy environment while a reader slot protects a snapshot. `transactions`: per second. `pages`:
    new pages per transaction, with a margin. `rate`: bytes per second."""

    transactions: float
    pages: float
    rate: float


def measure_growth(source: Path) -> Growth:
    """Measures the growth over half a second, from the meta pages and from the end of the free list.

    A change copies every page on the path from the root. The replaced pages cannot be reused while a reader may need
    them, so the file grows by the number of pages that the transactions free. A modification by slapd frees 8 to 11
    pages in a database of 100,000 entries, and 20 with 2.3 million."""
    first, start_time, freed = meta.read_meta(source), time.monotonic(), dict[int, int]()
    while time.monotonic() - start_time < _OBSERVATION:
        time.sleep(_PAUSE)
        facts = meta.read_meta(source)
        with suppress(MdbDamaged):  # a writer overwrote pages during the reading
            newly_freed = _pages_freed(source, facts, first.txnid + 1)
            if meta.read_meta(source).txnid <= facts.txnid + 1:
                freed |= newly_freed
    last = meta.read_meta(source)
    transactions = (last.txnid - first.txnid) / (time.monotonic() - start_time)
    pages = statistics.fmean(freed.values()) * MARGIN if freed else PAGES
    rate = transactions * pages * last.page_size
    return Growth(transactions, pages, rate)


# --- free space -------------------------------------------------------------------------------------


class Reader(msgspec.Struct, frozen=True):
    """A process with a snapshot of the database. `lag`: number of transactions since that snapshot."""

    pid: int
    process: str
    lag: int
    is_alive: bool


class Room(msgspec.Struct, frozen=True):
    """The sizes in bytes that decide when LMDB reports MDB_MAP_FULL.

    `maxsize`: the configured size, but at least `used`, because LMDB maps no less. `used`: the file up to the last page
    that was ever used. `reusable`: free pages for the next transactions. `held`: free pages that the oldest reader may
    still need. `disk_free`: free space on the file system, plus the file's blocks beyond `used`. `growth`: bytes per
    second; None if every reader is up to date, because LMDB then reuses pages."""

    maxsize: int
    used: int
    reusable: int
    held: int
    disk_free: int
    growth: float | None

    @property
    def unused(self) -> int:
        """The unused part of the map, at most as large as the free disk space."""
        return max(0, min(self.maxsize - self.used, self.disk_free))

    @property
    def available(self) -> int:
        return self.unused + self.reusable


def measure(database: Database) -> tuple[Room, tuple[Reader, ...]]:
    """Measures the free space in the map of a database that slapd may be using. Raises LockUnused if a process writes
    to the data file without using its lock.mdb; other LoaderErrors."""
    directory = database.directory
    assert directory is not None
    holders.require_lock_used(directory)
    used_slots = slots(directory)
    facts, freed = free_list(directory)
    oldest_txnid = min((slot.txnid for slot in used_slots if slot.txnid is not None), default=facts.txnid + 1)
    reusable = sum(count for txnid, count in freed.items() if txnid < oldest_txnid)
    readers = tuple(
        Reader(
            slot.pid,
            holders.command_name(slot.pid) if slot.is_alive else "",
            0 if slot.txnid is None else max(0, facts.txnid - slot.txnid),
            slot.is_alive,
        )
        for slot in used_slots
        if slot.txnid is not None or not slot.is_alive
    )
    spare_bytes = files.allocated_bytes(meta.data_file(directory)) - facts.used  # the file has these blocks already
    room = Room(
        maxsize=max(database.maxsize, facts.used),
        used=facts.used,
        reusable=reusable * facts.page_size,
        held=(sum(freed.values()) - reusable) * facts.page_size,
        disk_free=files.free_bytes(directory) + max(0, spare_bytes),
        growth=measure_growth(directory).rate if any(reader.lag for reader in readers) else None,
    )
    return room, readers
