"""What the step `late` asks of a provider whose entries were loaded in bulk long ago, by server ID 000.

Only server IDs whose contextCSN has moved can have changed anything. The account's limit on unindexed searches
(size.unchecked) makes slapd refuse every look that has more than some hundred entries to go through.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.replication import wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR
from fixtures.trees import write_people
from tests.support.seeding import Pair
from tests.support.stopping import stopping
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

PEOPLE = 1000
UNCHECKED = 300  # entries
LONG_AGO = r"\1: 20260101000000.000000"
SALES = "ou=sales,ou=Berlin,ou=people,dc=example,dc=com"
LIMITS = f'dn.exact="{REPLICATOR}" size=unlimited size.unchecked=%s size.prtotal=unlimited time=unlimited'


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Pair]:
    """A provider with server ID 1, loaded by slapadd with CSNs of 000, months ago."""
    ldif = tmp_path / "people.ldif"
    with closing(replication.provider()) as first:
        write_people(ldif, first.suffix, PEOPLE)
        first.slapadd(ldif, "-S", "0", "-w")
        ldif.write_text(re.sub(r"(entryCSN|contextCSN): [\d.]+", LONG_AGO, first.slapcat()))
    source = replication.provider()
    source.slapadd(ldif)
    settings = dataclasses.replace(source.settings, overlays=(), server_id=None)
    with source, closing(replication.consumer(source, settings)) as target:
        yield Pair(source, target, tmp_path)


def _limit_unindexed(server: Slapd, unchecked: int | str) -> None:
    change = "dn: olcDatabase={3}mdb,cn=config\nchangetype: modify\nreplace: olcLimits\n"
    server.configure(f"{change}olcLimits: {LIMITS % unchecked}\n")


def _describe(server: Slapd, text: str, dn: str = SALES) -> None:
    change = "changetype: modify\nreplace: description\ndescription:"
    server.ldapmodify(f"dn: {dn}\n{change} {text}\n")


def _sids(server: Slapd) -> list[str]:
    return sorted(value.split("#")[2] for value in server.context_csns())


def test_no_look_at_every_entry(both: Pair) -> None:
    """A container has changed meanwhile; slapd finds it by its index."""
    _describe(both.provider, "its server ID stands in the contextCSN")
    assert _sids(both.provider) == ["000", "001"]
    with stopping(both, ("stream.read",)) as seeding:
        seeding.wait_for_stop()
        _describe(both.provider, "changed")
        _limit_unindexed(both.provider, UNCHECKED)
    _limit_unindexed(both.provider, "unlimited")
    _converges(both)


@pytest.mark.long
@pytest.mark.parametrize("sids", [["000"], ["000", "001"]])
def test_a_renamed_container_is_followed(both: Pair, sids: list[str]) -> None:
    """Also by a server ID of which nothing is known: then every container is looked at."""
    if sids == ["000", "001"]:
        _describe(both.provider, "its server ID stands in the contextCSN")
    assert _sids(both.provider) == sids
    with stopping(both, ("stream.read",)) as seeding:
        seeding.wait_for_stop()
        with both.provider.connection() as handle:
            handle.rename_s(SALES, "ou=trade", delold=1)
    _converges(both)


def _converges(both: Pair) -> None:
    with both.consumer:
        wait_in_sync(both.provider, both.consumer)
        assert_same(both.provider, both.consumer)
