"""Snapshots: held however often, kept from writers, and given back; refused to whom a writer does not heed."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import lmdb
import pytest

from loader import _native
from loader.errors import LockUnused, MdbDamaged
from loader.mdb import isolated, meta, readers, snapshot
from loader.mdb.environment import opened
from loader.sources.mdb import LdifFormat
from loader.storage import holders
from tests.support.processes import announced
from tests.support.require import require_root
from tests.unit.mdb.test_copy import make

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


def test_held_twice_and_given_back(tmp_path: Path) -> None:
    place = make(tmp_path)
    with snapshot.protected(place) as one, snapshot.protected(place) as other:
        assert one.txn == other.txn == meta.read_meta(place).txnid
        assert one.path.samefile(place / "data.mdb")
        assert other.path.samefile(place / "data.mdb")
    assert readers.slots(place) == ()
    with pytest.raises(RuntimeError), snapshot.protected(place):
        raise RuntimeError
    assert readers.slots(place) == ()


# Locks the bytes of lock.mdb by which LMDB knows readers with these process IDs (mdb_reader_pid).
_LOCKER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX, int(sys.argv[2]), int(sys.argv[3]))
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_reader_in_another_container_may_have_the_number_of_a_child(tmp_path: Path) -> None:
    """In a new PID namespace the numbers begin at 1."""
    require_root()
    place, count = make(tmp_path), 12
    reader = f"""if True:
        from pathlib import Path
        from loader.mdb import readers, snapshot
        with snapshot.protected(Path({str(place)!r})):
            print(*(slot.pid for slot in readers.slots(Path({str(place)!r}))), flush=True)
        """
    with announced(_LOCKER, place / "lock.mdb", count, 1):
        command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", reader]
        numbers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [int(number) > count for number in numbers] == [True]


def test_a_file_without_its_directory(tmp_path: Path) -> None:
    copy = (make(tmp_path) / "data.mdb").rename(tmp_path / "copy")
    (tmp_path / "lock.mdb").unlink()
    with snapshot.protected(copy) as found:
        assert found.txn == meta.read_meta(copy).txnid
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def database(directory: Path, engine: int = 0) -> Path:
    """The tables of back-mdb: a suffix and entries below it. `engine`: lib_version of py-lmdb, 1 for LMDB 1.0."""
    with lmdb.open(str(directory), max_dbs=8, map_size=1 << 26, lib_version=engine) as made:
        names = (b"ad2i", b"dn2i", b"id2e")
        tables = {name: made.open_db(name, integerkey=True, dupsort=name == b"dn2i") for name in names}
        with made.begin(write=True) as transaction:
            transaction.put(struct.pack("=I", 1), b"cn", db=tables[b"ad2i"])
            for number in range(1, ENTRIES + 1):
                name = f"cn=n{number}".encode()
                parent = struct.pack("=Q", 0 if number == 1 else 1)
                node = struct.pack(">H", len(name)) + name + b"\0" + name + b"\0" + parent
                value = f"n{number}".encode()
                head = struct.pack("=7I", 1, 2, 0, 3, 1, 1, len(value))
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
    with snapshot.protected(place) as held:
        dump = _native.Dump(held.path, txn=held.txn, base=None, after=0, jobs=2)
        found = dump.export(out, LdifFormat(), _native.Counters())
    text = "".join((out / name).read_text() for name, *_ in found.files)
    values = [line for line in text.splitlines() if line.startswith("cn: ")]
    assert len(values) == found.entries == ENTRIES
    (value,) = set(values)
    return value


_UNHEEDING = """
import lmdb, sys
environment = lmdb.open(sys.argv[1], map_size=1 << 24)
print(flush=True)
for line in sys.stdin:
    with environment.begin(write=True) as transaction:
        transaction.put(b"key", line.encode())
    print(flush=True)
"""


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    monkeypatch.setattr(isolated, "_inside", True)
    command = [sys.executable, "-c", _UNHEEDING, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        asked, answers = writer.stdin, writer.stdout
        answers.readline()

        def once() -> None:
            asked.write(b"again\n")
            assert answers.readline()

        once()
        yield once
        asked.close()


@pytest.mark.parametrize("error", [None, lmdb.CorruptedError])
def test_whether_the_writer_uses_the_lock(
    commit: Callable[[], None], tmp_path: Path, error: type[Exception] | None
) -> None:
    def read() -> None:
        with opened(tmp_path):
            commit()
            if error is not None:
                raise error("Located page was wrong type")

    with suppress(MdbDamaged):
        read()
    (tmp_path / "lock.mdb").unlink()
    with opened(tmp_path):
        pass  # nothing is written meanwhile
    (tmp_path / "lock.mdb").unlink()
    with pytest.raises(LockUnused):
        read()


def test_a_writer_that_ends_meanwhile(tmp_path: Path) -> None:
    place = make(tmp_path)
    words = "import lmdb, sys; t = lmdb.open(sys.argv[1]).begin(write=True); t.put(b'a', b''); t.commit()"
    with snapshot.protected(place) as before:
        subprocess.run([sys.executable, "-c", words, place], check=True)
    with snapshot.protected(place) as after:
        assert after.txn == before.txn + 1


def test_the_pages_of_a_snapshot_that_nobody_heeds(
    commit: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "_inside", False)
    monkeypatch.setattr(holders, "require_lock_used", lambda place: None)  # as in a container
    (tmp_path / "lock.mdb").unlink()

    def read() -> None:
        with snapshot.protected(tmp_path):
            commit()
            raise MdbDamaged(path=tmp_path, reason="a page was used again")

    with pytest.raises(LockUnused):
        read()
