"""What a server tells of itself before entries are added: its schema's attributes, what it offers, its suffixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldap.schema.models import AttributeType

from loader.server.session import Attributes, Session

TRANSACTIONS = (b"1.3.6.1.1.21.1", b"1.3.6.1.1.21.3")  # RFC 5805: start and end
_OPENLDAP = b"OpenLDAProotDSE"


@dataclass(frozen=True)
class Offer:
    """`protected`: names, in lower case, of attributes that clients may not set (NO-USER-MODIFICATION, RFC 4512).
    `aliases`: (other name, name that the server shows), in lower case. `openldap`: it is a slapd."""

    transactions: bool
    contexts: tuple[str, ...]
    protected: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...]
    openldap: bool


def offer(session: Session) -> Offer:
    """Asked of the root DSE and the subschema; a server that shows no schema has neither names nor aliases here."""
    root = session.read("", ["*", "+"])
    types = list(_types(session, root))
    return Offer(
        transactions=all(oid in root.get("supportedextension", []) for oid in TRANSACTIONS),
        contexts=tuple(_texts(root.get("namingcontexts", []))),
        protected=tuple(name.lower() for one in types if one.no_user_mod for name in one.names),
        aliases=tuple(
            (other.lower(), one.names[0].lower()) for one in types for other in _others(one)
        ),
        openldap=_OPENLDAP in root.get("objectclass", []),
    )


def _types(session: Session, root: Attributes) -> Iterator[AttributeType]:
    for place in _texts(root.get("subschemasubentry", [])):
        found = session.read(place, ["attributeTypes"], "(objectClass=subschema)")
        yield from map(AttributeType, _texts(found.get("attributetypes", [])))


def _others(one: AttributeType) -> Sequence[str]:
    """The other names of an attribute type, and its OID."""
    names: Sequence[str] = (*one.names[1:], one.oid)
    return names if one.names else ()


def _texts(values: Sequence[bytes]) -> Iterator[str]:
    for value in values:
        yield value.decode("utf-8", "replace")
