"""SASL on the command line: who one is, for whom one acts, what ldap.conf says, and what is refused, in which words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.passwords import write_private
from fixtures.slapd import Slapd, missing_slapd
from fixtures.slapd_config import Settings
from loader.errors import BadCredentials, NoMechanism, TooWeak, UsageProblem
from tests.support.command import ditseed
from tests.support.require import require
from tests.support.sasl import VERBS, by_name, commands, refused

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
WORD = "correct horse, battery"
# Hashed passwords serve no challenge, so these are kept as they are.
ACCOUNTS = "".join(
    f"dn: uid={name},{SUFFIX}\nobjectClass: account\nobjectClass: simpleSecurityObject\nuid: {name}\n"
    f"userPassword: {WORD}\n{more}\n"
    for name, more in (("deputy", f"authzTo: dn.exact:cn=admin,{SUFFIX}\n"), ("other", ""))
)
TREE = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n{ACCOUNTS}"
SCRAM = ("SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512")


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
    """How many of the exported entries show one."""
    return sum(path.read_text().count("userPassword::") for path in out.glob("*.ldif"))


@pytest.mark.parametrize("mechanism", SCRAM)
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
def test_a_wrong_password(place: Place, verb: str) -> None:
    bind = ("-Y", "SCRAM-SHA-256", "-U", "deputy", *place.password("wrong"))
    refused(ditseed(*place.command(verb), *bind), BadCredentials, "as deputy", "-U and -X")


@pytest.mark.parametrize("verb", VERBS)
def test_a_mechanism_that_nobody_knows(place: Place, verb: str) -> None:
    bind = ("-Y", "NONSENSE", "-U", "deputy", *place.password())
    refused(ditseed(*place.command(verb), *bind), NoMechanism, "NONSENSE", "SCRAM-SHA-256")


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
    """A mechanism, and a simple bind in clear."""
    lines = ("sasl-secprops minssf=56", "sasl-host localhost", "security simple_bind=56")
    with Slapd(Settings(global_lines=lines)) as server:
        place = Place(server, tmp_path, target)
        bind = ("-Y", "SCRAM-SHA-256", "-U", "deputy", *place.password())
        refused(ditseed(*place.command("export"), *bind), TooWeak, "SCRAM-SHA-256", "-ZZ")
        bind = ("-D", server.root_dn, "-y", str(server.password_file))
        refused(ditseed(*place.command("export"), *bind), TooWeak, "onfidentiality", "-ZZ")
