"""What goes wrong with a server leaves the door as an error of ours, whoever met it: python-ldap or the native core."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import replication
from fixtures.golden.records import pairs_of
from fixtures.ports import free_port
from fixtures.slapd import Slapd, missing_slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from fixtures.trees import record
from loader import _native, csn, errors
from loader.errors import BadCredentials, LimitTooLow, LoaderError, NoSuchBase, ServerDown, ServerRefused, TlsFailed
from loader.progress import Meter
from loader.server import refusals
from loader.server.options import Connection, Search
from loader.server.session import Session, session
from loader.server.wire import reading
from tests.support.adding import SUFFIX, TOP, person, unit
from tests.support.command import environment
from tests.support.require import require

pytestmark = pytest.mark.slapd

USER = f"uid=reader,{SUFFIX}"
PEOPLE = f"ou=people,{SUFFIX}"
READER = pairs_of("objectClass: account; objectClass: simpleSecurityObject; uid: reader; userPassword: reader")
ENTRIES = TOP + unit("people") + person("one", PEOPLE) + person("two", PEOPLE) + record(USER, READER)


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[Slapd]:
    """A provider with five entries; the reader may have two at a time."""
    require(missing_slapd())
    limits = (f'limits dn.exact="{USER}" size=2 size.prtotal=2',)
    made = replication.provider(Settings(tls=authority.valid(), limits=limits))
    made.slapadd(ENTRIES, "-w")
    with made:
        yield made


@pytest.fixture
def admin(server: Slapd) -> Connection:
    return Connection(server.uri, server.root_dn, str(server.password_file))


def by_session(connection: Connection, base: str = SUFFIX) -> None:
    with session(connection) as opened:
        opened.read(base)


def by_search(connection: Connection, base: str = SUFFIX) -> None:
    with reading(connection, Meter("search"), base) as (channel, counters):
        channel.digest(Search(base), _native.EntryDigests([], counters))


Way = Callable[..., None]
both_ways = pytest.mark.parametrize("ask", [by_session, by_search])


@both_ways
@pytest.mark.parametrize(
    ("changed", "base", "error", "said"),
    [
        ({"password": "wrong", "password_file": None}, SUFFIX, BadCredentials, f"bind as cn=admin,{SUFFIX}"),
        ({}, f"ou=nowhere,{SUFFIX}", NoSuchBase, f"no entry ou=nowhere,{SUFFIX}"),
        ({}, "nonsense", ServerRefused, "nonsense"),
    ],
    ids=["a wrong password", "no such base", "no DN"],
)
def test_what_is_refused(
    admin: Connection, ask: Way, changed: dict[str, str | None], base: str, error: type[LoaderError], said: str
) -> None:
    with pytest.raises(error, match=said):
        ask(structs.replace(admin, **changed), base)


@both_ways
@pytest.mark.parametrize("uri", ["ldap://127.0.0.1:{port}", "ldapi://%2Fnowhere%2Fldapi"])
def test_nobody_there(admin: Connection, ask: Way, uri: str) -> None:
    with pytest.raises(ServerDown) as caught:
        ask(structs.replace(admin, uri=uri.format(port=free_port())))
    assert caught.value.retryable


def test_a_wrong_base_is_told_what_there_is(admin: Connection) -> None:
    with pytest.raises(NoSuchBase) as caught:
        by_session(admin, "dc=example,dc=org")
    assert SUFFIX in str(caught.value.advice())


SCRIPT = """
import sys
from loader.errors import LoaderError
from loader.server.options import Connection
from tests.unit.server.test_session import by_search
try:
    by_search(Connection(sys.argv[1], start_tls=int(sys.argv[2])))
except LoaderError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
@pytest.mark.rows(6)
@pytest.mark.parametrize("start_tls", [0, 2])
@pytest.mark.parametrize(
    ("kind", "is_known", "said"),
    [
        ("valid", True, "^$"),
        ("valid", False, "^TlsFailed"),
        ("expired", True, "^TlsFailed"),
        ("wrong_name", True, "^TlsFailed"),
    ],
)
def test_certificates(
    authority: Authority, tmp_path: Path, kind: str, is_known: bool, said: str, start_tls: int
) -> None:
    """By the native core (python-ldap comes first in every verb: test_tls_refused.py). In a process of its own, for
    libldap reads its settings once."""
    shown = Slapd(Settings(tls=getattr(authority, kind)()))
    shown.slapadd(ENTRIES)
    with shown:
        uri = shown.uri if start_tls else shown.ldaps_uri
        ca = authority.ca if is_known else Authority(tmp_path).ca
        argv, env = [sys.executable, "-c", SCRIPT, uri, str(start_tls)], environment({"LDAPTLS_CACERT": str(ca)})
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert re.search(said, done.stdout)


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
    assert f'\nolcLimits: dn.exact="{USER}" size.soft=unlimited' in said
    assert "size.prtotal=unlimited" in said


def test_a_server_that_dies_is_a_lost_connection() -> None:
    made = Slapd()
    made.slapadd(ENTRIES)
    with made, session(Connection(made.ldapi_uri)) as opened:
        opened.read("")
        made.kill9()
        with pytest.raises(errors.ConnectionLost) as caught:
            opened.read("")
        assert caught.value.retryable


def test_small_questions(admin: Connection) -> None:
    with session(admin) as opened:
        assert SUFFIX in opened.naming_contexts()
        assert opened.exists(PEOPLE)
        assert not opened.exists(f"ou=nowhere,{SUFFIX}")
        assert opened.children_with_children(SUFFIX) == [PEOPLE]
        (known,) = opened.context_csns(SUFFIX)
        assert csn.server_id(known) == "001"
        opened.replace(PEOPLE, {"description": [b"changed"]})
        assert opened.read(PEOPLE)["description"] == [b"changed"]
        opened.replace(PEOPLE, {"description": []})
        assert "description" not in opened.read(PEOPLE)


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        (Connection(), "anonymous"),
        (Connection(bind_dn="cn=a,dc=x"), 'dn.exact="cn=a,dc=x"'),
        (Connection(mechanism="GSSAPI", authcid="a"), 'dn.exact="DN"'),
    ],
)
def test_whom_a_limit_is_lifted_for_where_nobody_can_be_asked(asked: Connection, subject: str) -> None:
    """Never for everybody."""

    def unreachable() -> AbstractContextManager[Session]:
        raise ServerDown(uri="ldap://x", reason="")

    told = refusals.refused(asked, "ldap://x", "search dc=x", "dc=x", 4, "Size limit exceeded", unreachable)
    assert f"\nolcLimits: {subject} size.soft=unlimited" in str(told.advice())
    assert ("ldapwhoami" in str(told.advice())) == ("DN" in subject)
