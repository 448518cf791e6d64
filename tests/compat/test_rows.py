"""What a build does with each backend, overlay, password module, syntax and matching rule: the database is the one that
slapadd -q makes, or the configuration alone is refused. And a replica of a provider with each overlay, seeded from its
entries, beside one that syncrepl filled."""

from __future__ import annotations

import functools
import re
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.compat.definitions import RULES, SYNTAXES, Definition, built
from fixtures.compat.modules import BACKENDS, OTHER, OVERLAYS, PASSWORDS, Backend
from fixtures.compat.row import Built, Outcome
from fixtures.replication import syncrepl, wait_in_sync
from fixtures.slapd import ServerError
from loader.errors import ConfigUnreadable, NotAsStored, NotMdb, NotProven
from tests.compat import building
from tests.compat.replicas import WORK
from tests.support.command import ditseed
from tests.support.seeding import bind
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

STATUSES = (NotProven.exit_status, ConfigUnreadable.exit_status)


@pytest.fixture(params=["here", pytest.param("newer", marks=pytest.mark.heavy)])
def release(request: pytest.FixtureRequest) -> Chroot | None:
    """None: the slapd at hand."""
    newer: Chroot | None = request.getfixturevalue("newer") if request.param == "newer" else None
    return newer


@pytest.mark.rows(7)
@pytest.mark.parametrize("row", building.parameters(BACKENDS))
def test_backend(row: Backend, short_tmp: Path) -> None:
    """mdb is built, also beside another backend; that other one is refused by its name."""
    assert building.differs(row, short_tmp) == []
    if row.outcome is Outcome.REFUSED:
        with closing(building.server(row, short_tmp / "three")) as server:
            done = building.refusal(server, OTHER, short_tmp)
        done.refused(NotMdb)
        assert row.name in done.err


@pytest.mark.rows(8)
@pytest.mark.parametrize("row", building.parameters(OVERLAYS))
def test_overlay(row: Built, short_tmp: Path, release: Chroot | None) -> None:
    building.as_the_row_says(row, short_tmp, statuses=STATUSES, chroot=release)


@pytest.mark.parametrize("row", building.parameters(PASSWORDS))
def test_module(row: Built, short_tmp: Path, release: Chroot | None) -> None:
    building.as_the_row_says(row, short_tmp, statuses=(), chroot=release)


def _shown(row: Definition, place: Path, chroot: Chroot | None) -> None:
    """One database shows all that are equal; where it is not the same, each row has one of its own."""
    if row.outcome is not Outcome.EQUAL or not _all_equal(chroot):
        building.as_the_row_says(built([row]), place, statuses=STATUSES[:1], chroot=chroot)


@functools.cache
def _all_equal(chroot: Chroot | None) -> bool:
    together = built([row for row in (*SYNTAXES, *RULES) if row.outcome is Outcome.EQUAL])
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        try:
            return building.differs(together, Path(name), chroot) == []
        except (AssertionError, ServerError):
            return False


@pytest.mark.rows(10)
@pytest.mark.parametrize("row", building.parameters(SYNTAXES))
def test_syntax(row: Definition, short_tmp: Path, release: Chroot | None) -> None:
    _shown(row, short_tmp, release)


@pytest.mark.rows(14)
@pytest.mark.parametrize("row", building.parameters(RULES))
def test_rule(row: Definition, short_tmp: Path, release: Chroot | None) -> None:
    _shown(row, short_tmp, release)


@pytest.mark.rows(1)
@pytest.mark.long("accesslog", "deref", "otp")
@pytest.mark.parametrize("row", building.parameters([row for row in OVERLAYS if row.seeded is not None], "seeded"))
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
