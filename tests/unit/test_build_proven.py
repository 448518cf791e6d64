"""Where the native engine refuses, from configurations alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loader import config
from loader.config import Entry
from loader.errors import NotProven
from loader.operations.build import BuildOptions, native
from loader.server import tools

SUFFIX = "dc=example,dc=com"
PLAIN = BuildOptions(Path("/etc/ldap/slapd.d"), (Path("x.ldif"),))


def database(number: int, suffix: str, **values: str) -> Entry:
    name = f"{{{number}}}mdb"
    found = {"olcDatabase": name, "olcSuffix": suffix, **values}
    dn = f"olcDatabase={name},cn=config"
    return dn, {key: [value.encode()] for key, value in found.items()}


def ask(options: BuildOptions, *entries: Entry) -> None:
    found = config.parse(Path("/etc/ldap/slapd.d"), entries)
    native.proven_settings(found, found.databases[0], options)


def test_what_is_proven_is_let_through() -> None:
    ask(
        PLAIN,
        database(1, SUFFIX, olcDbEnvFlags="{0}nosync writemap", olcSyncUseSubentry="TRUE"),
        database(2, "dc=other"),
        database(3, "dc=com"),  # above
        database(4, f"dc=not{SUFFIX}"),
        database(5, f"OU=log, {SUFFIX}", olcSubordinate="TRUE"),
    )


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([database(1, SUFFIX, olcDbEnvFlags="{0}encrypted")], "envflags encrypted"),
        ([("cn=config", {"olcIndexIntLen": [b"9"]}), database(1, SUFFIX)], "index_intlen is 9"),
    ],
    ids=["envflags", "intlen"],
)
def test_what_is_refused(entries: list[Entry], words: str) -> None:
    with pytest.raises(NotProven, match=words):
        ask(PLAIN, *entries)


def test_a_context_csn_in_an_entry_of_its_own() -> None:
    options = BuildOptions(PLAIN.config_path, PLAIN.inputs, write_context=True)
    with pytest.raises(NotProven, match="sync_use_subentry"):
        ask(options, database(1, SUFFIX, olcSyncUseSubentry="TRUE"))


def test_another_byte_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(NotProven, match="this host"):
        ask(PLAIN, database(1, SUFFIX))


@pytest.mark.parametrize(
    ("release", "tables"),
    [((2, 4, 57), ()), ((2, 5, 13), ("id2v",)), ((2, 6, 0), ("id2v", "ixck")), ((2, 6, 14), ("id2v", "ixck"))],
)
def test_tables_of_a_release(monkeypatch: pytest.MonkeyPatch, release: tools.Release, tables: tuple[str, ...]) -> None:
    monkeypatch.setattr(tools, "release", lambda: release)
    assert native.tables() == tables


@pytest.mark.parametrize("release", [None, (2, 4, 56), (2, 8, 0), (3, 0, 0)])
def test_other_releases(monkeypatch: pytest.MonkeyPatch, release: tools.Release | None) -> None:
    monkeypatch.setattr(tools, "release", lambda: release)
    with pytest.raises(NotProven):
        native.tables()


def test_rules_that_the_core_does_not_know() -> None:
    native.require_rules({}, {})
    for told in (({"oddity": "strangeMatch"}, {}), ({}, {"oddity": "strangeMatch"})):
        with pytest.raises(NotProven, match=r"oddity.* has strangeMatch"):
            native.require_rules(*told)
