"""Syntaxes and matching rules: values of each are stored and indexed as slapadd -q does, or refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.compat.definitions import RULES, SYNTAXES, Definition
from loader.errors import NotProven
from tests.compat import building

pytestmark = pytest.mark.slapd

STATUSES = (NotProven.exit_status,)


@pytest.mark.parametrize("row", building.parameters(SYNTAXES))
def test_syntax(row: Definition, short_tmp: Path) -> None:
    building.as_the_row_says(row, short_tmp, statuses=STATUSES)


@pytest.mark.parametrize("row", building.parameters(RULES))
def test_rule(row: Definition, short_tmp: Path) -> None:
    building.as_the_row_says(row, short_tmp, statuses=STATUSES)


@pytest.mark.heavy
@pytest.mark.parametrize("row", building.parameters((*SYNTAXES, *RULES)))
def test_definition_of_the_newer_release(row: Definition, short_tmp: Path, newer: Chroot) -> None:
    building.as_the_row_says(row, short_tmp, statuses=STATUSES, chroot=newer)
