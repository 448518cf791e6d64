"""Directories held open: what others plant is refused, and what they rename does not lead anywhere else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loader import plain
from loader.errors import DirectoryUnsafe, FileUnsafe, LoaderError
from loader.storage import files, held
from tests.support.disks import loop_filesystem
from tests.support.processes import started

OTHER = 12345  # an account that owns nothing else

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another account: needs root")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory of another account."""
    place = tmp_path / "foreign"
    place.mkdir()
    os.chown(place, OTHER, OTHER)
    return place


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"root's own")
    return path


def planted(place: Path, name: str, secret: Path) -> dict[str, Path]:
    """Each kind of thing under a name of its own, made by the other account where that matters."""
    made = {kind: place / f"{kind}-{name}" for kind in ("link", "dangling", "hard", "fifo", "dir")}
    made["link"].symlink_to(secret)
    made["dangling"].symlink_to(secret.with_name("nowhere"))
    for kind in ("link", "dangling") if os.geteuid() == 0 else ():
        os.lchown(made[kind], OTHER, OTHER)
    os.link(secret, made["hard"])
    os.mkfifo(made["fifo"])
    made["dir"].mkdir()
    return made


def test_a_private_directory_is_made_and_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        with held.private(tmp_path / "run") as found:
            assert found.status.st_mode & 0o777 == 0o700
            assert found.name == tmp_path / "run"
            assert plain.with_operator_paths(f"at {found.path}/x") == f"at {tmp_path}/run/x"
    with pytest.raises(FileNotFoundError), held.private(tmp_path / "none", make=False):
        pytest.fail("it is not there")


def test_a_descriptor_that_nobody_named_is_told_by_its_path(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_PATH)
    text = f"/proc/{os.getpid()}/fd/{descriptor}/slapd.d: Permission denied"
    assert plain.with_operator_paths(text) == f"{tmp_path}/slapd.d: Permission denied"
    os.close(descriptor)
    for other in (text, "/proc/1/fd/0/x", "/proc/cpuinfo"):
        assert plain.with_operator_paths(other) == other
    with os.fdopen(os.memfd_create("secret")) as nowhere:
        other = f"/proc/self/fd/{nowhere.fileno()}"
        assert plain.with_operator_paths(other) == other


def test_it_stays_the_same_whatever_its_name_stands_for(tmp_path: Path, secret: Path) -> None:
    with held.private(tmp_path / "run") as found:
        (tmp_path / "run").rename(tmp_path / "aside")
        (tmp_path / "run").symlink_to(secret.parent)
        files.write_durably(found.path / "note", b"x", 0o600)
        child = [sys.executable, "-c", "import sys; open(sys.argv[1] + '/of-a-child', 'w')"]
        subprocess.run([*child, str(found.path)], check=True)
    assert sorted(os.listdir(tmp_path / "aside")) == ["note", "of-a-child"]
    assert not (tmp_path / "note").exists()


@as_root
def test_one_of_others_is_refused(tmp_path: Path, foreign: Path) -> None:
    """Which they can write to, have, or have made a link to."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o770)
    with pytest.raises(DirectoryUnsafe, match="mode 0770"), held.private(tmp_path / "run"):
        pytest.fail("others can write there")
    (foreign / "run").mkdir(mode=0o700)
    os.chown(foreign / "run", OTHER, OTHER)
    with pytest.raises(DirectoryUnsafe, match=f"uid {OTHER}") as caught:
        held.private(foreign / "run").__enter__()
    assert str(caught.value).startswith(f"{foreign}/run ")
    (tmp_path / "there").mkdir(mode=0o700)
    for target in ("there", "nowhere"):
        link = foreign / f"to-{target}"
        link.symlink_to(tmp_path / target)
        os.lchown(link, OTHER, OTHER)
        with pytest.raises(DirectoryUnsafe, match="symbolic link of another account"):
            held.private(link).__enter__()
    assert not (tmp_path / "nowhere").exists()


@as_root
def test_missing_directories_are_made_but_not_behind_a_link_of_another_account(tmp_path: Path, foreign: Path) -> None:
    for _ in range(2):
        held.make_directories(tmp_path / "one" / "two", 0o700)
    assert (tmp_path / "one" / "two").stat().st_mode & 0o777 == 0o700
    outside = tmp_path / "outside"
    outside.mkdir()
    link = foreign / "link"
    link.symlink_to(outside)
    os.lchown(link, OTHER, OTHER)
    with pytest.raises(DirectoryUnsafe):
        held.make_directories(link / "deeper" / "out")
    with pytest.raises(DirectoryUnsafe), held.private(link / "deeper" / "out"):
        pass
    assert not list(outside.iterdir())


def test_a_link_of_our_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/../real")
    with held.opened(tmp_path / "link" / "deep") as found:
        assert os.path.samestat(found.status, (tmp_path / "real" / "deep").stat())
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LoaderError), held.opened(tmp_path / "loop"):
        pytest.fail("there is none")


def _locked(path: Path) -> None:
    with held.opened(path.parent) as place:
        os.close(place.open_or_create(path.name))


def _pinned(path: Path) -> None:
    with held.opened(path.parent) as place, place.pinned(path.name):
        pytest.fail(f"{path} is what another account planted")


def _rewritten(path: Path) -> None:
    files.rewrite(path, b"root's own", b"new")


@as_root
@pytest.mark.parametrize("use", [_locked, files.read, _pinned, _rewritten])
def test_what_is_planted_is_refused(foreign: Path, secret: Path, use: Callable[[Path], None]) -> None:
    before = secret.stat()
    for kind, path in planted(foreign, "x", secret).items():
        with pytest.raises(FileUnsafe) as caught:
            use(path)
        assert str(path) in str(caught.value), kind
        assert caught.value.advice()
    assert secret.read_bytes() == b"root's own"
    assert (secret.stat().st_mtime_ns, secret.stat().st_uid) == (before.st_mtime_ns, before.st_uid)
    assert not secret.with_name("nowhere").exists()


@as_root
def test_which_second_names_are_read(foreign: Path, tmp_path: Path, secret: Path) -> None:
    """Of the account's own file, and among root's own; not in a directory of all."""
    own = foreign / "own"
    own.write_bytes(b"of the account")
    os.chown(own, OTHER, OTHER)
    os.link(own, foreign / "other name")
    os.link(secret, secret.with_name("second"))
    assert files.read(foreign / "other name") == b"of the account"
    assert files.read(secret.with_name("second")) == b"root's own"
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    os.link(secret, tmp_path / "all" / "planted")
    with pytest.raises(FileUnsafe, match="second name"):
        files.read(tmp_path / "all" / "planted")


def _created(path: Path, content: bytes) -> None:
    with files.creating(path) as file:
        file.write(content)


def _written(path: Path, content: bytes) -> None:
    left = path.with_name(f"{path.name}.partial")
    left.symlink_to(path.parent.parent / "secret")
    files.write_durably(path, content, 0o600)
    assert not left.exists()


@as_root
@pytest.mark.parametrize("write", [_written, _created])
def test_an_output_replaces_what_is_planted(foreign: Path, secret: Path, write: Callable[[Path, bytes], None]) -> None:
    """A rename follows nothing: the link is gone, and what it named is as it was."""
    for kind, path in planted(foreign, "x", secret).items():
        if kind != "dir":
            write(path, b"new")
            assert (path.read_bytes(), path.is_symlink()) == (b"new", False)
    assert secret.read_bytes() == b"root's own"


def test_a_tree_is_removed_whatever_is_in_it(tmp_path: Path, secret: Path) -> None:
    """Links are removed, not what they name; nothing waits for a FIFO."""
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    planted(tree / "deep" / "deeper", "x", secret)
    (tree / "out").symlink_to(tmp_path)
    files.remove_tree(tree)
    assert not tree.exists()
    assert secret.read_bytes() == b"root's own"
    os.mkfifo(tree)
    files.remove_tree(tree)
    assert tree.exists(), "it is no directory"
    files.remove_tree(tmp_path / "nowhere")


@as_root
def test_a_tree_is_removed_that_its_owner_keeps_filling(short_tmp: Path) -> None:
    tree = short_tmp / "tree"
    (tree / "deep").mkdir(parents=True)
    for path in (tree, tree / "deep"):
        os.chown(path, OTHER, OTHER)
    for number in range(2000):  # long enough for the other to add some
        (tree / f"deep/{number}").touch()
    fill = "print(flush=True)\nn = 0\nwhile True:\n    open(f'more-{n}', 'x').close()\n    n += 1"
    who = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "--")
    with started([*who, "/usr/bin/python3", "-c", fill], cwd=tree / "deep", stderr=subprocess.DEVNULL):
        held.remove_tree(tree)
    assert not tree.exists()


def test_a_directory_on_a_dead_disk_stays_open_nowhere() -> None:
    """Its volume could not be unmounted otherwise."""
    with loop_filesystem(320, "xfs") as volume:
        subprocess.run(["xfs_io", "-x", "-c", "shutdown", str(volume)], check=True)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(OSError, match="Input/output error"), held.opened(volume):
            pass
        assert os.listdir("/proc/self/fd") == before


def test_a_path_is_looked_at_from_the_top(tmp_path: Path) -> None:
    """A link is looked at itself, before the directory that it leads to."""
    real = tmp_path / "real"
    (real / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    kinds = [stat.S_IFMT(status.st_mode) for status in held.statuses_along(tmp_path / "link/below/missing")]
    assert kinds[-3:] == [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFDIR]
    (tmp_path / "loop").symlink_to("loop")
    assert len([*held.statuses_along(tmp_path / "loop")]) < 100
    with held.opened(real) as opened:
        assert len([*held.statuses_along(opened.path / "below")]) == 2


@as_root
def test_an_empty_directory_is_removed_where_root_s_links_lead(tmp_path: Path) -> None:
    (tmp_path / "closed" / "empty").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "closed")
    os.lchown(link, OTHER, OTHER)
    with pytest.raises(DirectoryUnsafe):
        held.remove_empty(link / "empty")
    assert (tmp_path / "closed" / "empty").is_dir()
    os.lchown(link, 0, 0)
    held.remove_empty(link / "empty")
    assert not (tmp_path / "closed" / "empty").exists()
