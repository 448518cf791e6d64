"""What a bind that failed means, whichever of the two doors it failed at."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import ldap

from loader.errors import (
    BadCredentials,
    KerberosFailed,
    LoaderError,
    NoMechanism,
    Referred,
    TooWeak,
    UsageProblem,
)
from loader.server.options import Connection

# Result codes: RFC 4511, A.1; below 0 libldap's own (ldap.h).
_LOCAL_ERROR, _AUTH_UNKNOWN = -2, -6
REFERRAL, _INVALID_DN = 10, 34
_NOT_SUPPORTED, _OTHER = 7, 80  # authMethodNotSupported
_WEAK = (8, 13)  # strongerAuthRequired, confidentialityRequired
# inappropriateAuthentication, invalidCredentials, insufficientAccessRights (who may act for whom)
_INVALID = (48, 49, 50)
_TOO_WEAK = "SASL(-15)"  # sasl.h, SASL_TOOWEAK
_NO_MECHANISM = "SASL(-4)"  # sasl.h, SASL_NOMECH

# What MIT's library says, and what helps.
_TICKET = (
    "Get a ticket with kinit (klist shows what there is); where nobody can type a password, KRB5_CLIENT_KTNAME names a "
    "keytab. The same command goes on then."
)
_KERBEROS = (
    (("expired", "No Kerberos credentials", "No credentials", "credentials cache"), _TICKET),
    (
        ("not found in Kerberos database",),
        "The server's principal must be ldap/HOST with the host's full name: give that after -H, and -N to have it "
        "taken as written.",
    ),
    (
        ("Cannot contact any KDC", "Cannot find KDC", "Cannot resolve"),
        "Is the realm's KDC named in krb5.conf (KRB5_CONFIG), and can this host reach it?",
    ),
    (("Clock skew",), "Set the clocks of this host, of the server and of the KDC."),
)
_KEYTAB = (
    "Has the server the key of ldap/HOST, and may slapd read its keytab (KRB5_KTNAME in slapd's environment)? "
    "On this host: klist."
)


def bind_error(
    connection: Connection, uri: str, result: int, reason: str, binding: bool
) -> LoaderError | None:
    """None where it has nothing to do with who we are. `result`: the code; `reason`: with the diagnostic message.

    binding: it was the bind that failed. Of what comes later only one that was too weak shows there.
    """
    if not binding and result not in _WEAK:
        return None
    who = connection.who
    if result in _WEAK or _TOO_WEAK in reason:
        return TooWeak(uri=uri, who=who, reason=reason)
    if "GSSAPI" in reason and result in (_LOCAL_ERROR, _OTHER, *_INVALID):
        return KerberosFailed(uri=uri, reason=reason, advice=_advice(reason))
    if result in (_AUTH_UNKNOWN, _NOT_SUPPORTED) or _NO_MECHANISM in reason:
        offered = _offered(uri)
        mechanism = connection.mechanism or "simple"
        return NoMechanism(uri=uri, mechanism=mechanism, reason=reason, offered=offered)
    if result in _INVALID:
        advice = _credentials_advice(connection)
        return BadCredentials(uri=uri, who=who, reason=reason, advice=advice)
    if result == _INVALID_DN:
        example = f"{'' if '=' in who else 'cn='}{who},dc=example,dc=com"
        return UsageProblem(
            reason=f"{uri}: the bind DN {who} is no DN: give all of it, such as {example}"
        )
    return None


def _credentials_advice(connection: Connection) -> str:
    file = connection.password_file
    # What a pipe holds is read once.
    if file and Path(file).is_file() and (connection.secret() or b"").endswith(b"\n"):
        return (
            f"{file} ends with a newline, and that belongs to the password, as with ldapsearch -y. Remove it: "
            f"truncate -s -1 {shlex.quote(file)}"
        )
    return (
        "Check -D (with -Y: -U and -X) and the password. slapd refuses a locked account with the same words, unless it "
        "has ppolicy_use_lockout: look at pwdAccountLockedTime of the account's entry."
    )


def referred(uri: str, operation: str, reason: str) -> Referred:
    """`reason`: libldap's, or the core's, which both contain the URIs."""
    uris = re.findall(r"ldap[is]?://[^\s/,]*", reason)
    provider = ", ".join(dict.fromkeys(uris)) or "another server, which it does not name"
    return Referred(uri=uri, operation=operation, provider=provider)


def _advice(reason: str) -> str:
    for words, advice in _KERBEROS:
        if any(word in reason for word in words):
            return advice
    return _KEYTAB


def _offered(uri: str) -> str:
    """The mechanisms that the server tells of; slapd tells only what its security properties allow right now."""
    handle = ldap.initialize(uri)
    handle.set_option(ldap.OPT_NETWORK_TIMEOUT, 5.0)
    handle.set_option(ldap.OPT_TIMEOUT, 5.0)
    try:
        found = handle.search_s("", ldap.SCOPE_BASE, "(objectClass=*)", ["supportedSASLMechanisms"])
        names = [
            name.decode() for _, entry in found for values in entry.values() for name in values
        ]
        return ", ".join(names) or "none"
    except (ldap.LDAPError, UnicodeDecodeError):
        return "what it does not tell"
    finally:
        handle.unbind_ext_s()
