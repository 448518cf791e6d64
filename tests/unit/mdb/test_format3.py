"""Files of LMDB 1.0 (data format 3), which py-lmdb's second engine makes, reads and goes on with: the native core reads
and copies them, and LMDB finds in the copy what it has put into the source."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import pytest

from loader.errors import MdbProtected
from loader.mdb import copy, meta, snapshot
from loader.mdb.verify import verify
from loader.progress import Meter
from tests.support.mapped import oldest_lag
from tests.unit.mdb.test_copy import make as database

PAGE_SIZES = (4096, 16384, 65536)
_PAGE_SIZE_AT = 48  # of a meta page: its header, and the record of the free pages' table
TABLES: dict[str, dict[str, bool]] = {
    "plain": {"integerkey": True},
    "odd": {},
    "values": {"dupsort": True},
    "fixed": {"dupsort": True, "dupfixed": True},
    "numbers": {"dupsort": True, "dupfixed": True, "integerdup": True},
    "reversed": {"dupsort": True, "reverse_key": True},
}

Rows = dict[str, list[tuple[bytes, bytes]]]


def opened(place: Path) -> Any:
    where = {"subdir": place.is_dir(), "lock": place.is_dir()}
    return lmdb.open(str(place), max_dbs=20, map_size=1 << 30, lib_version=1, **where)


def make(place: Path, page_size: int, seed: int = 1) -> Path:
    """A database with 1 entry, and tables with each kind of page."""
    database(place, engine=1) if page_size == 4096 else empty(place, page_size)
    with opened(place) as made:
        for round_ in range(2):
            fill(made, random.Random(seed * 100 + round_), page_size)
    return place


def empty(place: Path, page_size: int) -> None:
    """py-lmdb makes pages as large as the machine's, but goes on with what a file has."""
    place.mkdir()
    opened(place).close()
    head = (place / "data.mdb").read_bytes()
    first = bytearray(head[:4096].ljust(page_size, b"\0"))
    struct.pack_into("=I", first, _PAGE_SIZE_AT, page_size)
    second = struct.pack("=Q", 1) + first[8:]
    (place / "data.mdb").write_bytes(first + second)


def fill(made: Any, rng: random.Random, page_size: int) -> None:
    """Puts and deletes: what stands on leaves, just not, on sub-pages, in trees and on overflow pages."""
    longest = made.max_key_size()
    sizes = [0, 1, 20, 333, page_size // 2 - 60, page_size // 2, page_size * 3 - 24, 200_000]
    tables = {name: made.open_db(name.encode(), **flags) for name, flags in TABLES.items()}
    with made.begin(write=True) as transaction:
        for number in range(400):
            key = struct.pack("=Q", rng.randrange(1000))
            transaction.put(key, rng.randbytes(rng.choice(sizes[: 8 - number % 5])), db=tables["plain"])
            name = rng.randbytes(rng.choice([1, 2, 9, 300, longest - 1, longest]))
            transaction.put(name, rng.randbytes(rng.randrange(600)), db=tables["odd"])
            if number % 3 == 0:
                transaction.delete(struct.pack("=Q", rng.randrange(1000)), db=tables["plain"])
        for number in range(40):
            key = b"key" + bytes([number]) * (1 + number % 2)
            for _ in range(rng.choice([1, 2, 30, 90, 2000])):
                eight = struct.pack("=Q", rng.randrange(1 << 40))
                transaction.put(key, eight, db=tables["numbers"])
                transaction.put(key, eight[:7], db=tables["fixed"])
                transaction.put(key, eight[: rng.randrange(1, 8)] * 5, db=tables["values"])
                transaction.put(key, eight * rng.randrange(1, 4), db=tables["reversed"])
            transaction.put(rng.randbytes(longest), rng.randbytes(longest), db=tables["values"])
            transaction.put(rng.randbytes(longest), rng.randbytes(9), db=tables["values"])


def rows(place: Path) -> Rows:
    """Every table as LMDB reads it."""
    with opened(place) as made:
        tables = {name: made.open_db(name.encode(), **flags) for name, flags in TABLES.items()}
        with made.begin() as transaction:
            return {name: list(transaction.cursor(table)) for name, table in tables.items()}


@pytest.fixture(params=PAGE_SIZES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found = make(tmp_path / "source", request.param)
    facts = meta.read_meta(found)
    assert (facts.format, facts.page_size) == (3, request.param)
    return found


def pages(place: Path) -> int | None:
    return verify(place, "pages", Meter("verify")).entries


@pytest.mark.rows(0, "4096-True")
@pytest.mark.parametrize("compact", [False, True])
def test_a_copy_has_all_that_lmdb_put_there(place: Path, tmp_path: Path, compact: bool) -> None:
    (tmp_path / "copy").mkdir()
    how = copy.CopyMode(compact=compact, record_pages=True)
    made = copy.hot_copy(place, tmp_path / "copy", Meter("copy"), how)
    target = made.path.rename(tmp_path / "copy" / "data.mdb").parent
    before = rows(place)
    assert all(before.values())
    assert rows(target) == before
    # LMDB goes on with the copy, with transactions of later numbers, as it does with the source: the first frees so
    # many pages that their list takes overflow pages.
    for each in (place, target):
        with opened(each) as again:
            fill(again, random.Random(9), meta.read_meta(each).page_size)
    assert rows(target) == rows(place)
    (tmp_path / "again").mkdir()
    copy.hot_copy(target, tmp_path / "again", Meter("copy"), copy.CopyMode(compact=True))


@pytest.mark.long
@pytest.mark.parametrize("compact", [False, True])
def test_either_meta_page_of_a_copy_is_enough(tmp_path: Path, compact: bool) -> None:
    """LMDB takes a page of a later transaction than the meta page's for one that it has not written yet."""
    place, target = make(tmp_path / "source", 4096), tmp_path / "copy"
    target.mkdir()
    made = copy.hot_copy(place, target, Meter("copy"), copy.CopyMode(compact=compact))
    data, facts = made.path.read_bytes(), made.facts
    other = (facts.txnid + 1) % 2  # the older one, which now stands in both places
    page = data[other * 4096 :][:4096]
    old = meta.parse(page, "", alone=True)
    both = [old.page(number, old.txnid, old.map_size) for number in range(2)]
    made.path.rename(target / "data.mdb").write_bytes(b"".join(both) + data[2 * 4096 :])
    assert rows(target) == rows(place)
    for each in (place, target):
        with opened(each) as again:
            fill(again, random.Random(9), 4096)
    assert rows(target) == rows(place)


@pytest.mark.slow
@pytest.mark.parametrize(("at", "value", "what"), [(4094, 32, "page checksums"), (53, 0x20, "encryption")])
def test_what_is_protected_is_refused_by_name(tmp_path: Path, at: int, value: int, what: str) -> None:
    place = make(tmp_path / "source", 4096)
    with (place / "data.mdb").open("r+b") as file:
        file.seek(at)
        file.write(bytes([value]))
    for look in (meta.read_meta, pages):
        with pytest.raises(MdbProtected, match=what):
            look(place)
    with pytest.raises(MdbProtected), snapshot.protected(place):
        pass


_FIVE_COMMITS = """
import random, sys
from pathlib import Path
from tests.unit.mdb.test_format3 import fill, opened
from tests.support.mapped import oldest_lag
with opened(Path(sys.argv[1])) as made:
    for number in range(5):
        fill(made, random.Random(number), 4096)
"""


@pytest.mark.long
def test_a_held_snapshot_keeps_its_pages(tmp_path: Path) -> None:
    """Another process commits what changes most pages: the reader's slot in the lock.mdb of LMDB 1.0 is heeded."""
    place = make(tmp_path / "source", 4096)
    before, moment = rows(place), meta.read_meta(place).txnid
    (tmp_path / "copy").mkdir()
    with snapshot.image(place) as held:
        subprocess.run([sys.executable, "-c", _FIVE_COMMITS, str(place)], check=True)
        assert oldest_lag(place) == meta.read_meta(place).txnid - moment == 5
        made = tmp_path / "copy" / "data.mdb"
        copy.compact(held.path, made, held.page, Meter("copy"))
    assert rows(tmp_path / "copy") == before != rows(place)
    assert oldest_lag(place) == 0
