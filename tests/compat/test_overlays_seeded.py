"""Overlays: a replica of a provider with each, seeded from its entries, beside one that syncrepl filled."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures.compat.modules import OVERLAYS
from fixtures.compat.row import Built, Outcome
from fixtures.replication import syncrepl, wait_in_sync
from loader.errors import NotAsStored
from tests.compat import building
from tests.compat.replicas import WORK
from tests.support.command import ditseed
from tests.support.seeding import bind
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

ROWS = [row for row in OVERLAYS if row.seeded is not None]


@pytest.mark.rows(1)
@pytest.mark.long("accesslog", "deref", "otp")
@pytest.mark.parametrize("row", building.parameters(ROWS, "seeded"))
def test_seeded(row: Built, short_tmp: Path) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(building.provider(row, short_tmp))
        lines = (syncrepl(source),)
        natural, seeded = (building.server(row, short_tmp / name, database_lines=lines) for name in ("one", "two"))
        stack.callback(seeded.close)
        stack.enter_context(natural)
        where = ("-b", source.suffix, "--config", seeded.config_path)
        done = ditseed("replica", "seed", "--strategy", "search", *bind(source), *where)
        if row.seeded is Outcome.REFUSED:
            done.refused(NotAsStored)
            assert not re.search(WORK, done.err, re.MULTILINE), "it had begun already"
            return
        done.ok()
        wait_in_sync(source, natural)
        assert_same(natural, seeded)
        with seeded:
            source.describe("once more")
            wait_in_sync(source, natural)
            wait_in_sync(source, seeded)
            assert_same(natural, seeded)
