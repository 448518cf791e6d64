"""A session with a server, through python-ldap. Every error of libldap leaves this file as one of ours."""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ldap
import ldap.ldapobject
from ldap.controls import AssertionControl

from loader.errors import (
    ConnectionLost,
    LoaderError,
    NoSuchBase,
    ServerDown,
    ServerRefused,
    UsageProblem,
)
from loader.server import limits, password_policy, sasl, tls
from loader.server.options import Connection
from loader.server.question import Cancelled, TimedCall, TimedOut
from loader.server.refusal import bind_error, referred
from loader.server.searches import LIMITS_MET, Attributes, Result, first_value
from loader.server.suffixes import Suffixes
from loader.server.timeouts import COMMIT, answer_limit, connect_limit, opening_limit

__all__ = ["Attributes", "Session", "first_value", "session"]

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
            sasl.bind(self._ldap, self.connection)
        else:
            password_policy.bind(self._ldap, self.uri, self.connection)

    def _asking(
        self,
        operation: str,
        ask: Callable[[], Result],
        base: str = "",
        limit: float | None = None,
    ) -> Result:
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

    def _ours(
        self, operation: str, error: ldap.LDAPError, base: str, seconds: float
    ) -> LoaderError:
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

    def converse(
        self, operation: str, talk: Callable[[Any], Result], base: str = "", limit: float = 0.0
    ) -> Result:
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
