"""A part that is missing skips a test at home, with the reason, and fails it in CI."""

from __future__ import annotations

import os

import pytest

from fixtures import openldap_27


def require(missing: str | None) -> None:
    """missing: why the part cannot be had (the `missing_...` functions of fixtures say it), or None."""
    if missing is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI every part must be there: {missing}", pytrace=False)
    pytest.skip(missing)


def require_2_7() -> None:
    """A 2.7 that is installed. In CI, too, its tests are skipped: no distribution has it."""
    if reason := openldap_27.missing():
        pytest.skip(reason)
