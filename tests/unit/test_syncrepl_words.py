"""The syncrepl of a consumer in cn=config, where slapd takes a backslash for a character."""

from __future__ import annotations

from loader import syncrepl


def test_a_backslash_and_quotes() -> None:
    value = r'{0}rid=1 provider=ldap://a searchbase="o=a b,c=us" filter="(cn=a\2ab)"'
    found = syncrepl.parse(value, "slapd.d")
    assert (found.searchbase, found.filter) == ("o=a b,c=us", r"(cn=a\2ab)")
