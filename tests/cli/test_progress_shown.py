"""Progress of a real run on a real terminal of 80 columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.terminal import on_terminal

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
    _, text = on_terminal("-v", *_SOONER, tmp_path / "tree")
    shown = _ESCAPE.sub("", text)
    assert re.search(r"^INFO: \S+: started\r?$", shown, re.MULTILINE), shown


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    _, text = on_terminal(*_SOONER, tmp_path / "tree", env={"TERM": "dumb"})
    assert "\x1b" not in text
    assert "entries in" in text
