"""OpenLDAP's own configurations and data. DITSEED_OPENLDAP_SOURCE names a checkout of the version that is installed.

DITSEED_OPENLDAP_SOURCE=~/src/openldap pytest tests/campaign/test_openldap.py -m heavy
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.campaign import openldap, verdict

pytestmark = [pytest.mark.slapd, pytest.mark.heavy, pytest.mark.timeout(0)]

SOURCE = os.environ.get("DITSEED_OPENLDAP_SOURCE")


@pytest.mark.skipif(not SOURCE, reason="DITSEED_OPENLDAP_SOURCE names no checkout of OpenLDAP")
def test_all_of_it() -> None:
    found = list(openldap.verdicts(openldap.Checkout(Path(SOURCE or "")), os.cpu_count() or 1))
    print(verdict.table(found))
    assert sum(one.outcome == verdict.EQUAL for one in found) > 100
    assert [str(one) for one in found if not one.sound] == []
