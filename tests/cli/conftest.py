"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd, missing_slapd
from tests.support.require import require


@pytest.fixture(scope="session")
def server() -> Iterator[Slapd]:
    """Running, with an entry at its suffix. Read it only."""
    require(missing_slapd())
    with Slapd() as running:
        running.ldapadd(f"dn: {running.suffix}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n")
        yield running


@pytest.fixture(scope="session")
def people_server(people_ldif: Path) -> Iterator[Slapd]:
    """Running, with `people_ldif`. Read it only."""
    require(missing_slapd())
    made = Slapd()
    made.slapadd(people_ldif)
    with made:
        yield made
