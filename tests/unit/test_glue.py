"""Which database holds what, as slapd's glue has it."""

from __future__ import annotations

from pathlib import Path

from loader import config
from loader.config import Config, Entry

TOP, A, B = "dc=example,dc=com", "ou=a,dc=example,dc=com", "ou=b,ou=a,dc=example,dc=com"


def database(number: int, suffix: str, backend: str = "mdb", **values: str) -> Entry:
    name = f"{{{number}}}{backend}"
    found = {"olcDatabase": name, "olcSuffix": suffix, **values}
    dn = f"olcDatabase={name},cn=config"
    return dn, {key: [value.encode()] for key, value in found.items()}


def found(*entries: Entry) -> Config:
    return config.parse(Path("/etc/ldap/slapd.d"), entries)


def glued(known: Config) -> dict[str, list[str]]:
    """Superior -> the suffixes that are glued to it."""
    parts = {one.suffix: config.subordinates(known, one) for one in known.databases}
    return {suffix: [one.suffix for one in below] for suffix, below in parts.items() if below}


def test_nested_ones_all_hang_on_the_one_above() -> None:
    known = found(
        database(1, B, olcSubordinate="TRUE"), database(2, A, "ldap", olcSubordinate="advertise"), database(3, TOP)
    )
    assert glued(known) == {TOP: [B, A]}
    assert config.superior(known, known.databases[2]) is None


def test_one_between_that_is_not_glued_takes_what_is_below_it() -> None:
    known = found(database(1, B, olcSubordinate="TRUE"), database(2, A), database(3, TOP))
    assert glued(known) == {A: [B]}
    assert config.suffixes_below(known, known.databases[2]) == [B, A]


def test_other_trees_and_spellings() -> None:
    known = found(
        database(1, "OU=A, dc=Example,DC=com", olcSubordinate="TRUE"), database(2, "dc=other"), database(3, TOP)
    )
    assert glued(known) == {TOP: ["OU=A, dc=Example,DC=com"]}
    assert config.suffixes_below(known, known.databases[1]) == []


def test_a_hidden_or_disabled_database_answers_for_nothing() -> None:
    known = found(database(1, B, olcHidden="TRUE"), database(2, A, olcDisabled="TRUE"), database(3, TOP))
    assert config.suffixes_below(known, known.databases[2]) == []
