"""All golden cases, by name."""

from __future__ import annotations

from fixtures.golden import cases, configured, forms, operational, ranges

CASES = [
    *cases.BROAD,
    *cases.SETTINGS,
    *configured.MULTIVAL,
    *configured.SUFFIXES,
    *configured.OVERLAYS,
    *configured.TREES,
    *forms.FORMS,
    *operational.ADDED,
    *operational.CONTEXT,
    *ranges.RANGES,
]
BY_NAME = {case.name: case for case in CASES}
