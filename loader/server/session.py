"""A session with a server, through python-ldap: binding, timeouts, small searches and changes. Errors of libldap are
converted to LoaderError here. Bulk transfers of entries go through wire.py."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import ldap
import ldap.filter
import ldap.ldapobject
import ldap.sasl
from ldap.controls import AssertionControl, RequestControl, ResponseControl, SimplePagedResultsControl
from ldap.controls.simple import ManageDSAITControl

from loader import csn, defaults, errors
from loader import dn as names
from loader.server import refusals
from loader.server.options import SUBENTRIES, Connection, Search, external, find_database, line

Attributes = dict[str, list[bytes]]  # names in lower case
Entries = list[tuple[str, Attributes]]
Result = TypeVar("Result")

_ALL = "(objectClass=*)"
# slapo-valsort(5): requests values in their stored order. A server without the overlay ignores the control.
_UNSORTED = RequestControl("1.3.6.1.4.1.4203.666.5.14", False, b"\x30\x03\x01\x01\xff")
_AS_STORED = [ManageDSAITControl(), _UNSORTED]
_VISIBLE = RequestControl(SUBENTRIES, True, b"\x01\x01\xff")  # BOOLEAN TRUE in BER
_SCOPES = {
    "base": ldap.SCOPE_BASE,
    "one": ldap.SCOPE_ONELEVEL,
    "sub": ldap.SCOPE_SUBTREE,
    "children": ldap.SCOPE_SUBORDINATE,
}

_log = logging.getLogger(__name__)


class Session:
    """A bound connection to a server, created by `session`. Every method raises LoaderError if it fails."""

    def __init__(self, connection: Connection, given_up: threading.Event | None = None) -> None:
        self.connection = connection
        default_uri = str(ldap.get_option(ldap.OPT_URI) or "ldap://localhost")
        # libldap's built-in default URI ends with this suffix.
        self.uri = connection.uri or default_uri.removesuffix("/??base")
        self._given_up = given_up
        self._is_blocked = False  # whether a thread is inside libldap; still True after a timeout
        try:
            self._ldap = ldap.initialize(self.uri)
        except ldap.LDAPError:
            reason = f"{self.uri} is not an LDAP URI: write ldap://HOST, ldaps://HOST or ldapi:///"
            raise errors.UsageProblem(reason=reason) from None
        self._ldap.set_option(ldap.OPT_REFERRALS, 0)
        self._ldap.set_option(ldap.OPT_NETWORK_TIMEOUT, connect_limit())
        # The limit is for a TCP connection and a handshake with each URI, because libldap may try all of them.
        uris = max(1, len(self.uri.replace(",", " ").split()))
        self.call("bind", self._bind, limit=2 * connect_limit() * uris + bind_limit())
        _log.info("connected to %s as %s", self.uri, connection.who)

    def close(self) -> None:
        if not self._is_blocked:  # unbind would wait for the pending operation; the process's end closes the connection
            with suppress(ldap.LDAPError):  # the server may have closed the connection already
                self._ldap.unbind_s()

    def _bind(self, handle: Any) -> None:
        if self.connection.start_tls:
            try:
                handle.start_tls_s()
            except (ldap.CONNECT_ERROR, ldap.SERVER_DOWN):
                raise  # after a failed handshake the connection stays open: a bind would send the password in clear
            except ldap.LDAPError:
                if self.connection.start_tls > 1:
                    raise
        if self.connection.mechanism:
            _sasl_bind(handle, self.connection, self.connection.mechanism)
        else:
            _simple_bind(handle, self.uri, self.connection)

    def call(self, operation: str, use: Callable[[Any], Result], base: str = "", limit: float = 0.0) -> Result:
        """Returns what `use` returns for python-ldap's connection. `limit`: timeout in seconds; 0: the default."""
        self._is_blocked = True
        began = time.monotonic()
        try:
            result = _in_thread(lambda: use(self._ldap), limit or _limit(ldap.OPT_TIMEOUT, SILENCE), self._given_up)
        except ldap.LDAPError as error:
            self._is_blocked = False
            raise self._as_loader_error(operation, error, base, time.monotonic() - began) from error
        except _Unanswered as error:
            lost = errors.ServerDown if operation == "bind" else errors.ConnectionLost
            raise lost(uri=self.uri, reason=f"{operation}: {error}") from None
        self._is_blocked = False
        return result

    def _as_loader_error(self, operation: str, error: ldap.LDAPError, base: str, seconds: float) -> errors.LoaderError:
        """Returns the LoaderError for libldap's error. `seconds`: the duration of the operation."""
        facts = facts_of(error)
        # After a refused connection, libldap queries the socket again and reports ENOTCONN instead of the reason.
        reason = words_of(error, ("desc",) if facts.get("errno") == errno.ENOTCONN else ("desc", "info"))
        if isinstance(error, ldap.TIMEOUT):
            # libldap also applies TIMEOUT and NETWORK_TIMEOUT of ldap.conf, and does not report which of them expired.
            reason = f"{operation}: no answer within {seconds:.0f} s"
        result = facts.get("result", getattr(error, "errnum", 0))
        # The error may come from a failed handshake, or from a server that does not offer StartTLS. Any other result
        # code from the server shows that TLS works. Negative codes are libldap's own.
        maybe_tls = isinstance(error, ldap.SERVER_DOWN | ldap.CONNECT_ERROR | ldap.PROTOCOL_ERROR)
        maybe_tls |= result < 0 and refusals.mentions_tls(reason)
        if maybe_tls and (failed := refusals.tls_failure(self.uri, self.connection.start_tls, reason)):
            return failed
        if isinstance(error, ldap.SERVER_DOWN | ldap.CONNECT_ERROR | ldap.TIMEOUT):
            return (errors.ServerDown if operation == "bind" else errors.ConnectionLost)(uri=self.uri, reason=reason)
        return refusals.refused(self.connection, self.uri, operation, base, result, reason, lambda: nullcontext(self))

    def replace(self, dn: str, changes: Mapping[str, Sequence[bytes]]) -> None:
        """Replaces attributes of an entry; an empty sequence removes the attribute."""
        self.modify(dn, [(ldap.MOD_REPLACE, name, list(values) or None) for name, values in changes.items()])

    def replace_if(self, dn: str, where: str, changes: Mapping[str, Sequence[bytes]]) -> bool:
        """Replaces attributes if the entry matches the filter `where` (RFC 4528); returns False if it does not."""
        modlist = [(ldap.MOD_REPLACE, name, list(values)) for name, values in changes.items()]

        def replaced(handle: Any) -> bool:
            try:
                handle.modify_ext_s(dn, modlist, serverctrls=[AssertionControl(True, where)])
            except ldap.ASSERTION_FAILED:
                return False
            return True

        return self.call(f"modify {dn}", replaced, dn, COMMIT)

    def modify(self, dn: str, modlist: list[Any]) -> None:
        self.call(f"modify {dn}", lambda handle: handle.modify_s(dn, modlist), dn, COMMIT)

    def add(self, dn: str, attributes: Mapping[str, Sequence[bytes]]) -> None:
        added = [(name, list(values)) for name, values in attributes.items()]
        self.call(f"add {dn}", lambda handle: handle.add_s(dn, added), dn, COMMIT)

    def delete(self, dn: str) -> None:
        self.call(f"delete {dn}", lambda handle: handle.delete_s(dn), dn, COMMIT)

    def _search(
        self, base: str, scope: int, where: str, attributes: Sequence[str], controls: Sequence[Any] = _AS_STORED
    ) -> list[Any]:
        operation, search = "read" if scope == ldap.SCOPE_BASE else "search", (base, scope, where, list(attributes))
        entries: list[Any] = self.call(
            f"{operation} {base}", lambda handle: handle.search_ext_s(*search, serverctrls=controls), base
        )
        return entries

    def read(self, dn: str, attributes: Sequence[str] = ("*", "+"), where: str = _ALL) -> Attributes:
        """Returns an entry, which may be a referral object; {} if `where` does not match it. Raises NoSuchBase."""
        entries = self._search(dn, ldap.SCOPE_BASE, where, attributes)
        return _lowered(*entries[0])[1] if entries else {}

    def stored_dn(self, dn: str) -> str:
        """Returns the entry's DN in the server's spelling. Raises NoSuchBase."""
        entries = self._search(dn, ldap.SCOPE_BASE, _ALL, ["1.1"])
        return str(entries[0][0]) if entries else dn

    def matches(self, dn: str, where: str) -> bool:
        return any(name is not None for name, _ in self._search(dn, ldap.SCOPE_BASE, where, ["1.1"]))

    def exists(self, dn: str) -> bool:
        """Returns True if the entry exists and the account may see it."""
        with suppress(errors.NoSuchBase):
            self.read(dn, ["1.1"])
            return True
        return False

    def find(
        self,
        base: str,
        where: str,
        attributes: Sequence[str] = ("1.1",),
        scope: int = ldap.SCOPE_SUBTREE,
        subentries: bool = False,
    ) -> Entries:
        """Returns the matching entries (or subentries). Use it only for small results: they are one list in memory."""
        controls = [*_AS_STORED, *([_VISIBLE] if subentries else [])]
        return [_lowered(dn, entry) for dn, entry in self._search(base, scope, where, attributes, controls) if dn]

    def children_with_children(self, base: str) -> list[str]:
        return [dn for dn, _ in self.find(base, "(hasSubordinates=TRUE)", scope=ldap.SCOPE_ONELEVEL)]

    def dns(self, search: Search, most: int = sys.maxsize) -> Iterator[str]:
        """Yields the DNs of the entries that a search finds. Stops once it has read at least `most` DNs. Reads in pages
        if `search.page` is set. Raises NoSuchBase, and LimitTooLow if a limit of the server ends the search."""
        paging = SimplePagedResultsControl(True, size=search.page, cookie="")
        request_controls = [*_AS_STORED, *([_VISIBLE] if search.subentries else []), *([paging] if search.page else [])]
        arguments = (search.base, _SCOPES[search.scope], search.where, ["1.1"])
        count = 0

        def page(handle: Any) -> list[str]:
            message = handle.search_ext(*arguments, serverctrls=request_controls)
            kind, names, controls = None, list[str](), list[Any]()
            while kind != ldap.RES_SEARCH_RESULT and count + len(names) < most:
                kind, entries, _, controls = handle.result3(message, all=bool(search.page))
                names += [dn for dn, _ in entries if dn]
            if kind != ldap.RES_SEARCH_RESULT:
                handle.abandon(message)
            paging.cookie = next((one.cookie for one in controls if one.controlType == paging.controlType), "")
            return names

        more = True
        while more and count < most:
            names = self.call(f"search {search.base}", page, search.base)
            count, more = count + len(names), bool(paging.cookie)
            yield from names

    def first(
        self, base: str, limit: int, attributes: Sequence[str], where: str = _ALL, seconds: int = -1
    ) -> tuple[Entries, bool]:
        """Returns the first `limit` matching entries of a subtree, and True if no other entry matches. `seconds`: the
        time limit sent to the server. Raises NoSuchBase; LimitTooLow if a limit is reached before the first entry."""
        first: Entries = []

        def collect(handle: Any) -> bool:
            search = (base, ldap.SCOPE_SUBTREE, where, list(attributes))
            message = handle.search_ext(*search, serverctrls=_AS_STORED, timeout=seconds, sizelimit=limit)
            try:
                while True:
                    kind, entries = handle.result(message, all=0)[:2]
                    if kind == ldap.RES_SEARCH_RESULT:
                        return True
                    first.extend(_lowered(dn, entry) for dn, entry in entries if dn)
                    if len(first) >= 2 * limit:  # the server ignores the size limit and would send all entries
                        handle.abandon_ext(message)
                        del first[limit:]
                        return False
            except (ldap.SIZELIMIT_EXCEEDED, ldap.TIMELIMIT_EXCEEDED, ldap.ADMINLIMIT_EXCEEDED):
                if not first:
                    raise
                return False

        return first, self.call(f"search {base}", collect, base)

    def who_am_i(self) -> str:
        """Returns the authorization DN of this session (RFC 4532); "" if anonymous."""
        return str(self.call("whoami", lambda handle: handle.whoami_s())).removeprefix("dn:")

    def server_pid(self) -> int | None:
        """Returns the server's process ID on an ldapi connection; None over a network, or if the process is in a PID
        namespace that is not visible from here (unix(7), SO_PEERCRED)."""
        with socket.socket(fileno=os.dup(self._ldap.get_option(ldap.OPT_DESC))) as connected:
            if connected.family != socket.AF_UNIX:
                return None
            credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", credentials)[0] or None  # PID, UID, GID

    def naming_contexts(self) -> list[str]:
        return [value.decode() for value in self.read("", ["namingContexts"]).get("namingcontexts", [])]

    def context_of(self, base: str) -> str:
        """Returns the longest naming context that contains `base`; `base` itself if the server shows none."""
        contexts = (context for context in self.naming_contexts() if names.is_below(base, context))
        return max(contexts, key=len, default=base)

    def context_csns(self, suffix: str) -> list[str]:
        """Returns the contextCSN of a suffix, one value per server ID. Raises NoContextCSN if there are no values."""
        if csns := self.visible_csns(suffix):
            return csns
        advice = (
            "Let the account read contextCSN (olcAccess). If the database lacks the syncprov overlay, add the overlay: "
            "paste this into a shell of root on the server's host."
        )
        modify = f"ldapmodify {external(self.uri)}"
        classes = "objectClass: olcOverlayConfig\\nobjectClass: olcSyncProvConfig\\nolcOverlay: syncprov\\n"
        commands = (
            find_database(self.uri, suffix),
            "# If slapd has loaded syncprov already, it refuses this, which does no harm:",
            f"{modify} <<'EOF' || true",
            *("dn: cn=module{0},cn=config", "changetype: modify", "add: olcModuleLoad"),
            *("olcModuleLoad: syncprov", "EOF"),
            f"printf 'dn: olcOverlay=syncprov,%s\\nchangetype: add\\n{classes}' \"$DB\" | {modify}",
            "# With a slapd.conf: `moduleload syncprov`, and `overlay syncprov` in that database; restart slapd.",
        )
        raise errors.NoContextCSN(where=self.uri, suffix=suffix, advice=advice, commands=commands)

    def visible_csns(self, suffix: str) -> list[str]:
        """Like `context_csns`, but returns [] if there is no contextCSN or the account may not read it."""
        values = self.read(suffix, ["contextCSN"]).get("contextcsn", [])
        return sorted(csn.by_server(value.decode() for value in values).values())

    def base(self) -> str:
        """Returns -b, else BASE of ldap.conf, else the server's only suffix. Raises NoSuchBase if there is none."""
        for base_dn in (self.connection.base, ldap.get_option(ldap.OPT_DEFBASE)):
            if base_dn is not None:
                return str(base_dn)
        contexts = self.naming_contexts()
        if len(contexts) == 1:
            return contexts[0]
        base = "(none given; use -b)"
        raise errors.NoSuchBase(uri=self.uri, base=base, who=self.connection.who, known=", ".join(contexts))

    def entry_count(self, base: str) -> int | None:
        """Returns the entry count of the database with the suffix `base`; None if cn=Monitor does not show it."""
        return self.monitor_counters(base, "olmMDBEntries").get("olmMDBEntries")

    def monitor_counters(self, base: str, *counters: str) -> dict[str, int]:
        """Returns counters of cn=Monitor (OpenLDAP 2.5 and later) for the mdb database with the suffix `base`."""
        where = ldap.filter.filter_format("(&(objectClass=olmMDBDatabase)(namingContexts=%s))", [base])
        try:
            entries = self.find("cn=Databases,cn=Monitor", where, counters)
        except (errors.NoSuchBase, errors.ServerRefused, errors.LimitTooLow):
            return {}
        values_of = ((name, entry.get(name.lower())) for _, entry in entries for name in counters)
        return {name: int(values[0]) for name, values in values_of if values}

    def offers_subentries(self, base: str) -> bool:
        """Returns True if the server accepts the subentries control (RFC 3672) from this account."""
        if SUBENTRIES.encode() not in self.read("", ["supportedControl"]).get("supportedcontrol", []):
            return False
        with suppress(errors.ServerRefused):
            self.find(base, _ALL, scope=ldap.SCOPE_BASE, subentries=True)
            return True
        return False


@contextmanager
def session(connection: Connection, given_up: threading.Event | None = None) -> Iterator[Session]:
    """Yields a Session, and closes it. When `given_up` is set (Ctrl-C, in another thread), pending operations fail."""
    with closing(Session(connection, given_up)) as opened:
        yield opened


def first_value(entry: Mapping[str, Collection[bytes]], name: str) -> str:
    """Returns the first value of an attribute, decoded; "" if there is none."""
    return next(iter(entry.get(name, ())), b"").decode("utf-8", "replace")


def _lowered(dn: str, entry: dict[str, list[bytes]]) -> tuple[str, Attributes]:
    return dn, {name.lower(): values for name, values in entry.items()}


def facts_of(error: ldap.LDAPError) -> dict[str, Any]:
    """Returns the details that libldap attached to an error: result, desc, info, ctrls ..."""
    return error.args[0] if error.args and isinstance(error.args[0], dict) else {}


def words_of(error: ldap.LDAPError, keys: Sequence[str] = ("desc", "info")) -> str:
    facts = facts_of(error)
    return "; ".join(str(facts[key]) for key in keys if facts.get(key)) or str(error)


# libldap waits for an answer forever, and ignores signals while a TLS handshake hangs. So each operation runs in a
# thread of its own, and only that thread blocks in libldap.
class _Unanswered(Exception):
    """An operation timed out or was cancelled."""


def _in_thread(work: Callable[[], Result], limit: float, given_up: threading.Event | None) -> Result:
    """Runs `work` in a thread; returns its result or raises its error. Raises _Unanswered after `limit` seconds, or
    soon after `given_up` is set. The thread then lives on until libldap returns or the process ends."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="ldap operation", daemon=True).start()
    until = time.monotonic() + limit
    while not wait([future], 0.1).done:  # seconds between two checks of `given_up`
        if given_up is not None and given_up.is_set():
            raise _Unanswered("given up")
        if time.monotonic() > until:
            raise _Unanswered(f"no answer within {limit:.0f} s")
    return future.result()


# Timeouts in seconds. NETWORK_TIMEOUT and TIMEOUT of ldap.conf(5) override them.
CONNECT = 30.0  # for a TCP connection, and again for a TLS handshake
OPENING = 60.0  # for StartTLS and a bind together
# Until the next byte of an awaited answer. Long, because a search without an index takes long.
SILENCE = defaults.SILENCE
COMMIT = 3600.0  # for a write: the first write after nosync flushes all earlier writes


def connect_limit() -> float:
    return _limit(ldap.OPT_NETWORK_TIMEOUT, CONNECT)


def bind_limit() -> float:
    return _limit(ldap.OPT_TIMEOUT, OPENING)


def _limit(option: int, default: float) -> float:
    value: Any = ldap.get_option(option)
    return float(value) if value is not None and float(value) > 0 else default


def _sasl_bind(handle: Any, connection: Connection, mechanism: str) -> None:
    """Binds with SASL. For a missing option, the value of ldap.conf applies, which libldap reads but does not pass to
    SASL. The native core gives the same answers to the prompts of SASL. Raises UsageProblem for unusable options, and
    python-ldap's errors."""
    if connection.as_written:
        handle.set_option(ldap.OPT_X_SASL_NOCANON, 1)
    if connection.secprops is not None:
        try:
            handle.set_option(ldap.OPT_X_SASL_SECPROPS, connection.secprops)
        except (ldap.LDAPError, ValueError):
            reason = f"-O {connection.secprops}: libldap knows no such security properties"
            raise errors.UsageProblem(reason=reason) from None
    try:
        password = (connection.read_secret() or b"").decode()
    except UnicodeDecodeError:
        raise errors.UsageProblem(reason="the password is not UTF-8, which SASL requires") from None
    answers = {
        ldap.sasl.CB_AUTHNAME: connection.authcid
        or connection.bind_dn
        or handle.get_option(ldap.OPT_X_SASL_AUTHCID)
        or "",
        ldap.sasl.CB_USER: connection.authzid or handle.get_option(ldap.OPT_X_SASL_AUTHZID) or "",
        ldap.sasl.CB_GETREALM: connection.realm or handle.get_option(ldap.OPT_X_SASL_REALM) or "",
        ldap.sasl.CB_PASS: password,
    }
    handle.sasl_interactive_bind_s("", ldap.sasl.sasl(answers, mechanism))


# A simple bind with the password policy control (draft-behera-ldap-password-policy, 6). Without it slapd answers
# "Invalid credentials" also for a locked or expired account, and accepts the bind of an account that may only change
# its password. python-ldap's own class for the control needs pyasn1, whose import takes longer than a bind.
_OID = "1.3.6.1.4.1.42.2.27.8.5.1"
# maps the error number in ppolicy's response control to reason, advice, commands
_CLOSED = {
    0: (
        "its password has expired",
        "Set a new password with this command; ROOTDN is an account that may manage the entry.",
        "ldappasswd {at} -D ROOTDN -W -S {name}",
    ),
    1: (
        "it is locked after too many wrong passwords, or by an administrator",
        "Unlock it with this command; ROOTDN is an account that may manage the entry.",
        "ldapmodify {at} -D ROOTDN -W <<'EOF'\n{dn}\nchangetype: modify\ndelete: pwdAccountLockedTime\nEOF",
    ),
    2: (
        "it must change its password before it may do anything else (pwdReset)",
        "Set a new password, then write it into the password file.",
        "ldappasswd {at} -D {name} -W -S",
    ),
}


class _PolicyResponse(ResponseControl):  # type: ignore[misc]
    error: int | None = None

    def decodeControlValue(self, encodedControlValue: bytes) -> None:  # noqa: N802, N803
        self.error = _policy_error(encodedControlValue)


def _simple_bind(handle: Any, uri: str, connection: Connection) -> None:
    """Binds. Raises AccountClosed if the password policy has closed the account, and python-ldap's errors."""
    name, secret = connection.bind_dn or "", connection.read_secret() or b""
    try:
        number = handle.simple_bind(name, secret, [RequestControl(_OID)] if name else None)
        controls = handle.result3(number, resp_ctrl_classes={_OID: _PolicyResponse})[3]
    except ldap.LDAPError as error:
        for oid, _, value in facts_of(error).get("ctrls", ()):
            _require_open(uri, connection, _policy_error(value) if oid == _OID else None)
        raise
    for control in controls:
        _require_open(uri, connection, control.error)


def _policy_error(value: bytes | None) -> int | None:
    """Returns the error in the control's value (BER, all lengths below 128); None if there is no error."""
    value, at = value or b"", 2
    while at + 2 < len(value):
        if value[at] == 0x81:  # [1] error ENUMERATED of PasswordPolicyResponseValue
            return value[at + 2]
        at += 2 + value[at + 1]
    return None


def _require_open(uri: str, connection: Connection, error: int | None) -> None:
    if error in _CLOSED:
        reason, advice, commands = _CLOSED[error]
        who, at = connection.who, f"-x -H {shlex.quote(uri)}"
        text = commands.format(at=at, name=shlex.quote(who), dn=line("dn", who.encode()))
        raise errors.AccountClosed(uri=uri, who=who, reason=reason, advice=advice, commands=tuple(text.split("\n")))
