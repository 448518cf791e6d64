"""Explains why a server refused a bind or TLS, or which limit ended a search, with commands for the server's host that
solve the problem."""

from __future__ import annotations

import os
import re
import shlex
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import ldap

from loader import config, errors
from loader.server.options import Connection, external, find_database, ldapsearch, line

if TYPE_CHECKING:
    from loader.server.session import Session

# Limits that end a search, by result code (slapd.conf(5), limits).
LIMITS = {3: "the time limit", 4: "the size limit", 11: "a limit on paged or unindexed searches"}
_NO_SUCH_OBJECT = 32
_ANONYMOUS = "anonymous"

NewSession = Callable[[], AbstractContextManager["Session"]]


def refused(
    connection: Connection, uri: str, operation: str, base: str, result: int, reason: str, connect: NewSession
) -> errors.LoaderError:
    """Returns the error for a result code. `operation`: "bind", or the operation in words, for the message. `connect`:
    opens a session that reads the suffixes and the account's DN (which a SASL bind does not return) for the message."""
    if error := _bind_error(connection, uri, result, reason, operation == "bind"):
        return error
    if result == 10:  # referral
        uris = re.findall(r"ldap[is]?://[^\s/,]*", reason)
        provider = ", ".join(dict.fromkeys(uris)) or "another server, which it does not name"
        return errors.Referred(uri=uri, operation=operation, provider=provider)
    if result in (51, 52):  # busy, unavailable; a server that is shutting down also returns them
        return errors.ConnectionLost(uri=uri, reason=reason)
    if result != _NO_SUCH_OBJECT and result not in LIMITS:
        return errors.ServerRefused(uri=uri, operation=operation, reason=reason)
    who, suffix, suffixes = connection.who if connection.mechanism else connection.bind_dn or _ANONYMOUS, base, ""
    if operation not in ("read ", "whoami"):  # not for the three calls below, whose errors would recurse
        with suppress(errors.LoaderError), connect() as server:
            suffixes = ", ".join(server.naming_contexts())
            suffix = server.context_of(base)
            who = server.who_am_i() or _ANONYMOUS
    if result == _NO_SUCH_OBJECT:
        return errors.NoSuchBase(uri=uri, base=base, who=connection.who, known=suffixes or "none that can be seen")
    return errors.LimitTooLow(
        uri=uri, limit=LIMITS[result], who=who, reason=reason, commands=tuple(_commands(uri, suffix, who))
    )


# Result codes: RFC 4511, appendix A; negative codes are libldap's own (ldap.h).
_WEAK = (8, 13)  # strongerAuthRequired, confidentialityRequired
# inappropriateAuthentication, invalidCredentials, insufficientAccessRights (no permission to act as another identity)
_INVALID = (48, 49, 50)

# Parts of MIT Kerberos's error messages, with the advice for each.
_KERBEROS = (
    (
        ("expired", "No Kerberos credentials", "No credentials", "credentials cache"),
        "Get a ticket with kinit (klist shows the present ones). Where nobody can type a password, name a keytab in "
        "KRB5_CLIENT_KTNAME. Then run the same command again.",
    ),
    (
        ("not found in Kerberos database",),
        "The server's principal must be ldap/HOST with the host's full name: use that name in -H, and add -N to use it "
        "as written.",
    ),
    (
        ("Cannot contact any KDC", "Cannot find KDC", "Cannot resolve"),
        "Check that krb5.conf (KRB5_CONFIG) names the realm's KDC, and that this host can reach the KDC.",
    ),
    (("Clock skew",), "Set the clocks of this host, of the server and of the KDC."),
)
_KEYTAB = (
    "Check that the server has the key of ldap/HOST, and that slapd can read the keytab (KRB5_KTNAME in slapd's "
    "environment). On this host, use klist."
)


def _bind_error(connection: Connection, uri: str, result: int, reason: str, binding: bool) -> errors.LoaderError | None:
    """Returns the error if a failure concerns the account. After the bind (`binding` is False), only TooWeak."""
    if not binding and result not in _WEAK:
        return None
    who = connection.who
    if result in _WEAK or "SASL(-15)" in reason:  # sasl.h, SASL_TOOWEAK
        return errors.TooWeak(uri=uri, who=who, reason=reason)
    if "GSSAPI" in reason and result in (-2, 80, *_INVALID):  # -2: libldap's local error; 80: other
        fitting = (advice for words, advice in _KERBEROS if any(word in reason for word in words))
        return errors.KerberosFailed(uri=uri, reason=reason, advice=next(fitting, _KEYTAB))
    # libldap's unknown authentication method, authMethodNotSupported, SASL_NOMECH of sasl.h
    if result in (-6, 7) or "SASL(-4)" in reason:
        return errors.NoMechanism(
            uri=uri, mechanism=connection.mechanism or "simple", reason=reason, offered=_offered(uri)
        )
    if result in _INVALID:
        advice = (
            "Check -D (with -Y: -U and -X) and the password. Without ppolicy_use_lockout, slapd refuses a locked "
            "account with the same message: look for pwdAccountLockedTime in the account's entry."
        )
        file = connection.password_file
        # A pipe can be read only once, so only regular files are checked.
        if file and Path(file).is_file() and (connection.read_secret() or b"").endswith(b"\n"):
            advice = (
                f"Remove the newline at the end of {file} (truncate -s -1 {shlex.quote(file)}), because it belongs to "
                "the password, as with ldapsearch -y."
            )
        return errors.BadCredentials(uri=uri, who=who, reason=reason, advice=advice)
    if result == 34:  # invalidDNSyntax
        example = f"{'' if '=' in who else 'cn='}{who},dc=example,dc=com"
        return errors.UsageProblem(reason=f"{uri}: the bind DN {who} is not a DN: give the whole DN, such as {example}")
    return None


def _offered(uri: str) -> str:
    """Returns the SASL mechanisms that the server offers. slapd omits those that its security properties forbid."""
    handle = ldap.initialize(uri)
    handle.set_option(ldap.OPT_NETWORK_TIMEOUT, 5.0)
    handle.set_option(ldap.OPT_TIMEOUT, 5.0)
    try:
        entries = handle.search_s("", ldap.SCOPE_BASE, "(objectClass=*)", ["supportedSASLMechanisms"])
        names = [name.decode() for _, entry in entries for config in entry.values() for name in config]
        return ", ".join(names) or "none"
    except (ldap.LDAPError, UnicodeDecodeError):
        return "not known"
    finally:
        handle.unbind_ext_s()


_LIFTED = (
    "size.soft=unlimited size.hard=unlimited size.unchecked=unlimited size.pr=unlimited "
    "size.prtotal=unlimited time.soft=unlimited time.hard=unlimited"
)
# Shell code that prints the existing values without {n}. ldapsearch prints values that are not ASCII in base64.
_OTHERS = (
    'while read -r NAME RULE; do case $NAME in olcLimits:) ;; olcLimits::) RULE=$(printf %s "$RULE" | base64 -d) ;; '
    "*) continue ;; esac; printf 'olcLimits: %s\\n' \"${RULE#*\\}}\"; done"
)


def _commands(uri: str, suffix: str, identity: str) -> Iterator[str]:
    """Yields lines to paste into a shell on the server's host. They replace all values of olcLimits, so that the new
    value is the first: slapd applies the first match, and puts an added value last (bconfig.c, CFG_LIMITS)."""
    subject = f'dn.exact="{identity}"'
    others = _OTHERS
    if identity == _ANONYMOUS:
        yield "# This raises the limit for all anonymous clients: it is better to bind with an account of its own."
        subject = identity
        others += f" | sed '/^olcLimits: {identity} /d'"  # slapd accepts only one such value
    elif "=" not in identity or identity.startswith("SASL "):
        yield "# Replace DN by the DN that `ldapwhoami` prints with the same -H, -Y and -U."
        subject = 'dn.exact="DN"'
    yield find_database(uri, suffix)
    yield f'OLD=$({ldapsearch(uri)} "$DB" -s base olcLimits) &&'
    yield "{ printf 'dn: %s\\nchangetype: modify\\nreplace: olcLimits\\n' \"$DB\"; cat <<'EOF'"
    yield line("olcLimits", f"{subject} {_LIFTED}".encode())
    yield "EOF"
    yield f"printf '%s\\n' \"$OLD\" | {others}; }} | ldapmodify {external(uri)}"
    yield "# If slapd runs with a slapd.conf: put this before all other `limits` of that database, and restart slapd:"
    yield f"# limits {config.line_of_word(subject.replace(chr(34), ''))} {_LIFTED}"


# libldap with GnuTLS (Debian 12) only reports "Can't contact LDAP server"; with OpenSSL (Debian 13) it reports "unable
# to get CN from peer certificate" for another host's certificate. So the functions below repeat a failed handshake over
# a second connection, only to explain the failure; no credentials or data are sent over that connection.
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
# LDAPMessage 1, ExtendedRequest 1.3.6.1.4.1.1466.20037 (RFC 4511, 4.14), in BER.
_START_TLS = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x16" + b"1.3.6.1.4.1.1466.20037"
CERTIFICATE = (
    "Check that the server's certificate has not expired, that it contains the host name of -H, and that TLS_CACERT "
    "(ldap.conf, or the variable LDAPTLS_CACERT) names the CA that signed it."
)


def mentions_tls(reason: str) -> bool:
    """Returns whether a message is about TLS. Messages of GnuTLS and OpenSSL about a closed connection do not count."""
    is_closed = any(word in reason for word in ("non-properly terminated", "unexpected eof"))
    return not is_closed and any(word in reason for word in ("certificate", "TLS", "SSL", "handshake"))


def tls_failure(uri: str, start_tls: int, reason: str) -> errors.TlsFailed | None:
    """Returns the error for failed TLS; None if TLS is not requested or works, or if no server answers."""
    parts = urlsplit(uri)
    if parts.scheme != "ldaps" and not (start_tls and parts.scheme == "ldap"):
        return None
    why, advice = _why(parts.scheme, parts.hostname or "localhost", parts.port or PORTS[parts.scheme])
    if why or mentions_tls(reason):
        return errors.TlsFailed(uri=uri, reason=why or reason, advice=advice)
    return None


def _why(scheme: str, host: str, port: int) -> tuple[str, str]:
    """Returns why TLS fails, and the advice. The reason is "" if TLS works or the reason is unknown."""
    if setting_error := _own_settings():
        advice = "Correct that setting of ldap.conf, or the variable that overrides it (LDAPTLS_CACERT and others)."
        return setting_error, advice
    try:
        with socket.create_connection((host, port), TIMEOUT) as plain:
            if scheme != "ldaps" and _start_tls(plain) != 0:
                return (
                    "the server does not offer StartTLS",
                    "Configure TLS in that server (for slapd: olcTLSCertificateFile and olcTLSCertificateKeyFile), or "
                    "give -H with a server that offers it.",
                )
            with _context().wrap_socket(plain, server_hostname=host):
                return "", CERTIFICATE
    except ssl.SSLCertVerificationError as error:
        return f"certificate refused: {error.verify_message}", CERTIFICATE
    except OSError as error:
        if scheme == "ldaps":
            with suppress(OSError), socket.create_connection((host, port), TIMEOUT) as plain:
                if _start_tls(plain) is not None:
                    return (
                        "the server speaks LDAP without TLS on that port",
                        f"Give -H ldap://{host}:{port}, with -ZZ if the server offers StartTLS, or the port on which "
                        "it listens for ldaps (636 by default).",
                    )
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return f"handshake failed: {error.reason or error}", CERTIFICATE
        return "", CERTIFICATE  # a connection can be closed for other reasons than TLS


def _start_tls(plain: socket.socket) -> int | None:
    """Sends StartTLS and returns the result code of the answer; None if the server does not answer in LDAP."""
    plain.settimeout(TIMEOUT)
    plain.sendall(_START_TLS)
    answer = plain.recv(4096)
    at = answer.find(b"\x0a\x01")  # tag and length of resultCode, the first element of an LDAPResult
    return answer[at + 2] if 0 <= at < len(answer) - 2 else None


def _own_settings() -> str | None:
    """Returns the error in ldap.conf's TLS settings, or None. libldap fails on such an error but does not report it."""
    for name, option in _FILES.items():
        if file := ldap.get_option(option):
            try:
                os.stat(file)
            except OSError as error:
                return f"{name} {file}: {error.strerror}"
    certificate, key = ldap.get_option(ldap.OPT_X_TLS_CERTFILE), ldap.get_option(ldap.OPT_X_TLS_KEYFILE) or ""
    if not certificate:
        return None
    try:
        ssl.create_default_context().load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        return f"TLS_CERT {certificate}, TLS_KEY {key}: {error}"
    return None


def _context() -> ssl.SSLContext:
    """Returns a context with libldap's CA certificates (TLS_CACERT, TLS_CACERTDIR) and strictness (TLS_REQCERT)."""
    file, directory = (ldap.get_option(option) for option in (ldap.OPT_X_TLS_CACERTFILE, ldap.OPT_X_TLS_CACERTDIR))
    context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    if ldap.get_option(ldap.OPT_X_TLS_REQUIRE_CERT) in (ldap.OPT_X_TLS_NEVER, ldap.OPT_X_TLS_ALLOW):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
