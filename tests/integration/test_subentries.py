"""Subentries (RFC 3672) are in no search but one that asks for them; what reads a server must not lose them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.trees import write_people
from tests.support.command import ditseed
from tests.support.dumped import Record, exported, records
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
PLACES = (SUFFIX, f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}")
_PLAIN = "dn: cn=plain,{0}\nobjectClass: subentry\ncn: plain\nsubtreeSpecification: {{ }}\n\n"
_ANY = (
    "dn: cn=any,{0}\nobjectClass: subentry\nobjectClass: extensibleObject\ncn: any\n"
    "subtreeSpecification: {{ }}\ndescription: of {0}\n\n"
)
SUBENTRIES = "".join(_PLAIN.format(place) + _ANY.format(place) for place in PLACES)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Slapd]:
    people = tmp_path / "people.ldif"
    write_people(people, SUFFIX, 2500)
    made = replication.provider()
    made.slapadd(people)
    with made:
        made.ldapadd(SUBENTRIES)
        yield made


def bind(server: Slapd) -> tuple[object, ...]:
    return ("-H", server.uri, "-D", "cn=replicator", "-y", server.replicator_password_file)


def export(server: Slapd, out: Path, *more: object, env: dict[str, str] | None = None) -> int:
    command = ("export", *bind(server), "-b", SUFFIX, "-o", out, "--compress", "none", *more)
    return ditseed(*command, env=env).status


def same_as_slapcat(server: Slapd, out: Path) -> None:
    """Record by record; the same DN twice would show."""
    found, expected = sorted(names(exported(out))), sorted(names(records(server.slapcat())))
    assert found == expected
    text = out.with_suffix(".slapcat")
    text.write_text(server.slapcat())
    ditseed("compare", out, text).ok()


def names(found: list[Record]) -> list[str]:
    return [one[0] for one in found]


@pytest.mark.long("3")
@pytest.mark.parametrize("pieces", [1, 3])
def test_an_export_has_them(provider: Slapd, tmp_path: Path, pieces: int) -> None:
    hidden = provider.search("(objectClass=subentry)", ("1.1",))
    assert hidden == []
    assert export(provider, tmp_path / "out", "--pieces", pieces) == 0
    same_as_slapcat(provider, tmp_path / "out")
    assert "the server counts" not in (tmp_path / "out/manifest.json").read_text()


@pytest.mark.long
def test_below_a_container_that_moves_meanwhile(provider: Slapd, tmp_path: Path) -> None:
    """They keep their entryCSN, and so syncrepl would not tell of their new names."""
    killed = {"DITSEED_KILL_AT": "read.recorded"}
    assert export(provider, tmp_path / "out", env=killed) == -signal.SIGKILL
    renamed = "changetype: modrdn\nnewrdn: ou=folk\ndeleteoldrdn: 1\n"
    provider.ldapmodify(f"dn: ou=people,{SUFFIX}\n{renamed}")
    assert export(provider, tmp_path / "out") == 0
    same_as_slapcat(provider, tmp_path / "out")


@pytest.mark.long
def test_a_comparison_sees_one_that_is_missing(provider: Slapd, tmp_path: Path) -> None:
    assert export(provider, tmp_path / "out") == 0
    ditseed("compare", provider.uri, tmp_path / "out", *bind(provider)[2:], "-b", SUFFIX).ok()
    provider.ldapmodify(f"dn: cn=plain,ou=people,{SUFFIX}\nchangetype: delete\n")
    words = ("compare", provider.uri, tmp_path / "out", *bind(provider)[2:], "-b", SUFFIX)
    done = ditseed(*words)
    assert (done.status, "cn=plain,ou=people" in done.out) == (1, True), done


@pytest.mark.long
def test_a_replica_has_them_and_keeps_them(provider: Slapd) -> None:
    """slapd sends their changes to a consumer that is there; those made while it is away it sends to none."""
    with closing(replication.consumer(provider)) as target:
        seed = ("replica", "seed", "--strategy", "search", *bind(provider), "-b", SUFFIX)
        ditseed(*seed, "--config", target.config_path).ok()
        with target:
            replication.wait_in_sync(provider, target)
            verify = ("replica", "verify", *bind(provider), "-b", SUFFIX, "--consumer", target.uri)
            password = ("--consumer-password-file", target.replicator_password_file)
            ditseed(*verify, *password).ok()
            _describe(provider, "people")
            replication.wait_in_sync(provider, target)
            assert_same(provider, target)
            target.restart()
            # Once this has come, the consumer's search has begun.
            provider.ldapmodify(f"dn: {SUFFIX}\nchangetype: modify\nreplace: o\no: later\n")
            replication.wait_in_sync(provider, target)
            _describe(provider, "groups")
            replication.wait_in_sync(provider, target)
            ditseed(*verify, *password).ok()


def _describe(server: Slapd, unit: str) -> None:
    change = "changetype: modify\nadd: description\ndescription: changed\n"
    server.ldapmodify(f"dn: cn=any,ou={unit},{SUFFIX}\n{change}")
