"""What decides the contents of a database, read out of cn=config with slapd's defaults; every setting of slapd has one
known effect, and a setting that is not listed is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import backmdb, config
from loader.backmdb import Settings
from loader.config import Config, Entry
from loader.errors import NotProven, SettingRefused

SUFFIX = "dc=example,dc=com"


def entry(dn: str, **values: str | list[str]) -> Entry:
    return dn, {
        name: [value.encode() for value in ([found] if isinstance(found, str) else found)]
        for name, found in values.items()
    }


def settings(*others: Entry, of_2_7: bool = False, **own: str | list[str]) -> Settings:
    database = entry("olcDatabase={1}mdb,cn=config", olcDatabase="{1}mdb", olcSuffix=SUFFIX, **own)
    found = config.parse(Path("/etc/ldap/slapd.d"), (*others, database))
    return backmdb.settings(found, found.database(None), of_2_7=of_2_7)


def of_global(**values: str | list[str]) -> Settings:
    return settings(entry("cn=config", **values))


def test_slapds_defaults() -> None:
    assert settings() == Settings(
        suffixes=(SUFFIX,),
        foreign=(),
        root_dn=None,
        indexes=(),
        hash64=False,
        intlen=4,
        substr=(2, 4, 4),
        multival=(),
        sortvals=(),
        idlexp=16,
        max_entry_size=0,
        last_mod=True,
        translucent=False,
        subentry=False,
        attribute_options=("lang-",),
        of_2_7=False,
        page_size=4096,
    )


def test_what_2_7_does_otherwise() -> None:
    found = settings(of_2_7=True, olcDbIndex="cn eq", olcDbPageSize="16384")
    assert found.indexes == (("cn", ("eq",)), ("objectClass", ("eq",)))
    assert (found.hash64, found.page_size) == (True, 16384)
    off = entry("cn=config", olcIndexHash64="FALSE")
    found = settings(off, of_2_7=True, olcDbIndex="ObjectClass pres,eq")
    assert found.indexes == (("ObjectClass", ("pres", "eq")),)
    assert not found.hash64


def test_every_setting() -> None:
    found = settings(
        entry(
            "cn=config",
            olcIndexSubstrIfMinLen="3",
            olcIndexSubstrIfMaxLen="6",
            olcIndexSubstrAnyLen="5",
            olcIndexIntLen="8",
            olcIndexHash64="TRUE",
            olcAttributeOptions=["lang-", "x-foo- x-bar"],
        ),
        entry("olcBackend={0}mdb,cn=config", olcBackend="{0}mdb", olcBkMdbIdlExp="18"),
        entry("olcDatabase={-1}frontend,cn=config", olcSortVals="member uniqueMember"),
        olcRootDN="cn=admin",
        olcDbMaxEntrySize="1000000",
        olcLastMod="FALSE",
        olcSyncUseSubentry="TRUE",
    )
    assert (found.substr, found.intlen, found.hash64) == ((3, 6, 5), 8, True)
    assert found.attribute_options == ("lang-", "x-foo-", "x-bar")
    assert (found.idlexp, found.sortvals) == (18, ("member", "uniqueMember"))
    assert (found.root_dn, found.max_entry_size) == ("cn=admin", 1_000_000)
    assert (found.last_mod, found.subentry) == (False, True)


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


def test_of_two_values_the_one_that_slapd_reads_last_holds() -> None:
    frontend = entry("olcDatabase={-1}frontend,cn=config", olcIndexIntLen="8")
    assert settings(entry("cn=config", olcIndexIntLen="4"), frontend).intlen == 8


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


@pytest.mark.parametrize(("text", "bytes_"), [("1", 4), ("4", 4), ("8", 8), ("0x10", 16), ("300", 255)])
def test_intlen_has_slapds_bounds(text: str, bytes_: int) -> None:
    assert of_global(olcIndexIntLen=text).intlen == bytes_


@pytest.mark.parametrize(("text", "on"), [("TRUE", True), ("on", True), ("FALSE", False), ("off", False)])
def test_switches(text: str, on: bool) -> None:
    assert of_global(olcIndexHash64=text).hash64 == on


def test_all_attributes_that_are_named() -> None:
    found = settings(
        entry("olcDatabase={-1}frontend,cn=config", olcSortVals="member"),
        olcDbIndex=["default eq", "cn", "member eq"],
        olcDbMultival=["default 10,5", "uniqueMember 10,5"],
    )
    assert found.attributes == ("cn", "member", "uniqueMember")


ROOT = Path(__file__).parents[2]
DATABASE = "olcDatabase={1}mdb,cn=config"
FRONTEND = "olcDatabase={-1}frontend,cn=config"
BACKEND = "olcBackend={0}mdb,cn=config"
# For each setting that decides what is stored, a value that is not slapd's default.
VALUES = {
    "olcAttributeOptions": "x-",
    "olcIndexHash64": "TRUE",
    "olcIndexIntLen": "8",
    "olcIndexSubstrAnyLen": "5",
    "olcIndexSubstrIfMaxLen": "6",
    "olcIndexSubstrIfMinLen": "3",
    "olcSortVals": "member",
    "olcSuffix": "dc=other",
    "olcRootDN": "cn=root",
    "olcLastMod": "FALSE",
    "olcSyncUseSubentry": "TRUE",
    "olcDbIndex": "cn eq",
    "olcDbMaxEntrySize": "1000",
    "olcDbMultival": "member 10,5",
    "olcDbPageSize": "16384",
    "olcBkMdbIdlExp": "17",
}
# Decides which substring keys a search looks for, and none of those that are stored.
SEARCHES_ONLY = {"olcIndexSubstrAnyStep"}


def of(*entries: tuple[str, dict[str, str]]) -> Config:
    """A configuration with one mdb database, whose entries have these attributes besides."""
    made: dict[str, dict[str, str]] = {
        "cn=config": {"objectClass": "olcGlobal", "cn": "config"},
        DATABASE: {"objectClass": "olcMdbConfig", "olcDatabase": "{1}mdb", "olcSuffix": SUFFIX},
    }
    for dn, attributes in entries:
        made[dn] = {**made.get(dn, {}), **attributes}
    found: list[Entry] = [
        (dn, {name: [value.encode()] for name, value in attributes.items()}) for dn, attributes in made.items()
    ]
    return config.parse(Path("slapd.conf"), found)


def ask(*entries: tuple[str, dict[str, str]]) -> None:
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
    plain = of()
    for name, value in VALUES.items():
        everywhere = "olcGlobal", "olcFrontendConfig"
        dn = "cn=config" if any(name in backmdb.effects()[one] for one in everywhere) else DATABASE
        changed = of((BACKEND if name == "olcBkMdbIdlExp" else dn, {name: value}))
        one, other = (backmdb.settings(each, each.databases[0]) for each in (plain, changed))
        assert one != other, name


@pytest.mark.parametrize(
    "dn",
    [
        "cn=config",
        FRONTEND,
        "olcDatabase=frontend,cn=config",
        BACKEND,
        DATABASE,
        f"olcOverlay={{0}}memberof,{DATABASE}",
        f"olcOverlay={{0}}memberof,{FRONTEND}",
    ],
)
def test_an_unknown_setting_is_refused_by_name(dn: str) -> None:
    with pytest.raises(SettingRefused, match=f"{dn.split('{')[0]}.* has olcNovelty") as caught:
        ask((dn, {"olcNovelty": "secret"}))
    assert "secret" not in str(caught.value)
    ask((dn, {"entryUUID": "x", "OBJECTCLASS": "y"}))


def test_what_is_of_another_database_is_not_looked_at() -> None:
    other = "olcDatabase={2}ldap,cn=config"
    ask((other, {"olcDbNovelty": "x"}), (f"olcOverlay={{0}}novelty,{other}", {"olcNovelty": "x"}))


def test_pages_that_are_too_small_are_refused() -> None:
    for size in ("0", "4096", "65536"):
        ask((DATABASE, {"olcDbPageSize": size}))
    with pytest.raises(SettingRefused, match="olcDbPageSize, 2048 bytes"):
        ask((DATABASE, {"olcDbPageSize": "2048"}))


@pytest.mark.parametrize("name", ["olcDbCryptoModule", "olcdbpassphrase"])
def test_encryption_is_refused(name: str) -> None:
    with pytest.raises(SettingRefused, match=f"has {name}, so slapd opens only") as caught:
        ask((DATABASE, {name: "secret"}))
    assert "secret" not in str(caught.value) + str(caught.value.advice())
