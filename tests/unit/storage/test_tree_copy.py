"""A copy of a directory: all of it, and told from one that is not equal."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.errors import MigrationRefused
from loader.progress import Meter
from loader.storage import held, trees
from tests.support.disks import loop_filesystem
from tests.support.processes import started
from tests.support.require import require_root

OTHER = 65534  # the account that does what it must not
EMPTY = "inner/deep/empty"
AS_OTHER = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "--")


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
    (top / EMPTY).touch()
    os.utime(top / EMPTY, ns=(1, 1234567890123456789))
    os.chmod(top / "inner/deep", 0o2750)
    os.chown(top / "inner/deep", 12, 34)
    os.chown(top / "inner/link", 12, 34, follow_symlinks=False)
    os.setxattr(top / EMPTY, "user.note", b"kept")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(top / "socket"))
    return top


def copied(source: Path, target: Path, meanwhile: Callable[[], None] = lambda: None) -> None:
    with held.opened(source) as one, held.opened(target) as other:
        trees.copy_tree(one, other, Meter("copy"), meanwhile)


def opened_up(source: Path, target: Path) -> None:
    with held.opened(source) as one, held.opened(target) as other:
        trees.open_up(one, other)


def plants(directory: int) -> bool:
    """Can the other account make a link in the directory that it is in?"""
    place = held.through(directory)
    link = [*AS_OTHER, "ln", "-sf", "/etc/passwd", "planted"]
    return subprocess.run(link, cwd=place, capture_output=True, check=False).returncode == 0


def told(top: Path) -> tuple[object, object]:
    with held.opened(top) as opened:
        return trees.shape_of(opened.descriptor), trees.checksums(opened.descriptor, Meter("x"))


@pytest.fixture
def both(short_tmp: Path) -> tuple[Path, Path]:
    require_root()
    source, target = short_tmp / "from", short_tmp / "to"
    target.mkdir()
    source.mkdir(mode=0o750)
    return filled(source), target


def test_all_of_it(both: tuple[Path, Path]) -> None:
    source, target = both
    (target / "lost+found").mkdir()
    target.chmod(0o700)
    (target / "inner").touch()  # of an earlier attempt
    (target / "old/x").mkdir(parents=True)
    os.chown(source, 12, 34)
    os.setxattr(source, "user.note", b"top")
    copied(source, target)
    assert told(target) == told(source)
    assert (target.stat().st_uid, target.stat().st_mode & 0o7777) == (0, 0o700)
    inode = (target / EMPTY).stat().st_ino
    (source / "new").write_bytes(b"x")
    copied(source, target)  # what is there is not copied again
    assert (target / EMPTY).stat().st_ino == inode
    assert told(target) == told(source)
    opened_up(source, target)
    one, other = source.stat(), target.stat()
    assert (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)
    assert (one.st_mtime_ns, os.getxattr(target, "user.note")) == (other.st_mtime_ns, b"top")
    assert {one.name for one in target.iterdir()} == {"fifo", "inner", "lost+found", "new", "second"}
    assert (target / "second").samefile(target / "inner/holes")
    assert (target / "second").stat().st_blocks * 512 < 1 << 20
    assert os.readlink(target / "inner/link") == "/nowhere"
    assert (target / EMPTY).stat().st_mtime_ns == 1234567890123456789
    assert os.getxattr(target / EMPTY, "user.note") == b"kept"


def test_nobody_gets_into_a_copy_that_is_made(both: tuple[Path, Path]) -> None:
    """The account owns all that is copied, and has a directory of the last copy open."""
    source, target = both
    inner = source / "inner"
    for place in (source, inner):
        os.chown(place, OTHER, OTHER)
    copied(source, target)
    opened_up(source, target)
    inside = os.open(target / "inner", held.LIST)
    assert plants(inside)
    (inner / "planted").unlink(missing_ok=True)
    with pytest.raises(MigrationRefused, match="is not empty: fifo, inner"):
        copied(source, target)
    assert (target.stat().st_uid, plants(inside)) == (OTHER, True)
    planted = []
    with held.opened(target) as opened:
        trees.empty(opened)
    copied(source, target, lambda: planted.append(plants(inside)))
    assert (set(planted), plants(inside)) == ({False}, False)
    assert told(target) == told(source)
    os.close(inside)


def test_an_interrupted_copy_takes_its_directories_back(both: tuple[Path, Path]) -> None:
    source, target = both
    for path in ("inner", "inner/holes"):
        os.chown(source / path, OTHER, OTHER)
    copied(source, target)
    inside = os.open(target / "inner", held.LIST)
    os.utime(source / "inner/holes", (1, 1))
    planted = []
    copied(source, target, lambda: planted.append(plants(inside)))
    assert set(planted) == {False}
    assert (told(target), plants(inside)) == (told(source), True)
    os.close(inside)


EXCHANGE = """
import ctypes, sys
exchange = ctypes.CDLL(None).renameat2
one, other = (name.encode() for name in sys.argv[1:])
print(flush=True)
while exchange(-100, one, -100, other, 2) == 0:
    pass
"""


def test_owner_and_contents_are_of_one_file(both: tuple[Path, Path]) -> None:
    """The account exchanges the names of its files and of root's all the time."""
    source, target = both
    (source / "secret").write_text("root")
    (source / "mine").write_text("mine")
    (source / "link").symlink_to("root")
    (source / "own").symlink_to("mine")
    for path in (source, source / "mine", source / "own"):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    (source / "secret").chmod(0o600)
    exchange = (*AS_OTHER, "/usr/bin/python3", "-c", EXCHANGE)
    pairs = (started([*exchange, *names], cwd=source) for names in (("secret", "mine"), ("link", "own")))
    with next(pairs) as one, next(pairs) as two:
        for _ in range(100):
            copied(source, target)
            for name in ("secret", "mine"):
                owner = (target / name).stat().st_uid
                assert (target / name).read_text() == ("mine" if owner else "root")
            for name in ("link", "own"):
                owner = (target / name).lstat().st_uid
                assert os.readlink(target / name) == ("mine" if owner else "root")
        assert (one.poll(), two.poll()) == (None, None)


def test_a_tree_as_deep_as_may_be_and_a_deeper_one(both: tuple[Path, Path]) -> None:
    source, target = both
    deepest = source.joinpath(*["d"] * 201)
    deepest.mkdir(parents=True)
    copied(source, target)
    assert told(target) == told(source)
    (deepest / "d").mkdir()
    with pytest.raises(MigrationRefused, match="more than 200 directories above it"):
        told(source)


def acl(user: int, permissions: int) -> bytes:
    """As Linux's xattrs have them: owner, a named user, group, mask, others."""
    none = 0xFFFFFFFF
    entries = ((1, 7, none), (2, permissions, user), (4, 5, none), (0x10, 7, none), (0x20, 0, none))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def test_acls_from_and_to_xfs(both: tuple[Path, Path]) -> None:
    """Of which a directory of an earlier run may have other ones."""
    source, target = both
    (source / "plain").mkdir()
    access, default = "system.posix_acl_access", "system.posix_acl_default"
    for path in ("fifo", "inner", "second"):
        os.setxattr(source / path, access, acl(12, 4))
    os.setxattr(source / "inner", default, acl(12, 6))
    with loop_filesystem(300, "xfs") as volume:
        (volume / "plain").mkdir()
        volume.chmod(0o700)
        os.setxattr(volume / "plain", default, acl(34, 7))
        copied(source, volume)
        assert told(volume) == told(source)
        copied(volume, target)
    assert told(target) == told(source)
    assert os.getxattr(target / "inner", default) == acl(12, 6)
    assert os.getxattr(target / "fifo", access) == acl(12, 4)


def _content(top: Path) -> None:
    """Other bytes, and the time as it was."""
    times = (top / "second").stat()
    with (top / "second").open("r+b") as changed:
        changed.seek(5 << 20)
        changed.write(b"Middle")
    os.utime(top / "second", ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "chmod": lambda top: (top / EMPTY).chmod((top / EMPTY).stat().st_mode ^ 0o100),
    "chown": lambda top: os.chown(top / EMPTY, 1, 1),
    "content": _content,
    "name": lambda top: (top / EMPTY).rename(top / "inner/deep/other"),
    "xattr": lambda top: os.setxattr(top / EMPTY, "user.note", b"lost"),
    "time": lambda top: os.utime(top / EMPTY, (1, 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_difference_is_seen(both: tuple[Path, Path], change: Callable[[Path], object]) -> None:
    source, target = both
    copied(source, target)
    change(target)
    assert told(target) != told(source)


def test_a_change_of_the_source_is_seen(both: tuple[Path, Path]) -> None:
    source, _ = both

    def mark() -> str:
        with held.opened(source) as opened:
            return trees.state_of(opened.descriptor).mark

    before = mark()
    assert mark() == before
    (source / "data.mdb").touch()
    with_data = mark()
    (source / "lock.mdb").touch()
    assert before != with_data == mark()
    (source / "data.mdb").write_bytes(b"x")
    assert mark() != with_data
