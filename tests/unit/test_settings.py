"""Every setting of slapd is in one group, and whatever is in none is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import backmdb, config, settings
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


def listed() -> dict[str, set[str]]:
    """The settings of each object class, of all releases."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "fixtures" / "slapd_settings.txt").read_text().splitlines():
        if not line.startswith("#"):
            object_class, name, *_ = line.split()
            found.setdefault(object_class, set()).add(name)
    return found


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
    settings.require(found, found.mdb_databases[0])


@pytest.mark.parametrize("object_class", listed())
def test_every_setting_of_every_release_is_in_one_group(object_class: str) -> None:
    known = settings.classed(object_class)
    assert len({name.lower() for name in known}) == len(known)
    assert set(known) == listed()[object_class]


def test_what_decides_what_is_stored_is_read_by_the_native_engine() -> None:
    stored = {name for group in settings.STORED.values() for name in group}
    beside = {*settings.DEFINITIONS, *settings.STORED["olcModuleList"], *SEARCHES_ONLY}
    assert set(VALUES) == stored - beside
    plain = of()
    for name, value in VALUES.items():
        everywhere = "olcGlobal", "olcFrontendConfig"
        dn = "cn=config" if any(name in settings.STORED[one] for one in everywhere) else DATABASE
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
