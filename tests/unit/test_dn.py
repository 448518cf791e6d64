"""Comparing suffixes and bases."""

from __future__ import annotations

import pytest

from loader import dn


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dc=example,dc=com", "DC=Example, DC=com"),
        ("dc=example,dc=com", " dc = example , dc = com "),
        ("o=a;c=de", "o=a,c=de"),
        ("cn=a+sn=b,o=x", "CN=A + SN=B,O=X"),
        ("o=Zürich", "O=ZÜRICH"),
        ("", "  "),
    ],
)
def test_equal_suffixes_have_one_key(one: str, other: str) -> None:
    assert dn.key(one) == dn.key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dc=example,dc=com", "dc=example,dc=org"),
        (r"o=a\, b,c=de", "o=a,b,c=de"),
        (r"o=a\;b,c=de", r"o=a\,b,c=de"),
    ],
)
def test_different_suffixes_have_different_keys(one: str, other: str) -> None:
    assert dn.key(one) != dn.key(other)


@pytest.mark.parametrize(
    ("inner", "base", "inside"),
    [
        ("dc=example,dc=com", "dc=example,dc=com", True),
        ("ou=people, DC=example,dc=com", "dc=Example,dc=com", True),
        ("ou=people,dc=example,dc=com", "", True),
        ("dc=com", "dc=example,dc=com", False),
        ("dc=counterexample,dc=com", "dc=example,dc=com", False),
        ("xdc=com", "dc=com", False),
        (r"o=a\,dc=com", "dc=com", False),  # one RDN, whose value ends in ",dc=com"
        (r"o=a\,b,dc=com", "dc=com", True),
    ],
)
def test_within(inner: str, base: str, inside: bool) -> None:
    assert dn.within(inner, base) is inside
