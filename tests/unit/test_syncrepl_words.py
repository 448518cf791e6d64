"""The syncrepl of a consumer in cn=config, where slapd takes a backslash for a character."""

from __future__ import annotations

from loader import syncrepl


def test_a_backslash_and_quotes() -> None:
    value = r'{0}rid=1 provider=ldap://a searchbase="o=a b,c=us" filter="(cn=a\2ab)"'
    found = syncrepl.parse(value, "slapd.d")
    assert (found.searchbase, found.filter) == ("o=a b,c=us", r"(cn=a\2ab)")


def test_the_account_of_a_consumer() -> None:
    value = '{0}rid=1 provider=ldap://a searchbase="o=a" bindmethod=simple binddn="cn=r,o=a" credentials="a b"'
    found = syncrepl.account(value)
    assert found == syncrepl.Account("cn=r,o=a", "a b", False)
    assert "a b" not in repr(found)
    encrypted = syncrepl.account(f"{value} starttls=critical")
    assert encrypted is not None
    assert encrypted.start_tls
    assert syncrepl.account(value.replace("simple", "sasl")) is None
