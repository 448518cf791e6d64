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
        (r"o=Foo\, Inc.,c=US", r"o=foo\2c inc.,c=us"),
        (r"o=Foo\, Inc.,c=US", 'o="Foo, Inc.",c=US'),
        (r"o=\#1,c=US", r"o=\231,c=US"),
        (r"o=Z\C3\BCrich", "o=zürich"),
        ("o=Zu\u0308rich", "o=Zürich"),  # composed and decomposed
        ("o=ﬁne", "o=fine"),  # a compatibility character
        ("o=My  Organisation ", "o=my organisation"),
        ("sn=b+cn=a,o=x", "cn=a+sn=b,o=x"),
        ("domainComponent=example,0.9.2342.19200300.100.1.25=com", "dc=example,dc=com"),
        ("organizationName=x,countryName=us", "o=x,c=us"),
        ("what is no DN", " What is no DN"),
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
        (r"o=\#31", "o=1"),
        ("o=x", "ou=x"),
        ("", "o=x"),
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
