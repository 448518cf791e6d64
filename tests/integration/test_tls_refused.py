"""TLS as an operator meets it: what must be refused is refused with a clear word, and nothing goes out in clear.

A proxy between the command and the server keeps every byte that the command sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.network import Proxy
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from fixtures.trees import people, record
from fixtures.waiting import until
from loader.errors import TlsFailed
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

WAYS = {"ldaps": ("ldaps", ()), "demanded": ("ldap", ("-ZZ",)), "tried": ("ldap", ("-Z",))}
TREE = list(people("dc=example,dc=com", 10))
VERBS = ("export", "add")

# Certificate, the client's CA, and what the message must say of it.
REFUSED = {
    "stranger": ("valid", "stranger", r"self.signed|unknown|issuer|not trusted"),
    "no CA named": ("valid", None, r"self.signed|unknown|issuer|not trusted"),
    "expired": ("expired", "ours", r"expired"),
    "other host": ("wrong_name", "ours", r"not valid for|mismatch|does not match"),
}

# LDAPMessage { messageID, ExtendedRequest StartTLS } and { messageID, UnbindRequest } (RFC 4511 4.14, 4.3).
START_TLS = re.compile(rb"\x30\x1d\x02\x01.\x77\x18\x80\x161\.3\.6\.1\.4\.1\.1466\.20037", re.DOTALL)
UNBIND = re.compile(rb"\x30\x05\x02\x01.\x42\x00", re.DOTALL)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Authority]:
    home = tmp_path_factory.mktemp("tls")
    return {name: Authority(home / name) for name in ("ours", "stranger")}


@pytest.fixture(scope="module")
def servers(authorities: dict[str, Authority]) -> Iterator[dict[str, Slapd]]:
    with ExitStack() as running:
        made = {}
        for kind in ("valid", "expired", "wrong_name", "none"):  # of certificate
            files = None if kind == "none" else getattr(authorities["ours"], kind)()
            server = replication.provider(Settings(tls=files))
            server.slapadd("".join(TREE))
            made[kind] = running.enter_context(server)
        yield made


class Attempt:
    """One command against one server, and the bytes it sent, a piece a connection."""

    def __init__(self, verb: str, server: Slapd, way: str, settings: dict[str, str], home: Path) -> None:
        scheme, options = WAYS[way]
        self.password = server.replicator_password_file.read_bytes()
        target = server.ldaps_uri if scheme == "ldaps" else server.uri
        if server.settings.tls is None:
            target = f"{scheme}://127.0.0.1:{server.port}"
        more = home / "more.ldif"
        more.write_text(record(f"ou=more,{server.suffix}", [("objectClass", "organizationalUnit"), ("ou", "more")]))
        what = {"export": ("-b", server.suffix, "-o", home / "out", "--json"), "add": (more,)}[verb]
        with Proxy(target, record=True) as proxy:
            bind = ("-H", proxy.uri, *options, "-D", "cn=replicator", "-y", server.replicator_password_file)
            self.done: Done = ditseed(verb, *bind, *what, env=settings)
            until(lambda: proxy.sent)  # it may end before the proxy has looked
        self.sent = [bytes(piece) for piece in proxy.sent]

    def nothing_in_clear(self) -> None:
        for piece in self.sent:
            assert self.password not in piece
            rest = _not_encrypted(piece)
            assert not rest, f"in clear: {rest[:80]!r}"


def _not_encrypted(piece: bytes) -> bytes:
    """What is neither the request for StartTLS, nor an unbind, nor a TLS record (RFC 8446 5.1)."""
    asked = START_TLS.match(piece)
    rest = piece[asked.end() :] if asked else piece
    while len(rest) >= 5 and rest[0] in (20, 21, 22, 23) and rest[1] == 3:
        rest = rest[5 + int.from_bytes(rest[3:5], "big") :]
    gone = UNBIND.match(rest)
    return rest[gone.end() :] if gone else rest


def _trust(authority: Authority) -> dict[str, str]:
    return {"LDAPTLS_CACERT": str(authority.ca)}


def _refused(attempt: Attempt, words: str, home: Path) -> None:
    assert len(attempt.done.refused(TlsFailed)) > 10, attempt.done
    assert re.search(words, attempt.done.err, re.IGNORECASE), attempt.done
    assert not (home / "out").exists()
    attempt.nothing_in_clear()


@pytest.mark.rows(7)
@pytest.mark.long("stranger-ldaps-export")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_certificate_is_refused(
    servers: dict[str, Slapd], authorities: dict[str, Authority], tmp_path: Path, case: str, way: str, verb: str
) -> None:
    """With -Z too: libldap would send the password in clear over what is left of the connection."""
    kind, ca, words = REFUSED[case]
    settings = _trust(authorities[ca]) if ca else {}
    _refused(Attempt(verb, servers[kind], way, settings, tmp_path), words, tmp_path)


OWN = {
    "no such CA": ({"LDAPTLS_CACERT": "/nonexistent.pem"}, r"TLS_CACERT /nonexistent.pem: No such file"),
    "no such CRL": ({"LDAPTLS_CRLFILE": "/nonexistent.pem"}, r"TLS_CRLFILE /nonexistent.pem: No such"),
    "no key": ({"LDAPTLS_CERT": "{ca}"}, r"TLS_CERT .*ca.pem, TLS_KEY : "),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", OWN)
def test_our_own_settings(
    servers: dict[str, Slapd], authorities: dict[str, Authority], tmp_path: Path, case: str, way: str
) -> None:
    """libldap takes some of them in the end, depending on the library that it has TLS of."""
    ours, (settings, words) = authorities["ours"], OWN[case]
    given = {name: value.format(ca=ours.ca) for name, value in settings.items()}
    attempt = Attempt("export", servers["valid"], way, {**_trust(ours), **given}, tmp_path)
    if attempt.done.status or case == "no such CA":
        _refused(attempt, words, tmp_path)
    attempt.nothing_in_clear()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("demanded", "does not offer StartTLS"),
        # Whether it hangs up or resets is chance, for slapd does not read the whole handshake.
        ("ldaps", r"speaks LDAP without TLS on that port(.|\n)*-H ldap://"),
    ],
)
def test_a_server_without_tls(
    servers: dict[str, Slapd], authorities: dict[str, Authority], tmp_path: Path, way: str, words: str, verb: str
) -> None:
    attempt = Attempt(verb, servers["none"], way, _trust(authorities["ours"]), tmp_path)
    _refused(attempt, words, tmp_path)


def test_start_tls_that_is_only_tried_goes_on_in_clear_where_none_is_offered(
    servers: dict[str, Slapd], authorities: dict[str, Authority], tmp_path: Path
) -> None:
    """As ldapsearch -Z. It also shows that these tests would see a password."""
    settings = _trust(authorities["ours"])
    attempt = Attempt("export", servers["none"], "tried", settings, tmp_path)
    attempt.done.ok()
    assert all(attempt.password in piece for piece in attempt.sent)
    with pytest.raises(AssertionError):
        attempt.nothing_in_clear()


@pytest.mark.rows(2)
@pytest.mark.long("TLS_REQCERT never-demanded")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("told", ["LDAPTLS_CACERT", "ldap.conf", "TLS_REQCERT never"])
def test_a_good_certificate_is_taken(
    servers: dict[str, Slapd], authorities: dict[str, Authority], tmp_path: Path, told: str, way: str
) -> None:
    """Whoever says "never" takes any, as with ldapsearch."""
    settings = _trust(authorities["ours"])
    if told != "LDAPTLS_CACERT":
        line = f"TLS_CACERT {authorities['ours'].ca}" if told == "ldap.conf" else told
        (tmp_path / "ldap.conf").write_text(f"{line}\n")
        settings = {"LDAPCONF": str(tmp_path / "ldap.conf")}
    attempt = Attempt("export", servers["valid"], way, settings, tmp_path)
    assert attempt.done.ok().facts["entries"] == len(TREE)
    attempt.nothing_in_clear()
