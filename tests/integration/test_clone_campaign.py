"""Clone after clone of a server that takes a thousand modifications a second: each is sound, and slapd serves it."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import ldap
import pytest

from fixtures.aside import BackgroundThread
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

RATE = 1000  # modifications a second
WINDOW = 16  # that wait for their answers


class Hammer(BackgroundThread):
    """Modifies people, so many a second as the server takes, until the block ends."""

    def __init__(self, server: Slapd, rate: int) -> None:
        super().__init__()
        self._server, self._wanted = server, rate
        self._done = 0
        self._first = threading.Event()
        self._started = time.monotonic()

    def wait_for_first(self) -> None:
        assert self._first.wait(120)

    def rate(self) -> float:
        """Modifications a second so far. Fails when a modification has."""
        assert self._thread.is_alive()
        return self._done / (time.monotonic() - self._started)

    def _work(self) -> None:
        names = [dn for dn, _ in self._server.search("(objectClass=person)")]
        with self._server.connection() as handle:
            waiting: deque[int] = deque()
            for number, dn in enumerate(itertools.cycle(names)):
                value = [f"{number}".encode()]
                waiting.append(handle.modify_ext(dn, [(ldap.MOD_REPLACE, "description", value)]))
                if len(waiting) > WINDOW:
                    handle.result3(waiting.popleft())
                    self._done += 1
                    self._first.set()
                if self._over.is_set():
                    break
                ahead = number / self._wanted - (time.monotonic() - self._started)
                time.sleep(max(0.0, ahead))
            for one in waiting:
                handle.result3(one)


@pytest.fixture
def busy(people_ldif: Path) -> Iterator[Slapd]:
    """A server that does not wait for the disk, so that it can take so many."""
    server = Slapd(Settings(maxsize=4 << 30, database_lines=("dbnosync",)))
    server.slapadd(people_ldif, "-w")
    with server:
        yield server


@pytest.mark.long
def test_three(busy: Slapd, tmp_path: Path) -> None:
    _clones(busy, tmp_path, 3, 1)


@pytest.mark.heavy
def test_fifty(busy: Slapd, tmp_path: Path) -> None:
    _clones(busy, tmp_path, 50, RATE * 9 // 10)


def _clones(busy: Slapd, place: Path, count: int, least: int) -> None:
    """Every other one compacting. least: modifications a second that there have to be."""
    went_on_by = 0
    with Hammer(busy, RATE) as hammer:
        hammer.wait_for_first()
        for number in range(count):
            words = ("--compact",) if number % 2 else ()
            with closing(Slapd(busy.settings, directory=place / str(number))) as clone:
                went_on_by += _clone(busy, clone, words)
        assert hammer.rate() >= least
    assert went_on_by > 0


def _clone(busy: Slapd, clone: Slapd, words: tuple[str, ...]) -> int:
    """Transactions by which the source went on meanwhile."""
    command = ("clone", busy.database_dir, clone.database_dir, "--verify", "pages", "--json")
    made = ditseed(*command, *words).ok().facts
    assert made["verified"] == "pages"
    with clone:
        found = clone.search()
        assert len(found) == made["entries"]
    assert len(re.findall("^dn:", clone.slapcat(), re.MULTILINE)) == made["entries"]
    return int(made["transactions"])
