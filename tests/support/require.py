"""Skips a test if a part is missing; in CI, fails it."""

from __future__ import annotations

import os

import pytest

from fixtures import openldap_27


def require(missing: str | None) -> None:
    """`missing`: why the part is missing, from a `missing_...` function of fixtures; None if it is there."""
    if missing is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI every part must be there: {missing}", pytrace=False)
    pytest.skip(missing)


def require_root() -> None:
    require(None if os.geteuid() == 0 else "only root gives files away, becomes another account, or mounts")


def require_2_7() -> None:
    """Skips a test if OpenLDAP 2.7 is not installed, in CI too, because no distribution has it."""
    if reason := openldap_27.missing():
        pytest.skip(reason)
