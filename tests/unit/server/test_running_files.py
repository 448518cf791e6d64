"""What a process has open, flushed from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.server import running


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
