"""A real terminal of 80 columns: errors and warnings are coloured there and nowhere else, and progress is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import command
from tests.support.terminal import on_terminal

_REFUSED = ("verify", "/nowhere/at/all")


def test_an_error_and_a_warning_are_coloured_on_a_terminal(tmp_path: Path) -> None:
    status, text = on_terminal(*_REFUSED)
    assert status == 5
    assert "\x1b[1;31mditseed:\x1b[0m /nowhere" in text
    assert "\x1b[1mhint:\x1b[0m " in text
    assert "\x1b[1;33mWARNING\x1b[0m: " in on_terminal(*warned(tmp_path))[1]


def warned(tmp_path: Path) -> tuple[object, ...]:
    """A warning of the log: the password file can be read by all."""
    password = tmp_path / "pw"
    password.write_text("x")
    password.chmod(0o644)
    where = ("-H", "ldap://127.0.0.1:1", "-D", "cn=x", "-y", password, "-b", "o=x")
    return ("export", *where, "-o", tmp_path / "out")


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_not_where_colour_is_unwanted(env: dict[str, str], tmp_path: Path) -> None:
    for command_line, shown in (
        (_REFUSED, "ditseed: /nowhere"),
        ((*warned(tmp_path), "--progress", "none"), "WARNING: "),
    ):
        _, text = on_terminal(*command_line, env=env)
        assert shown in text
        assert "\x1b" not in text


def test_not_off_a_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in command.ditseed(*_REFUSED).err
    assert "\x1b" not in command.ditseed(*warned(tmp_path)).err


def test_what_comes_from_outside_brings_no_colour() -> None:
    _, text = on_terminal("verify", "/nowhere/\x1b[32mgreen")
    assert "\x1b[32m" not in text
    assert "\\x1b[32mgreen" in text


_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_GENERATE = ("generate", "people", "-n", "1000000", "-o")
_SOONER = ("generate", "people", "-n", "200000", "-o")


@pytest.mark.long
def test_a_status_while_it_works_and_a_line_when_it_is_done(tmp_path: Path) -> None:
    status, text = on_terminal(*_GENERATE, tmp_path / "tree")
    assert status == 0, text
    lines = [line for line in re.split(r"[\r\n]+", _ESCAPE.sub("", text)) if line.strip()]
    assert max(map(len, lines)) <= 80
    running = [line for line in lines if re.match(r"shards: \S+ of \S+ \(\d+%\), ", line)]
    assert running
    assert any(re.search(r"/s, \d.* left$", line.rstrip()) for line in running), running
    done = [at for at, line in enumerate(lines) if re.match(r"shards: [\d,]+ entries in .*/s$", line)]
    assert done, lines[-3:]
    assert done[0] > lines.index(running[-1]), "the line of a finished step stays"
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor stays hidden"


@pytest.mark.long
def test_log_lines_stand_above_the_status(tmp_path: Path) -> None:
    shown = _ESCAPE.sub("", on_terminal("-v", *_SOONER, tmp_path / "tree")[1])
    assert re.search(r"^INFO: \S+: started\r?$", shown, re.MULTILINE), shown


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    _, text = on_terminal(*_SOONER, tmp_path / "tree", env={"TERM": "dumb"})
    assert "\x1b" not in text
    assert "entries in" in text
