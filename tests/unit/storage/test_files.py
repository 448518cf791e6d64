"""Files: the old one or the new one, never a part; and the system's errors in words for operators."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.errors import NoSpace, NoSuchPath, NotPermitted, UsageProblem
from loader.storage import files
from tests.support.disks import loop_filesystem
from tests.support.refusal import error_as_nobody
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
    """What a kill left behind does not lend its own. One that cannot be written leaves the old one."""
    path, left = tmp_path / "manifest.json", tmp_path / "manifest.json.partial"
    files.write_durably(path, b"one", mode=0o600)
    left.write_bytes(b"half")
    left.chmod(0o644)
    files.write_durably(path, b"two", mode=0o600)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]
    (tmp_path / "data" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        files.write_durably(tmp_path / "data", b"new")
    assert (tmp_path / "data" / "x").exists()


def test_space_is_asked_of_the_nearest_directory_that_is_there(tmp_path: Path) -> None:
    """A sparse file takes what is written."""
    assert files.existing(tmp_path / "not" / "yet") == tmp_path
    files.require_space(tmp_path / "not" / "yet", 1)
    with pytest.raises(NoSpace, match=r"1024\.0 TiB needed, .* free"):
        files.require_space(tmp_path / "not" / "yet", 1 << 50)
    with (tmp_path / "data.mdb").open("wb") as file:
        file.truncate(64 << 20)
        file.write(bytes(4096) + b"x")
    assert files.allocated_bytes(tmp_path / "data.mdb") < 1 << 20


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


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath, match="nowhere: no such file"):
        files.require_readable(tmp_path / "nowhere")
    with pytest.raises(NoSuchPath), files.explained(tmp_path):
        (tmp_path / "nowhere").read_bytes()
    with pytest.raises(IsADirectoryError), files.explained(tmp_path):  # other errors stay what they are
        tmp_path.read_bytes()


def test_who_may_not_is_told_who_may(short_tmp: Path) -> None:
    """An account without rights, of a directory of mode 0700."""
    require_root()
    short_tmp.chmod(0o755)
    closed = short_tmp / "closed"
    closed.mkdir(mode=0o700)
    (closed / "inside").write_bytes(b"x")

    def read(path: Path) -> None:
        with files.explained(closed):
            path.read_bytes()

    for ask, path in (
        *((files.require_readable, closed), (files.require_readable, closed / "inside")),
        *((files.require_writable, closed), (files.require_writable, closed / "not" / "yet")),
        (read, closed / "inside"),
    ):
        said = error_as_nobody(partial(ask, path))
        assert said.startswith(f"{NotPermitted.code}: no permission to "), said
        assert "owns it (root)" in said


def test_owners(tmp_path: Path) -> None:
    """One without a name, as of files that a container wrote, is a number. An owner is passed on."""
    require_root()
    os.chown(tmp_path, 4_000_000, -1)
    assert files.owner_name(tmp_path) == files.owner_name(tmp_path / "not" / "yet") == "4000000"
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


# --- restored files have holes where there were zeros ------------------------------------------------


def write_with_holes(path: Path, content: bytes, piece: int) -> None:
    with path.open("wb") as file:
        for start in range(0, len(content), piece):
            files.write(file, content[start : start + piece])
        file.truncate()


@pytest.mark.slow
@given(st.lists(st.sampled_from([bytes(files.BLOCK), b"x" * files.BLOCK, b"\0" * 100 + b"y", b"z"]), max_size=8))
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    path, content = tmp_path_factory.mktemp("holes") / "file", b"".join(parts)
    write_with_holes(path, content, 3 * files.BLOCK)
    assert path.read_bytes() == content


def test_zeros_take_no_room(tmp_path: Path) -> None:
    content = b"a" * files.BLOCK + bytes(4 << 20) + b"b" * files.BLOCK + bytes(4 << 20)
    write_with_holes(tmp_path / "file", content, 1 << 20)
    assert (tmp_path / "file").read_bytes() == content
    assert (tmp_path / "file").stat().st_blocks * 512 <= 16 * files.BLOCK
