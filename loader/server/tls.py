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
_CUT = ("non-properly terminated", "unexpected eof")  # GnuTLS, OpenSSL


def is_named(reason: str) -> bool:
    """Does it speak of TLS? A line that was cut is no TLS that was refused, whatever ran over it."""
    words = ("certificate", "TLS", "SSL", "handshake")
    return any(word in reason for word in words) and not any(word in reason for word in _CUT)


def failure(uri: str, start_tls: int) -> str | None:
    """The reason; None when TLS is not asked for, works, or nobody answers there at all."""
    parts = urlsplit(uri)
    if parts.scheme != "ldaps" and not (start_tls and parts.scheme == "ldap"):
        return None
    if own := _own_settings():
        return own
    host = parts.hostname or "localhost"
    try:
        with socket.create_connection((host, parts.port or PORTS[parts.scheme]), TIMEOUT) as plain:
            refused = None if parts.scheme == "ldaps" else _start(plain)
            if refused:
                return refused
            with _context().wrap_socket(plain, server_hostname=host):
                return None
    except ssl.SSLCertVerificationError as error:
        return f"certificate refused: {error.verify_message}"
    except ssl.SSLEOFError:
        return None  # the line was cut: that says nothing of TLS
    except ssl.SSLError as error:
        return f"handshake failed: {error.reason or error}"
    except OSError:
        return None


def _start(plain: socket.socket) -> str | None:
    plain.sendall(_START_TLS)
    answer = plain.recv(4096)
    at = answer.find(_RESULT_CODE)
    if at < 0 or answer[at + 2 : at + 3] != b"\0":
        return "the server does not offer StartTLS"
    return None


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
    file, directory = (
        ldap.get_option(option) for option in (ldap.OPT_X_TLS_CACERTFILE, ldap.OPT_X_TLS_CACERTDIR)
    )
    context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    if ldap.get_option(ldap.OPT_X_TLS_REQUIRE_CERT) in _ANY_CERTIFICATE:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
