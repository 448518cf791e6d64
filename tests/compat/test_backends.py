"""Backends: mdb is built; beside another one it is, too; and that other one is refused by its name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures.compat.modules import BACKENDS, OTHER, Backend
from fixtures.compat.row import Outcome
from loader.errors import NotMdb
from tests.compat import building

pytestmark = pytest.mark.slapd


@pytest.mark.rows(7)
@pytest.mark.parametrize("row", building.parameters(BACKENDS))
def test_backend(row: Backend, short_tmp: Path) -> None:
    assert building.differs(row, short_tmp) == []
    if row.outcome is Outcome.REFUSED:
        with closing(building.server(row, short_tmp / "three")) as made:
            done = building.refusal(made, OTHER, short_tmp)
        assert done.status == NotMdb.exit_status, done
        assert row.name in done.err
