"""Configurations of slapd for unit tests, made of entries of cn=config."""

from __future__ import annotations

from pathlib import Path

from loader import config
from loader.config import Config, Entry

SUFFIX = "dc=example,dc=com"


def entry(dn: str, **values: str | list[str]) -> Entry:
    return dn, {
        name: [value.encode() for value in ([found] if isinstance(found, str) else found)]
        for name, found in values.items()
    }


def mdb(number: int, suffix: str = SUFFIX, **more: str | list[str]) -> Entry:
    name = f"{{{number}}}mdb"
    return entry(f"olcDatabase={name},cn=config", **{"olcDatabase": name, "olcSuffix": suffix, **more})


def parsed(*entries: Entry) -> Config:
    return config.parse(Path("/etc/ldap/slapd.d"), entries)
