"""Why TLS with a server failed. libldap on GnuTLS (Debian 12) only says "Can't contact LDAP server", on OpenSSL (Debian
13) of another host's certificate "unable to get CN from peer certificate". So we ask once more.

Only to explain a failure that libldap has already met; nothing is ever sent over what is opened here.
"""

from __future__ import annotations

import os
import socket
import ssl
from urllib.parse import urlsplit

import ldap

from loader.errors import TlsFailed

TIMEOUT = 10.0  # seconds, for a handshake that has just failed
PORTS = {"ldap": 389, "ldaps": 636}
# Settings of ldap.conf(5) that name files.
_FILES = {
    "TLS_CACERT": ldap.OPT_X_TLS_CACERTFILE,
    "TLS_CACERTDIR": ldap.OPT_X_TLS_CACERTDIR,
    "TLS_CERT": ldap.OPT_X_TLS_CERTFILE,
    "TLS_KEY": ldap.OPT_X_TLS_KEYFILE,
    "TLS_CRLFILE": ldap.OPT_X_TLS_CRLFILE,
}
_ANY_CERTIFICATE = (ldap.OPT_X_TLS_NEVER, ldap.OPT_X_TLS_ALLOW)
# LDAPMessage 1, ExtendedRequest 1.3.6.1.4.1.1466.20037 (RFC 4511, 4.14), in BER.
_START_TLS = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x16" + b"1.3.6.1.4.1.1466.20037"
_RESULT_CODE = b"\x0a\x01"  # tag and length of the ENUMERATED that begins an LDAPResult
CERTIFICATE = (
    "Check that the server's certificate has not expired, that it contains the host name of -H, and that TLS_CACERT "
    "(ldap.conf, or the variable LDAPTLS_CACERT) names the CA that signed it."
)
_NO_START_TLS = (
    "Configure TLS in that server (for slapd: olcTLSCertificateFile and olcTLSCertificateKeyFile), or give -H with a "
    "server that offers it."
)
_CUT = ("non-properly terminated", "unexpected eof")  # GnuTLS, OpenSSL


def is_named(reason: str) -> bool:
    """Does it speak of TLS? A line that was cut is no TLS that was refused, whatever ran over it."""
    words = ("certificate", "TLS", "SSL", "handshake")
    return any(word in reason for word in words) and not any(word in reason for word in _CUT)


def failure(uri: str, start_tls: int, reason: str) -> TlsFailed | None:
    """`reason`: what libldap said. None when TLS is not asked for, works, or nobody answers there at all."""
    parts = urlsplit(uri)
    if parts.scheme != "ldaps" and not (start_tls and parts.scheme == "ldap"):
        return None
    why, advice = _why(parts.scheme, parts.hostname or "localhost", parts.port or PORTS[parts.scheme])
    if why or is_named(reason):
        return TlsFailed(uri=uri, reason=why or reason, advice=advice)
    return None


def _why(scheme: str, host: str, port: int) -> tuple[str, str]:
    """The reason, empty where none is seen, and what helps."""
    if own := _own_settings():
        return (
            own,
            "Correct that setting of ldap.conf, or the variable that overrides it (LDAPTLS_CACERT and others).",
        )
    in_clear = (
        "the server speaks LDAP on that port, but no TLS",
        f"Give -H ldap://{host}:{port}, with -ZZ if the server offers StartTLS, or the port on which it listens for "
        "ldaps (636 by default).",
    )
    try:
        with socket.create_connection((host, port), TIMEOUT) as plain:
            if scheme != "ldaps" and _start(plain) != 0:
                return "the server does not offer StartTLS", _NO_START_TLS
            with _context().wrap_socket(plain, server_hostname=host):
                return "", CERTIFICATE
    except ssl.SSLCertVerificationError as error:
        return f"certificate refused: {error.verify_message}", CERTIFICATE
    except ssl.SSLEOFError:  # the line was cut: that alone says nothing of TLS
        return in_clear if scheme == "ldaps" and _answers_in_clear(host, port) else ("", CERTIFICATE)
    except ssl.SSLError as error:
        if scheme == "ldaps" and _answers_in_clear(host, port):
            return in_clear
        return f"handshake failed: {error.reason or error}", CERTIFICATE
    except OSError:
        return in_clear if scheme == "ldaps" and _answers_in_clear(host, port) else ("", CERTIFICATE)


def _answers_in_clear(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), TIMEOUT) as plain:
            return _start(plain) is not None
    except OSError:
        return False


def _start(plain: socket.socket) -> int | None:
    """The result code with which the server answers StartTLS; None if it does not answer in LDAP."""
    plain.settimeout(TIMEOUT)
    plain.sendall(_START_TLS)
    answer = plain.recv(4096)
    at = answer.find(_RESULT_CODE)
    return answer[at + 2] if 0 <= at < len(answer) - 2 else None


def _own_settings() -> str | None:
    """What is wrong with ldap.conf: libldap fails on it before a byte of TLS is sent, and says nothing of it."""
    for name, option in _FILES.items():
        file = _text(option)
        if file:
            try:
                os.stat(file)
            except OSError as error:
                return f"{name} {file}: {error.strerror}"
    certificate, key = _text(ldap.OPT_X_TLS_CERTFILE), _text(ldap.OPT_X_TLS_KEYFILE)
    if not certificate:
        return None
    try:
        ssl.create_default_context().load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        return f"TLS_CERT {certificate}, TLS_KEY {key}: {error}"
    return None


def _text(option: int) -> str:
    return str(ldap.get_option(option) or "")


def _context() -> ssl.SSLContext:
    """With the certificates that libldap trusts (TLS_CACERT, TLS_CACERTDIR of ldap.conf), as strict as TLS_REQCERT."""
    file, directory = (ldap.get_option(option) for option in (ldap.OPT_X_TLS_CACERTFILE, ldap.OPT_X_TLS_CACERTDIR))
    context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    if ldap.get_option(ldap.OPT_X_TLS_REQUIRE_CERT) in _ANY_CERTIFICATE:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
