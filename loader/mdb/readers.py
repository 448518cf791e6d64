"""Who reads an environment, by the slots of its lock.mdb; read as bytes.

liblmdb clears the slots of dead processes whenever it opens an environment in py-lmdb's way, so a look through it
would not find them. Nothing is changed here, but by `clear`.
Layout: MDB_txninfo and MDB_reader of LMDB 0.9 and 1.0, with the mutexes of glibc. The two have what stands before the
slots in another order, and the slots at the same places.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loader.errors import NotLmdb, NotPermitted
from loader.mdb import environment, isolated, meta
from loader.mdb.environment import LOCK
from loader.storage import files, held, holders

_FORMAT = 0x00010001  # MDB_LOCK_FORMAT of LMDB 0.9 on Linux
# That of LMDB 1.0: in the lower 12 bits its version, above them what tells how the slots are laid out.
_VERSION, _VERSION_BITS = 2, 12
_LINE_KINDS = 6  # of the lowest digit: 0 is a line of 64 bytes
_LONG_IDS, _LARGE_SLOTS, _PID_LOCKS = 1 << 15, 1 << 16, 1 << 17
_LINE = 64  # bytes of a processor's cache line: what mutexes and slots are padded to
_MUTEX = {"aarch64": 48}.get(platform.machine(), 40)  # pthread_mutex_t
_HEAD, _SLOT = struct.Struct("=II"), struct.Struct("=QI")
_IDLE = 2**64 - 1  # a slot whose thread reads nothing now
_MOST = 4 << 20  # bytes of a lock.mdb: 65,000 slots


@dataclass(frozen=True)
class Slot:
    """`txnid`: the snapshot that it reads; None: none at present."""

    pid: int
    txnid: int | None
    is_alive: bool


def slots(directory: Path) -> tuple[Slot, ...]:
    """Of an environment directory; those that are taken. Raises NotPermitted, NotLmdb (another lock format)."""
    path = directory / LOCK
    try:
        with held.opened(directory) as place:
            descriptor = place.open(LOCK)
    except FileNotFoundError:
        return ()
    except PermissionError:
        owner = files.owner_name(path)
        raise NotPermitted(action="read", path=path, owner=owner) from None
    try:
        found = os.pread(descriptor, _MOST, 0)
        return tuple(_taken(found, descriptor, path))
    finally:
        os.close(descriptor)


def _taken(found: bytes, descriptor: int, path: Path) -> Iterator[Slot]:
    if len(found) < _HEAD.size:
        return
    magic, lock_format = _HEAD.unpack_from(found)
    if magic == 0:  # not written yet
        return
    if magic != meta.MAGIC or not (lock_format == _FORMAT or _is_of_1_0(lock_format)):
        raise NotLmdb(path=path, reason=f"lock format {lock_format:#x}, of another LMDB or machine")
    for at in range(_START, len(found) - _LINE + 1, _LINE):
        txnid, pid = _SLOT.unpack_from(found, at)
        if pid:
            yield Slot(pid, None if txnid == _IDLE else txnid, _is_alive(descriptor, pid))


def capacity(directory: Path) -> int:
    """How many slots lock.mdb has: maxreaders of the process that created it; 0 without one. Raises OSError."""
    path = directory / LOCK
    return max(0, (path.lstat().st_size - _START) // _LINE) if path.exists() else 0


def _is_of_1_0(lock_format: int) -> bool:
    """With slots of 64 bytes that begin with a transaction of 8 bytes, and locks on the numbers of processes?"""
    layout = lock_format >> _VERSION_BITS
    return (
        lock_format & (1 << _VERSION_BITS) - 1 == _VERSION
        and layout & (_LONG_IDS | _LARGE_SLOTS | _PID_LOCKS) == _LONG_IDS | _PID_LOCKS
        and (layout & (_LONG_IDS - 1)) % _LINE_KINDS == 0
    )


def _padded(size: int) -> int:
    return -(-size // _LINE) * _LINE


_START = _padded(_HEAD.size + _MUTEX + 12) + _padded(_MUTEX)  # where the slots begin


def _is_alive(descriptor: int, pid: int) -> bool:
    """A process that reads has a lock on the byte of lock.mdb whose number is its own (mdb_reader_pid)."""
    return holders.lock_holder(descriptor, pid) is not None


def clear(directory: Path) -> int:
    """Give back the slots of dead processes, as liblmdb does (mdb_reader_check); how many. Raises LoaderError."""
    before = sum(not one.is_alive for one in slots(directory))
    if before:
        _check(directory)
    return before - sum(not one.is_alive for one in slots(directory))


@isolated.isolated
def _check(place: Path) -> None:
    with environment.opened(place) as opened:
        opened.reader_check()
