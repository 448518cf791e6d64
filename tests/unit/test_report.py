"""Tables: nothing of them is cut, however narrow the terminal is."""

from __future__ import annotations

import pytest

from loader.cli.report import show_table


def test_a_table_is_whole_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "a reason of many words " * 20
    show_table(["layer", "last", "reason"], [["/dev/sda", "12.345", long], ["/dev/sdb", "1", "none"]])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["layer", "last", "reason"]
    assert first.split() == ["/dev/sda", "12.345", *long.split()]
    assert second == "/dev/sdb       1  none"


def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["layer"], [])
    assert capsys.readouterr().out == "layer\n"
