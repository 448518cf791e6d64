"""Syntaxes and matching rules: values of each are stored and indexed as slapadd -q does, or refused at once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures.compat.definitions import RULES, SYNTAXES, Definition
from fixtures.compat.row import Outcome
from loader.errors import NotProven
from tests.compat import building

pytestmark = pytest.mark.slapd


def _as_the_row_says(row: Definition, place: Path) -> None:
    if row.outcome is not Outcome.REFUSED:
        assert building.differs(row, place) == []
        return
    with closing(building.server(row, place / "one")) as made:
        done = building.refusal(made, row.suffix, place)
        assert done.status == NotProven.exit_status, done


@pytest.mark.parametrize("row", building.parameters(SYNTAXES))
def test_syntax(row: Definition, short_tmp: Path) -> None:
    _as_the_row_says(row, short_tmp)


@pytest.mark.parametrize("row", building.parameters(RULES))
def test_rule(row: Definition, short_tmp: Path) -> None:
    _as_the_row_says(row, short_tmp)
