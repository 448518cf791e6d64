"""Every setting of slapd has one known effect, and a setting that is not listed is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import backmdb, config, schema
from loader.config import Config, Entry
from loader.errors import SettingRefused

ROOT = Path(__file__).parents[2]
SUFFIX = "dc=example,dc=com"
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
    backmdb.require(found, found.mdb_databases[0])


@pytest.mark.parametrize("object_class", backmdb.effects())
def test_every_setting_is_listed_once_with_an_effect(object_class: str) -> None:
    effects = backmdb.effects()[object_class]
    assert len({name.lower() for name in effects}) == len(effects)
    assert set(effects.values()) <= {backmdb.STORED, backmdb.TOOLS, backmdb.ENCRYPTS, "-"}


def test_what_decides_what_is_stored_is_read_by_the_native_engine() -> None:
    classes = backmdb.effects().values()
    stored = {name for settings in classes for name, effect in settings.items() if effect == backmdb.STORED}
    beside = {*schema.DEFINITIONS, "olcModulePath", "olcModuleLoad", *SEARCHES_ONLY}
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
    with pytest.raises(SettingRefused, match=f"has {name}, so slapd encrypts") as caught:
        ask((DATABASE, {name: "secret"}))
    assert "secret" not in str(caught.value) + str(caught.value.advice())
