"""A partial replica that is seeded equals one that syncrepl fills by itself, and stays so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import partial
from fixtures.slapd import Slapd
from tests.support.command import ditseed

pytestmark = [pytest.mark.slapd, pytest.mark.timeout(300)]

SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
STRATEGIES = ("search", "ldif", "slapcat")


@dataclass(frozen=True)
class Case:
    """`options` of syncrepl, its search base, the consumer's suffix."""

    options: str
    base: str = SUFFIX
    suffix: str = SUFFIX


CASES = {
    "filter": Case('filter="(employeeType=engineer)"'),
    "filter-that-all-match": Case('filter="(|(objectClass=*)(uid=*))"'),
    "filter-of-inner-entries": Case('filter="(objectClass=organizationalUnit)"'),
    "filter-with-not": Case('filter="(&(objectClass=person)(!(manager=*)))"'),
    "filter-with-substrings": Case('filter="(|(cn=person *1*)(telephoneNumber=*4930*9))"'),
    "attrs": Case('attrs="cn,sn"'),
    "attrs-user": Case('attrs="*"'),
    "attrs-operational": Case('attrs="+"'),
    "attrs-class": Case('attrs="@person"'),
    "attrs-user-and-one": Case('attrs="*,modifyTimestamp"'),
    "attrs-supertype": Case('attrs="name"'),
    "attrs-option": Case('attrs="sn;lang-de,uid"'),
    "exattrs": Case('exattrs="userPassword,sn"'),
    "exattrs-class": Case('exattrs="@person"'),
    "exattrs-alias": Case('exattrs="surname,USERPASSWORD"'),
    "exattrs-operational": Case('exattrs="createTimestamp,entryUUID,entryCSN"'),
    "scope-one": Case("scope=one", PEOPLE),
    "scope-one-of-suffix": Case("scope=one"),
    "scope-base": Case("scope=base", PEOPLE),
    "scope-subordinate": Case("scope=subordinate", PEOPLE),
    "narrower": Case("", f"ou=staff,{PEOPLE}"),
    "massage": Case('suffixmassage="dc=local"', SUFFIX, "dc=local"),
    "massage-narrower": Case('suffixmassage="ou=deep,ou=sub,dc=local"', PEOPLE, "dc=local"),
    "schemachecking": Case('schemachecking=on filter="(objectClass=inetOrgPerson)" attrs="*"'),
    "all": Case(
        'suffixmassage="dc=local" filter="(|(objectClass=groupOfNames)(employeeType=clerk))"'
        ' attrs="*" exattrs="userPassword" schemachecking=on',
        SUFFIX,
        "dc=local",
    ),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Slapd]:
    with partial.provider() as source:
        source.ldapmodify(f"dn: {SUFFIX}\nchangetype: modify\nadd: description\ndescription: one\n")
        yield source


def bind(source: Slapd) -> tuple[object, ...]:
    return ("-H", source.uri, "-D", "cn=replicator", "-y", source.replicator_password_file)


def consumer(source: Slapd, case: Case) -> Slapd:
    return partial.consumer(source, case.options, base=case.base, suffix=case.suffix)


def seed(source: Slapd, target: Slapd, strategy: str, scratch: Path, *more: object) -> str:
    """Seeded, stopped; what the command said."""
    given: tuple[object, ...] = ("search", *bind(source))
    if strategy == "ldif":
        ditseed("export", *bind(source), "-b", source.suffix, "-o", scratch / "export").ok()
        given = ("ldif", "--from", scratch / "export")
    elif strategy == "slapcat":
        (scratch / "slapcat.ldif").write_text(source.slapcat())
        given = ("ldif", "-w", "--from", scratch / "slapcat.ldif")
    where = ("--config", target.config_path, "--suffix", target.suffix)
    return ditseed("replica", "seed", "--strategy", *given, *where, *more).ok().out


@pytest.mark.parametrize("name", CASES)
def test_a_seeded_one_equals_one_that_syncrepl_filled(
    provider: Slapd, tmp_path: Path, name: str
) -> None:
    with consumer(provider, CASES[name]) as natural:
        partial.settle(provider, natural)
        wanted = partial.stored(natural)
        for strategy in STRATEGIES:
            scratch = tmp_path / strategy
            scratch.mkdir()
            with closing(consumer(provider, CASES[name])) as seeded:
                seed(provider, seeded, strategy, scratch)
                found = partial.differences(wanted, partial.stored(seeded))
                assert not found, (strategy, found)
