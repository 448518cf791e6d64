"""What a server says of its schema is not always one; no slapd shows such, so a few values play it."""

from __future__ import annotations

from typing import Any

import pytest

from loader.errors import SchemaUnreadable
from loader.server import subschema

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
        *(
            b"",
            b"(",
            b"()",
            b"1.2.3",
            b"( 1.2.3",
            b"( 1.2.3 NAME )",
            b"( 1.2.3 NAME( 'a' EQUALITY b )",
            b"( 1.2 SYNTAX 1.2{a} )",
            b"\0",
        ),
        *(b"( 1.2.3 NAME ( 'a' 'b' SUP )", b"( 1.2.3 NAME 'a b' )", b"\xff\xfe", b"(" * 5000),
    ],
)
def test_an_attribute_type_that_cannot_be_read(broken: bytes) -> None:
    """[internal], or an attribute of no name, which protects nothing."""
    server: Any = Server(GOOD, broken)
    for ask in (subschema.read, subschema.everything):
        with pytest.raises(SchemaUnreadable, match="cn=Subschema"):
            ask(server)


def test_words_for_oids() -> None:
    server: Any = Server(GOOD, b"( nsUniqueId-oid NAME 'nsUniqueId' NO-USER-MODIFICATION )")
    assert subschema.read(server).protected == ("createtimestamp", "nsuniqueid")
