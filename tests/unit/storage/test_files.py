"""Files: the old one or the new one, never a part; and the system's errors in words for operators."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from loader.errors import NoSpace, NoSuchPath, UsageProblem
from loader.storage import files
from tests.support.disks import loop_filesystem
from tests.support.require import require_root


def test_publish_is_durable_before_and_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content first, then the name, then the directory that holds the name."""
    calls, fsync, replace = [], os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        calls.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")

    def watched_replace(one: Path, other: Path) -> None:
        replace(one, other)
        calls.append("rename")

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    data, partial = tmp_path / "data", tmp_path / "data.partial"
    data.write_bytes(b"old")
    partial.write_bytes(b"new")
    inode = partial.stat().st_ino
    files.publish(partial, data)
    assert calls == ["fsync data.partial", "rename", f"fsync {tmp_path.name}"]
    assert (data.read_bytes(), data.stat().st_ino, partial.exists()) == (b"new", inode, False)


def test_a_small_file_is_written_whole_with_its_mode(tmp_path: Path) -> None:
    """What a kill left behind does not lend its own."""
    path, left = tmp_path / "manifest.json", tmp_path / "manifest.json.partial"
    files.write_durably(path, b"one", mode=0o600)
    left.write_bytes(b"half")
    left.chmod(0o644)
    files.write_durably(path, b"two", mode=0o600)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").touch()
    with pytest.raises(OSError, match=r"directory"):
        files.write_durably(tmp_path / "data", b"new")
    assert (tmp_path / "data" / "x").exists()


def test_space_is_asked_of_the_nearest_directory_that_is_there(tmp_path: Path) -> None:
    assert files.existing(tmp_path / "not" / "yet") == tmp_path
    files.require_space(tmp_path / "not" / "yet", 1)
    with pytest.raises(NoSpace, match=r"1024\.0 TiB needed, .* free"):
        files.require_space(tmp_path / "not" / "yet", 1 << 50)


def test_a_full_file_system_is_no_space() -> None:
    with loop_filesystem(8) as small:
        path, kept = small / "fills", small / "manifest.json"
        with pytest.raises(NoSpace, match=r"64\.0 MiB needed"):
            files.require_space(small, 64 << 20)
        files.write_durably(kept, b"old")
        with pytest.raises(NoSpace), files.explained(kept):
            files.write_durably(kept, bytes(64 << 20))
        assert kept.read_bytes() == b"old"
        kept.with_name("manifest.json.partial").unlink()
        with pytest.raises(NoSpace) as caught, files.explained(path), path.open("wb", 0) as file:
            file.writelines(bytes(1 << 20) for _ in range(64))
    assert str(caught.value).startswith(f"{path}: no space left on its file system (")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC


def test_a_sparse_file_takes_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    with path.open("wb") as file:
        file.truncate(64 << 20)
        file.write(bytes(4096) + b"x")
    assert files.allocated_bytes(path) < 1 << 20


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath, match="nowhere: no such file"):
        files.require_readable(tmp_path / "nowhere")
    with pytest.raises(NoSuchPath), files.explained(tmp_path):
        (tmp_path / "nowhere").read_bytes()
    with pytest.raises(IsADirectoryError), files.explained(tmp_path):  # other errors stay what they are
        tmp_path.read_bytes()


AS_NOBODY = """
import os, sys
from pathlib import Path
from loader.errors import LoaderError
from loader.storage import files
os.setgroups([]); os.setgid(65534); os.setuid(65534)
closed = Path(sys.argv[1])
def told(ask):
    try:
        ask()
    except LoaderError as error:
        return f"{type(error).__name__}: {error}; {error.advice()}"
    return "allowed"
def opened():
    with files.explained(closed):
        (closed / "inside").read_bytes()
for ask in (
    lambda: files.require_readable(closed),
    lambda: files.require_readable(closed / "inside"),
    lambda: files.require_writable(closed),
    lambda: files.require_writable(closed / "not" / "yet"),
    opened,
):
    print(told(ask))
"""


def test_who_may_not_is_told_who_may(short_tmp: Path) -> None:
    """An account without rights, of a directory of mode 0700."""
    require_root()
    short_tmp.chmod(0o755)
    closed = short_tmp / "closed"
    closed.mkdir(mode=0o700)
    (closed / "inside").write_bytes(b"x")
    argv = [sys.executable, "-c", AS_NOBODY, str(closed)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) == 5
    assert all(line.startswith("NotPermitted: no permission to ") for line in said), said
    assert all("owns it (root)" in line for line in said), said


def test_an_owner_without_a_name_is_a_number(tmp_path: Path) -> None:
    """As of files that a container wrote."""
    require_root()
    os.chown(tmp_path, 4_000_000, -1)
    assert files.owner_name(tmp_path) == "4000000"
    assert files.owner_name(tmp_path / "not" / "yet") == "4000000"


def test_an_owner_is_passed_on(tmp_path: Path) -> None:
    require_root()
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    other.touch()
    os.chown(one, 12345, 54321)
    with other.open("rb") as file:
        files.Owner.of(one).apply_to(file.fileno())
    assert (other.stat().st_uid, other.stat().st_gid) == (12345, 54321)


def test_a_file_where_a_directory_is_needed(tmp_path: Path) -> None:
    """It is no fault of the disk, and no lack of a permission."""
    (tmp_path / "file").touch()
    reason = f"{tmp_path}/file is a file, but must be a directory"
    for path in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(UsageProblem, match=reason):
            files.require_writable(path)
        with pytest.raises(UsageProblem, match=reason), files.explained(path):
            os.scandir(path)
