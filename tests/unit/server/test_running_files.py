"""What a process has open, flushed from outside."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from loader import slapd_conf
from loader.config import Config
from loader.errors import FileUnsafe
from loader.server import tools
from loader.server.tools import of_directories
from loader.storage.files import Owner


def test_only_files_of_that_path_that_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.mdb"
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    with path.open("wb"), (tmp_path / "other.mdb").open("wb"):
        before = len(os.listdir("/proc/self/fd"))
        assert tools.flushed(os.getpid(), str(path))
        assert [one.st_ino for one in synced] == [path.stat().st_ino]
        assert len(os.listdir("/proc/self/fd")) == before
    assert not tools.flushed(os.getpid(), str(path))


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """Another account can put one there, in slapd's run directory for instance."""
    fifo = tmp_path / "slapd.pid"
    os.mkfifo(fifo)
    config = Config(tmp_path, (), (("cn=config", {"olcPidFile": [bytes(fifo)]}),))
    assert tools.left_pid_file(config) is None
    with pytest.raises(FileUnsafe, match="FIFO"):
        slapd_conf.file_text(fifo)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tools as another account")
def test_who_can_exchange_a_directory_is_the_account_of_the_tools(tmp_path: Path) -> None:
    """A link of slapd's account to a directory of root's: slapcat, run by root, would write into that."""
    account = pwd.getpwnam("nobody")
    own, closed = tmp_path / "own", tmp_path / "closed"
    for place in (own, closed):
        place.mkdir(mode=0o700)
    assert of_directories([closed]) is None
    (own / "data").symlink_to(closed)
    os.chown(own / "data", account.pw_uid, account.pw_gid, follow_symlinks=False)
    nobody = Owner(account.pw_uid, account.pw_gid)
    assert of_directories([own / "data"]) == nobody
    (own / "data").unlink()
    (own / "data").mkdir()
    assert of_directories([own / "data"]) is None
    os.chown(own, account.pw_uid, account.pw_gid)
    assert of_directories([own / "data"]) == nobody, "it may exchange what stands in its directory"
