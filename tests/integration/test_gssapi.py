"""Kerberos: every verb comes in by a ticket, with and without GSSAPI's security layer, and says what is missing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.kerberos import missing_kerberos
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from loader.errors import KerberosFailed, TooWeak
from tests.support.command import ditseed
from tests.support.require import require
from tests.support.sasl import VERBS, Kerberized, by_name, commands, kerberized, mapping, refused
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
# Security properties, and the strength of the layer that comes of them (AES-256 counts as 256).
LAYERS = {"maxssf=0": 0, "minssf=56": 256, "minssf=56,maxbufsize=4096": 256}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def place(people_ldif: Path, authority: Authority) -> Iterator[Kerberized]:
    require(missing_kerberos())
    with kerberized(people_ldif, "sasl-secprops none", authority=authority) as made:
        yield made


@pytest.fixture(scope="module")
def strict(people_ldif: Path) -> Iterator[Kerberized]:
    """Wants a layer of every mechanism, and of every operation."""
    require(missing_kerberos())
    with kerberized(people_ldif, "sasl-secprops minssf=56", "security update_ssf=56") as made:
        yield made


def same_as_slapcat(place: Kerberized, out: Path) -> None:
    text = out.with_suffix(".slapcat")
    text.write_text(place.server.slapcat())
    ditseed("compare", out, text).ok()


def strengths(place: Kerberized, start: int) -> set[int]:
    """Of all connections since then."""
    lines = place.server.log_lines("mech=GSSAPI", start)
    return {int(found[1]) for line in lines if (found := re.search(r"bind_ssf=(\d+)", line))}


@pytest.mark.rows(0, "minssf=56,maxbufsize=4096")
@pytest.mark.parametrize("properties", LAYERS)
def test_a_reading_is_whole(place: Kerberized, tmp_path: Path, properties: str) -> None:
    """Both doors, python-ldap's and the core's, are given the same properties."""
    start = place.server.log_size()
    done = place.export(tmp_path / "out", "-O", properties, "--jobs", 3, "--pieces", 3).ok()
    assert done.facts["entries"] > 1000
    assert strengths(place, start) == {LAYERS[properties]}
    same_as_slapcat(place, tmp_path / "out")


@pytest.mark.long
def test_inside_of_tls(place: Kerberized, authority: Authority, tmp_path: Path) -> None:
    bind = ("-H", by_name(place.server.ldaps_uri), "-Y", "GSSAPI", "-N", "-O", "minssf=56")
    env = {"LDAPTLS_CACERT": str(authority.ca), "LDAPTLS_REQCERT": "allow"}
    place.run("export", *bind, "-b", SUFFIX, "-o", tmp_path / "out", env=env).ok()
    same_as_slapcat(place, tmp_path / "out")


@pytest.mark.long
def test_a_server_that_demands_a_layer(strict: Kerberized, tmp_path: Path) -> None:
    strict.export(tmp_path / "out").ok()
    same_as_slapcat(strict, tmp_path / "out")
    refused(strict.export(tmp_path / "weak", "-O", "maxssf=0"), TooWeak, "too weak", "-ZZ")


@pytest.mark.long
def test_adds_through_the_layer(strict: Kerberized, tmp_path: Path) -> None:
    """In transactions, over several connections: large writes are cut into what the layer takes."""
    more = tmp_path / "more.ldif"
    units = "".join(
        f"dn: ou=u{number},{SUFFIX}\nobjectClass: organizationalUnit\nou: u{number}\n"
        f"description: {'x' * (number % 7 * 300 + 1)}\n\n"
        for number in range(3000)
    )
    more.write_text(
        units + f"dn: ou=big,{SUFFIX}\nobjectClass: organizationalUnit\nou: big\ndescription: {'y' * 300_000}\n"
    )
    done = strict.run("add", more, *strict.bind, "--jobs", 3, "--json").ok()
    assert done.facts["added"] == 3001
    strict.export(tmp_path / "out").ok()
    same_as_slapcat(strict, tmp_path / "out")


@pytest.mark.long
def test_a_replica_is_seeded_by_ticket(place: Kerberized) -> None:
    with closing(replication.consumer(place.server)) as target:
        seed = ("replica", "seed", "--strategy", "search", *place.bind, "-b", SUFFIX)
        place.run(*seed, "--config", target.config_path).ok()
        with target:
            replication.wait_in_sync(place.server, target)
            assert_same(place.server, target)


@pytest.mark.long
def test_a_running_replica_is_seeded_by_ticket(place: Kerberized) -> None:
    """-Y and what goes with it hold for both servers."""
    service = place.realm.home / "ldap-localhost.keytab"
    lines = mapping(SUFFIX, "sasl-secprops minssf=56")
    lines = (*lines, 'authz-regexp "uid=writer,(cn=[^,]*,)*cn=auth" "cn=writer"')
    settings = Settings(global_lines=lines)
    with Slapd(settings, installation=place.realm.installation(service)) as target:
        # The reader may write cn=config, as the account of a seeding must.
        rule = f'{{0}}to * by dn.exact="cn=admin,{SUFFIX}" manage by * break'
        target.configure(
            f"dn: olcDatabase={{0}}config,cn=config\nchangetype: modify\nadd: olcAccess\nolcAccess: {rule}\n"
        )
        seed = ("replica", "seed", "--strategy", "online", *place.bind, "-b", SUFFIX)
        place.run(*seed, "--consumer", by_name(target.uri)).ok()
        assert target.context_csns() == place.server.context_csns()


def test_a_keytab_in_place_of_a_ticket(place: Kerberized, tmp_path: Path) -> None:
    """As a timer does it: nobody calls kinit."""
    cache = f"FILE:{place.realm.home}/never-filled"
    env = {"KRB5_CLIENT_KTNAME": str(place.user_keytab), "KRB5CCNAME": cache}
    place.export(tmp_path / "out", env=env).ok()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", ["no ticket", "expired", "no KDC"])
def test_a_ticket_that_does_not_serve(place: Kerberized, target: Slapd, tmp_path: Path, case: str, verb: str) -> None:
    message, hint, env = "No Kerberos cred|No cred", "kinit", {"KRB5CCNAME": "FILE:/nowhere"}
    if case == "expired":
        env = place.realm.ticket("reader", place.user_keytab, f"short-{verb}", life="1s")
        time.sleep(2.1)
        message = "expired"
    elif case == "no KDC":
        env = place.realm.ticket("reader", place.user_keytab, f"lost-{verb}")
        config = Path(env["KRB5_CONFIG"]).read_text().replace(f":{place.realm.port}", ":1")
        (tmp_path / "krb5.conf").write_text(config)
        env = {**env, "KRB5_CONFIG": str(tmp_path / "krb5.conf")}
        message, hint = "Cannot contact any KDC", "krb5.conf"
    command = commands(place.uri, SUFFIX, target, tmp_path)[verb]
    done = place.run(*command, "-Y", "GSSAPI", "-N", env=env)
    refused(done, KerberosFailed, message, hint)


@pytest.mark.long
def test_a_server_that_the_realm_does_not_know(place: Kerberized, tmp_path: Path) -> None:
    bind = ("-H", place.server.uri, "-Y", "GSSAPI", "-N", "-b", SUFFIX)
    done = place.run("export", *bind, "-o", tmp_path / "out")
    refused(done, KerberosFailed, "not found in Kerberos database|Cannot determine realm", "ldap/HOST")


@pytest.mark.long
def test_a_server_that_has_not_its_key(people_ldif: Path, tmp_path: Path) -> None:
    """The KDC gives the ticket, and slapd cannot read it."""
    require(missing_kerberos())
    with kerberized(people_ldif) as place:
        (place.realm.home / "ldap-localhost.keytab").unlink()
        place.server.restart()
        refused(place.export(tmp_path / "out"), KerberosFailed, "GSSAPI", "keytab")
