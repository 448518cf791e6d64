"""slapd's own tools: where they are found, which version they are, as whom they run; copies of a slapd.d for them; and
what a slapd has open."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from loader import slapd_conf
from loader.config import Config
from loader.defaults import ENV_TOOLS
from loader.errors import DirectoryUnsafe, FileUnsafe, ToolFailed, ToolMissing, ToolUnreachable
from loader.server import configuration, tools
from loader.server.tools import of_directories
from loader.storage.files import Owner

NOBODY = Owner(65534, 65534)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tools as nobody")


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def no_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_TOOLS, raising=False)


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory in which tools are looked for first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_the_path_decides_first(on_path: Path) -> None:
    program(on_path / "slapcat", "echo mine $*")
    assert tools.server_tool("slapcat", "-n0") == [str(on_path / "slapcat"), "-n0"]
    assert tools.run("slapcat", "-n0") == b"mine -n0\n"
    program(on_path / "slapcat", "echo bad configuration >&2; exit 1")
    with pytest.raises(ToolFailed, match="slapcat ended with status 1: bad configuration"):
        tools.run("slapcat")
    with pytest.raises(ToolMissing, match="slapnothing is not installed"):
        tools.server_tool("slapnothing")


@pytest.mark.slapd
def test_sbin_need_not_be_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """cron's path has none."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert Path(tools.server_tool("slapcat")[0]).is_absolute()


def test_a_prefix_goes_before_every_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_TOOLS, "env 'WORD=two words' sh -c 'echo $0 $1 $WORD'")
    assert tools.run("slapcat", "-n0") == b"slapcat -n0 two words\n"
    monkeypatch.setenv(ENV_TOOLS, "no-such-container exec x")
    with pytest.raises(ToolMissing, match="no-such-container"):
        tools.run("slapcat")


@as_root
def test_a_directory_that_the_account_may_not_enter_is_named(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> None:
    """As of an OpenLDAP, or of links to one, below root's home."""
    short_tmp.chmod(0o711)
    real, links = short_tmp / "closed", short_tmp / "links"
    real.mkdir(0o700)
    links.mkdir(0o755)
    program(real / "slapcat", "id -u")
    (links / "slapcat").symlink_to(real / "slapcat")
    for place, prefix in ((real, ""), (links, ""), (real, f"env PATH={real}:/usr/bin:/bin")):
        monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
        monkeypatch.setenv(ENV_TOOLS, prefix)
        with pytest.raises(ToolUnreachable) as caught:
            tools.run("slapcat", owner=NOBODY)
        assert str(caught.value) == f"slapcat runs as nobody, which may not enter {real}"
        assert f"chmod o+x {real}" in (caught.value.advice() or "")
    os.chown(real, 0, NOBODY.gid)
    real.chmod(0o710)
    assert tools.run("slapcat", owner=NOBODY) == b"65534\n"


@as_root
def test_a_program_test_that_comes_first_decides_nothing(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> None:
    short_tmp.chmod(0o755)
    (short_tmp / "open").touch(0o644)
    (short_tmp / "closed").touch(0o600)
    for status, name in ((1, "open"), (0, "closed")):
        program(short_tmp / "test", f"exit {status}")
        monkeypatch.setenv("PATH", f"{short_tmp}:/usr/bin:/bin")
        assert tools.may_read(NOBODY, [short_tmp, short_tmp / name]) == (name == "open")


@pytest.mark.slapd
def test_the_installed_slapd_says_its_format() -> None:
    assert tools.lmdb_format() in (1, 3)


def test_the_format_follows_the_version_of_a_slapd_that_is_asked_again_once_it_is_exchanged(on_path: Path) -> None:
    program(on_path / "slapcat", "")  # the slapd beside it counts
    for said, release, known in (
        ("@(#) $OpenLDAP: slapd 2.4.57+dfsg-3 (May 2021)", (2, 4, 57), 1),
        ("@(#) $OpenLDAP: slapd 2.6.10 (Jun 2025)", (2, 6, 10), 1),
        ("@(#) $OpenLDAP: slapd 2.7.0 (Jan 2027)", (2, 7, 0), 3),
        ("what?", None, None),
    ):
        own = on_path / str(release)  # a file that stays has an inode of its own
        program(own, f"echo '{said}' >&2; exit 1")
        (on_path / "slapd").unlink(missing_ok=True)
        (on_path / "slapd").symlink_to(own)
        assert (tools.release(), tools.lmdb_format()) == (release, known)


OTHER = 12345  # an account that owns nothing else


@pytest.fixture
def slapd_d(tmp_path: Path) -> Path:
    made = tmp_path / "slapd.d"
    (made / "cn=config").mkdir(parents=True)
    (made / "cn=config.ldif").write_text("dn: cn=config\n")
    (tmp_path / "schema").write_text("dn: cn=schema\n")
    (made / "cn=config/cn=schema.ldif").symlink_to(tmp_path / "schema")
    (made / "cn=config/cn=schema.ldif~").write_text("slapd reads no such file")
    return made


def test_all_that_slapd_reads_is_copied(slapd_d: Path, tmp_path: Path) -> None:
    configuration.copy_directory(slapd_d, tmp_path / "copy")
    texts = {
        str(path.relative_to(tmp_path / "copy")): path.read_text()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    schema = "cn=config/cn=schema.ldif"
    assert texts == {"cn=config.ldif": "dn: cn=config\n", schema: "dn: cn=schema\n"}


@as_root
@pytest.mark.parametrize("name", ["cn=config/cn=schema.ldif", "cn=other"])
def test_no_link_of_another_account_is_followed(slapd_d: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secrets").mkdir()
    (slapd_d / "cn=other").symlink_to(tmp_path / "secrets")
    os.chown(slapd_d / name, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises((FileUnsafe, DirectoryUnsafe), match="symbolic link"):
        configuration.copy_directory(slapd_d, tmp_path / "copy")


@as_root
def test_the_account_reads_a_copy_and_cannot_change_it(slapd_d: Path, tmp_path: Path) -> None:
    configuration.copy_directory(slapd_d, tmp_path / "copy")
    tools.let_read(Owner(OTHER, OTHER), tmp_path / "copy")
    for path in (tmp_path / "copy", *(tmp_path / "copy").rglob("*")):
        status = path.stat()
        mode = 0o750 if path.is_dir() else 0o640
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, OTHER, mode)


def test_included_files_keep_their_paths_and_lines(tmp_path: Path) -> None:
    main, other = tmp_path / "slapd.conf", tmp_path / "other.conf"
    main.write_text(f'include "{other}"\ninclude /nowhere.conf\nlogfile \\\n  /log\ndatabase mdb\n')
    other.write_text("LogFile /log\npidfile /pid\n")
    assert slapd_conf.copies(main, "/copy", "logfile") == {
        Path(f"/copy{main}"): f'include "/copy{other}"\ninclude /nowhere.conf\n\n\ndatabase mdb\n',
        Path(f"/copy{other}"): "\npidfile /pid\n",
    }


def test_only_files_of_that_path_that_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.mdb"
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    with path.open("wb"), (tmp_path / "other.mdb").open("wb"):
        before = len(os.listdir("/proc/self/fd"))
        assert tools.flush(os.getpid(), str(path))
        assert [one.st_ino for one in synced] == [path.stat().st_ino]
        assert len(os.listdir("/proc/self/fd")) == before
    assert not tools.flush(os.getpid(), str(path))


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """Another account can put one there, in slapd's run directory for instance."""
    fifo = tmp_path / "slapd.pid"
    os.mkfifo(fifo)
    config = Config(tmp_path, (), (("cn=config", {"olcPidFile": [bytes(fifo)]}),))
    assert tools.stale_pid_file(config) is None
    with pytest.raises(FileUnsafe, match="FIFO"):
        slapd_conf.file_text(fifo)


@as_root
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
