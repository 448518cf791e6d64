"""What a server says of its schema is not always one; no slapd shows such, so a few values play it."""

from __future__ import annotations

from typing import Any

import pytest

from loader.errors import SchemaUnreadable
from loader.server import questions

GOOD = b"( 2.5.18.1 NAME 'createTimestamp' NO-USER-MODIFICATION USAGE directoryOperation )"


class Server:
    uri = "ldap://server"

    def __init__(self, *types: bytes) -> None:
        self._types = list(types)

    def read(self, dn: str, *asked: object) -> dict[str, list[bytes]]:
        return {"attributetypes": self._types} if dn else {"subschemasubentry": [b"cn=Subschema"]}


@pytest.mark.parametrize(
    "broken",
    [
        *(b"", b"(", b"()", b"1.2.3", b"( 1.2.3", b"( 1.2.3 NAME )", b"( 1.2.3 NAME( 'a' EQUALITY b )", b"\0"),
        *(b"( 1.2 SYNTAX 1.2{a} )", b"( 1.2.3 NAME ( 'a' 'b' SUP )", b"( 1.2.3 NAME 'a b' )", b"\xff\xfe"),
        b"(" * 5000,
    ],
)
def test_an_attribute_type_that_cannot_be_read(broken: bytes) -> None:
    """[internal], or an attribute of no name, which protects nothing."""
    server: Any = Server(GOOD, broken)
    for ask in (questions.subschema, questions.everything):
        with pytest.raises(SchemaUnreadable, match="cn=Subschema"):
            ask(server)


def test_words_for_oids() -> None:
    server: Any = Server(GOOD, b"( nsUniqueId-oid NAME 'nsUniqueId' NO-USER-MODIFICATION )")
    assert questions.subschema(server).protected == ("createtimestamp", "nsuniqueid")


def test_attributes_that_name_entries() -> None:
    """By their syntax, or that of a type above; those that clients do not set are none."""
    dn, optional_uid = "1.3.6.1.4.1.1466.115.121.1.12", "1.3.6.1.4.1.1466.115.121.1.34"
    types = (
        f"( 2.5.4.49 NAME 'distinguishedName' SYNTAX {dn} )",
        "( 2.5.4.31 NAME 'member' SUP distinguishedName )",
        "( 1.1 NAME ( 'ownMember' 'mine' ) SUP MEMBER )",
        f"( 2.5.4.50 NAME 'uniqueMember' SYNTAX {optional_uid} )",
        f"( 2.5.18.3 NAME 'creatorsName' SYNTAX {dn} NO-USER-MODIFICATION USAGE directoryOperation )",
        "( 2.5.4.3 NAME 'cn' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
        "( 1.2 NAME 'circle' SUP ring )",
        "( 1.3 NAME 'ring' SUP circle )",
        "( 1.4 NAME 'lost' SUP unknown )",
    )
    server: Any = Server(*map(str.encode, types))
    named = {name for name in questions.subschema(server).naming if not name[0].isdigit()}
    assert named == {"distinguishedname", "member", "ownmember", "mine", "uniquemember"}


def test_what_a_slapd_has_loaded() -> None:
    """By the settings that it shows in its subschema. Of a server that shows none anything may be true."""
    for types, memberof, of_2_7 in (
        ((GOOD, b"( 1.1 NAME 'olcMemberOfMemberAD' )"), True, False),
        ((GOOD, b"( 1.2 NAME 'olcDbPageSize' )"), False, True),
        ((), True, True),
    ):
        server: Any = Server(*types)
        shown = questions.subschema(server)
        assert (shown.memberof, shown.of_2_7) == (memberof, of_2_7), types
