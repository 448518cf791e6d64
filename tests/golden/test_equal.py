"""The heart of it: whatever the LDIF and the settings, each table is the one that `slapadd -q` makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures.golden.case import Case
from loader.server import version
from tests.golden.everything import CASES
from tests.support.golden import compared

pytestmark = pytest.mark.slapd


def _parameter(case: Case) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=[pytest.mark.heavy] if case.heavy else [])


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_equal_to_slapadd(case: Case, tmp_path: Path) -> None:
    if not case.since <= (version.release() or (0,)) < case.until:
        pytest.skip("the slapd at hand does not know this, or does otherwise")
    found = compared(case, tmp_path)
    assert not found, f"{case.shows}:\n" + "\n".join(found)
