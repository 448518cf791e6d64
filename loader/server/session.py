"""A session with a server, through python-ldap: binding, timeouts, and the errors of libldap, which leave this file as
ours."""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import ldap
import ldap.ldapobject
import ldap.sasl
from ldap.controls import AssertionControl, RequestControl, ResponseControl

from loader import defaults
from loader.errors import (
    AccountClosed,
    BadCredentials,
    ConnectionLost,
    KerberosFailed,
    LoaderError,
    NoMechanism,
    NoSuchBase,
    Referred,
    ServerDown,
    ServerRefused,
    TooWeak,
    UsageProblem,
)
from loader.server import limits, tls
from loader.server.options import Connection
from loader.server.searches import LIMITS_MET, Result, Suffixes

_PASSING = (ldap.BUSY, ldap.UNAVAILABLE)  # of a server that is about to end, too
# libldap's answers to a failed handshake, and a server's to a StartTLS that it does not know.
_MAYBE_TLS = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.PROTOCOL_ERROR)

_CREDENTIALS = struct.Struct("3i")  # process, user, group

_log = logging.getLogger(__name__)


class Session(Suffixes):
    """Bound and ready. Use `session(...)`."""

    def __init__(self, connection: Connection, given_up: threading.Event | None = None) -> None:
        self.connection = connection
        configured = str(ldap.get_option(ldap.OPT_URI) or "ldap://localhost")
        # libldap's own default has this suffix.
        self.uri = connection.uri or configured.removesuffix("/??base")
        self._given_up = given_up
        self._waits = False  # libldap still waits for an answer that nobody wants any more
        self._explains = False
        self._ldap = _initialized(self.uri)
        self._ldap.set_option(ldap.OPT_REFERRALS, 0)
        self._ldap.set_option(ldap.OPT_NETWORK_TIMEOUT, connect_limit())
        self._asking("bind", self._bind, limit=opening_limit(self.uri))
        _log.info("connected to %s as %s", self.uri, connection.who)

    def _bind(self) -> None:
        if self.connection.start_tls:
            try:
                self._ldap.start_tls_s()
            except (ldap.CONNECT_ERROR, ldap.SERVER_DOWN):
                raise  # a failed handshake leaves an open connection, and the bind would go over it in clear
            except ldap.LDAPError:
                if self.connection.start_tls > 1:
                    raise
        if self.connection.mechanism:
            sasl_bind(self._ldap, self.connection)
        else:
            bind(self._ldap, self.uri, self.connection)

    def _asking(self, operation: str, ask: Callable[[], Result], base: str = "", limit: float | None = None) -> Result:
        self._waits = True
        began = time.monotonic()
        try:
            found = TimedCall(ask).answer(limit or answer_limit(), self._given_up)
        except ldap.LDAPError as error:
            self._waits = False
            raise self._ours(operation, error, base, time.monotonic() - began) from error
        except (Cancelled, TimedOut) as error:
            lost = ServerDown if operation == "bind" else ConnectionLost
            raise lost(uri=self.uri, reason=f"{operation}: {error}") from None
        self._waits = False
        return found

    def _ours(self, operation: str, error: ldap.LDAPError, base: str, seconds: float) -> LoaderError:
        """`seconds`: how long the question took."""
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        # libldap asks the socket of a connection that was refused once more, and gets ENOTCONN for the reason.
        keys = ("desc",) if facts.get("errno") == errno.ENOTCONN else ("desc", "info")
        told = [str(facts[key]) for key in keys if facts.get(key)]
        reason = "; ".join(told) or str(error)
        if isinstance(error, ldap.TIMEOUT):
            # libldap minds TIMEOUT and NETWORK_TIMEOUT of ldap.conf, too, and does not say which it was.
            reason = f"{operation}: no answer within {seconds:.0f} s"
        result = facts.get("result", 0)
        # A server that answers (the result is not one of libldap's own, which are negative) has no trouble with TLS.
        maybe_tls = isinstance(error, _MAYBE_TLS) or (result < 0 and tls.is_named(reason))
        if maybe_tls and (failed := tls.failure(self.uri, self.connection.start_tls, reason)):
            return failed
        if isinstance(error, ldap.SERVER_DOWN | ldap.CONNECT_ERROR | ldap.TIMEOUT):
            lost = ServerDown if operation == "bind" else ConnectionLost
            return lost(uri=self.uri, reason=reason)
        if isinstance(error, _PASSING):
            return ConnectionLost(uri=self.uri, reason=reason)
        if isinstance(error, ldap.REFERRAL):
            return referred(self.uri, operation, reason)
        refused = bind_error(self.connection, self.uri, result, reason, operation == "bind")
        if refused:
            return refused
        if isinstance(error, ldap.NO_SUCH_OBJECT):
            known = ", ".join(self.naming_contexts()) or "none that can be seen"
            return NoSuchBase(uri=self.uri, base=base, who=self.connection.who, known=known)
        if isinstance(error, LIMITS_MET):
            return self._limit_met(base, reason, facts.get("result", 11))
        return ServerRefused(uri=self.uri, operation=operation, reason=reason)

    def _limit_met(self, base: str, reason: str, result: int) -> LoaderError:
        """Asks the server who we are; a limit that is met by that is not asked about."""
        if self._explains:
            return limits.unasked(self.connection, self.uri, base, reason, result)
        self._explains = True
        try:
            return limits.error(self, base, reason, result)
        finally:
            self._explains = False

    def converse(self, operation: str, talk: Callable[[Any], Result], base: str = "", limit: float = 0.0) -> Result:
        """What `talk` makes of libldap's connection: a question of several messages. `limit`: seconds for all of it."""
        return self._asking(operation, lambda: talk(self._ldap), base, limit or None)

    def replace(self, dn: str, changes: Mapping[str, Sequence[bytes]]) -> None:
        """Set attributes; an empty sequence removes one."""
        of = ldap.MOD_REPLACE
        self.modify(dn, [(of, name, list(values) or None) for name, values in changes.items()])

    def replace_if(self, dn: str, where: str, changes: Mapping[str, Sequence[bytes]]) -> bool:
        """Set attributes of an entry of which the filter is true (RFC 4528); False where it is not."""
        modlist = [(ldap.MOD_REPLACE, name, list(values)) for name, values in changes.items()]
        only = [AssertionControl(True, where)]

        def replaced() -> bool:
            try:
                self._ldap.modify_ext_s(dn, modlist, serverctrls=only)
            except ldap.ASSERTION_FAILED:
                return False
            return True

        return self._asking(f"modify {dn}", replaced, dn, COMMIT)

    def modify(self, dn: str, modlist: list[Any]) -> None:
        """python-ldap's list: (ldap.MOD_*, name, values or None)."""
        self._asking(f"modify {dn}", lambda: self._ldap.modify_s(dn, modlist), dn, COMMIT)

    def add(self, dn: str, attributes: Mapping[str, Sequence[bytes]]) -> None:
        modlist = [(name, list(values)) for name, values in attributes.items()]
        self._asking(f"add {dn}", lambda: self._ldap.add_s(dn, modlist), dn, COMMIT)

    def delete(self, dn: str) -> None:
        self._asking(f"delete {dn}", lambda: self._ldap.delete_s(dn), dn, COMMIT)

    def who_am_i(self) -> str:
        """The DN that the server knows us by (RFC 4532)."""
        said = self._asking("whoami", lambda: self._ldap.whoami_s())
        return str(said).removeprefix("dn:")

    def peer(self) -> int | None:
        """Process ID of the server at the other end of an ldapi connection; None over a network, or where the server
        has none that is seen from here (unix(7), SO_PEERCRED)."""
        with socket.socket(fileno=os.dup(self._ldap.get_option(ldap.OPT_DESC))) as connected:
            if connected.family != socket.AF_UNIX:
                return None
            told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return _CREDENTIALS.unpack(told)[0] or None

    def close(self) -> None:
        if self._waits:
            return  # whoever closes a session waits for what is asked on it; it ends with the program
        try:
            self._ldap.unbind_s()
        except ldap.LDAPError:
            pass  # the server may have gone already; nothing is lost with an unbind


def _initialized(uri: str) -> ldap.ldapobject.LDAPObject:
    try:
        return ldap.initialize(uri)
    except ldap.LDAPError:
        reason = f"{uri} is not an LDAP URI: write ldap://HOST, ldaps://HOST or ldapi:///"
        raise UsageProblem(reason=reason) from None


@contextmanager
def session(connection: Connection, given_up: threading.Event | None = None) -> Iterator[Session]:
    """Connect, bind, hand over, unbind. `given_up`: once it is set, no answer is waited for (beside Ctrl-C, which only
    the main thread hears)."""
    opened = Session(connection, given_up)
    try:
        yield opened
    finally:
        opened.close()


# --- sasl ------------------------------------------------------------------------------------------------------------
#
# SASL through python-ldap, for the small questions; the native core answers mechanisms itself, with the same words.


def sasl_bind(handle: Any, connection: Connection) -> None:
    """Raises UsageProblem, and python-ldap's own errors."""
    assert connection.mechanism is not None
    _set_options(handle, connection)
    asked = ldap.sasl.sasl(_answers(handle, connection), connection.mechanism)
    handle.sasl_interactive_bind_s("", asked)


def _set_options(handle: Any, connection: Connection) -> None:
    """Where nothing is said, ldap.conf decides."""
    if connection.sasl.as_written:
        handle.set_option(ldap.OPT_X_SASL_NOCANON, 1)
    if connection.sasl.properties is None:
        return
    try:
        handle.set_option(ldap.OPT_X_SASL_SECPROPS, connection.sasl.properties)
    except (ldap.LDAPError, ValueError):
        reason = f"-O {connection.sasl.properties}: libldap knows no such security properties"
        raise UsageProblem(reason=reason) from None


def _answers(handle: Any, connection: Connection) -> dict[int, str]:
    """What mechanisms ask for. libldap keeps what ldap.conf says of it, and leaves it to us to tell."""
    given = connection.sasl
    return {
        ldap.sasl.CB_AUTHNAME: connection.authcid or _default(handle, ldap.OPT_X_SASL_AUTHCID),
        ldap.sasl.CB_USER: given.authzid or _default(handle, ldap.OPT_X_SASL_AUTHZID),
        ldap.sasl.CB_GETREALM: given.realm or _default(handle, ldap.OPT_X_SASL_REALM),
        ldap.sasl.CB_PASS: _password(connection),
    }


def _default(handle: Any, option: int) -> str:
    return str(handle.get_option(option) or "")


def _password(connection: Connection) -> str:
    try:
        return (connection.secret() or b"").decode()
    except UnicodeDecodeError:
        raise UsageProblem(reason="the password is not UTF-8, which SASL wants") from None


# --- timeouts --------------------------------------------------------------------------------------------------------
#
# How long a server may take, in seconds. ldap.conf's NETWORK_TIMEOUT and TIMEOUT say otherwise (ldap.conf(5)).


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


# --- refusal ---------------------------------------------------------------------------------------------------------
#
# What a bind that failed means, whichever of the two doors it failed at.


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


def bind_error(connection: Connection, uri: str, result: int, reason: str, binding: bool) -> LoaderError | None:
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
        return UsageProblem(reason=f"{uri}: the bind DN {who} is no DN: give all of it, such as {example}")
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
        names = [name.decode() for _, entry in found for values in entry.values() for name in values]
        return ", ".join(names) or "none"
    except (ldap.LDAPError, UnicodeDecodeError):
        return "what it does not tell"
    finally:
        handle.unbind_ext_s()


# --- password policy -------------------------------------------------------------------------------------------------
#
# A simple bind that asks what the password policy says of the account (draft-behera-ldap-password-policy, 6).
#
# Without that control slapd answers "Invalid credentials" for an account that is locked or has expired, too, and lets
# an account bind that may do nothing but change its password. python-ldap has this control, with pyasn1, which takes
# longer to import than a bind takes.


_OID = "1.3.6.1.4.1.42.2.27.8.5.1"
_EXPIRED, _LOCKED, _RESET = 0, 1, 2
_REASONS = {
    _EXPIRED: "its password has expired",
    _LOCKED: "it is locked after too many wrong passwords, or by an administrator",
    _RESET: "it has to change its password before it may do anything else (pwdReset)",
}
_ERROR = 0x81  # [1] error ENUMERATED of PasswordPolicyResponseValue


class _Answer(ResponseControl):  # type: ignore[misc]
    error: int | None = None

    def decodeControlValue(self, encodedControlValue: bytes) -> None:  # noqa: N802, N803
        self.error = _error(encodedControlValue)


def bind(handle: Any, uri: str, connection: Connection) -> None:
    """Raises AccountClosed, and python-ldap's own errors."""
    name, secret = connection.bind_dn or "", connection.secret() or b""
    try:
        number = handle.simple_bind(name, secret, [RequestControl(_OID)] if name else None)
        controls = handle.result3(number, resp_ctrl_classes={_OID: _Answer})[3]
    except ldap.LDAPError as error:
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        for oid, _, value in facts.get("ctrls", ()):
            _require_open(uri, connection, _error(value) if oid == _OID else None)
        raise
    for one in controls:
        _require_open(uri, connection, one.error)


def _require_open(uri: str, connection: Connection, error: int | None) -> None:
    if error in _REASONS:
        raise _closed(uri, connection, error)


def _error(value: bytes | None) -> int | None:
    """Of the value of the control; all its lengths are shorter than 128."""
    value, at = value or b"", 2
    while at + 2 < len(value):
        if value[at] == _ERROR:
            return value[at + 2]
        at += 2 + value[at + 1]
    return None


def _closed(uri: str, connection: Connection, error: int) -> AccountClosed:
    who, at = connection.who, f"-x -H {shlex.quote(uri)}"
    name = shlex.quote(who)
    commands: tuple[str, ...]
    if error == _LOCKED:
        advice = "Let an account that may manage the entry, in the place of ROOTDN, unlock it."
        commands = (
            f"ldapmodify {at} -D ROOTDN -W <<'EOF'",
            limits.line("dn", who.encode()),
            "changetype: modify",
            "delete: pwdAccountLockedTime",
            "EOF",
        )
    elif error == _EXPIRED:
        advice = "Let an account that may manage the entry, in the place of ROOTDN, set a new password."
        commands = (f"ldappasswd {at} -D ROOTDN -W -S {name}",)
    else:
        advice = "Give it a new password, then write that into the password file."
        commands = (f"ldappasswd {at} -D {name} -W -S",)
    return AccountClosed(uri=uri, who=who, reason=_REASONS[error], advice=advice, commands=commands)


# --- question --------------------------------------------------------------------------------------------------------
#
# A question to libldap that can be given up.
#
# libldap waits for an answer without end, and hears no signal while a TLS handshake stands still. So each question
# has a thread of its own, and only that one waits for libldap.


Answer = TypeVar("Answer")
LOOK_EVERY = 0.1  # seconds between two looks whether it was given up


class TimedOut(Exception):
    """None came in time."""


class Cancelled(Exception):
    """Nobody wants it any more."""


class TimedCall(Generic[Answer]):
    """Asked once. Its thread ends when libldap returns, or with the program."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._over = threading.Event()
        self._found: list[Answer] = []
        self._error: BaseException | None = None

    def answer(self, limit: float, given_up: threading.Event | None = None) -> Answer:
        """What `ask` returns or raises. TimedOut after `limit` seconds, Cancelled soon after `given_up` is set."""
        threading.Thread(target=self._run, name="ldap question", daemon=True).start()
        self._wait(limit, given_up)
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._ask())
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def _wait(self, limit: float, given_up: threading.Event | None) -> None:
        until = time.monotonic() + limit
        while not self._over.wait(LOOK_EVERY):
            if given_up is not None and given_up.is_set():
                raise Cancelled("given up")
            if time.monotonic() > until:
                raise TimedOut(f"no answer within {limit:.0f} s")
