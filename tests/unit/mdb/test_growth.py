"""What a busy environment is foreseen to grow by beside a reader, against what it does grow by."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from fixtures.waiting import until
from loader.mdb import meta, readers
from loader.mdb.readers import Growth

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
