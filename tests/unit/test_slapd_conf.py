"""slapd.conf: which lines an operator must change for a new setting, how its lines are read, and what the conversion of
slapd leaves out, put back from the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import slapd_conf
from loader.backmdb import ROOT
from loader.config import Change, Entry

MAIN = Path("/etc/ldap/slapd.conf")
SUFFIX = "dc=example,dc=com"

TEXT = """\
# Ours. \tdatabase mdb  # in a comment
include /etc/ldap/schema/core.schema
database mdb
suffix "dc=other,dc=com"
maxsize 1
index uid eq

database\tmdb
suffix\t"DC=Example, dc=com"
rootpw "se cret"   # kept
directory /var/lib/ldap
# how large
MaxSize\t 1073741824
index cn,sn
\teq,sub
# a thought about uid
index uid \\
eq
envflags nosync nometasync
overlay syncprov
syncprov-checkpoint 100 10
access to * by * read
"""


def told(text: str, *changes: Change, **others: str) -> list[str]:
    """Of /etc/ldap/slapd.conf, and `others` beside it."""
    texts = {MAIN: text, **{MAIN.parent / f"{name}.conf": other for name, other in others.items()}}
    return slapd_conf.lines_to_change(MAIN, SUFFIX, changes, texts.get)


def maxsize(size: int) -> Change:
    return Change("olcDbMaxSize", ("1073741824",), (str(size),))


def test_the_line_of_that_database() -> None:
    """A setting that is not there goes after the directory, one given twice is given once afterwards."""
    assert told(TEXT, maxsize(7)) == [f"{MAIN}, line 13, in place of `MaxSize 1073741824`:", "maxsize 7"]
    assert told(TEXT.replace("\n", "\r\n"), maxsize(7)) == told(TEXT, maxsize(7))
    assert told(TEXT.replace("MaxSize\t 1073741824\n", ""), maxsize(7)) == [
        f"{MAIN}, line 11, add after `directory /var/lib/ldap` of the database {SUFFIX}:",
        "maxsize 7",
    ]
    assert told(TEXT.replace("overlay", "maxsize 5\noverlay"), maxsize(7)) == [
        f"{MAIN}, line 13, remove `MaxSize 1073741824`",
        f"{MAIN}, line 20, in place of `maxsize 5`:",
        "maxsize 7",
    ]


def test_indexes_that_stay_are_not_named() -> None:
    change = Change("olcDbIndex", ("cn eq,sub", "sn eq,sub", "uid eq"), ("sn eq,sub", "uid eq", "mail eq"))
    assert told(TEXT, change) == [
        f"{MAIN}, line 14 to 15, in place of `index cn,sn eq,sub`:",
        "index sn eq,sub",
        f"{MAIN}, line 17 to 18, add after `index uid eq` of the database {SUFFIX}:",
        "index mail eq",
    ]


def test_an_index_that_slapd_does_not_show_stays() -> None:
    """Its conversion drops "subinitial,subany": what we were not shown is not ours to remove."""
    text = TEXT.replace("index cn,sn", "index title subinitial,subany\nindex cn,sn")
    change = Change("olcDbIndex", ("cn eq,sub", "sn eq,sub", "uid eq"), ("uid eq",))
    assert told(text, change) == [f"{MAIN}, line 15 to 16, remove `index cn,sn eq,sub`"]


def test_flags_and_both_spellings_of_nosync() -> None:
    text = TEXT.replace("overlay syncprov", "dbnosync\noverlay syncprov")
    changes = (Change("olcDbEnvFlags", ("nosync", "nometasync"), ("nometasync",)), Change("olcDbNoSync", ("TRUE",), ()))
    assert told(text, *changes) == [
        f"{MAIN}, line 19, in place of `envflags nosync nometasync`:",
        "envflags nometasync",
        f"{MAIN}, line 20, remove `dbnosync`",
    ]


def test_included_files_and_a_proxy_cache() -> None:
    """Files that two databases include, that include themselves, and that cannot be read."""
    main = "include /nowhere/core.schema\ninclude /etc/ldap/ours.conf\ndatabase monitor\n"
    place, line = told(main, maxsize(7), ours=TEXT)
    assert (place.partition(",")[0], line) == ("/etc/ldap/ours.conf", "maxsize 7")
    one = "database mdb\nsuffix {}\ninclude /etc/ldap/shared.conf\n"
    (place, _) = told(one.format("o=x") + one.format(SUFFIX), maxsize(7), shared="maxsize 5\n")
    assert "shared.conf, line 1 (included more than once: the change counts for each)" in place
    assert list(slapd_conf.statements(MAIN, {MAIN: f"include {MAIN}\n"}.get)) == []
    assert told("include /nowhere/ours.conf\n", maxsize(7)) == [
        f"{MAIN}, in the section of the database {SUFFIX}:",
        "maxsize 7",
    ]
    proxy_cache = f"database mdb\nsuffix {SUFFIX}\noverlay pcache\npcache mdb 1 1 1 1\nmaxsize 5\n"  # of its own
    added = f"{MAIN}, line 1, add after `database mdb` of the database {SUFFIX}:"
    assert told(proxy_cache, maxsize(7)) == [added, "maxsize 7"]


TYPES = [
    b"( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )",
    b"{1}( 0.9.2342.19200300.100.1.3 NAME ( 'mail' 'rfc822Mailbox' ) EQUALITY caseIgnoreIA5Match )",
]
SCHEMA: Entry = (ROOT, {"olcAttributeTypes": TYPES})
CORE: Entry = (f"cn={{0}}core,{ROOT}", {"cn": [b"{0}core"]})


def shown_database(number: int, kind: str, *indexes: str) -> Entry:
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
    found = mended(f"database mdb\n{lines}\n", shown_database(1, "mdb", *shown))
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
    entries = [shown_database(n, kind) for n, kind in enumerate(("config", "monitor", "mdb", "ldif", "mdb"))]
    of_overlay = ("olcDatabase={2}ldap,olcOverlay={0}chain,olcDatabase={-1}frontend,cn=config", {})
    found = mended(text, *entries, of_overlay)
    told = {name: values["olcDbIndex"] for name, values in found.items() if "olcDbIndex" in values}
    assert told == {"olcDatabase={2}mdb,cn=config": ["mail subany"], "olcDatabase={4}mdb,cn=config": ["cn subany"]}


def test_definitions_of_the_text_itself_come_last() -> None:
    own = {"olcObjectIdentifier": [b"{0}my 1.2"], "olcObjectClasses": [b"{0}( my:1 SUP person )"]}
    found = mended("", ("cn=config", own), shown_database(1, "mdb"))
    assert found["cn=config"] == {"olcObjectIdentifier": ["{0}my 1.2"]}
    names = list(found)
    assert names.index(f"cn={{1}}slapd.conf,{ROOT}") == names.index(CORE[0]) + 1
    made = found[f"cn={{1}}slapd.conf,{ROOT}"]
    assert made["olcObjectClasses"] == ["{0}( my:1 SUP person )"]
    assert made["cn"] == ["{1}slapd.conf"]


def test_options_and_paths() -> None:
    for text, options in (("attributeoptions", [""]), ("# attributeoptions", None)):
        assert mended(text, ("cn=config", {}))["cn=config"].get("olcAttributeOptions") == options
    found = mended("", ("cn=config", {"olcPidFile": [b"/run/my slapd.pid"]}))
    assert found["cn=config"]["olcPidFile"] == ['"/run/my slapd.pid"']
    shown = [("cn=config", {"olcDbDirectory": [b'"/a b"', b"/a b", b"/a"]})]
    [(_, values)] = slapd_conf.require_readable(shown)
    assert values["olcDbDirectory"] == [b'"/a b"', b'"/a b"', b"/a"]
