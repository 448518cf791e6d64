"""Who has an LMDB environment open: asked of the kernel, answered by a real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loader.errors import TargetInUse
from loader.storage import holders

OPENER = """
import sys, lmdb
with lmdb.open(sys.argv[1], readonly=sys.argv[2] == "read", create=sys.argv[2] != "read"):
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def opened(directory: Path, how: str = "write") -> Iterator[subprocess.Popen[str]]:
    """Another process with the environment open."""
    argv = [sys.executable, "-c", OPENER, str(directory), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process


@pytest.mark.parametrize("how", ["write", "read"])
def test_a_process_that_has_it_open_is_named(tmp_path: Path, how: str) -> None:
    with opened(tmp_path):
        pass  # so that there is something to read
    with opened(tmp_path, how) as process:
        assert holders.holder(tmp_path) == process.pid
        with pytest.raises(TargetInUse, match=rf"\(python.*, process {process.pid}\)"):
            holders.require_unused(tmp_path)


def test_once_it_is_closed_nobody_has_it(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert (tmp_path / "lock.mdb").exists()
    assert holders.holder(tmp_path) is None
    holders.require_unused(tmp_path)


def test_kill_9_frees_it(tmp_path: Path) -> None:
    with opened(tmp_path) as process:
        process.kill()
        process.wait()
        assert holders.holder(tmp_path) is None


def test_to_ask_disturbs_nobody(tmp_path: Path) -> None:
    """A lock of this process on the file would end with the question (POSIX locks do); the holder's must not."""
    with opened(tmp_path) as process:
        for _ in range(3):
            assert holders.holder(tmp_path) == process.pid


@pytest.mark.parametrize("there", [True, False])
def test_where_no_environment_is_nobody_has_it_open(tmp_path: Path, there: bool) -> None:
    holders.require_unused(tmp_path if there else tmp_path / "nowhere")
