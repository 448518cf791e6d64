"""Schemas that Debian packages ship, with entries that use all of each. Downloads the packages once, with apt-get."""

from __future__ import annotations

import os

import pytest

from fixtures.campaign import schemas, verdict
from fixtures.campaign.packages import missing_apt
from tests.support.require import require

pytestmark = [pytest.mark.slapd, pytest.mark.heavy, pytest.mark.timeout(0)]

LEAST = 90  # schemas


def test_all_of_them() -> None:
    require(missing_apt())
    found = list(schemas.verdicts(os.cpu_count() or 1))
    print(verdict.table(found))
    tried = {one.what for one in found if one.outcome != verdict.SKIPPED}
    assert len(tried) >= LEAST
    assert [str(one) for one in found if not one.sound] == []
