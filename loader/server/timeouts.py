"""How long a server may take, in seconds. ldap.conf's NETWORK_TIMEOUT and TIMEOUT say otherwise (ldap.conf(5))."""

from __future__ import annotations

import re
from typing import Any

import ldap

from loader import defaults

CONNECT = 30.0  # for a TCP connection, and for a TLS handshake
OPENING = 60.0  # until StartTLS and a bind are answered
# Without a byte of what is owed to us: looking through an unindexed tree takes its time.
SILENCE = defaults.SILENCE
COMMIT = 3600.0  # of a write: the first one after nosync flushes all that was written before


def connect_limit() -> float:
    return _told(ldap.OPT_NETWORK_TIMEOUT) or CONNECT


def bind_limit() -> float:
    return _told(ldap.OPT_TIMEOUT) or OPENING


def opening_limit(uris: str) -> float:
    """All of it: libldap tries one URI of the list after the other, and a handshake comes after the connection."""
    return 2 * connect_limit() * max(1, len(re.findall(r"[^\s,]+", uris))) + bind_limit()


def answer_limit() -> float:
    return _told(ldap.OPT_TIMEOUT) or SILENCE


def _told(option: int) -> float | None:
    value: Any = ldap.get_option(option)
    return float(value) if value is not None and float(value) > 0 else None
