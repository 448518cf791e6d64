"""Modules with password schemes: a database whose configuration uses them, as slapadd -q makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.compat.modules import PASSWORDS
from fixtures.compat.row import Built
from tests.compat import building

pytestmark = pytest.mark.slapd


@pytest.mark.parametrize("row", building.parameters(PASSWORDS))
def test_module(row: Built, short_tmp: Path) -> None:
    building.as_the_row_says(row, short_tmp, statuses=())


@pytest.mark.heavy
@pytest.mark.parametrize("row", building.parameters(PASSWORDS))
def test_module_of_the_newer_release(row: Built, short_tmp: Path, newer: Chroot) -> None:
    building.as_the_row_says(row, short_tmp, statuses=(), chroot=newer)
