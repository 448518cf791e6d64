"""Overlays: a database with each, and data that uses it, as slapadd -q makes it, or refused by the configuration."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures.compat import overlays
from fixtures.compat.row import Built, Outcome
from loader.errors import ConfigUnreadable, NotProven
from tests.compat import building

pytestmark = pytest.mark.slapd


@pytest.mark.parametrize("row", building.parameters(overlays.ALL))
def test_overlay(row: Built, short_tmp: Path) -> None:
    if row.outcome is not Outcome.REFUSED:
        assert building.differs(row, short_tmp) == []
        return
    with closing(building.server(row, short_tmp / "one")) as made:
        done = building.refusal(made, row.suffix, short_tmp)
        assert done.status in (NotProven.exit_status, ConfigUnreadable.exit_status), done
