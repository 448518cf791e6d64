"""Snapshots: held however often, kept from writers, and given back."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from loader import _native
from loader.mdb import snapshot
from tests.support import mapped
from tests.unit.mdb.test_environment import make

ENTRIES = 2000
# Every commit gives all entries one value, until it is ended.
_WRITER = """
import itertools, lmdb, struct, sys, time
with lmdb.open(sys.argv[1], max_dbs=8) as made:
    entries = made.open_db(b"id2e", create=False)
    for commit in itertools.count():
        value = b"%09d" % commit
        blob = struct.pack("=7I", 1, 2, 0, 3, 1, 1, len(value)) + value + bytes(1)
        try:
            with made.begin(write=True) as transaction:
                for number in range(1, int(sys.argv[2]) + 1):
                    transaction.put(struct.pack("=Q", number), blob, db=entries)
        except lmdb.MapFullError:  # a slow reader keeps all pages
            time.sleep(0.001)
        if commit == 3:
            print("at it", flush=True)
"""


def readers(place: Path) -> int:
    with mapped.opened(place) as opened:
        return len(opened.readers().splitlines()[1:])


def test_held_twice_and_given_back(tmp_path: Path) -> None:
    place = make(tmp_path)
    with snapshot.held(place) as one, snapshot.held(place) as other:
        assert one.txn == other.txn == 2
        assert one.path.samefile(place / "data.mdb")
        assert other.path.samefile(place / "data.mdb")
    assert readers(place) == 0
    with pytest.raises(RuntimeError), snapshot.held(place):
        raise RuntimeError
    assert readers(place) == 0


def test_a_file_without_its_directory(tmp_path: Path) -> None:
    place = make(tmp_path)
    copy = place / "copy"
    (place / "data.mdb").rename(copy)
    with snapshot.held(copy) as found:
        assert found.txn == 2
    assert [path.name for path in place.iterdir()] == ["copy"]


def database(directory: Path, engine: int = 0) -> Path:
    """The tables of back-mdb: a suffix and entries below it. `engine`: lib_version of py-lmdb, 1 for LMDB 1.0."""
    with lmdb.open(str(directory), max_dbs=8, map_size=1 << 26, lib_version=engine) as made:
        tables = {
            name: made.open_db(name, integerkey=True, dupsort=name == b"dn2i") for name in (b"ad2i", b"dn2i", b"id2e")
        }
        with made.begin(write=True) as transaction:
            transaction.put(struct.pack("=I", 1), b"cn", db=tables[b"ad2i"])
            for number in range(1, ENTRIES + 1):
                name = f"cn=n{number}".encode()
                parent = struct.pack("=Q", 0 if number == 1 else 1)
                node = struct.pack(">H", len(name)) + name + b"\0" + name + b"\0" + parent
                value = f"n{number}".encode()
                head = struct.pack("=6I", 1, 2, 0, 3, 1, 1) + struct.pack("=I", len(value))
                transaction.put(struct.pack("=Q", number), head + value + b"\0", db=tables[b"id2e"])
                transaction.put(struct.pack("=Q", number), node, db=tables[b"dn2i"])
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("engine", [0, 1])
def test_what_is_read_is_one_moment(tmp_path: Path, engine: int) -> None:
    """While another process commits all the time: in each export all entries are of one commit."""
    (tmp_path / "data").mkdir()
    place = database(tmp_path / "data", engine)
    words = [sys.executable, "-c", _WRITER, str(place), str(ENTRIES)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"at it\n"
            moments = [_export(place, tmp_path / f"out{number}") for number in range(10)]
        finally:
            writer.kill()
    assert len(set(moments)) > 1


def _export(place: Path, out: Path) -> str:
    """The commit."""
    out.mkdir()
    with snapshot.held(place) as held:
        dump = _native.Dump(held.path, txn=held.txn, base=None, jobs=2)
        found = dump.export(out, _native.Counters(), compress=False)
    text = "".join((out / name).read_text() for name, *_ in found.files)
    values = [line for line in text.splitlines() if line.startswith("cn: ")]
    assert len(values) == found.entries == ENTRIES
    (value,) = set(values)
    return value
