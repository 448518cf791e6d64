"""Hot copies of environments of both formats, and that a reader that was killed is cleared away."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from loader import _native
from loader.errors import MdbDamaged, NotLmdb, ReadersFull
from loader.mdb import contents, copy, environment, meta, readers
from loader.mdb.verify import verify
from loader.progress import Meter
from tests.support import mapped

NOTING = copy.CopyMode(record_pages=True)


def make(directory: Path, engine: int = 0, slots: int = 126, map_size: int = 1 << 24) -> Path:
    """The tables of a database with 1 entry, and an index with many entries of one key (LEAF2 pages)."""
    directory.mkdir(exist_ok=True)
    with lmdb.open(str(directory), max_dbs=8, map_size=map_size, lib_version=engine, max_readers=slots) as made:
        entries = made.open_db(b"id2e", integerkey=True)
        nodes = made.open_db(b"dn2i", integerkey=True, dupsort=True)
        words = made.open_db(b"ad2i", integerkey=True)
        index = made.open_db(b"cn", dupsort=True, dupfixed=True, integerdup=True)
        suffix = b"dc=example"
        tail = suffix + b"\0" + suffix + b"\0"
        with made.begin(write=True) as transaction:
            transaction.put(environment.ID.pack(1), struct.pack("=IIII", 0, 0, 256, 0), db=entries)
            transaction.put(struct.pack("=I", 1), b"objectClass", db=words)
            transaction.put(environment.ID.pack(0), bytes(12), db=nodes)
            own = struct.pack(">H", len(suffix)) + tail + environment.ID.pack(0)
            child = struct.pack(">H", len(suffix) | 0x8000) + tail + struct.pack("=QQ", 1, 1)
            transaction.put(environment.ID.pack(0), child, db=nodes)
            transaction.put(environment.ID.pack(1), own, db=nodes)
            for number in range(5000):
                transaction.put(b"key0", environment.ID.pack(number), db=index)
    return directory


@pytest.mark.parametrize("engine", [0, 1])
def test_both_formats(tmp_path: Path, engine: int) -> None:
    source = make(tmp_path / "source", engine)
    meter = Meter("copy")
    copied = copy.hot_copy(source, tmp_path, meter)
    assert copied.path == tmp_path / "data.mdb.partial"
    assert copied.facts.format == (3 if engine else 1)
    assert meter.bytes == copied.target.apparent
    assert verify(copied.path, "pages", Meter("verify")).entries == 1
    assert contents.summarise(copied.path).suffixes == ("dc=example",)
    assert list(contents.indexes(copied.path)) == ["cn"]
    assert contents.attributes(copied.path) == ["objectClass"]
    assert copied.path.stat().st_mode & 0o777 == 0o600


def test_a_killed_reader_is_cleared_away_by_the_next_copy(tmp_path: Path) -> None:
    """While some process has the environment open; the first to open it starts with a new table of readers."""
    source = make(tmp_path / "source")
    with mapped.read_by_another(source) as holder:
        with mapped.read_by_another(source) as killed:
            killed.kill()
        with mapped.opened(source, writable=True) as opened:
            words = environment.require_table(opened, "ad2i")
            with opened.begin(write=True) as transaction:
                transaction.put(struct.pack("=I", 10), b"more", db=words)
        assert len(readers.slots(source)) == 2
        copy.hot_copy(source, tmp_path, Meter("copy"))
        assert [slot.pid for slot in readers.slots(source)] == [holder.pid]


def test_no_reader_slot_left(tmp_path: Path) -> None:
    source = make(tmp_path / "source", slots=1)
    with mapped.read_by_another(source, 1), pytest.raises(ReadersFull):
        copy.hot_copy(source, tmp_path, Meter("copy"))
    assert not (tmp_path / "data.mdb.partial").exists()
    copy.hot_copy(source, tmp_path, Meter("copy"))


def test_a_source_that_is_none(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    data = source / "data.mdb"
    content = data.read_bytes()
    data.write_bytes(content[:100])
    with pytest.raises(MdbDamaged):
        copy.hot_copy(source, tmp_path, Meter("copy"))
    data.write_bytes(content[::-1])
    with pytest.raises(NotLmdb):
        copy.hot_copy(source, tmp_path, Meter("copy"))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_used_bytes_only(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    os.truncate(source / "data.mdb", 1 << 40)
    copied = copy.hot_copy(source, tmp_path, Meter("copy"))
    assert copied.source.apparent == 1 << 40
    assert copied.target.apparent == meta.read_meta(source).used < 1 << 20


def test_what_was_noted_is_not_read_again(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    copied = copy.hot_copy(source, tmp_path, Meter("copy"), NOTING)
    assert verify(copied.path, "pages", Meter("verify"), copied.seen).entries == 1
    _overwrite(copied.path, 3)
    with pytest.raises(MdbDamaged):
        verify(copied.path, "pages", Meter("verify"))
    again = copy.hot_copy(source, tmp_path, Meter("copy"), NOTING)
    _overwrite(again.path, 3)
    assert verify(again.path, "pages", Meter("verify"), again.seen).entries == 1


@pytest.mark.long
def test_damage_is_seen_while_it_is_copied(tmp_path: Path) -> None:
    """Page by page, as by whoever reads the copy; free pages are nobody's."""
    source = make(tmp_path / "source")
    sound = (source / "data.mdb").read_bytes()
    found, compact = 0, copy.CopyMode(compact=True)  # which has no use for the list of free pages
    for page in range(2, meta.read_meta(source).used // 4096):
        (source / "data.mdb").write_bytes(sound)
        _overwrite(source / "data.mdb", page)
        wanted = _refusal(lambda: verify(source, "pages", Meter("verify")))
        assert bool(_refusal(lambda: _checked_on_the_way(source, tmp_path))) == bool(wanted)
        compacted = _refusal(lambda: copy.hot_copy(source, tmp_path, Meter("copy"), compact))
        assert bool(compacted) == (bool(wanted) and "table free" not in wanted)
        found += bool(wanted)
    assert found >= 5


def _checked_on_the_way(source: Path, place: Path) -> object:
    copied = copy.hot_copy(source, place, Meter("copy"), NOTING)
    return verify(copied.path, "pages", Meter("verify"), copied.seen)


def _refusal(work: Callable[[], object]) -> str:
    try:
        work()
    except MdbDamaged as error:
        return str(error)
    return ""


def _overwrite(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * page + 8)
        file.write(bytes(4088))


def test_a_wait_for_the_other_side_can_be_cancelled(tmp_path: Path) -> None:
    counters = _native.Counters()
    reading, writing = os.pipe()
    try:
        threading.Timer(0.3, counters.cancel).start()
        with pytest.raises(_native.NativeError) as caught:
            _native.clone_receive(reading, tmp_path / "copy", tmp_path / "journal", counters)
    finally:
        os.close(reading)
        os.close(writing)
    assert caught.value.code == "cancelled"
