"""All golden cases, by name."""

from __future__ import annotations

import pytest

from fixtures.golden import cases, configured, forms, operational, rules

CASES = [
    *cases.BROAD,
    *cases.SETTINGS,
    *configured.MULTIVAL,
    *configured.NOT_CONVERTED,
    *configured.SUFFIXES,
    *configured.OVERLAYS,
    *configured.TREES,
    *forms.FORMS,
    *operational.ADDED,
    *operational.CONTEXT,
    *configured.RANGES,
    *rules.RULES,
]
BY_NAME = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES) > 50, "two cases share a name"
PARAMETERS = [pytest.param(case, id=case.name, marks=[pytest.mark.heavy] if case.heavy else []) for case in CASES]
