"""Who reads an environment, by the slots of its lock.mdb; read as bytes.

liblmdb clears the slots of dead processes whenever it opens an environment in py-lmdb's way, so a look through it
would not find them. Nothing is changed here, but by `clear`.
Layout: MDB_txninfo and MDB_reader of LMDB 0.9, with the mutexes of glibc.
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
    if (magic, lock_format) != (meta.MAGIC, _FORMAT):
        if magic == 0:  # not written yet
            return
        raise NotLmdb(path=path, reason=f"its lock format {lock_format:#x} is not that of LMDB 0.9")
    start = _padded(_HEAD.size + _MUTEX + 12) + _padded(_MUTEX)
    for at in range(start, len(found) - _LINE + 1, _LINE):
        txnid, pid = _SLOT.unpack_from(found, at)
        if pid:
            yield Slot(pid, None if txnid == _IDLE else txnid, _is_alive(descriptor, pid))


def _padded(size: int) -> int:
    return -(-size // _LINE) * _LINE


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
