"""Overlays: a replica of a provider with each, seeded from its entries, beside one that syncrepl filled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fixtures.compat.modules import OVERLAYS
from fixtures.compat.row import Built, Outcome
from fixtures.replication import syncrepl, wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR
from loader.errors import NotAsStored
from tests.compat import building
from tests.compat.replicas import SYNCPROV, TOUCH, WORK
from tests.support.command import ditseed
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

ROWS = [row for row in OVERLAYS if row.seeded is not None]


@contextmanager
def _provider(row: Built, place: Path) -> Iterator[Slapd]:
    """With a contextCSN that it has stored. Its database, and what other ones stand behind it, are the row's."""
    home = place / "provider"
    lines = row.lines.replace("{home}", str(home))
    overlays = (lines,) if row.name == "syncprov" else (SYNCPROV, lines)
    modules = tuple(dict.fromkeys(("back_mdb", "syncprov", *row.modules)))
    made = building.server(row, home, server_id=1, overlays=overlays, modules=modules)
    ldif = place / "row.ldif"
    ldif.write_text(row.ldif())
    building.slapadd(made, row, ldif)
    with made:
        made.ldapmodify(TOUCH.format(made.suffix))
        made.restart()
        yield made


@pytest.mark.rows(1)
@pytest.mark.long("accesslog", "deref", "otp")
@pytest.mark.parametrize("row", building.parameters(ROWS, "seeded"))
def test_seeded(row: Built, short_tmp: Path) -> None:
    building.require_modules(row)
    with ExitStack() as stack:
        source = stack.enter_context(_provider(row, short_tmp))
        lines = (syncrepl(source, source.uri),)
        natural, seeded = (building.server(row, short_tmp / name, database_lines=lines) for name in ("one", "two"))
        stack.callback(seeded.close)
        stack.enter_context(natural)
        who = ("-H", source.uri, "-D", REPLICATOR, "-y", source.replicator_password_file, "-b", source.suffix)
        done = ditseed("replica", "seed", "--strategy", "search", *who, "--config", seeded.config_path)
        if row.seeded is Outcome.REFUSED:
            assert done.status == NotAsStored.exit_status, done
            assert not re.search(WORK, done.err, re.MULTILINE), "it had begun already"
            return
        done.ok()
        wait_in_sync(source, natural)
        assert_same(natural, seeded)
        with seeded:
            source.ldapmodify(TOUCH.format(source.suffix).replace("touched", "once more"))
            wait_in_sync(source, natural)
            wait_in_sync(source, seeded)
            assert_same(natural, seeded)
