"""What goes wrong with a server leaves the door as an error of ours, whether python-ldap met it or ldapsearch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd, free_port, missing_slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from loader.errors import (
    BadCredentials,
    ConnectionLost,
    LimitTooLow,
    LoaderError,
    NoContextCSN,
    NoSuchBase,
    NoSuchPath,
    ServerDown,
    ServerRefused,
    TlsFailed,
)
from loader.server import search
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import session
from tests.support.require import require

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
USER = f"uid=reader,{SUFFIX}"
PEOPLE = f"ou=people,{SUFFIX}"
ENTRIES = f"""
dn: {SUFFIX}
objectClass: domain
dc: example

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: cn=one,{PEOPLE}
objectClass: person
cn: one
sn: one

dn: cn=two,{PEOPLE}
objectClass: person
cn: two
sn: two

dn: {USER}
objectClass: account
objectClass: simpleSecurityObject
uid: reader
userPassword: reader
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[Slapd]:
    """A provider with five entries; the reader may have two at a time."""
    require(missing_slapd())
    limits = (f'limits dn.exact="{USER}" size=2 size.prtotal=2',)
    made = replication.provider(Settings(tls=authority.valid(), limits=limits))
    made.slapadd(ENTRIES.lstrip(), "-w")
    with made:
        yield made


@pytest.fixture
def admin(server: Slapd) -> Connection:
    return Connection(server.uri, server.root_dn, str(server.password_file))


def by_session(connection: Connection, base: str = SUFFIX) -> None:
    with session(connection) as opened:
        opened.read(base)


def by_search(connection: Connection, base: str = SUFFIX) -> None:
    wanted = Search(base)
    with search.running(connection, wanted) as child:
        assert child.process.stdout is not None
        child.process.stdout.read()
        search.finish(child, connection, wanted)


Way = Callable[..., None]
both_ways = pytest.mark.parametrize("ask", [by_session, by_search])


@both_ways
def test_both_ways_work(admin: Connection, ask: Way) -> None:
    ask(admin)


@both_ways
def test_a_wrong_password(admin: Connection, ask: Way) -> None:
    with pytest.raises(BadCredentials, match=f"bind as {admin.bind_dn}"):
        ask(replace(admin, password="wrong", password_file=None))


@both_ways
def test_a_missing_password_file(admin: Connection, ask: Way) -> None:
    with pytest.raises(NoSuchPath):
        ask(replace(admin, password_file="/nowhere"))


@both_ways
@pytest.mark.parametrize("uri", ["ldap://127.0.0.1:{port}", "ldapi://%2Fnowhere%2Fldapi"])
def test_nobody_there(admin: Connection, ask: Way, uri: str) -> None:
    with pytest.raises(ServerDown) as caught:
        ask(replace(admin, uri=uri.format(port=free_port())))
    assert caught.value.retryable


@both_ways
def test_a_base_that_is_not_there(admin: Connection, ask: Way) -> None:
    with pytest.raises(NoSuchBase, match=f"no entry ou=nowhere,{SUFFIX}"):
        ask(admin, f"ou=nowhere,{SUFFIX}")


def test_a_wrong_base_is_told_what_there_is(admin: Connection) -> None:
    with pytest.raises(NoSuchBase) as caught:
        by_session(admin, "dc=example,dc=org")
    assert SUFFIX in str(caught.value.advice())


@both_ways
def test_something_that_is_no_dn(admin: Connection, ask: Way) -> None:
    with pytest.raises(ServerRefused, match="nonsense"):
        ask(admin, "nonsense")


@both_ways
@pytest.mark.parametrize(
    ("kind", "uri", "start_tls"),
    [
        ("valid", "ldaps_uri", 0),
        ("valid", "uri", 2),
        ("expired", "ldaps_uri", 0),
        ("expired", "uri", 2),
        ("wrong_name", "ldaps_uri", 0),
        ("wrong_name", "uri", 2),
        ("stranger", "ldaps_uri", 0),
        ("stranger", "uri", 2),
    ],
)
def test_a_certificate_is_checked(
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ask: Way,
    kind: str,
    uri: str,
    start_tls: int,
) -> None:
    """libldap reads LDAPTLS_CACERT in every process anew; python-ldap here only once, so its file is the same."""
    monkeypatch.setenv("LDAPTLS_CACERT", str(authority.ca))
    signer = Authority(tmp_path) if kind == "stranger" else authority
    files = signer.valid() if kind in ("valid", "stranger") else getattr(authority, kind)()
    with Slapd(Settings(tls=files)) as shown:
        connection = Connection(getattr(shown, uri), start_tls=start_tls)
        with in_a_process_of_its_own(ask, connection) as outcome:
            expected = "NoSuchBase" if kind == "valid" else "TlsFailed"
            assert outcome == expected


@contextmanager
def in_a_process_of_its_own(ask: Way, connection: Connection) -> Iterator[str]:
    raise NotImplementedError
    yield


@both_ways
def test_start_tls_that_is_demanded_and_not_offered(ask: Way) -> None:
    with Slapd() as plain, pytest.raises((TlsFailed, ServerRefused)):
        ask(Connection(plain.uri, start_tls=2), "")


def test_a_size_limit_says_what_lifts_it(server: Slapd) -> None:
    reader = Connection(server.uri, USER, password="reader")
    with pytest.raises(LimitTooLow) as caught:
        by_search(reader)
    said = f"{caught.value} {caught.value.advice()}"
    assert "the size limit" in said
    assert f'limits dn.exact="{USER}"' in said
    assert "size.prtotal=unlimited" in said


@both_ways
def test_a_server_that_dies_is_a_lost_connection(ask: Way) -> None:
    made = Slapd()
    made.slapadd(ENTRIES.lstrip())
    with made, session(Connection(made.ldapi_uri)) as opened:
        opened.read("")
        made.kill9()
        with pytest.raises(ConnectionLost) as caught:
            opened.read("")
        assert caught.value.retryable


def test_a_context_csn_that_is_not_there() -> None:
    made = Slapd()
    made.slapadd(ENTRIES.lstrip())
    with made, session(Connection(made.ldapi_uri)) as opened, pytest.raises(NoContextCSN):
        opened.context_csns(SUFFIX)


def test_small_questions(admin: Connection) -> None:
    with session(admin) as opened:
        assert opened.naming_contexts() == ["cn=replicator", SUFFIX] or SUFFIX in opened.naming_contexts()
        assert opened.exists(PEOPLE)
        assert not opened.exists(f"ou=nowhere,{SUFFIX}")
        assert opened.children_with_children(SUFFIX) == [PEOPLE]
        (known,) = opened.context_csns(SUFFIX)
        assert opened.inner_changed_since(SUFFIX, [known]) == []
        opened.replace(PEOPLE, {"description": [b"changed"]})
        assert opened.inner_changed_since(SUFFIX, [known]) == [PEOPLE]
        assert opened.read(PEOPLE)["description"] == [b"changed"]
        opened.replace(PEOPLE, {"description": []})
        assert "description" not in opened.read(PEOPLE)
