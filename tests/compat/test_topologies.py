"""Topologies: a replica that ditseed seeded, beside one that syncrepl filled, before and after changes."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

import pytest

from fixtures.compat.topologies import TOPOLOGIES, Topology
from fixtures.slapd import ServerError, Slapd
from tests.compat import building, replicas
from tests.compat.replicas import Site

pytestmark = pytest.mark.slapd

SHORT = (60, 40)  # people, changes
LONG = (2000, 500)


@pytest.mark.rows(1)
@pytest.mark.parametrize("row", building.parameters(TOPOLOGIES))
def test_topology(row: Topology) -> None:
    assert shown(row) == {}


@functools.cache
def shown(row: Topology) -> dict[str, list[str]]:
    """The faults, looked for once: several options of syncrepl are shown by one topology."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        return faults_of(row, Path(name), *SHORT)


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("row", building.parameters(TOPOLOGIES))
def test_topology_at_length(row: Topology, short_tmp: Path) -> None:
    assert faults_of(row, short_tmp, *LONG) == {}


def faults_of(row: Topology, place: Path, people: int, changes: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with replicas.site(row, place, people) as site:
        for strategy in row.refuses:
            _, done = replicas.seeded(site, strategy)
            if done.status == 0 or re.search(replicas.WORK, done.err, re.MULTILINE):
                found[strategy] = [f"not refused before the work: exit status {done.status}", done.err]
        if row.suits:
            _grown_alike(site, row.suits, changes, found)
    return {strategy: faults[:8] for strategy, faults in found.items() if faults}


def _grown_alike(site: Site, strategies: tuple[str, ...], changes: int, found: dict[str, list[str]]) -> None:
    natural = site.natural()
    seeded = {one: made for one in strategies if (made := _seeded(site, one, found))}
    for strategy, one in seeded.items():
        found[strategy] = _unlike(site, natural, one, "seeded")
    site.change(changes)
    site.wait(natural)
    for strategy, one in seeded.items():
        found[strategy] += _unlike(site, natural, one, "changed")


def _seeded(site: Site, strategy: str, found: dict[str, list[str]]) -> Slapd | None:
    made, done = replicas.seeded(site, strategy)
    if done.status != 0:
        found[strategy] = [f"exit status {done.status}: {done.err}"]
        return None
    return made


def _unlike(site: Site, natural: Slapd, one: Slapd, when: str) -> list[str]:
    """Before it is started, where that is possible: what was seeded, and not what syncrepl mended."""
    try:
        faults = replicas.unlike(site, natural, one) if when == "seeded" else []
        if not one.running:
            one.start()
        site.wait(one)
        faults += replicas.unlike(site, natural, one)
    except ServerError as error:
        faults = [str(error)]
    return [f"{when}: {fault}" for fault in faults]
