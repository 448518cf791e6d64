"""Syntaxes and matching rules: values of each are stored and indexed as slapadd -q does, or refused at once."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.compat.definitions import RULES, SYNTAXES, Definition, built
from fixtures.compat.row import Outcome
from fixtures.slapd import ServerError
from loader.errors import NotProven
from tests.compat import building

pytestmark = pytest.mark.slapd

STATUSES = (NotProven.exit_status,)
ALL = (*SYNTAXES, *RULES)


def _shown(row: Definition, place: Path, chroot: Chroot | None = None) -> None:
    """One database shows all that are equal; where it is not the same, each row has one of its own."""
    if row.outcome is Outcome.EQUAL and _all_equal(chroot):
        return
    building.as_the_row_says(built([row]), place, statuses=STATUSES, chroot=chroot)


@functools.cache
def _all_equal(chroot: Chroot | None) -> bool:
    together = built([row for row in ALL if row.outcome is Outcome.EQUAL])
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        try:
            return building.differs(together, Path(name), chroot) == []
        except (AssertionError, ServerError):
            return False


@pytest.mark.rows(5)
@pytest.mark.parametrize("row", building.parameters(SYNTAXES))
def test_syntax(row: Definition, short_tmp: Path) -> None:
    _shown(row, short_tmp)


@pytest.mark.rows(7)
@pytest.mark.parametrize("row", building.parameters(RULES))
def test_rule(row: Definition, short_tmp: Path) -> None:
    _shown(row, short_tmp)


@pytest.mark.heavy
@pytest.mark.parametrize("row", building.parameters(ALL))
def test_definition_of_the_newer_release(row: Definition, short_tmp: Path, newer: Chroot) -> None:
    _shown(row, short_tmp, newer)
