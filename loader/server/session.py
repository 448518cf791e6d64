"""A session with a server for small questions (root DSE, contextCSN, one entry), through python-ldap.

Entries by the million never come this way. Every error of libldap leaves this file as one of ours.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import ldap
import ldap.filter
import ldap.ldapobject
from ldap.controls import AssertionControl, RequestControl, SimplePagedResultsControl
from ldap.controls.simple import ManageDSAITControl

from loader import csn, dn
from loader.errors import (
    ConnectionLost,
    LimitTooLow,
    LoaderError,
    NoContextCSN,
    NoSuchBase,
    ServerDown,
    ServerRefused,
    TlsFailed,
    UsageProblem,
)
from loader.server import limits, sasl, tls
from loader.server.options import Connection
from loader.server.question import Cancelled, TimedCall, TimedOut
from loader.server.refusal import bind_error
from loader.server.search import SUBENTRIES, Search
from loader.server.timeouts import COMMIT, answer_limit, connect_limit, opening_limit

Attributes = dict[str, list[bytes]]  # names in lower case
Result = TypeVar("Result")

_PASSING = (ldap.BUSY, ldap.UNAVAILABLE)  # of a server that is about to end, too
_LIMITS_MET = (ldap.SIZELIMIT_EXCEEDED, ldap.TIMELIMIT_EXCEEDED, ldap.ADMINLIMIT_EXCEEDED)
# slapo-valsort(5): values as they are stored. A server without the overlay ignores it.
_UNSORTED = RequestControl("1.3.6.1.4.1.4203.666.5.14", False, b"\x30\x03\x01\x01\xff")
_AS_STORED = [ManageDSAITControl(), _UNSORTED]
_VISIBLE = RequestControl(SUBENTRIES, True, b"\x01\x01\xff")  # BOOLEAN TRUE in BER

_log = logging.getLogger(__name__)


class Session:
    """Bound and ready. Use `session(...)`."""

    def __init__(self, connection: Connection, given_up: threading.Event | None = None) -> None:
        self.connection = connection
        configured = str(ldap.get_option(ldap.OPT_URI) or "ldap://localhost")
        self.uri = connection.uri or configured.removesuffix(
            "/??base"
        )  # libldap's own default has it
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
            self._ldap.simple_bind_s(self.connection.bind_dn or "", self.connection.secret() or b"")

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
        reason = "; ".join(str(facts[key]) for key in ("desc", "info") if facts.get(key)) or str(
            error
        )
        if isinstance(error, ldap.TIMEOUT):
            # libldap minds TIMEOUT and NETWORK_TIMEOUT of ldap.conf, too, and does not say which it was.
            reason = f"{operation}: no answer within {seconds:.0f} s"
        if is_tls(reason) or isinstance(error, _MAYBE_TLS):
            why = tls.failure(self.uri, self.connection.start_tls)
            if why or is_tls(reason):
                return TlsFailed(uri=self.uri, reason=why or reason)
        if isinstance(error, ldap.SERVER_DOWN | ldap.CONNECT_ERROR | ldap.TIMEOUT):
            lost = ServerDown if operation == "bind" else ConnectionLost
            return lost(uri=self.uri, reason=reason)
        if isinstance(error, _PASSING):
            return ConnectionLost(uri=self.uri, reason=reason)
        result = facts.get("result", 0)
        refused = bind_error(self.connection, self.uri, result, reason, operation == "bind")
        if refused:
            return refused
        if isinstance(error, ldap.NO_SUCH_OBJECT):
            known = ", ".join(self.naming_contexts()) or "none that can be seen"
            return NoSuchBase(uri=self.uri, base=base, who=self.connection.who, known=known)
        if isinstance(error, _LIMITS_MET):
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

    def read(
        self, dn: str, attributes: Sequence[str] = ("*", "+"), where: str = "(objectClass=*)"
    ) -> Attributes:
        """One entry, a referral object too. Raises NoSuchBase."""
        found = self._asking(
            f"read {dn}",
            lambda: self._ldap.search_ext_s(
                dn, ldap.SCOPE_BASE, where, list(attributes), serverctrls=_AS_STORED
            ),
            dn,
        )
        return {name.lower(): values for name, values in found[0][1].items()} if found else {}

    def spelt(self, dn: str) -> str:
        """The name of an entry, a referral object too, as the server writes it. Raises NoSuchBase."""
        asked = (dn, ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"])
        controls = [ManageDSAITControl()]
        found = self._asking(
            f"read {dn}", lambda: self._ldap.search_ext_s(*asked, serverctrls=controls), dn
        )
        return str(found[0][0]) if found else dn

    def find(
        self,
        base: str,
        where: str,
        attributes: Sequence[str] = ("1.1",),
        scope: int = ldap.SCOPE_SUBTREE,
        subentries: bool = False,
    ) -> list[tuple[str, Attributes]]:
        """The few entries (or subentries) that match; not for bulk."""
        controls = [*_AS_STORED, *([_VISIBLE] if subentries else [])]
        found = self._asking(
            f"search {base}",
            lambda: self._ldap.search_ext_s(
                base, scope, where, list(attributes), serverctrls=controls
            ),
            base,
        )
        return [_lowered(dn, entry) for dn, entry in found if dn]

    def first(
        self,
        base: str,
        limit: int,
        attributes: Sequence[str],
        where: str = "(objectClass=*)",
        seconds: int = -1,
    ) -> tuple[list[tuple[str, Attributes]], bool]:
        """The first `limit` entries of a subtree that match, and whether these are all. `seconds`: that the server may
        look for them. Raises NoSuchBase, LimitTooLow (when not even one is shown)."""
        found: list[tuple[str, Attributes]] = []

        def collect() -> bool:
            asked = (base, ldap.SCOPE_SUBTREE, where, list(attributes))
            message = self._ldap.search_ext(
                *asked, serverctrls=_AS_STORED, timeout=seconds, sizelimit=limit
            )
            try:
                while True:
                    kind, entries = self._ldap.result(message, all=0)[:2]
                    if kind == ldap.RES_SEARCH_RESULT:
                        return True
                    found.extend(_lowered(dn, entry) for dn, entry in entries if dn)
                    if len(found) >= _OVER * limit:
                        # It minds no size limit, and would send all that it has.
                        self._ldap.abandon_ext(message)
                        del found[limit:]
                        return False
            except _LIMITS_MET:
                if not found:
                    raise
                return False

        return found, self._asking(f"search {base}", collect, base)

    def require_shown(self, asked: Search, entries: int) -> None:
        """Begin the search and see whether the server goes on to show `entries` of them, or all that there are. Their
        attributes are not asked for, and whatever limits the server has apply. Raises LimitTooLow."""
        self._asking(
            f"search {asked.base}", lambda: _looked_through(self._ldap, asked, entries), asked.base
        )

    def matches(self, dn: str, where: str) -> bool:
        """Is the filter true of this entry?"""
        found = self._asking(
            f"read {dn}",
            lambda: self._ldap.search_ext_s(
                dn, ldap.SCOPE_BASE, where, ["1.1"], serverctrls=_AS_STORED
            ),
            dn,
        )
        return any(name is not None for name, _ in found)

    def counted(self, base: str) -> int | None:
        """Entries in the database whose suffix is `base`, as slapd's monitor counts them (olmMDBEntries, 2.5 and
        later); None when it does not tell us."""
        where = ldap.filter.filter_format(
            "(&(objectClass=olmMDBDatabase)(namingContexts=%s))", [base]
        )
        try:
            found = self.find("cn=Databases,cn=Monitor", where, ["olmMDBEntries"])
        except (NoSuchBase, ServerRefused, LimitTooLow):
            return None
        values = [value for _, entry in found for value in entry.get("olmmdbentries", [])]
        return int(values[0]) if values else None

    def converse(
        self, operation: str, talk: Callable[[Any], Result], base: str = "", limit: float = 0.0
    ) -> Result:
        """What `talk` makes of libldap's connection: a question of several messages. `limit`: seconds for all of it."""
        return self._asking(operation, lambda: talk(self._ldap), base, limit or None)

    def replace(self, dn: str, changes: Mapping[str, Sequence[bytes]]) -> None:
        """Set attributes; an empty sequence removes one."""
        self.modify(
            dn,
            [(ldap.MOD_REPLACE, name, list(values) or None) for name, values in changes.items()],
        )

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

    def children_with_children(self, base: str) -> list[str]:
        """DNs one level below `base` that have entries below them."""
        found = self.find(base, "(hasSubordinates=TRUE)", scope=ldap.SCOPE_ONELEVEL)
        return [dn for dn, _ in found]

    def exists(self, dn: str) -> bool:
        """Is there such an entry, as far as we are allowed to know?"""
        try:
            self.read(dn, ["1.1"])
        except NoSuchBase:
            return False
        return True

    def offers_subentries(self, base: str) -> bool:
        """Does it know the control that shows subentries (RFC 3672), and take it from us? OpenDJ does from few."""
        known = self.read("", ["supportedControl"]).get("supportedcontrol", [])
        if SUBENTRIES.encode() not in known:
            return False
        try:
            self.find(base, "(objectClass=*)", scope=ldap.SCOPE_BASE, subentries=True)
        except ServerRefused:
            return False
        return True

    def naming_contexts(self) -> list[str]:
        return [
            value.decode() for value in self.read("", ["namingContexts"]).get("namingcontexts", [])
        ]

    def context_of(self, base: str) -> str:
        """The naming context that holds `base`; `base` itself where none is shown."""
        found = (one for one in self.naming_contexts() if dn.is_below(base, one))
        return next(found, base)

    def context_csns(self, suffix: str) -> list[str]:
        """contextCSN of a suffix, one value for each server ID. Raises NoContextCSN."""
        values = self.read(suffix, ["contextCSN"]).get("contextcsn", [])
        if not values:
            advice = "Check that the provider has the syncprov overlay, and that the bind DN may read contextCSN."
            raise NoContextCSN(where=self.uri, suffix=suffix, advice=advice)
        return sorted(csn.by_server(value.decode() for value in values).values())

    def base(self) -> str:
        """The base to search: -b, else BASE of ldap.conf, else the server's only suffix."""
        chosen = self.connection.base
        if chosen is None:
            chosen = ldap.get_option(ldap.OPT_DEFBASE)
        if chosen is not None:
            return str(chosen)
        contexts = self.naming_contexts()
        if len(contexts) == 1:
            return contexts[0]
        known = ", ".join(contexts)
        raise NoSuchBase(
            uri=self.uri, base="(none given; use -b)", who=self.connection.who, known=known
        )

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


_SCOPES = {
    "base": ldap.SCOPE_BASE,
    "one": ldap.SCOPE_ONELEVEL,
    "sub": ldap.SCOPE_SUBTREE,
    "children": ldap.SCOPE_SUBORDINATE,
}


def _looked_through(handle: Any, asked: Search, entries: int) -> None:
    """Page after page, if it is to be read in pages; given up once enough was shown."""
    paging = SimplePagedResultsControl(True, size=asked.page, cookie="")
    controls = [*_AS_STORED, *([paging] if asked.page else [])]
    seen = 0
    while seen < entries:
        message = handle.search_ext(
            asked.base, _SCOPES[asked.scope], asked.where, ["1.1"], serverctrls=controls
        )
        kind, answer = None, []
        while kind != ldap.RES_SEARCH_RESULT and seen < entries:
            kind, found, _, answer = handle.result3(message, all=0)
            seen += len(found)
        if kind != ldap.RES_SEARCH_RESULT:
            handle.abandon(message)
        told = [one for one in answer if one.controlType == paging.controlType]
        if not told or not told[0].cookie:
            return
        paging.cookie = told[0].cookie


def first_value(entry: Mapping[str, Collection[bytes]], name: str) -> str:
    """The only value of an attribute, or its first; "" without any."""
    return next(iter(entry.get(name, ())), b"").decode("utf-8", "replace")


def _lowered(dn: str, entry: dict[str, list[bytes]]) -> tuple[str, Attributes]:
    return dn, {name.lower(): values for name, values in entry.items()}


_OVER = 2  # times the size limit that was asked for: a server that sends so many minds none

# libldap's answers to a failed handshake, and a server's to a StartTLS that it does not know.
_MAYBE_TLS = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.PROTOCOL_ERROR)
_CUT = ("non-properly terminated", "unexpected eof")  # GnuTLS, OpenSSL


def is_tls(reason: str) -> bool:
    """Does it speak of TLS? A line that was cut is no TLS that was refused, whatever ran over it."""
    words = ("certificate", "TLS", "SSL", "handshake")
    return any(word in reason for word in words) and not any(word in reason for word in _CUT)


@contextmanager
def session(connection: Connection, given_up: threading.Event | None = None) -> Iterator[Session]:
    """Connect, bind, hand over, unbind. `given_up`: once it is set, no answer is waited for (beside Ctrl-C, which only
    the main thread hears)."""
    opened = Session(connection, given_up)
    try:
        yield opened
    finally:
        opened.close()
