"""Questions to a server: does it answer, and can it read its databases (asked anonymously, and not for long)? How many
entries has it? What does it tell of itself before entries are read or added: its attributes, controls, suffixes?"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ldap
import msgspec
from ldap.schema.models import AttributeType, ObjectClass

from loader import overlays
from loader.errors import ConnectionLost, LoaderError, NotLdap, SchemaUnreadable, ServerDown, ServerRefused, TlsFailed
from loader.progress import Meter
from loader.server.options import EVERYTHING, Connection
from loader.server.session import Attributes, Session, session

PATIENCE = 15.0  # seconds for one server: a plugin has a minute for all it asks
DEAD = (ServerDown, ConnectionLost, NotLdap)  # nobody answers there
_BROKEN = (ldap.OTHER, ldap.OPERATIONS_ERROR)  # what back-mdb answers if LMDB fails


class Answers(msgspec.Struct, frozen=True):
    """`silence`: why slapd answers at none of its URIs; empty if it answers. `failed`: suffixes of databases that it
    cannot read, and its words."""

    silence: str = ""
    failed: tuple[tuple[str, str], ...] = ()


def of(uris: Sequence[str], suffixes: Sequence[str]) -> Answers:
    """Raises TlsFailed if slapd has only URIs whose certificate libldap does not trust."""
    silent: list[str] = []
    untrusted: TlsFailed | None = None
    for uri in sorted(uris, key=_rank):
        try:
            with hurried(Connection(uri=uri.replace("//*", "//localhost"))) as server:
                return Answers("", tuple(_failed(server, suffixes)))
        except DEAD as error:
            silent.append(str(error))
        except TlsFailed as error:
            untrusted = error
        except LoaderError:
            return Answers()  # it answered that it takes no anonymous bind
    if untrusted is not None:
        raise untrusted
    return Answers("; ".join(silent))


def _rank(uri: str) -> int:
    """ldapi first, for slapd may demand encryption of the others; ldaps last, whose certificate may not be trusted."""
    return {"ldapi": 0, "ldaps": 2}.get(uri.partition(":")[0], 1)


@contextmanager
def hurried(connection: Connection) -> Iterator[Session]:
    """A session that is given up after PATIENCE: then it raises ServerDown or ConnectionLost."""
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
        except LoaderError as error:
            if isinstance(error.__cause__, _BROKEN):
                yield suffix, str(error)


# --- repeated --------------------------------------------------------------------------------------------------------
#
# Many small searches one after the other over one connection, as a simple client has them.


_STEP = 100  # searches between two signs of life
_LIMIT = 86400.0  # seconds for all of them


class Question(msgspec.Struct, frozen=True):
    """A search of a subtree, and how many entries it finds."""

    base: str
    filter: str
    entries: int


def seconds_of(server: Session, questions: Sequence[Question], meter: Meter) -> float:
    """How long they took. Raises ServerRefused if one finds another number of entries."""

    def talk(connection: Any) -> float:
        began = time.monotonic()
        for number, one in enumerate(questions, 1):
            entries = len(connection.search_ext_s(one.base, ldap.SCOPE_SUBTREE, one.filter))
            if entries != one.entries:
                reason = f"{one.filter}: {entries} entries found, {one.entries} expected"
                raise ServerRefused(uri=server.uri, operation="search", reason=reason)
            if not number % _STEP:
                meter.add(_STEP)
        return time.monotonic() - began

    return server.converse("searches", talk, limit=_LIMIT)


# --- entry count -----------------------------------------------------------------------------------------------------
#
# How many entries a provider has, where an account that may only read the tree asks.


_ENOUGH = 100  # entries in a sample
_MOST_COUNTED = 20_000
_SECONDS = 5  # for the server, which looks at every entry: enough for some five million
_STEPS = (8, 4)  # bits: samples of a 256th of the tree, and of a 16th
_EVEN = 1.5  # times that two samples beside each other may differ


def entries(server: Session, suffix: str, sampled: bool) -> int | None:
    """As slapd's monitor counts them, else by a sample (`sampled`: it is worth seconds of the server's work): about.
    None where neither tells."""
    counted = server.counted(suffix)
    return _by_sample(server, suffix) if counted is None and sampled else counted


def _by_sample(server: Session, suffix: str) -> int | None:
    """By the entries with the least entryUUIDs, if UUIDs are spread evenly: twice as many up to twice as far."""
    try:
        for bits in _STEPS:
            one, two = (_count(server, suffix, _below(bits - more)) for more in (0, 1))
            if one is None or two is None:
                return None
            if one >= _ENOUGH:
                even = one / _EVEN < two - one < one * _EVEN
                return two << (bits - 1) if even else None
    except LoaderError:
        pass
    return None


def _below(bits: int) -> str:
    """One of so many bits of the entryUUIDs: 8 for a 256th."""
    return f"(entryUUID<={(1 << 32 - bits) - 1:08x}-ffff-ffff-ffff-ffffffffffff)"


def _count(server: Session, suffix: str, where: str) -> int | None:
    found, whole = server.first(suffix, _MOST_COUNTED, ["1.1"], where, _SECONDS)
    return len(found) if whole else None


# --- subschema -------------------------------------------------------------------------------------------------------


TRANSACTIONS = (b"1.3.6.1.1.21.1", b"1.3.6.1.1.21.3")  # RFC 5805: start and end
_OPENLDAP = b"OpenLDAProotDSE"
# Found anew for each answer by a look at all groups: ten times the cost of the rest of an entry in OpenDJ 4.9. It goes
# by that name in Sun's directory server and its descendants; where clients may set it (eduMember), it is data.
_COSTLY = "ismemberof"
# Syntaxes whose values name entries: DN, and Name And Optional UID (RFC 4517).
_NAMING = ("1.3.6.1.4.1.1466.115.121.1.12", "1.3.6.1.4.1.1466.115.121.1.34")
_WORD = re.compile(r"[0-9A-Za-z._;-]+")
_SHOWN = 200  # characters of a definition in a message


@dataclass(frozen=True)
class SubschemaInfo:
    """`protected`: names, in lower case, of attributes that clients may not set (NO-USER-MODIFICATION, RFC 4512).
    `aliases`: (other name, name that the server shows), in lower case. `openldap`: it is a slapd. `naming`: all names,
    in lower case, of user attributes whose values are DNs. `memberof`: slapd has loaded slapo-memberof. `of_2_7`: it is
    of OpenLDAP 2.7. Both count as true where no schema is shown."""

    transactions: bool
    contexts: tuple[str, ...]
    protected: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...]
    openldap: bool
    naming: tuple[str, ...]
    memberof: bool
    of_2_7: bool


def subschema(server: Session) -> SubschemaInfo:
    """Asked of the root DSE and the subschema; a server that shows no schema has neither names nor aliases here."""
    root = server.read("", ["*", "+"])
    types = list(_types(server, root))
    # slapd shows the settings of its modules, too.
    known = {name.lower() for one in types for name in one.names}
    return SubschemaInfo(
        transactions=all(oid in root.get("supportedextension", []) for oid in TRANSACTIONS),
        contexts=tuple(_texts(root.get("namingcontexts", []))),
        protected=tuple(name.lower() for one in types if one.no_user_mod for name in one.names),
        aliases=tuple((other.lower(), one.names[0].lower()) for one in types for other in _others(one)),
        openldap=_OPENLDAP in root.get("objectclass", []),
        naming=tuple(_naming(types)),
        memberof=not known or "olcmemberofmemberad" in known,
        of_2_7=not known or "olcdbpagesize" in known,
    )


def everything(server: Session) -> tuple[str, ...]:
    """What to ask for to get all of an entry but what costs the server too much and cannot be loaded anyway."""
    root = server.read("", ["objectClass", "subschemaSubentry"])
    if _OPENLDAP in root.get("objectclass", []):
        return EVERYTHING
    operational = [one for one in _types(server, root) if one.usage and one.names]
    names = {one.names[0].lower(): one for one in operational}
    if _COSTLY not in names or not names[_COSTLY].no_user_mod:
        return EVERYTHING
    left_out = {_COSTLY, *(name.lower() for name in overlays.COMPUTED)}
    return ("*", *(one.names[0] for name, one in names.items() if name not in left_out))


def is_openldap(server: Session) -> bool:
    return _OPENLDAP in server.read("", ["objectClass"]).get("objectclass", [])


def object_classes(server: Session) -> Iterator[str]:
    """The first name of each that can be read."""
    root = server.read("", ["subschemaSubentry"])
    for place in _texts(root.get("subschemasubentry", [])):
        found = server.read(place, ["objectClasses"], "(objectClass=subschema)")
        for text in _texts(found.get("objectclasses", [])):
            try:
                names = ObjectClass(text).names
            except Exception:  # as in _type
                continue
            yield from names[:1]


def _types(server: Session, root: Attributes) -> Iterator[AttributeType]:
    for place in _texts(root.get("subschemasubentry", [])):
        found = server.read(place, ["attributeTypes"], "(objectClass=subschema)")
        for text in _texts(found.get("attributetypes", [])):
            yield _type(text, server.uri, place)


def _type(text: str, uri: str, place: str) -> AttributeType:
    """Raises SchemaUnreadable. python-ldap has many ways to say what it cannot read, assertions among them; what it
    reads without a complaint may lack its OID."""
    try:
        found = AttributeType(text)
        whole = _is_whole(found, text)
    except Exception as error:
        raise SchemaUnreadable(uri=uri, place=place, definition=text[:_SHOWN]) from error
    if not whole:
        raise SchemaUnreadable(uri=uri, place=place, definition=text[:_SHOWN])
    return found


def _is_whole(one: AttributeType, text: str) -> bool:
    """Some servers have words for OIDs. Names stand in quotes (RFC 4512), which python-ldap does not ask for."""
    words = all(_WORD.fullmatch(word) for word in (one.oid, *one.names))
    return words and all(f"'{name}'" in text for name in one.names)


def _others(one: AttributeType) -> Sequence[str]:
    """The other names of an attribute type, and its OID."""
    names: Sequence[str] = (*one.names[1:], one.oid)
    return names if one.names else ()


def _naming(types: Sequence[AttributeType]) -> Iterator[str]:
    by_name = {name.lower(): one for one in types for name in (*one.names, one.oid)}
    for name, one in by_name.items():
        syntax, seen = one.syntax, set()
        while not syntax and one.sup and one.oid not in seen:
            seen.add(one.oid)
            one = by_name.get(one.sup[0].lower(), one)
            syntax = one.syntax
        if syntax in _NAMING and not by_name[name].usage:
            yield name


def _texts(values: Sequence[bytes]) -> Iterator[str]:
    for value in values:
        yield value.decode("utf-8", "replace")
