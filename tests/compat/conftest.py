"""The newer release that docs/compatibility.md speaks of."""

from __future__ import annotations

import pytest

from fixtures.chroots import Chroot, chroot, missing_chroot
from tests.support.require import require


@pytest.fixture(scope="session")
def newer() -> Chroot:
    """OpenLDAP 2.6 as Debian 13 ships it."""
    require(missing_chroot())
    return chroot("trixie")
