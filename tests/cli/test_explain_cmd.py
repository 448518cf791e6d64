"""`ditseed explain`: the row of docs/errors.md, by code or exit status."""

from __future__ import annotations

import pytest

from loader import errors
from loader.cli.explain_cmd import facts_of
from tests.support import command


def test_an_error_is_explained_by_its_code_and_by_its_status() -> None:
    shown = command.ditseed("explain", "backup.log_incomplete").ok().out
    hint = "<advice> --accept-gaps restores the changes that the log has. Nothing was changed."
    assert f"message  the log cannot be replayed to <until>: <reason>\nhint     {hint}\n" in shown
    assert shown.endswith("\nabout    LMDB databases, their copies and backups\n")
    assert {command.ditseed("explain", word).ok().out for word in ("[backup.log_incomplete]", 11)} == {shown}
    for facts in map(facts_of, errors.classes()):
        assert all(value and "{" not in str(value) for value in facts.values()), facts


@pytest.mark.parametrize(
    ("word", "status", "words"),
    [
        ("1", 0, "monitoring plugins"),
        ("143", 0, "143 SIGTERM"),
        ("storage.nospace", 3, "did you mean storage.no_space"),
        ("3 to 125", 3, "no error has the code or exit status 3 to 125 (docs/errors.md lists them all)"),
    ],
)
def test_a_status_of_no_single_error_is_explained_and_another_word_refused(word: str, status: int, words: str) -> None:
    done = command.ditseed("explain", word)
    assert done.status == status
    assert words in done.out + done.err
