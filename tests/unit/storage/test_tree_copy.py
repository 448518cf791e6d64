"""A copy of a directory: all of it, and told from one that is not equal."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from loader.progress import Meter
from loader.storage import held, tree_copy, trees


def filled(top: Path) -> Path:
    (top / "inner/deep").mkdir(parents=True)
    (top / "lost+found").mkdir()
    with (top / "inner/holes").open("wb") as file:
        file.write(b"begin")
        file.seek(5 << 20)
        file.write(b"middle")
        file.truncate(64 << 20)
    os.link(top / "inner/holes", top / "second")
    (top / "inner/link").symlink_to("/nowhere")
    os.mkfifo(top / "fifo", 0o620)
    (top / "inner/deep/empty").touch()
    os.utime(top / "inner/deep/empty", ns=(1, 1234567890123456789))
    os.chmod(top / "inner/deep", 0o2750)
    os.chown(top / "inner/deep", 12, 34)
    os.chown(top / "inner/link", 12, 34, follow_symlinks=False)
    os.setxattr(top / "inner/deep/empty", "user.note", b"kept")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(top / "socket"))
    return top


def copied(source: Path, target: Path) -> None:
    with held.opened(source) as one, held.opened(target) as other:
        tree_copy.copy_tree(one, other, Meter("copy"), lambda: None)


def told(top: Path) -> tuple[object, object]:
    with held.opened(top) as opened:
        return trees.shape_of(opened.descriptor), trees.checksums(opened.descriptor, Meter("x"))


@pytest.fixture
def both(short_tmp: Path) -> tuple[Path, Path]:
    if os.geteuid() != 0:
        pytest.skip("files are given to other accounts, which needs root")
    source, target = short_tmp / "from", short_tmp / "to"
    target.mkdir()
    source.mkdir(mode=0o750)
    return filled(source), target


def test_all_of_it(both: tuple[Path, Path]) -> None:
    source, target = both
    (target / "lost+found").mkdir()
    (target / "inner").touch()  # of an earlier attempt
    (target / "old/x").mkdir(parents=True)
    copied(source, target)
    assert told(target) == told(source)
    assert {one.name for one in target.iterdir()} == {"fifo", "inner", "lost+found", "second"}
    assert (target / "second").samefile(target / "inner/holes")
    assert (target / "second").stat().st_blocks * 512 < 1 << 20
    assert os.readlink(target / "inner/link") == "/nowhere"
    assert (target / "inner/deep/empty").stat().st_mtime_ns == 1234567890123456789
    assert os.getxattr(target / "inner/deep/empty", "user.note") == b"kept"


def test_what_is_there_is_not_copied_again(both: tuple[Path, Path]) -> None:
    source, target = both
    copied(source, target)
    (source / "new").write_bytes(b"x")
    inode = (target / "inner/deep/empty").stat().st_ino
    copied(source, target)
    assert (target / "inner/deep/empty").stat().st_ino == inode
    assert told(target) == told(source)


@pytest.mark.parametrize("change", ["chmod", "chown", "content", "name", "xattr", "time"])
def test_a_difference_is_seen(both: tuple[Path, Path], change: str) -> None:
    source, target = both
    copied(source, target)
    file = target / "inner/deep/empty"
    times = (target / "second").stat()
    if change == "chmod":
        file.chmod(0o600 if file.stat().st_mode & 0o77 else 0o644)
    elif change == "chown":
        os.chown(file, 1, 1)
    elif change == "content":
        with (target / "second").open("r+b") as changed:
            changed.seek(5 << 20)
            changed.write(b"Middle")
        os.utime(target / "second", ns=(times.st_atime_ns, times.st_mtime_ns))
    elif change == "name":
        file.rename(file.with_name("other"))
    elif change == "xattr":
        os.setxattr(file, "user.note", b"lost")
    else:
        os.utime(file, (1, 1))
    assert told(target) != told(source)


def test_a_change_of_the_source_is_seen(both: tuple[Path, Path]) -> None:
    def mark() -> str:
        with held.opened(both[0]) as opened:
            return trees.state_of(opened.descriptor).mark

    before = mark()
    assert mark() == before
    (both[0] / "data.mdb").touch()
    with_data = mark()
    (both[0] / "lock.mdb").touch()
    assert before != with_data == mark()
    (both[0] / "data.mdb").write_bytes(b"x")
    assert mark() != with_data
