"""A temporary directory goes with its process, however that ends."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from loader.errors import DirectoryUnsafe
from loader.storage import files
from tests.support.command import ditseed
from tests.support.processes import announced

HOLDER = """
import sys, time
from loader.storage import files
with files.temporary_directory("held", sys.argv[1]) as made:
    (made / "secret").write_text("x")
    print(made, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _another_process() -> None:
    files.sweep_temporary.cache_clear()


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def _killed(place: Path) -> Path:
    """The directory of a process that was killed, which stays while the process lives."""
    with announced(HOLDER, place) as process, files.temporary_directory("read", place):
        (secret,) = place.glob("*/*/secret")
        process.kill()
    files.sweep_temporary.cache_clear()
    return secret.parent


def test_it_is_private_and_goes(tmp_path: Path) -> None:
    with files.temporary_directory("read", tmp_path) as made:
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        (made / "file").touch()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_given_away", [False, pytest.param(True, marks=as_root)])
def test_that_of_a_killed_process_is_removed(tmp_path: Path, is_given_away: bool) -> None:
    theirs = _killed(tmp_path)
    assert (theirs / "secret").exists()
    if is_given_away:
        os.chown(theirs, 65534, 65534)
    with files.temporary_directory("read", tmp_path) as made:
        assert list(tmp_path.iterdir()) == [made.parent]


@as_root
def test_one_of_another_account_is_not_touched(tmp_path: Path) -> None:
    planted = tmp_path / f"{files.PREFIX}planted"
    planted.mkdir()
    os.chown(planted, 65534, 65534)
    with files.temporary_directory("read", tmp_path):
        assert planted.exists()


@pytest.fixture
def way(tmp_path: Path) -> Path:
    """A directory two below another."""
    (tmp_path / "above/below").mkdir(parents=True)
    return tmp_path / "above/below"


@as_root
@pytest.mark.parametrize("name", ["above", "above/below"])
def test_none_is_made_where_another_account_could_replace_it(way: Path, tmp_path: Path, name: str) -> None:
    os.chown(tmp_path / name, 65534, 65534)
    (tmp_path / name).chmod(0o1755)  # the sticky bit does not bind the owner of the directory
    with pytest.raises(DirectoryUnsafe, match="belongs to another account"), files.temporary_directory("read", way):
        pass
    assert not list(way.iterdir())


@pytest.mark.parametrize("name", ["above", "above/below"])
def test_the_sticky_bit_is_what_makes_a_shared_directory_safe(way: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).chmod(0o1777)
    with files.temporary_directory("read", way) as made:
        assert made.parent.parent == way
    if os.geteuid() != 0 and name == "above":
        return  # an ordinary user is told of the directory alone
    (tmp_path / name).chmod(0o777)
    with pytest.raises(DirectoryUnsafe, match="mode 0777"), files.temporary_directory("read", way):
        pass


def test_a_link_on_the_way_is_left_behind(way: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(way.parent)
    with files.temporary_directory("read", tmp_path / "link/below") as made:
        assert made.parent.parent == way


@as_root
@pytest.mark.parametrize(
    "words",
    [
        ("backup", "drill", "latest", "-R", "repo"),
        ("backup", "extract", "latest", "-R", "repo", "--dn", "dc=example,dc=com"),
        ("backup", "verify", "-R", "repo"),
        ("backup", "restore", "latest", "-R", "s3://bucket/repo", "--target", "data"),
        ("build", "all.ldif", "--config", "slapd.d"),
        ("migrate", "data", "--config", "slapd.d"),
        ("verify", "data"),
    ],
    ids=" ".join,
)
def test_tmp_of_another_account_is_refused(way: Path, words: tuple[str, ...]) -> None:
    os.chown(way, 65534, 65534)
    done = ditseed(*words, "--tmp", way)
    assert done.status == DirectoryUnsafe.exit_status, done.err
    assert "another account" in done.err
    assert not list(way.iterdir())


def test_every_command_removes_them(tmp_path: Path) -> None:
    """Also one that needs none itself."""
    _killed(tmp_path)
    ditseed("generate", "templates", env={"TMPDIR": str(tmp_path)}).ok()
    assert not list(tmp_path.iterdir())
