"""Why TLS with a server failed. Debian's libldap (GnuTLS) only says "Can't contact LDAP server", so we ask once more.

Only to explain a failure that libldap has already met; nothing is ever sent over what is opened here.
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import ldap

TIMEOUT = 10.0  # seconds, for a handshake that has just failed
PORTS = {"ldap": 389, "ldaps": 636}
# LDAPMessage 1, ExtendedRequest 1.3.6.1.4.1.1466.20037 (RFC 4511, 4.14), in BER.
_START_TLS = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x16" + b"1.3.6.1.4.1.1466.20037"
_RESULT_CODE = b"\x0a\x01"  # tag and length of the ENUMERATED that begins an LDAPResult


def failure(uri: str, start_tls: int) -> str | None:
    """The reason; None when TLS is not asked for, works, or nobody answers there at all."""
    parts = urlsplit(uri)
    if parts.scheme != "ldaps" and not (start_tls and parts.scheme == "ldap"):
        return None
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


def _context() -> ssl.SSLContext:
    """With the certificates that libldap trusts (TLS_CACERT, TLS_CACERTDIR of ldap.conf)."""
    file, directory = (
        ldap.get_option(option) for option in (ldap.OPT_X_TLS_CACERTFILE, ldap.OPT_X_TLS_CACERTDIR)
    )
    return ssl.create_default_context(cafile=file or None, capath=directory or None)
