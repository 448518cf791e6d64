"""The free list and the reader slots, read as bytes, against what liblmdb does."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from loader.errors import MdbDamaged, NotLmdb
from loader.mdb import meta, readers
from loader.mdb.readers import Slot

READING = "import lmdb, sys; t = lmdb.open(sys.argv[1], readonly=True).begin(); print('reads', flush=True); input()"


@pytest.fixture
def engine() -> int:
    """lib_version of py-lmdb: 1 is LMDB 1.0."""
    return 0


@pytest.fixture
def place(engine: int, tmp_path: Path) -> Path:
    """Some thousand pages were freed by one transaction, more than a page of numbers."""
    with lmdb.open(str(tmp_path), map_size=64 << 20, lib_version=engine) as made:
        with made.begin(write=True) as transaction:
            for number in range(3000):
                transaction.put(b"%d" % number, bytes(3000))
        with made.begin(write=True) as transaction:
            for number in range(2500):
                transaction.delete(b"%d" % number)
    return tmp_path


def reachable(place: Path) -> int:
    """Pages of the main table, the only one, and the meta pages."""
    with lmdb.open(str(place), readonly=True, lock=False) as made:
        told = made.stat()
        return int(told["branch_pages"] + told["leaf_pages"] + told["overflow_pages"]) + 2


def write(place: Path, times: int) -> None:
    with lmdb.open(str(place), map_size=64 << 20) as made:
        for number in range(times):
            with made.begin(write=True) as transaction:
                transaction.put(b"x", b"%d" % number)


@pytest.mark.parametrize("engine", [0, 1])
def test_every_page_is_reachable_or_free(place: Path) -> None:
    facts, freed = readers.free_list(place)
    assert max(freed.values()) > 1000  # its numbers take pages of their own
    own = facts.pages - reachable(place) - sum(freed.values())
    assert 1 <= own <= 2 + max(freed.values()) // 500  # the pages of the list itself


@pytest.mark.parametrize("engine", [0, 1])
def test_what_a_reader_keeps_is_told_by_transaction(place: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READING, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        before = meta.read_meta(place).txnid
        write(place, 20)
        (slot,) = readers.slots(place)
        assert slot == Slot(reader.pid, before, True)
        _, freed = readers.free_list(place)
        assert {txnid for txnid in freed if txnid >= before} >= set(range(before + 1, before + 20))
        reader.send_signal(signal.SIGKILL)
    assert readers.slots(place) == (Slot(reader.pid, before, False),)
    assert readers.clear(place) == 1
    assert readers.slots(place) == ()
    assert readers.clear(place) == 0


@pytest.mark.slow
def test_a_free_list_that_lies(place: Path) -> None:
    facts = meta.read_meta(place)
    assert facts.free.root is not None
    with (place / "data.mdb").open("r+b") as file:
        file.seek(facts.free.root * facts.page_size)
        page = bytearray(file.read(facts.page_size))
        (at,) = struct.unpack_from("=H", page, 16)
        for flags, number in ((0x01, 2**40), (0x01, facts.free.root)):  # outside; itself, for ever
            struct.pack_into("=H", page, 10, flags)
            struct.pack_into("=HHH", page, at, number & 0xFFFF, number >> 16 & 0xFFFF, number >> 32)
            file.seek(facts.free.root * facts.page_size)
            file.write(page)
            file.flush()
            with pytest.raises(MdbDamaged):
                readers.free_list(place)
    os.truncate(place / "data.mdb", 2 * facts.page_size)
    with pytest.raises(MdbDamaged):
        readers.free_list(place)


def test_lock_files_of_others(place: Path, tmp_path: Path) -> None:
    lock = place / "lock.mdb"
    of_1_0 = 0x2C2F6002  # on a machine with 64 bits
    others = (0x00020002, of_1_0 + 1, of_1_0 ^ 1 << 27, of_1_0 ^ 1 << 28, of_1_0 + (1 << 12))
    for lock_format in others:  # another version, IDs of 4 bytes, larger slots, lines of 32 bytes
        lock.write_bytes(struct.pack("=II", meta.MAGIC, lock_format) + bytes(8000))
        with pytest.raises(NotLmdb, match="lock format"):
            readers.slots(place)
    lock.write_bytes(b"")
    assert readers.slots(place) == ()
    lock.unlink()
    assert readers.slots(place) == ()
