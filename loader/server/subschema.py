"""What a server tells of itself before entries are read or added: its attributes, what it offers, its suffixes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldap.schema.models import AttributeType, ObjectClass

from loader import overlays
from loader.errors import SchemaUnreadable
from loader.server.options import EVERYTHING
from loader.server.session import Attributes, Session

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


def read(session: Session) -> SubschemaInfo:
    """Asked of the root DSE and the subschema; a server that shows no schema has neither names nor aliases here."""
    root = session.read("", ["*", "+"])
    types = list(_types(session, root))
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


def everything(session: Session) -> tuple[str, ...]:
    """What to ask for to get all of an entry but what costs the server too much and cannot be loaded anyway."""
    root = session.read("", ["objectClass", "subschemaSubentry"])
    if _OPENLDAP in root.get("objectclass", []):
        return EVERYTHING
    operational = [one for one in _types(session, root) if one.usage and one.names]
    names = {one.names[0].lower(): one for one in operational}
    if _COSTLY not in names or not names[_COSTLY].no_user_mod:
        return EVERYTHING
    left_out = {_COSTLY, *(name.lower() for name in overlays.COMPUTED)}
    return ("*", *(one.names[0] for name, one in names.items() if name not in left_out))


def is_openldap(session: Session) -> bool:
    return _OPENLDAP in session.read("", ["objectClass"]).get("objectclass", [])


def object_classes(session: Session) -> Iterator[str]:
    """The first name of each that can be read."""
    root = session.read("", ["subschemaSubentry"])
    for place in _texts(root.get("subschemasubentry", [])):
        found = session.read(place, ["objectClasses"], "(objectClass=subschema)")
        for text in _texts(found.get("objectclasses", [])):
            try:
                names = ObjectClass(text).names
            except Exception:  # as in _type
                continue
            yield from names[:1]


def _types(session: Session, root: Attributes) -> Iterator[AttributeType]:
    for place in _texts(root.get("subschemasubentry", [])):
        found = session.read(place, ["attributeTypes"], "(objectClass=subschema)")
        for text in _texts(found.get("attributetypes", [])):
            yield _type(text, session.uri, place)


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
