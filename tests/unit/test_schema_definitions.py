"""The order in which schema definitions are handed on, and which of them count as compiled in."""

from __future__ import annotations

from pathlib import Path

from loader import config, schema
from loader.config import Entry

COMPILED: Entry = (
    schema.ROOT,
    {
        "olcObjectClasses": [b"( 2.5.6.0 NAME 'top' )"],
        "olcObjectIdentifier": [b"OLcfg 1.3.6.1.4.1.4203.1.12.2"],
        "olcAttributeTypes": [b"( 2.5.4.41 NAME 'name' )", b"( 2.5.4.3 NAME 'cn' SUP name )"],
    },
)
STALE: Entry = (schema.ROOT, {"olcAttributeTypes": [b"( 2.5.4.41 NAME 'of an earlier slapd' )"]})
LOADED: Entry = (
    "CN={0}core,cn=schema,cn=config",
    {"olcattributetypes": [b"{1}( 1.2.3 NAME 'loaded' )"], "olcObjectIdentifier": [b"{0}my 1.2"]},
)
OWN: Entry = ("cn=config", {"olcObjectIdentifier": [b"{0}own 1.3"], "olcAttributeTypes": [b"{0}( own:1 DESC '\xff' )"]})
OF_SLAPD = [
    ("macro", "OLcfg 1.3.6.1.4.1.4203.1.12.2", True),
    ("attribute", "( 2.5.4.41 NAME 'name' )", True),
    ("attribute", "( 2.5.4.3 NAME 'cn' SUP name )", True),
    ("class", "( 2.5.6.0 NAME 'top' )", True),
]
OF_FILES = [("macro", "my 1.2", False), ("attribute", "( 1.2.3 NAME 'loaded' )", False)]
OF_ITSELF = [("attribute", "( own:1 DESC '\ufffd' )", False)]
MACRO = [("macro", "own 1.3", False)]


def test_order(tmp_path: Path) -> None:
    """slapd.d is read from its root down."""
    found = schema.definitions(config.parse(tmp_path, [OWN, STALE, LOADED]), [COMPILED])
    assert found == [*OF_SLAPD, *MACRO, *OF_ITSELF, *OF_FILES]


def test_names_that_mean_one_attribute() -> None:
    definitions: list[schema.Definition] = [
        ("attribute", "( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )", True),
        ("attribute", "( MyAttr:1 NAME 'mine' SUP name )", False),
        ("attribute", "( 1.2.3 DESC 'without a name' SUP name )", False),
        ("class", "( 2.5.4.3 NAME ( 'mine' 'sn' ) )", False),
    ]
    used = ["commonname", "mine", "2.5.4.3", "sn", "1.2.3", "cn"]
    assert dict(schema.synonyms(definitions, used)) == {"2.5.4.3": "commonname", "cn": "commonname"}
