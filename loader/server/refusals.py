"""Explains why a server refused a bind or TLS, or which limit ended a search, with commands for the server's host that
solve the problem."""

from __future__ import annotations

import os
import re
import shlex
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import ldap

from loader import values
from loader.errors import (
    BadCredentials,
    KerberosFailed,
    LimitTooLow,
    LoaderError,
    NoMechanism,
    Referred,
    TlsFailed,
    TooWeak,
    UsageProblem,
)
from loader.server.options import Connection, asserted, external, find_database, line, searching

if TYPE_CHECKING:
    from loader.server.session import Session

# --- bind ------------------------------------------------------------------------------------------------------------


# Result codes: RFC 4511, A.1; negative codes are libldap's own (ldap.h).
_LOCAL_ERROR, _AUTH_UNKNOWN = -2, -6
REFERRAL, _INVALID_DN = 10, 34
_NOT_SUPPORTED, _OTHER = 7, 80  # authMethodNotSupported
_WEAK = (8, 13)  # strongerAuthRequired, confidentialityRequired
# inappropriateAuthentication, invalidCredentials, insufficientAccessRights (no permission to act as another identity)
_INVALID = (48, 49, 50)
_TOO_WEAK = "SASL(-15)"  # sasl.h, SASL_TOOWEAK
_NO_MECHANISM = "SASL(-4)"  # sasl.h, SASL_NOMECH

# Parts of MIT Kerberos's error messages, with the advice for each.
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


def bind_error(connection: Connection, uri: str, result: int, reason: str, binding: bool) -> LoaderError | None:
    """Returns the error for a failure that concerns the account, None for other failures. `result`: the result code.
    `reason`: text with the diagnostic message. `binding`: True if the bind failed; later only TooWeak is possible.
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
        return UsageProblem(reason=f"{uri}: the bind DN {who} is no DN: give all of it, such as {example}")
    return None


def _credentials_advice(connection: Connection) -> str:
    file = connection.password_file
    # A pipe can be read only once, so only regular files are checked.
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
    """Returns the error for a referral. `reason`: libldap's or the core's message; both contain the URIs."""
    uris = re.findall(r"ldap[is]?://[^\s/,]*", reason)
    provider = ", ".join(dict.fromkeys(uris)) or "another server, which it does not name"
    return Referred(uri=uri, operation=operation, provider=provider)


def _advice(reason: str) -> str:
    for words, advice in _KERBEROS:
        if any(word in reason for word in words):
            return advice
    return _KEYTAB


def _offered(uri: str) -> str:
    """Returns the SASL mechanisms that the server lists; slapd lists only those its security properties allow."""
    handle = ldap.initialize(uri)
    handle.set_option(ldap.OPT_NETWORK_TIMEOUT, 5.0)
    handle.set_option(ldap.OPT_TIMEOUT, 5.0)
    try:
        found = handle.search_s("", ldap.SCOPE_BASE, "(objectClass=*)", ["supportedSASLMechanisms"])
        names = [name.decode() for _, entry in found for values in entry.values() for name in values]
        return ", ".join(names) or "none"
    except (ldap.LDAPError, UnicodeDecodeError):
        return "what it does not tell"
    finally:
        handle.unbind_ext_s()


# --- limits ----------------------------------------------------------------------------------------------------------


# Result codes of a search that a limit ended, with the limit for each code (slapd.conf(5), limits).
LIMITS = {3: "the time limit", 4: "the size limit", 11: "a limit on paged or unindexed searches"}
_SETTING, _ANONYMOUS = "olcLimits", "anonymous"
_LIFTED = (
    "size.soft=unlimited size.hard=unlimited size.unchecked=unlimited size.pr=unlimited "
    "size.prtotal=unlimited time.soft=unlimited time.hard=unlimited"
)


@dataclass(frozen=True)
class _Limits:
    """A database's limits in cn=config. `limits`: olcLimits values with numbers. `kept`: changes survive a restart."""

    entry_dn: str
    limits: tuple[bytes, ...]
    kept: bool


def limit_error(
    connection: Connection, uri: str, base: str, reason: str, status: int, server: Session | None = None
) -> LimitTooLow:
    """Returns the error for a limit, with commands that lift it. `server`: a session for reading the current limits and
    the account's DN, which a SASL bind does not return; None if no session is available."""
    identity, suffix, known = connection.who if connection.mechanism else connection.bind_dn or _ANONYMOUS, base, None
    if server is not None:
        with suppress(LoaderError):  # the server may not support "Who am I?"
            identity = server.who_am_i() or _ANONYMOUS
        with suppress(LoaderError):  # the server may not show cn=config
            suffix = server.context_of(base)
            known = _database(server, suffix)
    lines = tuple(_commands(uri, suffix, identity, known))
    return LimitTooLow(uri=uri, limit=LIMITS[status], who=identity, reason=reason, commands=lines)


def _database(server: Session, suffix: str) -> _Limits | None:
    """Returns the limits of the database with that suffix; None if the account may not read them."""
    entries = server.find("cn=config", f"(olcSuffix={asserted(suffix)})", [_SETTING])
    if not entries:
        return None
    entry_dn, entry = entries[0]
    kept = not server.matches("cn=config", "(&(olcConfigFile=*)(!(olcConfigDir=*)))")
    return _Limits(entry_dn, tuple(entry.get(_SETTING.lower(), ())), kept)


def _commands(uri: str, suffix: str, identity: str, known: _Limits | None) -> Iterator[str]:
    """Yields lines to paste into a shell on the server's host."""
    subject = f'dn.exact="{identity}"'
    if identity == _ANONYMOUS:
        yield "# This is for whoever does not bind: better bind, as an account of its own."
        subject = identity
    elif "=" not in identity or identity.startswith("SASL "):
        yield "# Put the DN that `ldapwhoami` says, with the same -H, -Y and -U, in the place of DN."
        subject = 'dn.exact="DN"'
    value = f"{{0}}{subject} {_LIFTED}".encode()
    if known is None:
        yield from _found_there(uri, suffix, value)
    else:
        yield f"ldapmodify {external(uri)} <<'EOF'"
        yield line("dn", known.entry_dn.encode())
        yield "changetype: modify"
        yield f"{'replace' if known.limits else 'add'}: {_SETTING}"  # `add` keeps values that may be hidden
        yield from _first_of(value, [one for one in known.limits if not _is_same(one, subject)])
        yield "EOF"
    if known is None or not known.kept:
        yield "# Where it runs on a slapd.conf: there, before all other `limits` of that database, and restart it:"
        yield f"# limits {values.as_line(subject.replace(chr(34), ''))} {_LIFTED}"


def _is_same(limits: bytes, subject: str) -> bool:
    """Returns True for an existing rule for anonymous, which must be removed: slapd accepts no second one."""
    return subject == _ANONYMOUS and values.unordered(limits.decode()).startswith(f"{subject} ")


def _first_of(value: bytes, others: Sequence[bytes]) -> Iterator[str]:
    """Yields LDIF lines for all limits with `value` first: slapd applies the first matching rule. An added value would
    stay behind the others until a restart (bconfig.c, CFG_LIMITS), so all values are replaced."""
    yield line(_SETTING, value)
    for place, other in enumerate(others, 1):
        rest = values.unordered(other.decode("utf-8", "surrogateescape"))
        yield line(_SETTING, f"{{{place}}}{rest}".encode("utf-8", "surrogateescape"))


def _found_there(uri: str, suffix: str, value: bytes) -> Iterator[str]:
    """Yields the commands for an account that may not read cn=config: the shell finds the database's entry."""
    shown = f'{searching(uri)} "$DB" -s base {_SETTING}'
    taken = ""
    yield find_database(uri, suffix)
    if value.startswith(b"{0}anonymous "):
        yield f"OLD=$({shown} | sed -n 's/^{_SETTING}: \\({{[0-9]*}}anonymous .*\\)/\\1/p')"
        taken = f"""[ -z "$OLD" ] || printf 'delete: {_SETTING}\\n{_SETTING}: %s\\n-\\n' "$OLD"; """
    head = "printf 'dn: %s\\nchangetype: modify\\n' \"$DB\"; " + taken
    yield f"{{ {head}cat <<'EOF'; }} | ldapmodify {external(uri)}"
    yield f"add: {_SETTING}"
    yield line(_SETTING, value)
    yield "EOF"
    yield shown
    yield "# Where that shows other limits too, restart slapd: until then it minds the new one last."


# --- TLS -------------------------------------------------------------------------------------------------------------
#
# Explains why TLS with a server failed. libldap with GnuTLS (Debian 12) only reports "Can't contact LDAP server"; with
# OpenSSL (Debian 13) it reports "unable to get CN from peer certificate" for another host's certificate. So a second
# connection repeats the handshake, only to explain the failure; no credentials or data are sent over that connection.


TIMEOUT = 10.0  # seconds for repeating the failed handshake
PORTS = {"ldap": 389, "ldaps": 636}
# Settings of ldap.conf(5) whose values are paths.
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


def speaks_of_tls(reason: str) -> bool:
    """Returns True if the message concerns TLS. A closed connection is no TLS error, even if TLS was in use."""
    words = ("certificate", "TLS", "SSL", "handshake")
    return any(word in reason for word in words) and not any(word in reason for word in _CUT)


def tls_failure(uri: str, start_tls: int, reason: str) -> TlsFailed | None:
    """Returns the error for failed TLS. `reason`: libldap's message. None if TLS is not requested or works, or if no
    server answers."""
    parts = urlsplit(uri)
    if parts.scheme != "ldaps" and not (start_tls and parts.scheme == "ldap"):
        return None
    why, advice = _why(parts.scheme, parts.hostname or "localhost", parts.port or PORTS[parts.scheme])
    if why or speaks_of_tls(reason):
        return TlsFailed(uri=uri, reason=why or reason, advice=advice)
    return None


def _why(scheme: str, host: str, port: int) -> tuple[str, str]:
    """Returns the reason ("" if none is found) and the advice."""
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
    except ssl.SSLEOFError:  # the server closed the connection, which need not be due to TLS
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
    """Sends StartTLS and returns the result code of the answer; None if the server does not answer in LDAP."""
    plain.settimeout(TIMEOUT)
    plain.sendall(_START_TLS)
    answer = plain.recv(4096)
    at = answer.find(_RESULT_CODE)
    return answer[at + 2] if 0 <= at < len(answer) - 2 else None


def _own_settings() -> str | None:
    """Returns the error in ldap.conf's TLS settings, or None. libldap fails on such an error but does not report it."""
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
    """Returns a context with libldap's CA certificates (TLS_CACERT, TLS_CACERTDIR) and strictness (TLS_REQCERT)."""
    file, directory = (ldap.get_option(option) for option in (ldap.OPT_X_TLS_CACERTFILE, ldap.OPT_X_TLS_CACERTDIR))
    context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    if ldap.get_option(ldap.OPT_X_TLS_REQUIRE_CERT) in _ANY_CERTIFICATE:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
