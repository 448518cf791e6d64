"""Small queries to a server: whether it answers and can read its databases, how long a list of searches takes, how many
entries there are, and what the subschema and the root DSE show."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ldap
import msgspec
from ldap.schema.models import AttributeType, ObjectClass

from loader import errors, overlays
from loader.progress import Meter
from loader.server.options import EVERYTHING, Connection
from loader.server.session import Attributes, Entries, Session, first_value, session

PATIENCE = 15.0  # seconds per server: a monitoring plugin has a minute for all queries
DEAD = (errors.ServerDown, errors.ConnectionLost, errors.NotLdap)  # errors that mean: no LDAP server answers
_BROKEN = (ldap.OTHER, ldap.OPERATIONS_ERROR)  # back-mdb's result codes after an LMDB error


class Answers(msgspec.Struct, frozen=True):
    """A server's condition. `silence`: why slapd answers at none of its URIs; "" if it answers. `failed`: (suffix,
    error message) of each database that slapd cannot read."""

    silence: str = ""
    failed: tuple[tuple[str, str], ...] = ()


def answers_of(uris: Sequence[str], suffixes: Sequence[str]) -> Answers:
    """Checks a slapd and its databases. Raises TlsFailed if TLS fails at a URI and slapd answers at no other URI."""
    silent: list[str] = []
    untrusted: errors.TlsFailed | None = None
    # ldapi first, since slapd may require TLS elsewhere; ldaps last, since its certificate may be untrusted.
    for uri in sorted(uris, key=lambda uri: {"ldapi": 0, "ldaps": 2}.get(uri.partition(":")[0], 1)):
        try:
            with hurried(Connection(uri=uri.replace("//*", "//localhost"))) as server:
                return Answers("", tuple(_failed(server, suffixes)))
        except DEAD as error:
            silent.append(str(error))
        except errors.TlsFailed as error:
            untrusted = error
        except errors.LoaderError:
            return Answers()  # the server answered, but refused the anonymous bind
    if untrusted is not None:
        raise untrusted
    return Answers("; ".join(silent))


@contextmanager
def hurried(connection: Connection) -> Iterator[Session]:
    """Yields a session for PATIENCE seconds. After that time, its operations raise ServerDown or ConnectionLost."""
    late = threading.Event()
    timer = threading.Timer(PATIENCE, late.set)
    timer.daemon = True
    timer.start()
    try:
        with session(connection, late) as server:
            yield server
    finally:
        timer.cancel()


def _failed(server: Session, suffixes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for suffix in suffixes:
        try:
            server.read(suffix, ["1.1"])
        except DEAD as error:
            yield suffix, str(error)
        except errors.LoaderError as error:
            if isinstance(error.__cause__, _BROKEN):
                yield suffix, str(error)


_STEP = 100  # searches between two progress reports
_LIMIT = 86400.0  # seconds for all searches


class Question(msgspec.Struct, frozen=True):
    """A subtree search. `entries`: the number of entries that the search must find."""

    base: str
    filter: str
    entries: int


def seconds_of(server: Session, questions: Sequence[Question], meter: Meter) -> float:
    """Returns the seconds that the searches took, one after the other over one connection. Raises ServerRefused if a
    search finds another number of entries."""

    def search_all(connection: Any) -> float:
        began = time.monotonic()
        for number, question in enumerate(questions, 1):
            entries = len(connection.search_ext_s(question.base, ldap.SCOPE_SUBTREE, question.filter))
            if entries != question.entries:
                reason = f"{question.filter}: {entries} entries found, {question.entries} expected"
                raise errors.ServerRefused(uri=server.uri, operation="search", reason=reason)
            if not number % _STEP:
                meter.add(_STEP)
        return time.monotonic() - began

    return server.call("searches", search_all, limit=_LIMIT)


_ENOUGH = 100  # minimum entries in a sample
_MOST = 20_000  # maximum entries in a sample
_SECONDS = 5  # time limit of a search in which the server evaluates every entry: enough for about five million entries
_EVEN = 1.5  # maximum ratio between the entry counts of the two halves of a sample


class TreeSample(msgspec.Struct, frozen=True):
    """Entries whose entryUUIDs are in a range, from all over the tree. `total`: the number of all entries, estimated
    from these; None if unknown. `is_cut`: a limit ended the search, so there are more such entries."""

    total: int | None = None
    entries: Entries = []
    is_cut: bool = False


def entries(server: Session, suffix: str, sampled: bool) -> int | None:
    """Returns the entry count that cn=Monitor shows. Without it, returns the estimate of `sample_of_tree` if `sampled`
    is set. Returns None if there is neither."""
    exact = server.entry_count(suffix)
    if exact is not None or not sampled:
        return exact
    return sample_of_tree(server, suffix, ["entryUUID"]).total


def sample_of_tree(
    server: Session,
    base: str,
    attributes: Sequence[str],
    bits: int = 8,
    seconds: int = _SECONDS,
    most: int | None = None,
) -> TreeSample:
    """Returns the entries whose entryUUIDs are in the lowest 1/2^bits of all possible ones, with `attributes`, which
    must include entryUUID. If these are fewer than _ENOUGH, searches a range of 16 times the size instead. The server
    evaluates every entry, for at most `seconds` a search. `total` is None if the entryUUIDs are not spread evenly, as
    after a bulk load. `most`: maximum number of entries."""
    sample = TreeSample()
    for narrow in (bits, bits - 4):
        where = f"(entryUUID<={_first_digits(narrow)}-ffff-ffff-ffff-ffffffffffff)"
        try:
            entries, are_all = server.first(base, most or _MOST, attributes, where, seconds)
        except errors.LimitTooLow:
            return TreeSample(is_cut=True)
        except errors.LoaderError:
            return sample
        half = sum(first_value(entry, "entryuuid") <= f"{_first_digits(narrow + 1)}-g" for _, entry in entries)
        is_even = len(entries) >= _ENOUGH and half / _EVEN < len(entries) - half < half * _EVEN
        sample = TreeSample(len(entries) << narrow if is_even and are_all else None, entries, not are_all)
        if len(entries) >= _ENOUGH or not are_all:
            break
    return sample


def _first_digits(bits: int) -> str:
    """Returns the first eight digits of the greatest entryUUID in the lowest 1/2^bits of all possible entryUUIDs."""
    return f"{(1 << 32 - bits) - 1:08x}"


TRANSACTIONS = (b"1.3.6.1.1.21.1", b"1.3.6.1.1.21.3")  # RFC 5805: start and end
_OPENLDAP = b"OpenLDAProotDSE"
# isMemberOf is computed from all groups for each returned entry, which makes an entry ten times slower in OpenDJ 4.9.
# Sun's directory server and its descendants use this name. Where clients may set it (eduMember), it is stored data.
_COSTLY = "ismemberof"
# Syntaxes whose values name entries: DN, and Name And Optional UID (RFC 4517).
_NAMING = ("1.3.6.1.4.1.1466.115.121.1.12", "1.3.6.1.4.1.1466.115.121.1.34")
_WORD = re.compile(r"[0-9A-Za-z._;-]+")
_SHOWN = 200  # maximum characters of a definition in a message


class SubschemaInfo(msgspec.Struct, frozen=True):
    """A server's properties; all names are in lower case. `transactions`: RFC 5805 is supported. `contexts`: suffixes.
    `protected`: names of attributes that clients may not set (NO-USER-MODIFICATION, RFC 4512). `aliases`: (other name,
    name that the server returns). `openldap`: the server is slapd. `naming`: names of user attributes whose values are
    DNs. `ordered`: names of attributes with X-ORDERED. `unmatched`: names of attributes without an equality rule.
    `memberof`, `accesslog`: these overlays are loaded. `of_2_7`: OpenLDAP 2.7. If no schema is visible, `memberof` and
    `of_2_7` are True, and `accesslog` is False."""

    transactions: bool
    contexts: tuple[str, ...]
    protected: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...]
    openldap: bool
    naming: tuple[str, ...]
    ordered: tuple[str, ...]
    unmatched: tuple[str, ...]
    memberof: bool
    accesslog: bool
    of_2_7: bool

    def unwritable(self) -> set[str]:
        """Returns the attributes that clients may not set, or that no server stores."""
        return {*(self.protected or overlays.PROTECTED), *map(str.lower, overlays.COMPUTED)}


def subschema(server: Session) -> SubschemaInfo:
    """Reads the root DSE and the subschema. The result has no names or aliases if the server shows no schema."""
    root = server.read("", ["*", "+"])
    types = list(_types(server, root))
    by_name = {name.lower(): kind for kind in types for name in (*kind.names, kind.oid)}

    def inherited(kind: AttributeType, field: str) -> object:
        visited = set[str]()
        while not getattr(kind, field) and kind.sup and kind.oid not in visited:
            visited.add(kind.oid)
            kind = by_name.get(kind.sup[0].lower(), kind)
        return getattr(kind, field)

    # An overlay is loaded if the subschema has its configuration attributes.
    attributes = {name.lower() for kind in types for name in kind.names}
    return SubschemaInfo(
        transactions=all(oid in root.get("supportedextension", []) for oid in TRANSACTIONS),
        contexts=tuple(value.decode("utf-8", "replace") for value in root.get("namingcontexts", [])),
        protected=tuple(name.lower() for kind in types if kind.no_user_mod for name in kind.names),
        aliases=tuple(
            (name.lower(), kind.names[0].lower())
            for kind in types
            for name in (*kind.names[1:], kind.oid)
            if kind.names
        ),
        openldap=_OPENLDAP in root.get("objectclass", []),
        naming=tuple(name for name, kind in by_name.items() if inherited(kind, "syntax") in _NAMING and not kind.usage),
        ordered=tuple(name for name, kind in by_name.items() if kind.x_ordered),
        unmatched=tuple(name for name, kind in by_name.items() if not inherited(kind, "equality")),
        memberof=not attributes or "olcmemberofmemberad" in attributes,
        accesslog="olcaccesslogdb" in attributes,
        of_2_7=not attributes or "olcdbpagesize" in attributes,
    )


def everything(server: Session) -> tuple[str, ...]:
    """Returns the attributes that a search for whole entries requests: all except a computed isMemberOf, which is slow
    and cannot be loaded."""
    root = server.read("", ["objectClass", "subschemaSubentry"])
    if _OPENLDAP in root.get("objectclass", []):
        return EVERYTHING
    operational = {kind.names[0].lower(): kind for kind in _types(server, root) if kind.usage and kind.names}
    if _COSTLY not in operational or not operational[_COSTLY].no_user_mod:
        return EVERYTHING
    omitted = {_COSTLY, *(name.lower() for name in overlays.COMPUTED)}
    return ("*", *(kind.names[0] for name, kind in operational.items() if name not in omitted))


def is_openldap(server: Session) -> bool:
    return _OPENLDAP in server.read("", ["objectClass"]).get("objectclass", [])


def object_classes(server: Session) -> Iterator[str]:
    """Yields the first name of each object class whose definition can be parsed."""
    for _, text in _definitions(server, server.read("", ["subschemaSubentry"]), "objectClasses"):
        try:
            names = ObjectClass(text).names
        except Exception:  # python-ldap raises errors of many types, as in `_types`
            continue
        yield from names[:1]


def _definitions(server: Session, root: Attributes, kind: str) -> Iterator[tuple[str, str]]:
    """Yields the DN of the subschema and the text of each definition of the given kind."""
    for value in root.get("subschemasubentry", []):
        name = value.decode("utf-8", "replace")
        for text in server.read(name, [kind], "(objectClass=subschema)").get(kind.lower(), []):
            yield name, text.decode("utf-8", "replace")


def _types(server: Session, root: Attributes) -> Iterator[AttributeType]:
    """Parses the definitions of attribute types. Raises SchemaUnreadable if that fails. python-ldap raises exceptions
    of many types, such as AssertionError. It accepts a missing OID and names without quotes (RFC 4512), so both are
    checked here. Some servers use words for OIDs."""
    for subschema_dn, text in _definitions(server, root, "attributeTypes"):
        unreadable = errors.SchemaUnreadable(uri=server.uri, place=subschema_dn, definition=text[:_SHOWN])
        try:
            parsed = AttributeType(text)
            is_whole = all(_WORD.fullmatch(word) for word in (parsed.oid, *parsed.names))
        except Exception as error:
            raise unreadable from error
        if not is_whole or not all(f"'{name}'" in text for name in parsed.names):
            raise unreadable
        yield parsed
