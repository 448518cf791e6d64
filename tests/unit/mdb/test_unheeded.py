"""One transaction of a writer that has another lock.mdb open is enough to be refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import lmdb
import pytest

from loader.errors import LockUnheeded, MdbDamaged
from loader.mdb import isolated, snapshot
from loader.mdb.environment import opened
from loader.storage import holders
from tests.unit.mdb.test_environment import make

WRITER = """
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
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
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


def read_while(commit: Callable[[], None], place: Path, error: type[Exception] | None = None) -> None:
    with opened(place):
        commit()
        if error is not None:
            raise error("Located page was wrong type")


@pytest.mark.parametrize("error", [None, lmdb.CorruptedError])
def test_a_lock_that_the_writer_does_not_use(
    commit: Callable[[], None], tmp_path: Path, error: type[Exception] | None
) -> None:
    (tmp_path / "lock.mdb").unlink()
    with pytest.raises(LockUnheeded):
        read_while(commit, tmp_path, error)


@pytest.mark.parametrize("error", [None, lmdb.CorruptedError])
def test_a_lock_that_the_writer_uses(commit: Callable[[], None], tmp_path: Path, error: type[Exception] | None) -> None:
    with suppress(MdbDamaged):
        read_while(commit, tmp_path, error)


def test_a_writer_that_ends_meanwhile(tmp_path: Path) -> None:
    place = make(tmp_path)
    words = "import lmdb, sys; t = lmdb.open(sys.argv[1]).begin(write=True); t.put(b'a', b''); t.commit()"
    with snapshot.held(place) as before:
        subprocess.run([sys.executable, "-c", words, place], check=True)
    with snapshot.held(place) as after:
        assert after.txn == before.txn + 1


def test_the_pages_of_a_snapshot_that_nobody_heeds(
    commit: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "_inside", False)
    monkeypatch.setattr(holders, "require_heeded", lambda place: None)  # as in a container
    (tmp_path / "lock.mdb").unlink()
    with pytest.raises(LockUnheeded):
        damaged_while(commit, tmp_path)


def damaged_while(commit: Callable[[], None], place: Path) -> None:
    with snapshot.held(place):
        commit()
        raise MdbDamaged(path=place, reason="a page was used again")


def test_nothing_is_written(commit: Callable[[], None], tmp_path: Path) -> None:
    (tmp_path / "lock.mdb").unlink()
    with opened(tmp_path):
        pass
