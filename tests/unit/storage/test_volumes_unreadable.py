"""Tools whose answers are not what they document: the facts are missing, and the report says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.storage import survey
from loader.storage.survey import Asker


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "WARNING: not JSON",
        "[]",
        '{"report": [{"other": []}]}',
        '{"report": [{"seg": [{"lv_name": "a"}], "pv": [{"pv_name": "/dev/sda"}]}]}',
        '{"report": [{"seg": [{"lv_name": 1}], "pv": [{"pv_name": 1}]}]}',
    ],
)
def test_an_answer_that_cannot_be_read_is_told_as_not_looked_at(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("lvs", "pvs"):
        (tmp_path / tool).write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    asker = Asker()
    assert survey.volumes(asker) == survey.Volumes()
    assert [one.what for one in asker.unseen] == ["logical volumes", "physical volumes"]
    assert all("its answer cannot be read" in one.why for one in asker.unseen)
