"""The native reader against servers that are broken or hostile: errors, soon, and never anything worse.

A real slapd does none of this, so a few bytes on a socket play it; tests/integration/test_wire.py has the real one.
"""

from __future__ import annotations

import re
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from loader import _native
from loader.errors import NotLdap
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.wire import reading
from tests.support.require import require

if TYPE_CHECKING:
    from loader._native import ConnectionOptions

BOUND = bytes.fromhex("300c02010161070a010004000400")  # BindResponse to message 1, success
DISCONNECTION = bytes.fromhex("302402010078 1f0a0134040004008a16") + b"1.3.6.1.4.1.1466.20036"
SOON = 30.0  # seconds in which everything here has to end

FILTERS = (
    "(objectClass=*)",
    "(cn=a)",
    "cn=a",
    "(entryCSN>=20260101000000.000000Z#000000#001#000000)",
    "(&(entryCSN>=1)(entryCSN<=2))",
    "(&(a=1)(|(b=2)(!(c=3))(d~=4)))",
    "(!(entryCSN=*))",
    "(cn=a*b*c)",
    "(cn=*b)",
    "(cn=b*)",
    "(cn=*b*)",
    r"(cn=\2a\28\29\5c\00é)",
    r"(cn=a\2a*\29)",
    "(cn;lang-de=x)",
    "(cn:caseExactMatch:=x)",
    "(:dn:2.5.13.5:=x)",
    "(cn:dn:=x)",
    "(2.5.4.3=x)",
    "(cn=)",
    f"(cn={'long' * 100})",
)


@contextmanager
def server(*answers: bytes, stay: bool = True) -> Iterator[tuple[str, list[bytes]]]:
    """Says the next answer to whatever it hears, one after the other, and keeps what it heard; then, unless it shall
    `stay`, it goes."""
    heard: list[bytes] = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                asked, _ = listener.accept()
                with asked:
                    for answer in answers:
                        heard.append(asked.recv(65536))
                        asked.sendall(answer)
                    over.wait(60 if stay else 0)

        running = threading.Thread(target=serve)
        running.start()
        try:
            yield f"ldap://127.0.0.1:{listener.getsockname()[1]}", heard
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            running.join()


def link(uri: str, silence: float = 30.0, **more: object) -> ConnectionOptions:
    facts: dict[str, object] = {
        "uri": uri,
        "bind_dn": None,
        "secret": None,
        "mechanism": None,
        "authcid": None,
        "authzid": None,
        "realm": None,
        "secprops": None,
        "as_written": False,
        "start_tls": 0,
    }
    limits = {"connect_timeout": 5.0, "bind_timeout": silence, "silence": silence}
    return cast("ConnectionOptions", {**facts, **limits, **more})


def search(where: str = "(objectClass=*)") -> Search:
    return Search("dc=x", where, "sub", ("*",))


def look(uri: str, where: str = "(objectClass=*)", silence: float = 30.0) -> _native.EntryDigests:
    counters = _native.Counters()
    return digest(_native.Channel(link(uri, silence), counters), counters, where)


def digest(
    channel: _native.Channel, counters: _native.Counters, where: str = "(objectClass=*)"
) -> _native.EntryDigests:
    tree = _native.tree([], counters)
    channel.digest(search(where), tree)
    return tree


def message(number: int, operation: bytes) -> bytes:
    """LDAPMessage with a number below 32768."""
    inside = b"\x02\x02" + number.to_bytes(2, "big") + operation
    return b"\x30" + _length(len(inside)) + inside


def _length(length: int) -> bytes:
    if length < 128:
        return bytes([length])
    digits = length.to_bytes(4, "big")
    return b"\x84" + digits


FIRST = 100  # number of the first request over a channel
DONE = message(FIRST, bytes.fromhex("65070a010004000400"))


def entry(dn: bytes, name: bytes, value: bytes) -> bytes:
    """SearchResultEntry with one value."""

    def put(tag: int, body: bytes) -> bytes:
        return bytes([tag]) + _length(len(body)) + body

    attribute = put(0x30, put(4, name) + put(0x31, put(4, value)))
    return message(FIRST, put(0x64, put(4, dn) + put(0x30, attribute)))


def _elements(body: bytes) -> list[tuple[int, bytes, bytes]]:
    """(tag, content, the whole) of each element."""
    found = []
    while body:
        length, head = body[1], 2
        if length >= 128:
            head += length - 128
            length = int.from_bytes(body[2:head], "big")
        found.append((body[0], body[head : head + length], body[: head + length]))
        body = body[head + length :]
    return found


def _filter_in(request: bytes) -> bytes:
    """Of a SearchRequest: base, scope, deref, size limit, time limit, types only, filter, attributes."""
    operation = _elements(_elements(request)[0][1])[1]
    assert operation[0] == 0x63
    return _elements(operation[1])[6][2]


@pytest.mark.parametrize("where", FILTERS)
def test_filters_are_sent_as_ldapsearch_sends_them(where: str) -> None:
    require(None if shutil.which("ldapsearch") else "ldapsearch is not installed")
    with server(BOUND, b"", stay=False) as (uri, theirs):
        command = ["ldapsearch", "-x", "-H", uri, "-b", "dc=x", where]
        subprocess.run(command, capture_output=True, timeout=SOON, check=False)
    with server(BOUND, DONE) as (uri, ours):
        look(uri, where)
    assert _filter_in(ours[1]) == _filter_in(theirs[1])


@pytest.mark.parametrize("where", ["(", "(cn=a", "(cn)", r"(cn=\zz)", "(cn=a)(cn=b)"])
def test_a_filter_that_is_none(where: str) -> None:
    with server(BOUND, DONE) as (uri, _), pytest.raises(_native.NativeError) as caught:
        look(uri, where)
    assert (caught.value.code, caught.value.result) == ("ldap.request", -7)


def test_an_entry_larger_than_any_buffer(tmp_path: Path) -> None:
    large = entry(b"cn=a,dc=x", b"cn", b"a" * 3_000_000)
    with server(BOUND, large * 2 + DONE) as (uri, _):
        channel = _native.Channel(link(uri), _native.Counters())
        part = channel.part(search(), str(tmp_path), "p", [], compress=False)
    assert part.entries == 2
    assert sum(Path(file).stat().st_size for file in part.files) == part.bytes > 6_000_000


HOSTILE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an endless message": bytes.fromhex("3084ffffffff"),
    "an indefinite length": bytes.fromhex("3080"),
    "an empty message": bytes.fromhex("3000"),
    "a message cut inside": message(FIRST, bytes.fromhex("64200401")),
    "an answer to something else": message(FIRST, bytes.fromhex("69070a010004000400")),
    "a name with a line end": entry(b"cn=a", b"cn: a\nuserPassword", b"x"),
    "no name at all": entry(b"cn=a", b"", b"x"),
    "unsolicited nonsense": bytes.fromhex("300c02010065070a010004000400"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_not_ldap(kind: str, tmp_path: Path) -> None:
    with server(BOUND, HOSTILE[kind] + DONE) as (uri, _):
        counters = _native.Counters()
        channel = _native.Channel(link(uri), counters)
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
    with server(BOUND, answer, stay=stay) as (uri, _), pytest.raises(_native.NativeError) as caught:
        look(uri)
    assert caught.value.code == "ldap.lost"
    assert result is None or caught.value.result == result


@pytest.mark.parametrize("answers", [(), (BOUND,), (BOUND, entry(b"cn=a", b"cn", b"a"))])
def test_silence_is_noticed(answers: tuple[bytes, ...]) -> None:
    """Before the bind is answered, before the first entry, and in the middle."""
    begun = time.monotonic()
    with server(*answers) as (uri, _), pytest.raises(_native.NativeError) as caught:
        look(uri, silence=0.5)
    assert caught.value.code == "ldap.silent"
    assert 0.4 < time.monotonic() - begun < SOON


def test_the_silence_that_is_told_is_the_one_that_was() -> None:
    """Not what was allowed: a host that was suspended meanwhile has waited for longer."""
    begun = time.monotonic()
    with server(BOUND) as (uri, _), pytest.raises(_native.NativeError) as caught:
        look(uri, silence=2)
    told = re.search(r"for (\d+) s", str(caught.value))
    assert told
    assert 2 <= int(told[1]) <= time.monotonic() - begun + 0.5


@pytest.mark.parametrize("length", ["847fffffff", "8480000000", "84ffffffff", "880000000100000000", "8410000001"])
def test_a_message_of_gigabytes_is_refused_before_it_comes(length: str) -> None:
    """The least of these is a byte more than 256 MiB. Memory is not set aside for what a server announces."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = bytes.fromhex("30" + length) + bytes(4096)
    with server(BOUND, answer) as (uri, _), pytest.raises(_native.NativeError) as caught:
        look(uri)
    assert caught.value.code == "ldap.protocol"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_a_message_of_gigabytes_has_a_code_of_its_own() -> None:
    answer = bytes.fromhex("30847fffffff") + bytes(4096)
    with (
        server(BOUND, answer) as (uri, _),
        pytest.raises(NotLdap, match="a message of"),
        reading(Connection(uri), Meter("read")) as reader,
    ):
        reader.digest(Search("o=x"), _native.tree([], reader.counters))


@pytest.mark.parametrize("answers", [(), (BOUND,)])
def test_waiting_can_be_given_up(answers: tuple[bytes, ...]) -> None:
    counters = _native.Counters()
    with server(*answers) as (uri, _), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: digest(_native.Channel(link(uri), counters), counters))
        time.sleep(0.3)
        assert not asked.done()
        counters.cancel()
        with pytest.raises(_native.NativeError) as caught:
            asked.result(SOON)
    assert caught.value.code == "cancelled"


@pytest.mark.slow
@pytest.mark.parametrize("start_tls", [False, True])
def test_a_handshake_that_never_ends_can_be_given_up(start_tls: bool) -> None:
    """In ldaps, and after a StartTLS that was granted."""
    granted = (bytes.fromhex("300c02010178070a010004000400"),) if start_tls else ()
    counters = _native.Counters()
    with server(*granted) as (uri, _), ThreadPoolExecutor(1) as pool:
        uri = uri if start_tls else uri.replace("ldap://", "ldaps://")
        wanted = link(uri, start_tls=2 if start_tls else 0)
        asked = pool.submit(lambda: _native.Channel(wanted, counters))
        time.sleep(0.5)
        assert not asked.done()
        counters.cancel()
        with pytest.raises(_native.NativeError):
            asked.result(SOON)


def test_what_no_server_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seconds"):
        _native.Channel(link("ldap://127.0.0.1", silence=-1.0), _native.Counters())
    with server(BOUND) as (there, _), pytest.raises(ValueError, match="scope"):
        _native.Channel(link(there), _native.Counters()).discard(Search("dc=x", scope="nowhere"))
    for uri in ("nonsense://x", "ldap://a\0b"):
        with pytest.raises(_native.NativeError) as caught:
            look(uri)
        assert caught.value.code == "ldap.connect"
