"""Opening environments: who may, once a process, and what stands beside a data.mdb afterwards."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import lmdb
import pytest

from loader.errors import MapFull, NotLmdb, NotPermitted, UsageProblem
from loader.mdb import contents, environment
from loader.storage import holders
from tests.support import mapped, nobody
from tests.support.refusal import error_as_nobody
from tests.unit.mdb.test_copy import make

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def place(short_tmp: Path) -> Path:
    """One entry, no lock.mdb."""
    make(short_tmp, map_size=1 << 20)
    (short_tmp / "lock.mdb").unlink()
    return short_tmp


def test_a_copy_is_opened_without_a_lock_file(place: Path) -> None:
    copy = place / "data.mdb.partial"
    (place / "data.mdb").rename(copy)
    assert contents.entry_count(copy) == 1
    assert [path.name for path in place.iterdir()] == [copy.name]


def test_only_once_in_a_process(place: Path) -> None:
    with mapped.opened(place):
        with pytest.raises(UsageProblem), mapped.opened(place):
            pass
        # The refused one must not have dropped the lock of the first (fcntl locks belong to the process).
        with ProcessPoolExecutor(1, get_context("spawn")) as another:
            assert another.submit(holders.holder, place).result() == os.getpid()
    assert contents.entry_count(place) == 1


@as_root
def test_a_new_lock_file_belongs_to_the_owner_of_the_data(place: Path) -> None:
    """Which stays as it is."""
    before = (place / "data.mdb").read_bytes()
    os.chown(place / "data.mdb", nobody.ID, nobody.ID)
    assert contents.entry_count(place) == 1
    status = (place / "lock.mdb").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (nobody.ID, nobody.ID, 0o600)
    assert (place / "data.mdb").read_bytes() == before


def test_another_programs_lmdb_is_refused(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as made, made.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    with pytest.raises(NotLmdb, match="id2e"):
        contents.entry_count(tmp_path)


def test_a_full_map_is_said_to_be_full(place: Path) -> None:
    with pytest.raises(MapFull):
        _fill(place)
    assert contents.entry_count(place) == 1


def _fill(place: Path) -> None:
    with mapped.opened(place, writable=True) as made:
        entries = environment.require_table(made, "id2e")
        with made.begin(write=True) as transaction:
            for number in range(10, 2000):
                transaction.put(environment.ID.pack(number), bytes(4000), db=entries)


@as_root
@pytest.mark.parametrize("which", ["data.mdb", "."])
def test_without_permission(place: Path, which: str) -> None:
    """An ordinary user: the data unreadable, or readable but no lock.mdb can be made beside it."""
    place.chmod(0o755)
    (place / "data.mdb").chmod(0o600 if which == "data.mdb" else 0o644)
    assert error_as_nobody(lambda: contents.entry_count(place)).startswith(f"{NotPermitted.code}: ")
