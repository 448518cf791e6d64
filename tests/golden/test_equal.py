"""The heart of it: whatever the LDIF and the settings, each table is the one that `slapadd -q` makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures.golden.case import Case
from tests.golden.everything import CASES
from tests.support.golden import compared, require_fitting

pytestmark = pytest.mark.slapd


def _parameter(case: Case) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=[pytest.mark.heavy] if case.heavy else [])


@pytest.mark.long("idlexp")
@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_equal_to_slapadd(case: Case, tmp_path: Path) -> None:
    require_fitting(case)
    found = compared(case, tmp_path)
    assert not found, f"{case.shows}:\n" + "\n".join(found)
