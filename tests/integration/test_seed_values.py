"""Values that got into a provider long ago, and that no check of today would let in: its consumer gets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.trees import record
from tests.support.command import ditseed
from tests.support.seeding import Pair, pair
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

OLD = [
    *(("objectClass", "inetOrgPerson"), ("objectClass", "posixAccount"), ("cn", "old"), ("sn", "old")),
    *(("uid", "old"), ("uidNumber", "007"), ("gidNumber", "seven"), ("homeDirectory", "/häme")),
    *(("telephoneNumber", "ask *her*"), ("telephoneNumber", "#7")),
]


def _grown_old(both: Pair, scratch: Path) -> None:
    """The provider gets such an entry in the way in which they come: slapadd."""
    ldif = scratch / "old.ldif"
    ldif.write_text(record(f"uid=old,{both.provider.suffix}", OLD))
    both.provider.stop()
    where = [*both.provider.config_arguments, "-b", both.provider.suffix]
    both.provider.tool("slapadd", "-q", "-w", *where, "-l", str(ldif))
    both.provider.start()


@pytest.mark.long("slapcat")
@pytest.mark.parametrize("strategy", ["search", "slapcat"])
def test_the_consumer_gets_what_the_provider_has(tmp_path: Path, strategy: str) -> None:
    with pair(tmp_path, 50) as both:
        _grown_old(both, tmp_path)
        both.prepare(strategy)
        done = ditseed(*both.seed(strategy, "--json")).ok()
        told = json.loads(done.out)["invalid values"]
        syntax = "1.3.6.1.4.1.1466.115.121.1"
        assert sorted(told) == [
            f"1 of gidNumber ({syntax}.27)",
            f"1 of homeDirectory ({syntax}.26)",
            f"1 of uidNumber ({syntax}.27)",
            f"2 of telephoneNumber ({syntax}.50)",
        ]
        assert tree(both.consumer.slapcat()) == tree(both.provider.slapcat())
