"""What slapd's conversion of a slapd.conf leaves out, put back from the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import slapd_conf
from loader.config import Entry
from loader.schema import ROOT

MAIN = Path("/etc/ldap/slapd.conf")
TYPES = [
    b"( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )",
    b"{1}( 0.9.2342.19200300.100.1.3 NAME ( 'mail' 'rfc822Mailbox' ) EQUALITY caseIgnoreIA5Match )",
]
SCHEMA: Entry = (ROOT, {"olcAttributeTypes": TYPES})
CORE: Entry = (f"cn={{0}}core,{ROOT}", {"cn": [b"{0}core"]})


def database(number: int, kind: str, *indexes: str) -> Entry:
    found = {"olcDbIndex": [one.encode() for one in indexes]} if indexes else {}
    return f"olcDatabase={{{number}}}{kind},cn=config", found


def mended(text: str, *entries: Entry) -> dict[str, dict[str, list[str]]]:
    said = list(slapd_conf.statements(MAIN, {MAIN: text}.get))
    return {
        name: {key: [value.decode() for value in values] for key, values in attributes.items()}
        for name, attributes in slapd_conf.restored([SCHEMA, CORE, *entries], said)
    }


@pytest.mark.parametrize(
    ("lines", "shown", "expected"),
    [
        ("index mail eq,subinitial,subany", ["mail eq"], ["mail eq,subinitial,subany"]),
        ("index mail subfinal", [], ["mail subfinal"]),
        ("index rfc822Mailbox,commonName eq,subany", ["cn eq", "mail eq"], ["cn eq,subany", "mail eq,subany"]),
        ("index 2.5.4.3;lang-en;Lang-de subany", [], ["cn;lang-de;lang-en subany"]),
        ("index default subany\nindex mail", [], ["default subany", "mail subany"]),
        ("index cn eq", ["cn eq"], ["cn eq"]),
        ("", ["cn eq"], ["cn eq"]),  # in a file that only slapd can read
        ("overlay pcache\nindex mail subany", ["cn eq"], ["cn eq"]),
    ],
)
def test_indexes(lines: str, shown: list[str], expected: list[str]) -> None:
    found = mended(f"database mdb\n{lines}\n", database(1, "mdb", *shown))
    assert found["olcDatabase={1}mdb,cn=config"].get("olcDbIndex", []) == expected


def test_databases_are_told_apart() -> None:
    """Frontend and config have numbers of their own, as the databases of an overlay have; a backend is no database."""
    text = """\
database config
database frontend
backend mdb
database monitor
DATABASE MDB
index mail subany
database ldif
database mdb
index cn subany
"""
    entries = [database(n, kind) for n, kind in enumerate(("config", "monitor", "mdb", "ldif", "mdb"))]
    of_overlay = ("olcDatabase={2}ldap,olcOverlay={0}chain,olcDatabase={-1}frontend,cn=config", {})
    found = mended(text, *entries, of_overlay)
    told = {name: values["olcDbIndex"] for name, values in found.items() if "olcDbIndex" in values}
    assert told == {"olcDatabase={2}mdb,cn=config": ["mail subany"], "olcDatabase={4}mdb,cn=config": ["cn subany"]}


def test_definitions_of_the_text_itself_come_last() -> None:
    own = {"olcObjectIdentifier": [b"{0}my 1.2"], "olcObjectClasses": [b"{0}( my:1 SUP person )"]}
    found = mended("", ("cn=config", own), database(1, "mdb"))
    assert found["cn=config"] == {"olcObjectIdentifier": ["{0}my 1.2"]}
    names = list(found)
    assert names.index(f"cn={{1}}slapd.conf,{ROOT}") == names.index(CORE[0]) + 1
    made = found[f"cn={{1}}slapd.conf,{ROOT}"]
    assert made["olcObjectClasses"] == ["{0}( my:1 SUP person )"]
    assert made["cn"] == ["{1}slapd.conf"]


@pytest.mark.parametrize(("text", "options"), [("attributeoptions", [""]), ("# attributeoptions", None)])
def test_no_options(text: str, options: list[str] | None) -> None:
    assert mended(text, ("cn=config", {}))["cn=config"].get("olcAttributeOptions") == options


def test_paths() -> None:
    found = mended("", ("cn=config", {"olcPidFile": [b"/run/my slapd.pid"]}))
    assert found["cn=config"]["olcPidFile"] == ['"/run/my slapd.pid"']
    shown = [("cn=config", {"olcDbDirectory": [b'"/a b"', b"/a b", b"/a"]})]
    [(_, values)] = slapd_conf.require_readable(shown)
    assert values["olcDbDirectory"] == [b'"/a b"', b'"/a b"', b"/a"]
