"""The free list and the reader slots, read as bytes, against what liblmdb does; and what an environment grows by."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from fixtures.waiting import until
from loader.errors import MdbDamaged, NotLmdb
from loader.mdb import meta, readers
from loader.mdb.readers import Growth, Slot
from tests.support import mapped


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
    with mapped.read_by_another(place) as reader:
        before = meta.read_meta(place).txnid
        write(place, 20)
        (slot,) = readers.slots(place)
        assert slot == Slot(reader.pid, before, True)
        _, freed = readers.free_list(place)
        assert {txnid for txnid in freed if txnid >= before} >= set(range(before + 1, before + 20))
        reader.kill()
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


WRITING = """
import lmdb, random, sys, time
made = lmdb.open(sys.argv[1], map_size=4 << 30, max_dbs=4, sync=False)
tables = [made.open_db(b"%d" % number) for number in range(3)]
with made.begin(write=True) as transaction:
    for number in range(20_000):
        for table in tables:
            transaction.put(b"%09d" % number, bytes(300), db=table)
print("there", flush=True)
while True:
    with made.begin(write=True) as transaction:
        for table in tables:
            transaction.put(b"%09d" % random.randrange(20_000), random.randbytes(300), db=table)
    time.sleep(0.001)  # without a pause the pages that the reader holds back fill the map within seconds
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    with subprocess.Popen([sys.executable, "-c", WRITING, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        yield tmp_path
        ended = writer.poll()
        writer.kill()
    assert ended is None, "the writer ended while it was measured"


def test_beside_a_reader_it_grows_as_foreseen(busy: Path) -> None:
    # The size of the map is given: LMDB may read it from a meta page that the writer is just writing.
    with lmdb.open(str(busy), map_size=4 << 30, readonly=True, max_dbs=4) as made, made.begin():
        before = meta.read_meta(busy)
        found = until(lambda: _measured(busy))
        after = meta.read_meta(busy)
    grown = (after.used - before.used) / after.page_size / (after.txnid - before.txnid)
    assert grown > 10  # three trees of three levels, and the two that list tables and free pages
    assert 0.8 < found.pages / readers.MARGIN / grown < 1.25
    assert found.rate == pytest.approx(found.transactions * found.pages * after.page_size)


def _measured(place: Path) -> Growth | None:
    """Once there was something to see, however slow the host is."""
    found = readers.measure_growth(place)
    return found if found.pages != readers.PAGES else None


def test_where_nothing_is_written(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as made, made.begin(write=True) as transaction:
        transaction.put(b"a", b"b")
    found = readers.measure_growth(tmp_path)
    assert (found.transactions, found.rate) == (0, 0)
