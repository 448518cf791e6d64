"""Clone after clone of a server that takes a thousand modifications a second: each is sound, and slapd serves it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.churn import Churn
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

RATE = 1000  # modifications a second


@pytest.fixture
def busy(people_ldif: Path) -> Iterator[Slapd]:
    """A server that does not wait for the disk, so that it can take so many."""
    server = Slapd(Settings(maxsize=4 << 30, database_lines=("dbnosync",)))
    server.slapadd(people_ldif, "-w")
    with server:
        yield server


def test_three(busy: Slapd, tmp_path: Path) -> None:
    _clones(busy, tmp_path, 3, RATE // 10)


@pytest.mark.heavy
def test_fifty(busy: Slapd, tmp_path: Path) -> None:
    _clones(busy, tmp_path, 50, RATE)


def _clones(busy: Slapd, place: Path, count: int, least: int) -> None:
    """Every other one compacting. least: changes a second that there have to be."""
    with Churn(busy, rate=RATE) as churn:
        before, started = churn.changes(), time.monotonic()
        for number in range(count):
            words = ("--compact",) if number % 2 else ()
            clone = Slapd(busy.settings, directory=place / str(number))
            try:
                _clone(busy, clone, words)
            finally:
                clone.close()
        rate = (churn.changes() - before) / (time.monotonic() - started)
        print(f"{rate:.0f} changes/s")
        assert rate >= least
    assert ditseed("clone", busy.database_dir, place / "x", "--dry-run", "--json").ok().facts[
        "reader_lag"
    ] in range(10)


def _clone(busy: Slapd, clone: Slapd, words: tuple[str, ...]) -> None:
    command = ("clone", busy.database_dir, clone.database_dir, "--verify", "pages", "--json")
    made = ditseed(*command, *words).ok().facts
    assert made["transactions"] > 0
    assert made["verified"] == "pages"
    with clone:
        found = clone.search()
        assert len(found) == made["entries"]
    assert len(re.findall("^dn:", clone.slapcat(), re.MULTILINE)) == made["entries"]
