"""What is read out of cn=config, from entries as slapcat and a search print them: settings, which database holds what
by slapd's glue, and schema definitions in their order."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import backmdb, config
from loader.config import Entry
from loader.errors import ConfigValue, ManySuffixes, NoSuchSuffix, NotMdb
from tests.support.configured import SUFFIX, entry, mdb, parsed


def test_every_setting_of_a_database() -> None:
    found = parsed(
        mdb(
            *(1, "dc=Example, dc=com"),
            olcDbDirectory="/var/lib/ldap",
            olcDbMaxSize="1073741824",
            olcDbMode="0640",
            olcDbIndex=["objectClass eq", "cn,sn eq,sub"],
            olcDbEnvFlags=["{0}nosync nometasync", "{1}writemap"],
            olcRootDN="cn=admin",
            olcRootPW="secret",
            olcSyncrepl="{0}rid=1",
            olcDbCheckpoint="0 5",
        ),
        entry("olcOverlay={0}syncprov,olcDatabase={1}mdb,cn=config", olcOverlay="{0}syncprov"),
        entry("olcOverlay={0}memberof,olcDatabase={11}mdb,cn=config", olcOverlay="{0}memberof"),
    ).database(SUFFIX)
    assert (found.directory, found.maxsize, found.mode) == (Path("/var/lib/ldap"), 1 << 30, 0o640)
    assert found.indexes == ("objectClass eq", "cn,sn eq,sub")
    assert (found.nosync, found.env_flags) == (True, ("nosync", "nometasync", "writemap"))
    assert (found.consumer, found.overlays, found.checkpoint) == (True, ("syncprov",), "0 5")
    assert found.root_dn == "cn=admin"
    assert "secret" not in repr(found)


def test_defaults_of_slapd() -> None:
    found = parsed(mdb(1)).database(None)
    assert (found.maxsize, found.mode, found.nosync, found.directory) == (10_485_760, 0o600, False, None)


def test_names_in_lower_case_as_a_search_brings_them() -> None:
    values = {"olcdatabase": [b"{1}mdb"], "olcsuffix": [b"dc=a"], "olcdbnosync": [b"TRUE"]}
    found = parsed(("olcDatabase={1}mdb,cn=config", values))
    assert found.database("DC=A").nosync
    assert found.values("OLCDATABASE={1}MDB,cn=config", "olcDbNoSync") == ("TRUE",)
    assert found.values("olcDatabase={2}mdb,cn=config", "olcDbNoSync") == ()


@pytest.mark.parametrize(
    ("text", "mode"),
    [("0600", 0o600), ("0640", 0o640), ("-rw-r-----", 0o640), ("-rw-------", 0o600), ("384", 0o600), ("0", 0)],
)
def test_forms_of_mode(text: str, mode: int) -> None:
    """A number without the leading zero is decimal to slapd, too."""
    assert parsed(mdb(1, olcDbMode=text)).database(None).mode == mode


@pytest.mark.parametrize(
    ("values", "number"),
    [
        (["1"], 1),
        (["0x01F"], 31),
        (["010"], 10),  # never octal
        (["1f"], 31),
        (['"2"'], 2),
        (["0"], 0),
        (["1 ldap://a", "2 ldap://b"], None),
        (["1 ldap://a"], None),
    ],
)
def test_server_id(values: list[str], number: int | None) -> None:
    assert parsed(entry("cn=config", olcServerID=values)).server_id == number


def test_the_only_database_is_the_one_with_the_data() -> None:
    log = entry("olcOverlay={1}accesslog,olcDatabase={2}mdb,cn=config", olcAccessLogDB="cn=changes")
    others = [entry(f"olcDatabase={name},cn=config", olcDatabase=name) for name in ("{-1}frontend", "{4}monitor")]
    found = parsed(mdb(1, "cn=changes"), mdb(2), mdb(3, "cn=accesslog"), log, *others)
    assert found.database(None).entry_dn == "olcDatabase={2}mdb,cn=config"
    assert found.database("cn=Changes").entry_dn == "olcDatabase={1}mdb,cn=config"
    assert len(found.mdb_databases) == 3


def test_which_database_is_meant() -> None:
    hdb = entry("olcDatabase={3}hdb,cn=config", olcDatabase="{3}hdb", olcSuffix="dc=old")
    found = parsed(mdb(1, olcDbMaxSize="7"), mdb(2, "dc=other"), hdb)
    with pytest.raises(ManySuffixes) as many:
        found.database(None)
    assert "dc=other" in str(many.value)
    assert "dc=old" not in str(many.value), "that is no mdb database"
    with pytest.raises(NoSuchSuffix) as none:
        found.database("dc=none")
    assert SUFFIX in str(none.value)
    with pytest.raises(NotMdb):
        found.database("dc=old")
    with pytest.raises(NoSuchSuffix):
        parsed(hdb).database(None)


def test_the_empty_suffix() -> None:
    """Its own database is meant, not one of all; one with a longer suffix answers to that."""
    found = parsed(mdb(1, "ou=inner,dc=com"), mdb(2, ""))
    assert found.database("").entry_dn == "olcDatabase={2}mdb,cn=config"
    assert found.database("OU=Inner, dc=com").entry_dn == "olcDatabase={1}mdb,cn=config"
    with pytest.raises(ManySuffixes, match=r'\(ou=inner,dc=com, ""\)'):
        found.database(None)
    with pytest.raises(NoSuchSuffix, match='suffix ""'):
        parsed(mdb(1)).database("")


def test_values_that_slapd_cuts_into_words() -> None:
    found = parsed(
        mdb(
            1,
            olcDbDirectory='"/var/lib/ldap main"',
            olcDbMaxSize='"20971520"',
            olcDbMode='384"',
            olcDbIndex=['"cn,sn" eq'],
            olcDbEnvFlags='"NoSync" writemap',
            olcRootDN='"cn=admin"',
        )
    ).database(None)
    assert found.directory == Path("/var/lib/ldap main")
    assert (found.maxsize, found.mode, found.nosync) == (20 << 20, 0o600, True)
    assert (found.indexes, found.root_dn) == (("cn,sn eq",), "cn=admin")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("olcDbMaxSize", "20 MB"),
        ("olcDbMaxSize", "1_000"),
        ("olcDbMode", "rw-------"),
        ("olcDbMode", "0900"),
        ("olcDbDirectory", "/var/lib/ldap main"),
        ("olcDbNoSync", "perhaps"),
    ],
)
def test_a_value_that_slapd_would_refuse(name: str, value: str) -> None:
    with pytest.raises(ConfigValue, match=name):
        parsed(mdb(1, **{name: value}))


def test_bytes_that_are_no_utf_8() -> None:
    entry_dn = "olcDatabase={1}mdb,cn=config"
    found = {"olcDatabase": [b"{1}mdb"], "olcSuffix": [b"o=x"], "olcDbDirectory": [b"/a\xff"]}
    database = parsed((entry_dn, found)).database(None)
    assert database.directory == Path(os.fsdecode(b"/a\xff"))


TOP, A, B = "dc=example,dc=com", "ou=a,dc=example,dc=com", "ou=b,ou=a,dc=example,dc=com"


LDAP = entry("olcDatabase={2}ldap,cn=config", olcDatabase="{2}ldap", olcSuffix=A, olcSubordinate="advertise")
SPELT = "OU=A, dc=Example,DC=com"
GLUED = {"olcSubordinate": "TRUE"}


@pytest.mark.parametrize(
    ("databases", "glued", "below"),
    [
        pytest.param((mdb(1, B, **GLUED), LDAP), {TOP: [B, A]}, {TOP: [B, A]}, id="nested"),
        pytest.param((mdb(1, B, **GLUED), mdb(2, A)), {A: [B]}, {TOP: [B, A]}, id="below one that is not glued"),
        pytest.param(
            *((mdb(1, SPELT, **GLUED), mdb(2, "dc=other")), {TOP: [SPELT]}, {TOP: [SPELT], "dc=other": []}),
            id="another spelling and another tree",
        ),
        pytest.param((mdb(1, B, olcHidden="TRUE"), mdb(2, A, olcDisabled="TRUE")), {}, {TOP: []}, id="answer nothing"),
    ],
)
def test_glued_databases(
    databases: tuple[Entry, ...], glued: dict[str, list[str]], below: dict[str, list[str]]
) -> None:
    """`glued`: the suffixes that are glued to a superior. `below`: all that are below one."""
    known = parsed(*databases, mdb(3, TOP))
    parts = {one.suffix: config.subordinates(known, one) for one in known.databases}
    assert {superior: [one.suffix for one in found] for superior, found in parts.items() if found} == glued
    assert config.superior(known, known.databases[2]) is None
    assert {one.suffix: config.suffixes_below(known, one) for one in known.databases if one.suffix in below} == below


COMPILED_IN: Entry = (
    backmdb.ROOT,
    {
        "olcObjectClasses": [b"( 2.5.6.0 NAME 'top' )"],
        "olcObjectIdentifier": [b"OLcfg 1.3.6.1.4.1.4203.1.12.2"],
        "olcAttributeTypes": [b"( 2.5.4.41 NAME 'name' )", b"( 2.5.4.3 NAME 'cn' SUP name )"],
    },
)
STALE: Entry = (backmdb.ROOT, {"olcAttributeTypes": [b"( 2.5.4.41 NAME 'of an earlier slapd' )"]})
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


def test_the_order_of_definitions(tmp_path: Path) -> None:
    """slapd.d is read from its root down."""
    found = backmdb.definitions(config.parse(tmp_path, [OWN, STALE, LOADED]), [COMPILED_IN])
    assert found == [*OF_SLAPD, *MACRO, *OF_ITSELF, *OF_FILES]


def test_names_that_mean_one_attribute() -> None:
    definitions: list[backmdb.Definition] = [
        ("attribute", "( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )", True),
        ("attribute", "( MyAttr:1 NAME 'mine' SUP name )", False),
        ("attribute", "( 1.2.3 DESC 'without a name' SUP name )", False),
        ("class", "( 2.5.4.3 NAME ( 'mine' 'sn' ) )", False),
    ]
    used = ["commonname", "mine", "2.5.4.3", "sn", "1.2.3", "cn"]
    assert dict(backmdb.synonyms(definitions, used)) == {"2.5.4.3": "commonname", "cn": "commonname"}


# --- words of lines of slapd.conf, and of values of cn=config ---------------------------------------

TEXT = st.text(st.sampled_from('ab" \t\\é'))


@pytest.mark.parametrize(
    ("words_of", "text", "said"),
    [
        (config.words_of_line, "index cn,sn\teq", ["index", "cn,sn", "eq"]),
        (config.words_of_line, 'suffix "o=a b"', ["suffix", "o=a b"]),
        (config.words_of_line, 'x a"b c"d', ["x", "ab cd"]),
        (config.words_of_line, r"x a\ b \"c\\", ["x", "a b", '"c\\']),
        (config.words_of_line, r'x "a\" b"', ["x", 'a" b']),
        (config.words_of_line, r'rootpw "a\"b\\c"', ["rootpw", r'a"b\c']),
        (config.words_of_line, 'index "cn" eq # x', ["index", "cn", "eq", "#", "x"]),
        (config.words_of_line, 'suffix ""', ["suffix", ""]),
        (config.words_of_line, "a\\", ["a\\"]),
        (config.words_of_line, "a\vb", ["a\vb"]),
        (config.words_of_line, "  ", []),
        (config.words_of_value, '"cn,sn" eq', ["cn,sn", "eq"]),
        (config.words_of_value, '"/a b"', ["/a b"]),
        (config.words_of_value, r"a\ b", ["a\\", "b"]),
        (config.words_of_value, '384"', ["384"]),
        (config.words_of_value, 'a"b c"', ["ab c"]),
        (config.words_of_value, '"a"b c" d', ["ab c", "d"]),
        (config.words_of_value, 'a"b"c d" e', ['a"bc d', "e"]),
        (config.words_of_value, "a\vb", ["a", "b"]),
        (config.words_of_value, '""', [""]),
        (config.words_of_value, "", []),
    ],
)
def test_words(words_of: Callable[[str], list[str]], text: str, said: list[str]) -> None:
    assert words_of(text) == said


@given(TEXT)
def test_a_word_of_a_line_comes_back(word: str) -> None:
    assert config.words_of_line(f"x {config.line_of_word(word)} y") == ["x", word, "y"]


@given(st.text(st.sampled_from("ab \t\\é")))
def test_a_word_of_a_value_comes_back(word: str) -> None:
    """But for quotes inside, which values of cn=config cannot all tell."""
    assert config.words_of_value(f"x {config.value_of_word(word)} y") == ["x", word, "y"]
