"""Topologies, and options of syncrepl: a replica that ditseed seeded, beside one that syncrepl filled, before and after
changes."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.compat import topologies
from fixtures.compat.topologies import CLONE, GROUPS, LDIF, SEARCH, TOPOLOGIES, UNKNOWN, Option, Topology
from fixtures.slapd import ServerError, Slapd
from tests.compat import building, replicas
from tests.compat.replicas import Site

pytestmark = pytest.mark.slapd

WHOLE = ("connection", "refreshOnly", "tls", "sasl", "schemachecking")  # every entry with every attribute


@pytest.mark.rows(1)
@pytest.mark.parametrize("row", building.parameters(TOPOLOGIES))
def test_topology(row: Topology) -> None:
    assert shown(row) == {}


@functools.cache
def shown(row: Topology) -> dict[str, list[str]]:
    """The faults, looked for once: several options of syncrepl are shown by one topology."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        return faults_of(row, Path(name), people=60, changes=40)


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("row", building.parameters(TOPOLOGIES))
def test_topology_at_length(row: Topology, short_tmp: Path) -> None:
    assert faults_of(row, short_tmp, people=2000, changes=500) == {}


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
    natural, seeded = site.natural(), {}
    for strategy in strategies:
        made, done = replicas.seeded(site, strategy)
        if done.status == 0:
            seeded[strategy] = made
        else:
            found[strategy] = [f"exit status {done.status}: {done.err}"]
    for strategy, one in seeded.items():
        found[strategy] = _unlike(site, natural, one, "seeded")
    site.change(changes)
    site.wait(natural)
    for strategy, one in seeded.items():
        found[strategy] += _unlike(site, natural, one, "changed")


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


# --- options of syncrepl --------------------------------------------------------------------------


@pytest.mark.rows(1)
@pytest.mark.long("attrs", "network-timeout")
@pytest.mark.parametrize("row", building.parameters(topologies.OPTIONS))
def test_option(row: Option) -> None:
    faults = _unknown_to_slapd() if row.group == UNKNOWN else shown(_topology(row.group))
    assert faults == {}


def _unknown_to_slapd() -> dict[str, list[str]]:
    source = Slapd()
    try:
        replication.consumer(source, options=GROUPS[UNKNOWN])
    except ServerError as error:
        return {} if "tls_crlcheck" in str(error) else {UNKNOWN: [str(error)]}
    finally:
        source.close()
    return {UNKNOWN: ["slapd takes it"]}


def _topology(group: str) -> Topology:
    if name := topologies.TOPOLOGY_OF.get(group):
        return next(one for one in TOPOLOGIES if one.name == name)
    if group == "attrsonly":
        return Topology(group, suits=(), refuses=(SEARCH, LDIF, CLONE), options=GROUPS[group])
    refuses = () if group in WHOLE else (CLONE,)
    suits = (SEARCH,) if group in WHOLE else (SEARCH, LDIF)
    return Topology(group, suits=suits, refuses=refuses, options=GROUPS[group])
