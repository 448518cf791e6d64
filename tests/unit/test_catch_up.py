"""What a forecast says and costs; what claims, sizes and commands are made of. Servers: tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import config, csn
from loader.server import sync
from loader.server.sync import SyncAnswer
from seeders.replica import catchup, strategies

A = "20261121070501.123456Z#000000#001#000000"
B = "20250101000000.000000Z#000000#0ff#000000"


def test_a_moment_before() -> None:
    assert csn.just_before(A) == "20261121070501.123455Z#000000#001#000000"
    assert csn.just_before(B) == "20241231235959.999999Z#000000#0ff#000000"


def test_a_cookie_is_in_the_order_of_server_ids() -> None:
    assert sync.cookie_of([B, A]) == f"rid=999,csn={A};{B}"


@pytest.mark.parametrize(
    ("cookie", "server_id"),
    [(f"rid=999,sid=0Ff,csn={A}", "0ff"), (f"rid=999,csn={A}", "000"), ("sid=\x1b[2", "000"), ("", None), (None, None)],
)
def test_the_server_id_in_a_cookie(cookie: str | None, server_id: str | None) -> None:
    assert sync.server_id(cookie) == server_id


@pytest.mark.parametrize("answer", [SyncAnswer.PRESENT, SyncAnswer.WHOLE])
def test_costs_grow_faster_than_the_tree(answer: SyncAnswer) -> None:
    """The consumer's list of entryUUIDs gets deeper. Changes alone cost nothing of the tree."""
    small, large = (catchup.seconds_of(answer, entries, False) / entries for entries in (10**6, 10**8))
    assert large > 1.1 * small
    assert catchup.seconds_of(answer, 10**6, True) > catchup.seconds_of(answer, 10**6, False)
    assert catchup.seconds_of(SyncAnswer.CHANGES, 10**9, False) == catchup.seconds_of(SyncAnswer.CHANGES, 1, False)


@pytest.mark.parametrize(
    ("values", "logs"),
    [
        *((values, True) for values in (["stats sync"], ["stats", "Sync"], ["any"], ["-1"], ["16640"], ["0x4100"])),
        *((values, False) for values in (["256"], ["none"], [])),
    ],
)
def test_the_log_level(values: list[str], logs: bool) -> None:
    entry = ("cn=config", {"olcLogLevel": [value.encode() for value in values]})
    assert catchup.logs_sync(config.parse(Path("slapd.d"), [entry])) is logs


def test_the_claim_of_an_ldif_stands_in_its_first_entry(tmp_path: Path) -> None:
    path = tmp_path / "tree.ldif"
    path.write_text(f"dn: dc=example,dc=com\nobjectClass: domain\ndc: example\ncontextCSN: {A}\ncontextcsn: {B}\n\n")
    assert strategies.context_csns_of_ldif([path]) == sorted([A, B])
    path.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    assert strategies.context_csns_of_ldif([path]) is None


def test_a_session_log_grows_with_the_tree() -> None:
    assert catchup.log_size(None) == catchup.log_size(1000) == 100_000
    assert catchup.log_size(30_000_000) == 300_000


Attributes = dict[str, list[bytes]]


def syncprov(overlay: Attributes, database: Attributes, server: Attributes) -> catchup.Syncprov:
    name = "olcDatabase={1}mdb,cn=config"
    entries = [
        ("cn=config", server),
        (name, {"olcDatabase": [b"{1}mdb"], "olcSuffix": [b"dc=example,dc=com"], **database}),
        (f"olcOverlay={{0}}syncprov,{name}", {"olcOverlay": [b"{0}syncprov"], **overlay}),
    ]
    found = catchup.syncprov_in(config.parse(Path("cn=config"), entries, "ldap://one"), "DC=example, DC=com")
    assert found is not None
    return found


@pytest.mark.parametrize(("size", "before"), [(0, ()), (500, ("500",))])
def test_what_is_not_there_is_added_and_not_replaced(size: int, before: tuple[str, ...]) -> None:
    """slapd 2.4.57 dies of a replacement of olcSpSessionlog where it is not set."""
    found = syncprov({"olcSpSessionlog": [b"500"]} if size else {}, {}, {})
    assert found.session_log == size
    assert found.resized(1000).before == before


def test_all_providers_that_may_write_are_known() -> None:
    """Each of them brings its server ID into the contextCSN sooner or later."""
    ids = {"olcServerID": [b"1 ldap://one", b"0x0a ldap://two", b"12 ldap://three"]}
    found = syncprov({}, {"olcMultiProvider": [b"TRUE"], "olcSyncrepl": [b"x"]}, ids)
    assert (found.writes_itself, found.server_ids) == (True, {"001", "00a", "00c"})
