"""Where slapd's own tools are found, and which version they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.defaults import ENV_TOOLS
from loader.errors import ToolFailed, ToolMissing, ToolUnreachable
from loader.server import tools
from loader.storage.files import Owner

NOBODY = Owner(65534, 65534)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tools as nobody")


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def no_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_TOOLS, raising=False)


def test_a_tool_that_is_nowhere_is_named() -> None:
    with pytest.raises(ToolMissing, match="slapnothing is not installed"):
        tools.server_tool("slapnothing")


def test_the_path_decides_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "slapcat", "echo mine $*")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert tools.server_tool("slapcat", "-n0") == [str(tmp_path / "slapcat"), "-n0"]
    assert tools.run("slapcat", "-n0") == b"mine -n0\n"


@pytest.mark.slapd
def test_sbin_need_not_be_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """cron's path has none."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert Path(tools.server_tool("slapcat")[0]).is_absolute()


def test_a_prefix_goes_before_every_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_TOOLS, "env 'WORD=two words' sh -c 'echo $0 $1 $WORD'")
    assert tools.run("slapcat", "-n0") == b"slapcat -n0 two words\n"


def test_a_prefix_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_TOOLS, "no-such-container exec x")
    with pytest.raises(ToolMissing, match="no-such-container"):
        tools.run("slapcat")


def test_a_failing_tool_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "slapcat", "echo bad configuration >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ToolFailed, match="slapcat ended with status 1: bad configuration"):
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


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("@(#) $OpenLDAP: slapd 2.4.57+dfsg-3 (May 2021)", 1),
        ("@(#) $OpenLDAP: slapd 2.6.10 (Jun 2025)", 1),
        ("@(#) $OpenLDAP: slapd 2.7.0 (Jan 2027)", 3),
        ("what?", None),
    ],
)
def test_the_format_follows_the_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, known: int | None
) -> None:
    program(tmp_path / "slapd", f"echo '{said}' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert tools.lmdb_format() == known
