"""What a process has open, flushed from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.config import Config
from loader.errors import FileUnsafe
from loader.server import configuration, running


def test_only_files_of_that_path_that_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.mdb"
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    with path.open("wb"), (tmp_path / "other.mdb").open("wb"):
        before = len(os.listdir("/proc/self/fd"))
        assert running.flushed(os.getpid(), str(path))
        assert [one.st_ino for one in synced] == [path.stat().st_ino]
        assert len(os.listdir("/proc/self/fd")) == before
    assert not running.flushed(os.getpid(), str(path))


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """Another account can put one there, in slapd's run directory for instance."""
    fifo = tmp_path / "slapd.pid"
    os.mkfifo(fifo)
    config = Config(tmp_path, (), (("cn=config", {"olcPidFile": [bytes(fifo)]}),))
    assert running.left_pid_file(config) is None
    with pytest.raises(FileUnsafe, match="FIFO"):
        configuration.file_text(fifo)
