"""The native reader against servers that are broken or hostile: errors, soon, and never anything worse.

A real slapd does none of this, so a few bytes on a socket play it; tests/integration/test_wire.py has the real one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from loader import _native
from loader.errors import NotLdap
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.wire import Link, core_options, reading
from tests.support.require import require
from tests.support.scripted import BOUND, GRANTED, scripted

DISCONNECTION = bytes.fromhex("302402010078 1f0a0134040004008a16") + b"1.3.6.1.4.1.1466.20036"
SOON = 30.0  # seconds in which everything here has to end

FILTERS = (
    *("(objectClass=*)", "(cn=a)", "cn=a", "(entryCSN>=20260101000000.000000Z#000000#001#000000)"),
    *("(&(entryCSN>=1)(entryCSN<=2))", "(&(a=1)(|(b=2)(!(c=3))(d~=4)))", "(!(entryCSN=*))"),
    *("(cn=a*b*c)", "(cn=*b)", "(cn=b*)", "(cn=*b*)", r"(cn=\2a\28\29\5c\00é)", r"(cn=a\2a*\29)"),
    *("(cn;lang-de=x)", "(cn:caseExactMatch:=x)", "(:dn:2.5.13.5:=x)", "(cn:dn:=x)", "(2.5.4.3=x)", "(cn=)"),
    f"(cn={'long' * 100})",
)


def link(uri: str, silence: float = 30.0, start_tls: int = 0) -> Link:
    asked = core_options(Connection(uri, start_tls=start_tls))
    return msgspec.structs.replace(asked, connect_timeout=5.0, bind_timeout=silence, silence=silence)


def search(where: str = "(objectClass=*)") -> Search:
    return Search("dc=x", where, "sub", ("*",))


def look(uri: str, where: str = "(objectClass=*)", silence: float = 30.0) -> None:
    counters = _native.Counters()
    digest(_native.Channel(link(uri, silence), counters), counters, where)


def digest(channel: _native.Channel, counters: _native.Counters, where: str = "(objectClass=*)") -> None:
    channel.digest(search(where), _native.EntryDigests([], counters))


def put(tag: int, body: bytes) -> bytes:
    length = [len(body)] if len(body) < 128 else [0x84, *len(body).to_bytes(4, "big")]
    return bytes([tag, *length]) + body


def message(number: int, operation: bytes) -> bytes:
    """LDAPMessage with a number below 32768."""
    return put(0x30, put(2, number.to_bytes(2, "big")) + operation)


FIRST = 100  # number of the first request over a channel
DONE = message(FIRST, bytes.fromhex("65070a010004000400"))


def entry(dn: bytes, name: bytes, value: bytes) -> bytes:
    """SearchResultEntry with one value."""
    attribute = put(0x30, put(4, name) + put(0x31, put(4, value)))
    return message(FIRST, put(0x64, put(4, dn) + put(0x30, attribute)))


@pytest.mark.parametrize("where", FILTERS)
def test_filters_are_sent_as_ldapsearch_sends_them(where: str) -> None:
    require(None if shutil.which("ldapsearch") else "ldapsearch is not installed")
    with scripted(BOUND, b"", stay=False) as theirs:
        command = ["ldapsearch", "-x", "-H", theirs.uri, "-b", "dc=x", where, "*"]
        subprocess.run(command, capture_output=True, timeout=SOON, check=False)
    with scripted(BOUND, DONE) as ours:
        look(ours.uri, where)
    asked, expected = (one.heard[1].partition(b"dc=x")[2] for one in (ours, theirs))
    assert expected
    assert asked.startswith(expected), "controls may follow"


@pytest.mark.parametrize("where", ["(", "(cn=a", "(cn)", r"(cn=\zz)", "(cn=a)(cn=b)"])
def test_a_filter_that_is_none(where: str) -> None:
    with scripted(BOUND, DONE) as server, pytest.raises(_native.NativeError) as caught:
        look(server.uri, where)
    assert (caught.value.code, caught.value.result) == ("ldap.request", -7)


HOSTILE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an empty message": bytes.fromhex("3000"),
    "a message cut inside": message(FIRST, bytes.fromhex("64200401")),
    "an answer to something else": message(FIRST, bytes.fromhex("69070a010004000400")),
    "a name with a line end": entry(b"cn=a", b"cn: a\nuserPassword", b"x"),
    "unsolicited nonsense": bytes.fromhex("300c02010065070a010004000400"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_not_ldap(kind: str, tmp_path: Path) -> None:
    with scripted(BOUND, HOSTILE[kind] + DONE) as server:
        counters = _native.Counters()
        channel = _native.Channel(link(server.uri), counters)
        with pytest.raises(_native.NativeError) as caught:
            channel.part(search(), str(tmp_path), "p", [], compress=False)
        assert caught.value.code == "ldap.protocol"
        with pytest.raises(_native.NativeError) as again:
            digest(channel, counters)
        assert again.value.code == "ldap.lost", "a channel that failed is closed"


@pytest.mark.parametrize(
    ("answer", "stay", "result"),
    [
        (bytes.fromhex("30840fffff00") + b"\x02\x01\x01", False, None),  # 256 MiB are promised, nothing of it comes
        (entry(b"cn=a", b"cn", b"a"), False, None),
        (DISCONNECTION, True, 52),
    ],
    ids=["promised", "hung up", "goodbye"],
)
def test_a_server_that_goes(answer: bytes, stay: bool, result: int | None) -> None:
    with scripted(BOUND, answer, stay=stay) as server, pytest.raises(_native.NativeError) as caught:
        look(server.uri)
    assert caught.value.code == "ldap.lost"
    assert result is None or caught.value.result == result


@pytest.mark.parametrize("answers", [(), (BOUND,), (BOUND, entry(b"cn=a", b"cn", b"a"))])
def test_silence_is_noticed(answers: tuple[bytes, ...]) -> None:
    """Before the bind is answered, before the first entry, and in the middle. What is told is the silence that was, not
    the one that was allowed: a host that was suspended meanwhile has waited for longer."""
    begun = time.monotonic()
    with scripted(*answers) as server, pytest.raises(_native.NativeError) as caught:
        look(server.uri, silence=1)
    seconds = time.monotonic() - begun
    assert caught.value.code == "ldap.silent"
    assert 0.9 < seconds < SOON
    if answers:  # libldap waits for the answer to a bind
        told = re.search(r"for (\d+) s", str(caught.value))
        assert told
        assert 1 <= int(told[1]) <= seconds + 0.5


def test_a_message_of_more_than_256_mib_is_refused_before_it_comes() -> None:
    answer = bytes.fromhex("308410000001") + bytes(4096)
    with (
        scripted(BOUND, answer) as server,
        pytest.raises(NotLdap, match="a message of"),
        reading(Connection(server.uri), Meter("read"), "o=x") as (channel, counters),
    ):
        channel.digest(Search("o=x"), _native.EntryDigests([], counters))


@pytest.mark.parametrize(
    ("scheme", "answers", "start_tls"),
    [("ldap", (), 0), ("ldap", (BOUND,), 0), ("ldaps", (), 0), ("ldap", (GRANTED,), 2)],
    ids=["bind", "search", "ldaps", "StartTLS"],
)
def test_waiting_can_be_given_up(scheme: str, answers: tuple[bytes, ...], start_tls: int) -> None:
    counters = _native.Counters()
    with scripted(*answers) as server, ThreadPoolExecutor(1) as pool:
        wanted = link(server.uri.replace("ldap", scheme), start_tls=start_tls)
        asked = pool.submit(lambda: digest(_native.Channel(wanted, counters), counters))
        assert server.asked.wait(SOON)
        time.sleep(0.1)
        assert not asked.done()
        counters.cancel()
        with pytest.raises(_native.NativeError) as caught:
            asked.result(SOON)
    assert caught.value.code == "cancelled"


def test_what_no_server_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seconds"):
        _native.Channel(link("ldap://127.0.0.1", silence=-1.0), _native.Counters())
    with scripted(BOUND) as server, pytest.raises(ValueError, match="scope"):
        _native.Channel(link(server.uri), _native.Counters()).discard(Search("dc=x", scope="nowhere"))
    for uri in ("nonsense://x", "ldap://a\0b"):
        with pytest.raises(_native.NativeError) as caught:
            look(uri)
        assert caught.value.code == "ldap.connect"
