"""The syncrepl of a consumer, as slapd reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import config, syncrepl
from loader.errors import SyncreplsDiffer, SyncreplUnreadable
from loader.syncrepl import Syncrepl

SUFFIX = "dc=example,dc=com"
LEAST = f'rid=001 provider=ldap://a searchbase="{SUFFIX}"'
SECRET = "hunter2"

# Every option of slapd.conf(5) of 2.4, 2.5 and 2.6 that does not decide what the consumer holds.
MANNER = (
    'type=refreshAndPersist interval=00:00:05:00 retry="60 10 300 +" sizelimit=unlimited timelimit=unlimited '
    "syncdata=accesslog logbase=cn=log logfilter=(reqResult=0) strictrefresh lazycommit manageDSAit=1 "
    "bindmethod=sasl binddn=cn=r saslmech=EXTERNAL authcid=a authzid=dn:b realm=R secprops=none "
    f"credentials={SECRET} keepalive=240:10:30 tcp-user-timeout=1 network-timeout=2 timeout=3 version=3 "
    "starttls=critical "
    "tls_cert=/c tls_key=/k tls_cacert=/a tls_cacertdir=/d tls_reqcert=demand tls_reqsan=allow tls_cipher_suite=X "
    "tls_crlcheck=none tls_protocol_min=3.3 tls_ecname=Y"
)


def parsed(more: str = "") -> Syncrepl:
    return syncrepl.parse(f"{{0}}{LEAST} {more}", "here")


def test_the_manner_of_reading_narrows_nothing() -> None:
    found = parsed(MANNER)
    assert found.narrowing(SUFFIX) == ()
    assert (found.syncdata, found.type) == ("accesslog", "refreshandpersist")
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("more", "narrows"),
    [
        *(('filter="(uid=*)"', ("filter",)), ("filter=(objectClass=*)", ())),
        *(("scope=one", ("scope",)), ("scope=subtree", ())),
        *(("attrs=cn,sn", ("attrs",)), ('attrs="* +"', ()), ("attrs=*", ("attrs",)), ("attrs=* attrs=+", ())),
        *(("exattrs=userPassword", ("exattrs",)), ("attrsonly", ("attrsonly",)), ("schemachecking=on", ())),
        *(("suffixmassage=dc=local", ("suffixmassage",)), ('suffixmassage="DC=Example, dc=com"', ())),
        (f"searchbase=ou=x,{SUFFIX}", ("searchbase",)),
    ],
)
def test_what_narrows(more: str, narrows: tuple[str, ...]) -> None:
    assert parsed(more).narrowing(SUFFIX) == narrows


def test_words_are_cut_as_slapd_cuts_them() -> None:
    """In a value of cn=config a backslash is a character (strtok_quote_ldif)."""
    found = parsed('FILTER="(cn=a b)" "attrs=cn, sn" schemaChecking=on')
    assert (found.filter, found.attrs) == ("(cn=a b)", ("cn", "sn"))
    assert found.schemachecking
    assert parsed(r'filter="(cn=a\2ab)"').filter == r"(cn=a\2ab)"


def test_the_account_of_a_consumer() -> None:
    value = '{0}rid=1 provider=ldap://a searchbase="o=a" bindmethod=simple binddn="cn=r,o=a" credentials="a b"'
    found = syncrepl.account(value)
    assert found == syncrepl.Account("cn=r,o=a", "a b", False)
    assert "a b" not in repr(found)
    encrypted = syncrepl.account(f"{value} starttls=critical")
    assert encrypted is not None
    assert encrypted.start_tls
    assert syncrepl.account(value.replace("simple", "sasl")) is None


@pytest.mark.parametrize(
    ("more", "word"),
    [
        *(("novelty=1", "novelty"), ("something", "a word without ="), ("scope=all", "scope")),
        ("attrs=:include:/etc/list", ":include:"),
    ],
)
def test_what_is_not_known_is_refused_by_name(more: str, word: str) -> None:
    with pytest.raises(SyncreplUnreadable, match=word) as raised:
        parsed(f"credentials={SECRET} {more}")
    assert SECRET not in str(raised.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(SyncreplUnreadable, match="provider and searchbase missing"):
        syncrepl.parse("rid=1", "here")


def test_the_content_reads_the_same_whatever_the_order() -> None:
    one, other = parsed("attrs=cn,sn,mail exattrs=a,b,c"), parsed("exattrs=c,b,a attrs=MAIL,sn,cn")
    assert repr(one.content) == repr(other.content)


def chosen(*values: str, provider: str | None = None) -> str | None:
    """Returns the rid of the syncrepl that is taken of a database with these."""
    attributes = {"olcDatabase": ["{1}mdb"], "olcSuffix": [SUFFIX], "olcSyncrepl": values}
    encoded = {name: [value.encode() for value in given] for name, given in attributes.items()}
    made = config.parse(Path("slapd.d"), [("olcDatabase={1}mdb,cn=config", encoded)])
    found = syncrepl.of_database(made, made.database(SUFFIX), provider)
    return found and found.rid


def test_which_of_several_is_taken() -> None:
    assert chosen() is None
    other = LEAST.replace("ldap://a", "ldaps://b:636/").replace("001", "002")
    assert chosen(f"{LEAST} attrs=cn,SN filter=(uid=*)", f"{other} filter=(uid=*) attrs=sn,cn") == "001"
    differing = (LEAST, f"{other} exattrs=userPassword")
    with pytest.raises(SyncreplsDiffer, match="001, 002"):
        chosen(*differing)
    with pytest.raises(SyncreplsDiffer):
        chosen(*differing, provider="ldap://c")
    for uri, rid in (("ldap://a:389", "001"), ("ldap://A/", "001"), ("ldaps://b", "002")):
        assert chosen(*differing, provider=uri) == rid
