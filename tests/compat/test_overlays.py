"""Overlays: a database with each, and data that uses it, as slapadd -q makes it, or refused by the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.compat.modules import OVERLAYS
from fixtures.compat.row import Built
from loader.errors import ConfigUnreadable, NotProven
from tests.compat import building

pytestmark = pytest.mark.slapd

STATUSES = (NotProven.exit_status, ConfigUnreadable.exit_status)


@pytest.mark.rows(4)
@pytest.mark.parametrize("row", building.parameters(OVERLAYS))
def test_overlay(row: Built, short_tmp: Path) -> None:
    building.as_the_row_says(row, short_tmp, statuses=STATUSES)


@pytest.mark.rows(4)
@pytest.mark.heavy
@pytest.mark.parametrize("row", building.parameters(OVERLAYS))
def test_overlay_of_the_newer_release(row: Built, short_tmp: Path, newer: Chroot) -> None:
    building.as_the_row_says(row, short_tmp, statuses=STATUSES, chroot=newer)
