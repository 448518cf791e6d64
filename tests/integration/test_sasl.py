"""SASL on the command line: who one is, for whom one acts, what ldap.conf says, and what is refused, in which words.
Kerberos: every verb comes in by a ticket, with and without GSSAPI's security layer, and says what is missing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.kerberos import missing_kerberos
from fixtures.passwords import write_private
from fixtures.slapd import Slapd, missing_slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from fixtures.trees import record
from loader.errors import BadCredentials, KerberosFailed, LoaderError, NoMechanism, TooWeak, UsageProblem
from tests.support.adding import ADMIN, SUFFIX
from tests.support.command import ditseed
from tests.support.require import require
from tests.support.sasl import VERBS, Kerberized, by_name, commands, kerberized, mapping, refused
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

WORD = "correct horse, battery"
# Hashed passwords serve no challenge, so these are kept as they are.
ACCOUNTS = "".join(
    f"dn: uid={name},{SUFFIX}\nobjectClass: account\nobjectClass: simpleSecurityObject\nuid: {name}\n"
    f"userPassword: {WORD}\n{more}\n"
    for name, more in (("deputy", f"authzTo: dn.exact:cn=admin,{SUFFIX}\n"), ("other", ""))
)
TREE = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n{ACCOUNTS}"
# Security properties, and the strength of the layer that comes of them (AES-256 counts as 256).
LAYERS = {"maxssf=0": 0, "minssf=56": 256, "minssf=56,maxbufsize=4096": 256}


@dataclass(frozen=True)
class Place:
    server: Slapd
    home: Path
    consumer: Slapd  # stopped

    @property
    def uri(self) -> str:
        return by_name(self.server.uri)

    def password(self, word: str = WORD) -> tuple[str, ...]:
        path = self.home / "password"
        write_private(path, word)
        return ("-y", str(path))

    def command(self, verb: str) -> tuple[object, ...]:
        return commands(self.uri, SUFFIX, self.consumer, self.home)[verb]


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    require(missing_slapd())
    lines = (
        "sasl-secprops none",
        "sasl-host localhost",
        "authz-policy to",
        f'authz-regexp "uid=([^,]*),(cn=[^,]*,)*cn=auth" "uid=$1,{SUFFIX}"',
    )
    made = replication.provider(Settings(global_lines=lines))
    made.slapadd(TREE)
    with made:
        yield made


@pytest.fixture
def place(server: Slapd, target: Slapd, tmp_path: Path) -> Place:
    return Place(server, tmp_path, target)


def passwords_in(out: Path) -> int:
    return sum(path.read_text().count("userPassword::") for path in out.glob("*.ldif"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_one_is_and_for_whom_one_acts(place: Place, mechanism: str) -> None:
    """Only the root DN may read passwords; the deputy may act for it."""
    bind = ("-Y", mechanism, "-U", "deputy", *place.password(), "--compress", "none")
    ditseed(*place.command("export"), *bind).ok()
    assert passwords_in(place.home / "out") == 1  # one's own
    acting = (*bind, "-X", f"dn:cn=admin,{SUFFIX}", "--restart")
    ditseed(*place.command("export"), *acting).ok()
    assert passwords_in(place.home / "out") == 2
    assert WORD not in (place.home / "out" / "manifest.json").read_text()


def test_what_ldaprc_says_holds(place: Place) -> None:
    rc = place.home / "ldaprc"
    rc.write_text(f"SASL_AUTHCID deputy\nSASL_AUTHZID dn:cn=admin,{SUFFIX}\n")
    bind = ("-Y", "SCRAM-SHA-256", *place.password(), "--compress", "none")
    ditseed(*place.command("export"), *bind, env={"LDAPRC": str(rc), "HOME": str(place.home)}).ok()
    assert passwords_in(place.home / "out") == 2


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("mechanism", "word", "error", "message", "hint"),
    [
        ("SCRAM-SHA-256", "wrong", BadCredentials, "as deputy", "-U and -X"),
        ("NONSENSE", WORD, NoMechanism, "NONSENSE", "SCRAM-SHA-256"),
    ],
    ids=["a wrong password", "a mechanism that nobody knows"],
)
def test_nobody_comes_in(
    place: Place, mechanism: str, word: str, error: type[LoaderError], message: str, hint: str, verb: str
) -> None:
    bind = ("-Y", mechanism, "-U", "deputy", *place.password(word))
    refused(ditseed(*place.command(verb), *bind), error, message, hint)


def test_one_may_not_act_for_just_anybody(place: Place) -> None:
    bind = ("-Y", "SCRAM-SHA-256", "-U", "other", *place.password())
    done = ditseed(*place.command("export"), *bind, "-X", f"dn:cn=admin,{SUFFIX}")
    refused(done, BadCredentials, "as other", "-X")


@pytest.mark.parametrize(
    ("words", "message"),
    [(("-U", "deputy"), "-U is only for SASL"), (("-Y", "SCRAM-SHA-256", "-O", "nonsense=1"), "-O nonsense=1")],
)
def test_words_that_make_no_sense(place: Place, words: tuple[str, ...], message: str) -> None:
    refused(ditseed(*place.command("export"), *words), UsageProblem, message, "--help")


def test_what_has_no_layer_where_one_is_demanded(target: Slapd, tmp_path: Path) -> None:
    lines = ("sasl-secprops minssf=56", "sasl-host localhost", "security simple_bind=56")
    with Slapd(Settings(global_lines=lines)) as server:
        place = Place(server, tmp_path, target)
        bind = ("-Y", "SCRAM-SHA-256", "-U", "deputy", *place.password())
        refused(ditseed(*place.command("export"), *bind), TooWeak, "SCRAM-SHA-256", "-ZZ")
        bind = ("-D", server.root_dn, "-y", str(server.password_file))
        refused(ditseed(*place.command("export"), *bind), TooWeak, "onfidentiality", "-ZZ")


# --- Kerberos -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kerberos(people_ldif: Path, authority: Authority) -> Iterator[Kerberized]:
    require(missing_kerberos())
    with kerberized(people_ldif, "sasl-secprops none", authority=authority) as made:
        yield made


@pytest.fixture(scope="module")
def strict(people_ldif: Path) -> Iterator[Kerberized]:
    """Wants a layer of every mechanism, and of every operation."""
    require(missing_kerberos())
    with kerberized(people_ldif, "sasl-secprops minssf=56", "security update_ssf=56") as made:
        yield made


def same_as_slapcat(kerberos: Kerberized, out: Path) -> None:
    text = out.with_suffix(".slapcat")
    text.write_text(kerberos.server.slapcat())
    ditseed("compare", out, text).ok()


@pytest.mark.rows(0, "minssf=56,maxbufsize=4096")
@pytest.mark.parametrize("properties", LAYERS)
def test_a_reading_is_whole(kerberos: Kerberized, tmp_path: Path, properties: str) -> None:
    """Both doors, python-ldap's and the core's, are given the same properties."""
    start = kerberos.server.log_size()
    done = kerberos.export(tmp_path / "out", "-O", properties, "--jobs", 3, "--pieces", 3).ok()
    assert done.facts["entries"] > 1000
    lines = "\n".join(kerberos.server.log_lines("mech=GSSAPI", start))
    assert set(re.findall(r"bind_ssf=(\d+)", lines)) == {str(LAYERS[properties])}
    same_as_slapcat(kerberos, tmp_path / "out")


@pytest.mark.long
def test_inside_of_tls(kerberos: Kerberized, authority: Authority, tmp_path: Path) -> None:
    bind = ("-H", by_name(kerberos.server.ldaps_uri), "-Y", "GSSAPI", "-N", "-O", "minssf=56")
    env = {"LDAPTLS_CACERT": str(authority.ca), "LDAPTLS_REQCERT": "allow"}
    kerberos.run("export", *bind, "-b", SUFFIX, "-o", tmp_path / "out", env=env).ok()
    same_as_slapcat(kerberos, tmp_path / "out")


@pytest.mark.long
def test_adds_through_the_layer_that_a_server_demands(strict: Kerberized, tmp_path: Path) -> None:
    """In transactions, over several connections: large writes are cut into what the layer takes."""
    more = tmp_path / "more.ldif"
    sizes = {**{f"u{number}": number % 7 * 300 + 1 for number in range(3000)}, "big": 300_000}
    unit = [("objectClass", "organizationalUnit")]
    more.write_text(
        "".join(
            record(f"ou={name},{SUFFIX}", [*unit, ("ou", name), ("description", "x" * size)])
            for name, size in sizes.items()
        )
    )
    done = strict.run("add", more, *strict.bind, "--jobs", 3, "--json").ok()
    assert done.facts["added"] == 3001
    strict.export(tmp_path / "out").ok()
    same_as_slapcat(strict, tmp_path / "out")
    refused(strict.export(tmp_path / "weak", "-O", "maxssf=0"), TooWeak, "too weak", "-ZZ")


@pytest.mark.long
def test_a_replica_is_seeded_by_ticket(kerberos: Kerberized) -> None:
    with closing(replication.consumer(kerberos.server)) as target:
        seed = ("replica", "seed", "--strategy", "search", *kerberos.bind, "-b", SUFFIX)
        kerberos.run(*seed, "--config", target.config_path).ok()
        with target:
            replication.wait_in_sync(kerberos.server, target)
            assert_same(kerberos.server, target)


@pytest.mark.long
def test_a_running_replica_is_seeded_by_ticket(kerberos: Kerberized) -> None:
    """-Y and what goes with it hold for both servers."""
    service = kerberos.realm.home / "ldap-localhost.keytab"
    settings = Settings(global_lines=mapping(SUFFIX, "sasl-secprops minssf=56"))
    with Slapd(settings, installation=kerberos.realm.installation(service)) as target:
        target.configure(ADMIN)  # the reader may write cn=config, as the account of a seeding must
        seed = ("replica", "seed", "--strategy", "online", *kerberos.bind, "-b", SUFFIX)
        kerberos.run(*seed, "--consumer", by_name(target.uri)).ok()
        assert target.context_csns() == kerberos.server.context_csns()


def test_a_keytab_in_place_of_a_ticket(kerberos: Kerberized, tmp_path: Path) -> None:
    """As a timer does it: nobody calls kinit."""
    cache = f"FILE:{kerberos.realm.home}/never-filled"
    env = {"KRB5_CLIENT_KTNAME": str(kerberos.user_keytab), "KRB5CCNAME": cache}
    kerberos.export(tmp_path / "out", env=env).ok()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", ["no ticket", "expired", "no KDC"])
def test_a_ticket_that_does_not_serve(
    kerberos: Kerberized, target: Slapd, tmp_path: Path, case: str, verb: str
) -> None:
    message, hint, env = "No Kerberos cred|No cred", "kinit", {"KRB5CCNAME": "FILE:/nowhere"}
    if case == "expired":
        env = kerberos.realm.ticket("reader", kerberos.user_keytab, f"short-{verb}", life="1s")
        time.sleep(2.1)
        message = "expired"
    elif case == "no KDC":
        env = kerberos.realm.ticket("reader", kerberos.user_keytab, f"lost-{verb}")
        config = Path(env["KRB5_CONFIG"]).read_text().replace(f":{kerberos.realm.port}", ":1")
        (tmp_path / "krb5.conf").write_text(config)
        env = {**env, "KRB5_CONFIG": str(tmp_path / "krb5.conf")}
        message, hint = "Cannot contact any KDC", "krb5.conf"
    command = commands(kerberos.uri, SUFFIX, target, tmp_path)[verb]
    done = kerberos.run(*command, "-Y", "GSSAPI", "-N", env=env)
    refused(done, KerberosFailed, message, hint)


@pytest.mark.long
def test_a_server_that_the_realm_does_not_know(kerberos: Kerberized, tmp_path: Path) -> None:
    bind = ("-H", kerberos.server.uri, "-Y", "GSSAPI", "-N", "-b", SUFFIX)
    done = kerberos.run("export", *bind, "-o", tmp_path / "out")
    refused(done, KerberosFailed, "not found in Kerberos database|Cannot determine realm", "ldap/HOST")


@pytest.mark.long
def test_a_server_that_has_not_its_key(people_ldif: Path, tmp_path: Path) -> None:
    """The KDC gives the ticket, and slapd cannot read it."""
    require(missing_kerberos())
    with kerberized(people_ldif) as kerberos:
        (kerberos.realm.home / "ldap-localhost.keytab").unlink()
        kerberos.server.restart()
        refused(kerberos.export(tmp_path / "out"), KerberosFailed, "GSSAPI", "keytab")
