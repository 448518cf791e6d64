"""Containers that are renamed while a provider is read: their children keep entryCSN, so syncrepl does not send them.

The reading is stopped at named points and changes are made there, so that each case happens for certain. At the end:
what the step `late` asks of a provider whose entries were loaded in bulk long ago, by server ID 000. Only server IDs
whose contextCSN has moved can have changed anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.replication import refresh_report, wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import DATABASE, REPLICATOR
from fixtures.trees import write_people
from tests.support.seeding import Pair, pair
from tests.support.stopping import Stopping, stopping
from tests.support.trees import assert_same, tree

pytestmark = pytest.mark.slapd

PEOPLE = 300
TOP = "ou=people,dc=example,dc=com"
SALES = f"ou=sales,ou=Berlin,{TOP}"
SUPPORT = f"ou=support,ou=Berlin,{TOP}"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Pair]:
    with pair(tmp_path, PEOPLE) as made:
        yield made


def _seeding(both: Pair, points: Sequence[str], kept: bool) -> AbstractContextManager[Stopping]:
    """`kept`: by way of an export."""
    engine = ("--engine", "slapadd") if kept else ()
    return stopping(both, points, "--page", "50", *engine)


def _assert_converges(both: Pair, sent: int | None = None) -> None:
    with both.consumer:
        wait_in_sync(both.provider, both.consumer)
        assert_same(both.provider, both.consumer)
        (refresh,) = refresh_report(both.consumer)
        assert sent is None or refresh.sent <= sent, refresh


def _rename(both: Pair, dn: str, rdn: str, superior: str | None = None) -> None:
    with both.provider.connection() as handle:
        handle.rename_s(dn, rdn, superior, delold=1)


def _once(both: Pair) -> int:
    _rename(both, SALES, "ou=trade")
    return 1


def _there_and_back(both: Pair) -> int:
    """Read under the other name; then it has its own again, and no attribute tells."""
    return _once(both)


def _nested(both: Pair) -> int:
    _rename(both, f"ou=Berlin,{TOP}", "ou=Bonn")
    _rename(both, f"ou=sales,ou=Bonn,{TOP}", "ou=trade", f"ou=Lima,{TOP}")
    return 2


def _swapped(both: Pair) -> int:
    _rename(both, SALES, "ou=meanwhile")
    _rename(both, SUPPORT, "ou=was support")
    return 2


def _another_in_its_place(both: Pair) -> int:
    """A new container, with a child of its own, where the old one was read."""
    _rename(both, SALES, "ou=trade")
    unit = "objectClass: organizationalUnit\n"
    both.provider.ldapadd(f"dn: {SALES}\n{unit}ou: sales\n\ndn: ou=new,{SALES}\n{unit}ou: new\n")
    return 3


def _gone(both: Pair) -> int:
    with both.provider.connection() as handle:
        for dn in sorted(_below(both, SALES), key=len, reverse=True):
            handle.delete_s(dn)
    return 0


def _emptied_into_another(both: Pair) -> int:
    """Children moved one by one, then the container deleted: each of them changed."""
    moved = [dn for dn in _below(both, SALES) if dn != SALES]
    for dn in moved:
        _rename(both, dn, dn.partition(",")[0], SUPPORT)
    with both.provider.connection() as handle:
        handle.delete_s(SALES)
    return len(moved)


def _below(both: Pair, base: str) -> list[str]:
    return [dn for dn, _ in both.provider.search(base=base, attributes=("1.1",))]


CASES = [_once, _there_and_back, _nested, _swapped, _another_in_its_place, _gone, _emptied_into_another]


# Where the seeding stops: before it reads, when it has read all, and when it has looked at what moved meanwhile.
BEFORE = ("start.recorded", "plan.recorded")
AFTER = {False: ("stream.read", "stream.settled"), True: ("read.recorded", "late.recorded")}
POINTS = [
    pytest.param(point, kept, id=f"{'kept' if kept else 'at once'}-{point}")
    for kept in (False, True)
    for point in (*BEFORE, *AFTER[kept])
]
ONLY_WHILE_READING = {
    _there_and_back: "everything was read before",
    # In one refresh the deletion comes before the moves, and the consumer keeps the container as a glue entry:
    # slapd 2.5.13 does so without any seed, after a pause of its consumer.
    _emptied_into_another: "slapd itself cannot follow this in a refresh",
}


@pytest.mark.rows(1)
@pytest.mark.long(
    "_another_in_its_place-at once-plan.recorded", "_nested-kept-late.recorded", "_swapped-at once-stream.read"
)
@pytest.mark.parametrize(("point", "kept"), POINTS)
@pytest.mark.parametrize("case", CASES)
def test_renamed_while_it_is_read(both: Pair, case: Callable[[Pair], int], point: str, kept: bool) -> None:
    if case in ONLY_WHILE_READING and point not in BEFORE:
        pytest.skip(ONLY_WHILE_READING[case])
    before = len(tree(both.provider.slapcat()))
    again = AFTER[kept][:1] if case is _there_and_back else ()
    with _seeding(both, (point, *again), kept) as seeding:
        seeding.wait_for_stop()
        sent = case(both)
        assert len(tree(both.provider.slapcat())) <= before + 2
        for _ in again:
            seeding.go_on()
            seeding.wait_for_stop()
            _rename(both, f"ou=trade,ou=Berlin,{TOP}", "ou=sales")
    _assert_converges(both, sent)


@pytest.mark.long
@pytest.mark.parametrize("kept", [False, True], ids=["at once", "kept"])
def test_a_busy_suffix_entry_costs_nothing(both: Pair, kept: bool) -> None:
    """Everything is below it; it is read again, and nothing else."""
    with _seeding(both, AFTER[kept][:1], kept) as seeding:
        seeding.wait_for_stop()
        both.provider.describe("busy")
        mark = both.provider.log_size()
    _assert_converges(both, 1)
    sent = [int(line.rpartition("nentries=")[2].split()[0]) for line in both.provider.log_lines("nentries=", mark)]
    assert sum(sent) < 15


# --- loaded long ago ----------------------------------------------------------------------------------

# The account's limit on unindexed searches makes slapd refuse every look that has more entries to go through.
LIMITS = f'dn.exact="{REPLICATOR}" size=unlimited size.unchecked=%s size.prtotal=unlimited time=unlimited'


@pytest.fixture
def long_ago(tmp_path: Path) -> Iterator[Pair]:
    """A provider with server ID 1, loaded by slapadd with CSNs of 000, months ago."""
    ldif = tmp_path / "people.ldif"
    with closing(replication.provider()) as first:
        write_people(ldif, first.suffix, 1000)
        first.slapadd(ldif, "-S", "0", "-w")
        ldif.write_text(re.sub(r"(entryCSN|contextCSN): [\d.]+", r"\1: 20260101000000.000000", first.slapcat()))
    source = replication.provider()
    source.slapadd(ldif)
    with source, closing(replication.consumer(source)) as target:
        yield Pair(source, target, tmp_path)


def _limit_unindexed(server: Slapd, unchecked: int | str) -> None:
    change = f"dn: {DATABASE}\nchangetype: modify\nreplace: olcLimits\n"
    server.configure(f"{change}olcLimits: {LIMITS % unchecked}\n")


def _sids(server: Slapd) -> list[str]:
    return sorted(value.split("#")[2] for value in server.context_csns())


def test_no_look_at_every_entry(long_ago: Pair) -> None:
    """A container has changed meanwhile; slapd finds it by its index."""
    long_ago.provider.describe("its server ID stands in the contextCSN", SALES)
    assert _sids(long_ago.provider) == ["000", "001"]
    with stopping(long_ago, ("stream.read",)) as seeding:
        seeding.wait_for_stop()
        long_ago.provider.describe("changed", SALES)
        _limit_unindexed(long_ago.provider, 300)
    _limit_unindexed(long_ago.provider, "unlimited")
    _assert_converges(long_ago)


@pytest.mark.long
@pytest.mark.parametrize("sids", [["000"], ["000", "001"]])
def test_a_renamed_container_is_followed(long_ago: Pair, sids: list[str]) -> None:
    """Also by a server ID of which nothing is known: then every container is looked at."""
    if sids == ["000", "001"]:
        long_ago.provider.describe("its server ID stands in the contextCSN", SALES)
    assert _sids(long_ago.provider) == sids
    with stopping(long_ago, ("stream.read",)) as seeding:
        seeding.wait_for_stop()
        _once(long_ago)
    _assert_converges(long_ago)
