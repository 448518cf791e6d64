"""Errors and warnings are coloured on a terminal, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import command
from tests.support.terminal import on_terminal

_REFUSED = ("verify", "/nowhere/at/all")


def test_an_error_is_coloured_on_a_terminal() -> None:
    status, text = on_terminal(*_REFUSED)
    assert status == 5
    assert "\x1b[1;31mditseed:\x1b[0m /nowhere" in text
    assert "\x1b[1mhint:\x1b[0m " in text


def warned(tmp_path: Path) -> tuple[object, ...]:
    """A warning of the log: the password file can be read by all."""
    password = tmp_path / "pw"
    password.write_text("x")
    password.chmod(0o644)
    where = ("-H", "ldap://127.0.0.1:1", "-D", "cn=x", "-y", password, "-b", "o=x")
    return ("export", *where, "-o", tmp_path / "out")


def test_a_warning_is_coloured_on_a_terminal(tmp_path: Path) -> None:
    _, text = on_terminal(*warned(tmp_path))
    assert "\x1b[1;33mWARNING\x1b[0m: " in text


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_not_where_colour_is_unwanted(env: dict[str, str], tmp_path: Path) -> None:
    _, text = on_terminal(*_REFUSED, env=env)
    assert "ditseed: /nowhere" in text
    assert "\x1b" not in text
    _, text = on_terminal(*warned(tmp_path), "--progress", "none", env=env)
    assert "WARNING: " in text
    assert "\x1b" not in text


def test_not_off_a_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in command.ditseed(*_REFUSED).err
    assert "\x1b" not in command.ditseed(*warned(tmp_path)).err


def test_what_comes_from_outside_brings_no_colour() -> None:
    _, text = on_terminal("verify", "/nowhere/\x1b[32mgreen")
    assert "\x1b[32m" not in text
    assert "\\x1b[32mgreen" in text
