"""Comparing suffixes and bases. schema/src/dn/key.rs and tests/golden/test_dn.py test the keys of DNs."""

from __future__ import annotations

import pytest

from loader import dn


def test_a_text_that_is_no_dn_is_compared_in_lower_case() -> None:
    assert dn.key("what is no DN") == dn.key(" What is no DN") != dn.key("")


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
        ("ou=a,domainComponent=com", "dc=com", True),
        (r"ou=a,o=Foo\2C inc.,c=US", r"o=Foo\, Inc.,c=US", True),
        ("", "dc=com", False),
        ("", "", True),
    ],
)
def test_within(inner: str, base: str, inside: bool) -> None:
    assert dn.is_below(inner, base) is inside


@pytest.mark.parametrize(
    ("name", "above"),
    [
        (r"cn=a\,b, OU=People,dc=x", "OU=People,dc=x"),
        ("cn=a+sn=b;o=x", "o=x"),
        ('o="a, b",c=us', "c=us"),
        (r"o=a\\,c=us", "c=us"),
        ("o=x", ""),
        ("", ""),
    ],
)
def test_parent(name: str, above: str) -> None:
    assert dn.parent(name) == above
