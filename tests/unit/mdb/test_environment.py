"""Opening environments: who may, once a process, and what stands beside a data.mdb afterwards."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import lmdb
import pytest

from loader.errors import MapFull, NoSuchPath, NotLmdb, NotPermitted, UsageProblem
from loader.mdb import contents, environment, meta
from loader.storage import holders
from tests.support import mapped, nobody
from tests.support.lag import oldest_lag

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
NOBODY = 65534


@pytest.fixture
def place(short_tmp: Path) -> Path:
    """Three entries, no lock.mdb."""
    return make(short_tmp)


def make(directory: Path, engine: int = 0) -> Path:
    """`engine`: lib_version of py-lmdb, 1 for LMDB 1.0."""
    with lmdb.open(str(directory), max_dbs=8, map_size=1 << 20, lib_version=engine) as made:
        entries = made.open_db(b"id2e", integerkey=True)
        with made.begin(write=True) as transaction:
            for number in (1, 2, 3):
                transaction.put(struct.pack("=Q", number), b"entry", db=entries)
    (directory / "lock.mdb").unlink()
    return directory


@pytest.mark.parametrize("engine", [0, 1])
def test_entry_count_in_both_formats(tmp_path: Path, engine: int) -> None:
    assert contents.entry_count(make(tmp_path, engine)) == 3


def test_a_copy_is_opened_without_a_lock_file(place: Path) -> None:
    copy = place / "data.mdb.partial"
    (place / "data.mdb").rename(copy)
    assert contents.entry_count(copy) == 3
    assert [path.name for path in place.iterdir()] == [copy.name]


def test_only_once_in_a_process(place: Path) -> None:
    with mapped.opened(place):
        with pytest.raises(UsageProblem), mapped.opened(place):
            pass
        # The refused one must not have dropped the lock of the first (fcntl locks belong to the process).
        assert _holder_seen_by_a_child(place) == os.getpid()
    assert contents.entry_count(place) == 3


def _holder_seen_by_a_child(place: Path) -> int:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(holders.holder(place)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(reader, 20))


@as_root
def test_a_new_lock_file_belongs_to_the_owner_of_the_data(place: Path) -> None:
    os.chown(place / "data.mdb", NOBODY, NOBODY)
    assert contents.entry_count(place) == 3
    status = (place / "lock.mdb").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (NOBODY, NOBODY, 0o600)


def test_reading_changes_nothing_in_the_data(place: Path) -> None:
    before = (place / "data.mdb").read_bytes()
    contents.entry_count(place)
    assert (place / "data.mdb").read_bytes() == before


def test_another_programs_lmdb_is_refused(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as made, made.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    with pytest.raises(NotLmdb, match="id2e"):
        contents.entry_count(tmp_path)


def test_a_directory_without_a_database(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath):
        contents.entry_count(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_map_is_said_to_be_full(place: Path) -> None:
    with pytest.raises(MapFull):
        _fill(place)
    assert contents.entry_count(place) == 3


def _fill(place: Path) -> None:
    with mapped.opened(place, writable=True) as made:
        entries = environment.require_table(made, "id2e")
        with made.begin(write=True) as transaction:
            for number in range(10, 2000):
                transaction.put(environment.ID.pack(number), bytes(4000), db=entries)


def test_the_lag_of_a_reader(place: Path) -> None:
    assert oldest_lag(place) == 0
    reader = _hold_a_reader(place)
    try:
        for number in range(10, 15):
            with mapped.opened(place, writable=True) as made:
                entries = environment.require_table(made, "id2e")
                with made.begin(write=True) as transaction:
                    transaction.put(environment.ID.pack(number), b"more", db=entries)
        assert oldest_lag(place) == 5
        assert meta.read_meta(place).txnid >= 5
    finally:
        os.kill(reader, 9)
        os.waitpid(reader, 0)


def _hold_a_reader(place: Path) -> int:
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        made = lmdb.open(str(place), readonly=True, max_dbs=8)
        held = made.begin()
        assert held is not None
        os.write(told, b"x")
        os.read(os.pipe()[0], 1)  # until it is killed
        os._exit(0)
    os.read(ready, 1)
    return child


@as_root
@pytest.mark.parametrize("which", ["data.mdb", "."])
def test_without_permission(place: Path, which: str) -> None:
    """An ordinary user: the data unreadable, or readable but no lock.mdb can be made beside it."""
    place.chmod(0o755)
    (place / "data.mdb").chmod(0o600 if which == "data.mdb" else 0o644)
    assert _refused_as_nobody(place)


def _refused_as_nobody(place: Path) -> bool:
    child = os.fork()
    if child == 0:
        nobody.become()
        try:
            contents.entry_count(place)
        except NotPermitted:
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0
