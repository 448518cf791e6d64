"""maxsize computed from entries of a running server that are to be loaded here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.mdb import meta
from tests.support import generating
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

PEOPLE = 20_000
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
def consumer() -> Iterator[Slapd]:
    made = Slapd(Settings(indexes=INDEXES, maxsize=1 << 30), form="conf")
    yield made
    made.close()


def _asked(provider: Slapd, consumer: Slapd, *words: str) -> Done:
    return ditseed(
        *("tune", "maxsize", "--config", consumer.config_path, "--for", provider.uri, *words)
    )


def _account(server: Slapd) -> tuple[str, ...]:
    return "-D", server.root_dn, "-y", str(server.password_file)


@pytest.mark.parametrize(("wanted", "parts"), [("2000", "of 10 parts"), ("15000", "all of it")])
def test_from_a_part_of_its_entries(
    provider: Slapd, consumer: Slapd, wanted: str, parts: str
) -> None:
    words = (*_account(provider), "--sample-size", wanted, "--json")
    load = _asked(provider, consumer, *words).ok().facts["load"]["load"]
    assert parts in load["how"]
    assert load["entries"] == pytest.approx(PEOPLE, rel=0.02)
    assert load["sampled"] == pytest.approx(2000 if parts != "all of it" else PEOPLE, rel=0.2)
    assert load["bytes"] == pytest.approx(meta.read_meta(provider.database_dir).used, rel=0.15)


def test_what_the_server_hides_is_said(provider: Slapd, consumer: Slapd) -> None:
    done = _asked(provider, consumer, "--sample-size", "500").ok()
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
