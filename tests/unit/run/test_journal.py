"""What was changed is on the disk before the change is made, and says how it ended."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from loader.errors import FileUnsafe
from loader.run import journal
from loader.run.journal import Entry, Outcome


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DITSEED_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def entry(attribute: str = "olcDbMaxSize", before: str = "1", after: str = "2") -> Entry:
    return Entry("/slapd.d", "dc=a", attribute, (before,), (after,), "ditseed tune", "undo")


def test_nothing_was_changed_yet() -> None:
    assert journal.entries() == []


def test_it_is_written_before_the_change_and_closed_after_it(state: Path) -> None:
    with journal.recorded(entry(), entry("olcDbNoSync")):
        assert [one.outcome for one in journal.entries()] == [Outcome.UNKNOWN] * 2
    found = journal.entries()
    assert [one.outcome for one in found] == [Outcome.DONE] * 2
    assert (found[0].before, found[0].after, found[0].undo) == (("1",), ("2",), "undo")
    assert found[0].time.endswith("+00:00")
    assert stat.S_IMODE((state / "changes.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_change_that_failed_says_so(state: Path) -> None:
    with pytest.raises(ZeroDivisionError), journal.recorded(entry()):
        raise ZeroDivisionError("no")
    assert [one.outcome for one in journal.entries()] == [Outcome.FAILED]
    assert '"reason": "no"' in (state / "changes.jsonl").read_text()


def test_secrets_are_blanked(state: Path) -> None:
    with journal.recorded(
        entry("olcRootPW", "hidden-1", "hidden-2"), entry("x", 'credentials="hidden-3"')
    ):
        pass
    text = (state / "changes.jsonl").read_text()
    assert "hidden" not in text
    assert "***" in text


def test_a_killed_process_leaves_an_unknown_end(state: Path) -> None:
    code = (
        "import os; from loader.run import journal\n"
        "one = journal.Entry('t', 'dc=a', 'x', (), (), 'c')\n"
        "with journal.recorded(one): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert [one.outcome for one in journal.entries()] == [Outcome.UNKNOWN]


def test_a_line_cut_by_a_crash_harms_no_other(state: Path) -> None:
    with journal.recorded(entry()):
        pass
    with (state / "changes.jsonl").open("a") as file:
        file.write('{"event": "change", "id": "cut')
    with journal.recorded(entry(after="3")):
        pass
    assert [(one.after, one.outcome) for one in journal.entries()] == [
        (("2",), Outcome.DONE),
        (("3",), Outcome.DONE),
    ]
    for line in (state / "changes.jsonl").read_text().splitlines()[:2]:
        assert json.loads(line)["format"] == journal.FORMAT


def test_what_cannot_be_written_down_is_not_changed(state: Path) -> None:
    state.mkdir()
    (state / "changes.jsonl").mkdir()
    with pytest.raises(FileUnsafe), journal.recorded(entry()):
        pytest.fail("the change was made")
    assert os.listdir(state) == ["changes.jsonl"]
