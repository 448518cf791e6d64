"""One at a time, and the lock goes with its holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loader.errors import Locked
from loader.run.log import exclusive, locking_process

HOLDER = """
import sys, time
from pathlib import Path
from loader.run.log import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_one_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    argv = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Locked, match=rf"process {holder.pid}\)"), exclusive(lock):
            pytest.fail("held twice")
        holder.kill()
    with exclusive(lock):
        pass  # kill -9 freed it


def test_it_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), exclusive(tmp_path / "lock"):
        raise KeyError
    with exclusive(tmp_path / "lock"):
        pass


def test_a_shorter_process_number_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("999999999999\n")
    with exclusive(lock):
        assert lock.read_text().strip().isdigit()
        assert len(lock.read_text()) < 12


def test_who_holds_it_is_told_without_holding_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert locking_process(lock) is None
    with exclusive(lock):
        assert locking_process(lock) == os.getpid()
    assert locking_process(lock) is None


def test_the_holder_in_a_container_is_told_by_the_process_number_of_our_own_namespace(tmp_path: Path) -> None:
    """The number in the file is that of the container."""
    lock = tmp_path / "lock"
    with exclusive(lock):
        lock.write_text("4194305\n")  # more than a process number can be
        assert locking_process(lock) == os.getpid()
