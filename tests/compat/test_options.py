"""Options of syncrepl: a replica seeded for a consumer that has them, beside one that syncrepl filled with them."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.compat.options import ALL, GROUPS, UNKNOWN, Option
from fixtures.compat.topologies import CLONE, LDIF, SEARCH, TOPOLOGIES, Topology
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Settings
from tests.compat import building, shapes
from tests.compat.test_topologies import SHORT, faults_of

pytestmark = [pytest.mark.slapd, pytest.mark.timeout(300)]

WHOLE = (
    "connection",
    "refreshOnly",
    "tls",
    "sasl",
    "schemachecking",
)  # every entry with every attribute


@pytest.mark.parametrize("row", building.parameters(ALL))
def test_option(row: Option) -> None:
    assert _faults(row.group) == {}


@functools.cache
def _faults(group: str) -> dict[str, list[str]]:
    """Once for all options of a group."""
    if group == UNKNOWN:
        return _unknown_to_slapd()
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        return faults_of(_topology(group), Path(name), *SHORT)


def _unknown_to_slapd() -> dict[str, list[str]]:
    source = Slapd()
    try:
        replication.consumer(
            source, Settings(database_lines=(shapes.syncrepl(source, GROUPS[UNKNOWN]),))
        )
    except ServerError as error:
        return {} if "tls_crlcheck" in str(error) else {UNKNOWN: [str(error)]}
    finally:
        source.close()
    return {UNKNOWN: ["slapd takes it"]}


def _topology(group: str) -> Topology:
    if group == "delta":
        return next(one for one in TOPOLOGIES if one.shape == "delta")
    if group == "attrsonly":
        return Topology(group, suits=(), refuses=(SEARCH, LDIF, CLONE), options=GROUPS[group])
    refuses = () if group in WHOLE else (CLONE,)
    suits = (SEARCH,) if group in WHOLE else (SEARCH, LDIF)
    return Topology(group, suits=suits, refuses=refuses, options=GROUPS[group])
