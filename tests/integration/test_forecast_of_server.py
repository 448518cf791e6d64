"""maxsize computed from entries of a running server that are to be loaded here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.mdb import meta
from loader.operations import server_sample
from loader.progress import Meter
from loader.server.options import Connection
from loader.sources import planner
from loader.sources.sampling import SampleSize
from tests.support import generating
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

PEOPLE = 20_000
ENTRIES = PEOPLE + 2  # with the suffix and the container
INDEXES = ("objectClass,entryUUID,entryCSN,uid,mail eq", "cn,sn eq,sub")
NO_PASSWORDS = """dn: olcDatabase={3}mdb,cn=config
changetype: modify
add: olcLimits
olcLimits: {0}* size=unlimited
-
add: olcAccess
olcAccess: {0}to attrs=userPassword by * auth
olcAccess: {1}to * by * read
"""


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    path = tmp_path_factory.mktemp("people") / "people.ldif"
    path.write_bytes(generating.text_of(generating.people(PEOPLE), jobs=2))
    with Slapd(Settings(indexes=INDEXES, maxsize=1 << 30)) as made:
        made.stop()
        ditseed("build", path, "--config", made.config_path, "--verify", "none").ok()
        made.start()
        made.configure(NO_PASSWORDS)
        yield made


@pytest.fixture(scope="module")
def clustered() -> Iterator[Slapd]:
    """Its entryUUIDs are slapd's own: they lie within a small part of all, for they were made at once."""
    text = generating.text_of(generating.people(PEOPLE, operational=False), jobs=2)
    with Slapd(Settings(maxsize=1 << 30)) as made:
        made.stop()
        made.slapadd(text.decode())
        made.start()
        yield made


@pytest.fixture(scope="module")
def consumer() -> Iterator[Slapd]:
    made = Slapd(Settings(indexes=INDEXES, maxsize=1 << 30), form="conf")
    yield made
    made.close()


def _asked(provider: Slapd, consumer: Slapd, *words: str) -> Done:
    return ditseed(*("tune", "maxsize", "--config", consumer.config_path, "--for", provider.uri, *words))


def _account(server: Slapd) -> tuple[str, ...]:
    return "-D", server.root_dn, "-y", str(server.password_file)


def test_few_entries_are_all_read(provider: Slapd, consumer: Slapd) -> None:
    load = _asked(provider, consumer, *_account(provider), "--json").ok().facts["load"]["load"]
    assert "all of it was read" in load["how"]
    assert (load["is_counted"], load["entries"]) == (True, ENTRIES)
    assert load["sampled"] == pytest.approx(ENTRIES // 2, rel=0.05)
    assert load["bytes"] == pytest.approx(meta.read_meta(provider.database_dir).used, rel=0.15)


@pytest.mark.parametrize("expected", [None, ENTRIES])
def test_of_many_a_part_is_read_however_their_uuids_lie(
    provider: Slapd, clustered: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int | None
) -> None:
    monkeypatch.setattr(server_sample, "_READ_WHOLE", 1000)
    monkeypatch.setattr(planner, "expected", lambda *_: expected)
    for server in (provider, clustered):
        account = Connection(server.uri, server.root_dn, password_file=str(server.password_file))
        account = replace(account, base=server.suffix)
        found = server_sample.of_server(account, SampleSize(2000, 0.0), tmp_path, Meter("sample"))
        assert (found.total, found.is_counted) == (ENTRIES, True)
        assert 500 <= len(found.names) <= 5000, found.how


def test_a_count_that_takes_too_long_is_none(clustered: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sample, "_READ_WHOLE", 0)
    monkeypatch.setattr(server_sample, "_COUNT_FOR", 0.0)
    monkeypatch.setattr(planner, "expected", lambda *_: None)
    account = Connection(clustered.uri, clustered.root_dn, password_file=str(clustered.password_file))
    account = replace(account, base=clustered.suffix)
    found = server_sample.of_server(account, SampleSize(2000, 0.0), tmp_path, Meter("sample"))
    assert found.total >= len(found.names) > 0
    assert found.is_counted == (found.how.endswith("all of it was read"))
    assert not [*tmp_path.glob("*names*")]


def test_what_the_server_hides_is_said(provider: Slapd, consumer: Slapd) -> None:
    done = _asked(provider, consumer).ok()
    assert "userPassword" in done.out
    assert "note: " in done.out


def test_its_account_is_for_the_server(provider: Slapd, consumer: Slapd, tmp_path: Path) -> None:
    """A target that is a server has an account of its own."""
    where = ("tune", "maxsize", "-H", provider.uri, *_account(provider), "--for", consumer.uri)
    done = ditseed(*where)
    assert (done.status, "is for --config" in done.err) == (3, True), done
    wrong = tmp_path / "pw"
    wrong.write_text("no such password")
    refused = _asked(provider, consumer, "-D", provider.root_dn, "-y", str(wrong))
    assert refused.status == 31, refused
    ldif = _asked(provider, consumer).err
    assert "give it with -H" not in ldif
