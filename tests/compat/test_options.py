"""Options of syncrepl: a replica seeded for a consumer that has them, beside one that syncrepl filled with them."""

from __future__ import annotations

import pytest

from fixtures import replication
from fixtures.compat.topologies import (
    CLONE,
    GROUPS,
    LDIF,
    OPTIONS,
    SEARCH,
    TOPOLOGIES,
    TOPOLOGY_OF,
    UNKNOWN,
    Option,
    Topology,
)
from fixtures.slapd import ServerError, Slapd
from tests.compat import building
from tests.compat.test_topologies import shown

pytestmark = pytest.mark.slapd

WHOLE = ("connection", "refreshOnly", "tls", "sasl", "schemachecking")  # every entry with every attribute


@pytest.mark.rows(1)
@pytest.mark.long("attrs", "network-timeout")
@pytest.mark.parametrize("row", building.parameters(OPTIONS))
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
    if group in TOPOLOGY_OF:
        return next(one for one in TOPOLOGIES if one.name == TOPOLOGY_OF[group])
    if group == "attrsonly":
        return Topology(group, suits=(), refuses=(SEARCH, LDIF, CLONE), options=GROUPS[group])
    refuses = () if group in WHOLE else (CLONE,)
    suits = (SEARCH,) if group in WHOLE else (SEARCH, LDIF)
    return Topology(group, suits=suits, refuses=refuses, options=GROUPS[group])
