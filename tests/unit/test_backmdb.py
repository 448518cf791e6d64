"""What decides the contents of a database, read out of cn=config with slapd's defaults; every setting of slapd has one
known effect, and a setting that is not listed is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from loader import backmdb
from loader.backmdb import Settings
from loader.config import Config, Entry
from loader.errors import NotProven, SettingRefused
from tests.support.configured import SUFFIX, entry, mdb, parsed

FRONTEND = "olcDatabase={-1}frontend,cn=config"


def settings(*others: Entry, of_2_7: bool = False, **own: str | list[str]) -> Settings:
    found = parsed(*others, mdb(1, **own))
    return backmdb.settings(found, found.database(None), of_2_7=of_2_7)


def test_slapds_defaults() -> None:
    none: dict[str, Any] = dict.fromkeys(("foreign", "indexes", "multival", "sortvals"), ())
    off: dict[str, Any] = dict.fromkeys(("hash64", "translucent", "subentry", "of_2_7"), False)
    sizes: dict[str, Any] = {"intlen": 4, "substr": (2, 4, 4), "idlexp": 16, "max_entry_size": 0, "page_size": 4096}
    names: dict[str, Any] = {"suffixes": (SUFFIX,), "root_dn": None, "attribute_options": ("lang-",)}
    assert settings() == Settings(**none, **off, **sizes, **names, last_mod=True)


def test_what_2_7_does_otherwise() -> None:
    found = settings(of_2_7=True, olcDbIndex="cn eq", olcDbPageSize="16384")
    assert found.indexes == (("cn", ("eq",)), ("objectClass", ("eq",)))
    assert (found.hash64, found.page_size) == (True, 16384)
    off = entry("cn=config", olcIndexHash64="FALSE")
    found = settings(off, of_2_7=True, olcDbIndex="ObjectClass pres,eq")
    assert found.indexes == (("ObjectClass", ("pres", "eq")),)
    assert not found.hash64


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["objectClass eq"], [("objectClass", ("eq",))]),
        (["{0}cn,sn eq,sub"], [("cn", ("eq", "sub")), ("sn", ("eq", "sub"))]),
        (["cn sub,pres,approx,EQ"], [("cn", ("pres", "eq", "approx", "sub"))]),
        (["default pres,eq", "cn", "uid sub"], [("cn", ("pres", "eq")), ("uid", ("sub",))]),
        (["default pres", "default eq", "cn"], [("cn", ("pres", "eq"))]),
        (["cn subinitial"], [("cn", ("sub",))]),
        (["cn subany,subfinal,substr"], [("cn", ("sub",))]),
        (["cn eq,nolang,notags,nosubtypes"], [("cn", ("eq",))]),
        (["cn notags"], [("cn", ())]),
        (["description;lang-de eq"], [("description;lang-de", ("eq",))]),
        (["uid eq", "cn eq"], [("uid", ("eq",)), ("cn", ("eq",))]),
    ],
)
def test_forms_of_index(lines: list[str], expected: list[backmdb.Index]) -> None:
    assert list(settings(olcDbIndex=lines).indexes) == expected


def test_an_unknown_kind_of_index_is_refused() -> None:
    with pytest.raises(NotProven, match="index cn fuzzy"):
        settings(olcDbIndex="cn eq,fuzzy")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["member 100,50"], [("member", 100)]),
        (["{0}member,uniqueMember  100,50"], [("member", 100), ("uniqueMember", 100)]),
        (["default 1000,500", "cn;lang-de 5,3"], [("default", 1000), ("cn;lang-de", 5)]),
        (["default 4294967295,0"], []),  # how slapd says: never
        (["member 4294967296,0"], [("member", 0)]),  # an unsigned int of C
    ],
)
def test_forms_of_multival(lines: list[str], expected: list[tuple[str, int]]) -> None:
    assert list(settings(olcDbMultival=lines).multival) == expected


def test_spellings_of_numbers_and_switches() -> None:
    """intlen has slapd's bounds. Of two values, the one that slapd reads last holds."""
    for text, length in {"1": 4, "4": 4, "8": 8, "0x10": 16, "300": 255}.items():
        assert settings(entry("cn=config", olcIndexIntLen=text)).intlen == length, text
    for text, on in {"TRUE": True, "on": True, "FALSE": False, "off": False}.items():
        assert settings(entry("cn=config", olcIndexHash64=text)).hash64 == on, text
    assert settings(entry("cn=config", olcIndexIntLen="4"), entry(FRONTEND, olcIndexIntLen="8")).intlen == 8


def test_all_attributes_that_are_named() -> None:
    multival = ["default 10,5", "uniqueMember 10,5"]
    frontend = entry(FRONTEND, olcSortVals="member")
    found = settings(frontend, olcDbIndex=["default eq", "cn", "member eq"], olcDbMultival=multival)
    assert found.attributes == ("cn", "member", "uniqueMember")


DATABASE = "olcDatabase={1}mdb,cn=config"
BACKEND = "olcBackend={0}mdb,cn=config"
# For each setting that decides what is stored, a value that is not slapd's default, and what becomes of it.
VALUES: dict[str, tuple[str | list[str], str, object]] = {
    "olcAttributeOptions": (["lang-", "x-foo- x-bar"], "attribute_options", ("lang-", "x-foo-", "x-bar")),
    "olcIndexHash64": ("TRUE", "hash64", True),
    "olcIndexIntLen": ("8", "intlen", 8),
    "olcIndexSubstrAnyLen": ("5", "substr", (2, 4, 5)),
    "olcIndexSubstrIfMaxLen": ("6", "substr", (2, 6, 4)),
    "olcIndexSubstrIfMinLen": ("3", "substr", (3, 4, 4)),
    "olcSortVals": ("member uniqueMember", "sortvals", ("member", "uniqueMember")),
    "olcSuffix": ("dc=other", "suffixes", ("dc=other",)),
    "olcRootDN": ("cn=admin", "root_dn", "cn=admin"),
    "olcLastMod": ("FALSE", "last_mod", False),
    "olcSyncUseSubentry": ("TRUE", "subentry", True),
    "olcDbIndex": ("cn eq", "indexes", (("cn", ("eq",)),)),
    "olcDbMaxEntrySize": ("1000000", "max_entry_size", 1_000_000),
    "olcDbMultival": ("member 10,5", "multival", (("member", 10),)),
    "olcDbPageSize": ("16384", "page_size", 16384),
    "olcBkMdbIdlExp": ("17", "idlexp", 17),
}
# Decides which substring keys a search looks for, and none of those that are stored.
SEARCHES_ONLY = {"olcIndexSubstrAnyStep"}


def of(*entries: tuple[str, dict[str, str | list[str]]]) -> Config:
    """A configuration with one mdb database, whose entries have these attributes besides."""
    made: dict[str, dict[str, str | list[str]]] = {
        "cn=config": {"objectClass": "olcGlobal", "cn": "config"},
        DATABASE: {"objectClass": "olcMdbConfig", "olcDatabase": "{1}mdb", "olcSuffix": SUFFIX},
    }
    for dn, attributes in entries:
        made[dn] = {**made.get(dn, {}), **attributes}
    return parsed(*(entry(dn, **attributes) for dn, attributes in made.items()))


def ask(*entries: tuple[str, dict[str, str | list[str]]]) -> None:
    found = of(*entries)
    backmdb.require_supported(found, found.mdb_databases[0])


@pytest.mark.parametrize("object_class", backmdb.effects())
def test_every_setting_is_listed_once_with_an_effect(object_class: str) -> None:
    effects = backmdb.effects()[object_class]
    assert len({name.lower() for name in effects}) == len(effects)
    assert set(effects.values()) <= {backmdb.STORED, backmdb.TOOLS, backmdb.ENCRYPTS, "-"}


def test_what_decides_what_is_stored_is_read_by_the_native_engine() -> None:
    classes = backmdb.effects().values()
    stored = {name for settings in classes for name, effect in settings.items() if effect == backmdb.STORED}
    beside = {*backmdb.DEFINITIONS, "olcModulePath", "olcModuleLoad", *SEARCHES_ONLY}
    assert set(VALUES) == stored - beside
    defaults = settings()
    for name, (value, field, expected) in VALUES.items():
        everywhere = "olcGlobal", "olcFrontendConfig"
        dn = "cn=config" if any(name in backmdb.effects()[one] for one in everywhere) else DATABASE
        changed = of((BACKEND if name == "olcBkMdbIdlExp" else dn, {name: value}))
        found = backmdb.settings(changed, changed.databases[0])
        assert getattr(found, field) == expected != getattr(defaults, field), name


OVERLAYS = [f"olcOverlay={{0}}memberof,{above}" for above in (DATABASE, FRONTEND)]


@pytest.mark.parametrize("dn", ["cn=config", FRONTEND, "olcDatabase=frontend,cn=config", BACKEND, DATABASE, *OVERLAYS])
def test_an_unknown_setting_is_refused_by_name(dn: str) -> None:
    with pytest.raises(SettingRefused, match=f"{dn.split('{')[0]}.* has olcNovelty") as caught:
        ask((dn, {"olcNovelty": "secret"}))
    assert "secret" not in str(caught.value)
    ask((dn, {"entryUUID": "x", "OBJECTCLASS": "y"}))


def test_pages_that_are_too_small_are_refused() -> None:
    """What is of another database is not looked at."""
    other = "olcDatabase={2}ldap,cn=config"
    ask((other, {"olcDbNovelty": "x"}), (f"olcOverlay={{0}}novelty,{other}", {"olcNovelty": "x"}))
    for size in ("0", "4096", "65536"):
        ask((DATABASE, {"olcDbPageSize": size}))
    with pytest.raises(SettingRefused, match="olcDbPageSize, 2048 bytes"):
        ask((DATABASE, {"olcDbPageSize": "2048"}))


@pytest.mark.parametrize("name", ["olcDbCryptoModule", "olcdbpassphrase"])
def test_encryption_is_refused(name: str) -> None:
    with pytest.raises(SettingRefused, match=f"has {name}, so slapd opens only") as caught:
        ask((DATABASE, {name: "secret"}))
    assert "secret" not in str(caught.value) + str(caught.value.advice())
