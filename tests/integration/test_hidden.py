"""What a provider hides from the account that seeds: refused before the reading, by name, with the line that helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import ldap
import pytest

from fixtures import replication
from fixtures.aside import BackgroundThread
from fixtures.churn import Churn
from fixtures.golden.records import pairs_of
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from loader.errors import HiddenFromAccount
from loader.server import visibility
from loader.server.options import Connection
from loader.server.session import session
from loader.server.visibility import VisibilityReport
from tests.support.adding import SUFFIX, TOP, people, unit
from tests.support.command import Done, ditseed
from tests.support.seeding import online
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

READER = f"cn=reader,{SUFFIX}"
LDIF = "".join(
    [
        TOP,
        record(READER, pairs_of("objectClass: inetOrgPerson; cn: reader; sn: reader; userPassword: reads")),
        unit("people"),
        record(
            f"uid=u0,ou=people,{SUFFIX}",
            pairs_of("objectClass: inetOrgPerson; uid: u0; cn: U; sn: S; mail: u0@example.com; userPassword: secret"),
        ),
    ]
)
BY = f'by dn.exact="{READER}"'
REST = f"access to * {BY} read by anonymous auth"
PEOPLE = f'dn.subtree="ou=people,{SUFFIX}"'
CHILDREN = f'dn.children="ou=people,{SUFFIX}"'


@contextmanager
def provider(*rules: str, monitored: bool = False, schema: tuple[Path, ...] = ()) -> Iterator[Slapd]:
    """With these access rules and none of the fixture's. monitored: the account may read cn=Monitor."""
    server = replication.provider(Settings(limits=(), server_id=1, schema=schema, access=(*rules, REST)))
    if monitored:
        server.rewrite(lambda text: re.sub(r"(database monitor\naccess to \*)", rf"\1 {BY} read", text))
    (server.home / "reader").write_text("reads")
    with closing(server):
        server.slapadd(LDIF)
        yield server.start()


def consumer(server: Slapd) -> closing[Slapd]:
    return closing(replication.consumer(server))


def bound(server: Slapd) -> tuple[object, ...]:
    return ("-H", server.uri, "-D", READER, "-y", server.home / "reader", "-b", SUFFIX)


def seed(server: Slapd, target: Slapd, *more: object) -> Done:
    words = ("replica", "seed", "--strategy", "search", "--config", target.config_path)
    return ditseed(*words, *bound(server), *more)


HIDDEN = {
    "no search for passwords": (f"access to attrs=userPassword {BY} none by anonymous auth", "userPassword"),
    "no reading of passwords": (f"access to attrs=userPassword {BY} search by anonymous auth", "userPassword"),
    "passwords of some": (f"access to {PEOPLE} attrs=userPassword {BY} none by anonymous auth", "userPassword"),
    "operational": (f"access to attrs=entryUUID,entryCSN {BY} none", "entryUUID"),
    "any other": (f"access to attrs=mail {BY} none", "mail"),
    "entries": (f"access to {CHILDREN} {BY} none by anonymous auth", "the entries below ou=people"),
}


@pytest.mark.rows(0, "passwords of some")
@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_attributes_are_refused_before_the_reading(case: str, short_tmp: Path) -> None:
    """An export only notes them."""
    rule, named = HIDDEN[case]
    with provider(rule) as server, consumer(server) as target:
        for more in ((), ("--dry-run",)):
            mark = server.log_size()
            done = seed(server, target, *more)
            done.refused(HiddenFromAccount, named)
            assert f'olcAccess: {{0}}to * by dn.exact="{READER}" read by * break' in done.err
            assert "read:" not in done.err
            # A dry run plans the reading all the same, because a limit may be missing as well.
            assert more or not server.log_lines(r'SRCH base="dc=example,dc=com" scope=2.*entryUUID', mark)
        seed(server, target, "--allow-hidden").ok()
        noted = ditseed("export", *bound(server), "-o", short_tmp / "out", "--json").ok()
        assert any(named in note for note in noted.facts["notes"])


def test_secrets_of_single_entries_are_found(tmp_path: Path) -> None:
    """Of types that none of the first 200 entries has, and whose values the account may only search."""
    types = ("krbPrincipalKey", "sambaNTPassword")
    classes = "".join(
        f"attributetype ( 1.3.6.1.4.1.99999.{number} NAME '{name}' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )\n"
        f"objectclass ( 1.3.6.1.4.1.99999.1{number} NAME 'with{name}' AUXILIARY MAY {name} )\n"
        for number, name in enumerate(types)
    )
    (tmp_path / "secrets.schema").write_text(classes)
    rule = f"access to attrs={','.join(types)} {BY} search by anonymous auth"
    names = {name: f"uid={name},ou=people,{SUFFIX}" for name in types}
    with provider(rule, schema=(tmp_path / "secrets.schema",)) as server:
        server.ldapadd(people(250, f"ou=people,{SUFFIX}"))
        for name, dn in names.items():
            server.ldapadd(f"dn: {dn}\nobjectClass: account\nobjectClass: with{name}\nuid: {name}\n{name}: x\n")
        assert looked_at(server).hidden == names


def test_hidden_entries_that_the_server_counts_are_refused(short_tmp: Path) -> None:
    """A sample does not show that one entry of several is hidden; the number of all does."""
    one = f'access to dn.exact="uid=u0,ou=people,{SUFFIX}" {BY} none by anonymous auth'
    with provider(one, monitored=True) as server, consumer(server) as target:
        server.ldapadd(f"dn: uid=u1,ou=people,{SUFFIX}\nobjectClass: account\nuid: u1\n")
        seed(server, target).refused(HiddenFromAccount, "the server counts 5 entries")
        exported = ditseed("export", *bound(server), "-o", short_tmp / "out").ok()
        assert "the server counts 5 entries" in exported.out + exported.err
        words = ("replica", "seed", "--strategy", "ldif", "--config", target.config_path)
        ditseed(*words, "--from", short_tmp / "out", "-b", SUFFIX).refused(HiddenFromAccount)
        seed(server, target, "--allow-hidden").ok()


@pytest.mark.rows(0, "only read")
@pytest.mark.parametrize(
    "rules", [(), (f"access to attrs=userPassword {BY} =r by anonymous auth",)], ids=["read", "only read"]
)
def test_what_may_be_read_is_not_hidden(rules: tuple[str, ...]) -> None:
    """Even if it may not be searched."""
    with provider(*rules) as server, consumer(server) as target:
        seed(server, target).ok()
        assert_same(server, target)


class Toggling(BackgroundThread):
    """Gives all entries an attribute and takes it away, as fast as the server goes."""

    def __init__(self, server: Slapd) -> None:
        super().__init__()
        self.server = server

    def _work(self) -> None:
        with self.server.connection() as connection:
            while not self._over.is_set():
                for values in ([b"now"], None):
                    for name in (SUFFIX, f"ou=people,{SUFFIX}", f"uid=u0,ou=people,{SUFFIX}"):
                        with suppress(ldap.NO_SUCH_OBJECT):  # the other writer's doing
                            connection.modify_s(name, [(ldap.MOD_REPLACE, "description", values)])


@pytest.mark.long
def test_changes_between_the_answer_and_the_filter_are_no_hiding() -> None:
    with provider() as server, Toggling(server), Toggling(server), Churn(server, rate=300, base=f"ou=people,{SUFFIX}"):
        for _ in range(40):
            sight = looked_at(server)
            assert (sight.hidden, sight.computed, sight.below) == ({}, {}, [])


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in HIDDEN if case != "entries"])
def test_hiding_is_found_while_others_write(case: str) -> None:
    rule, named = HIDDEN[case]
    with provider(rule) as server, Toggling(server), Toggling(server):
        for _ in range(5):
            assert named in looked_at(server).hidden


def looked_at(server: Slapd) -> VisibilityReport:
    connection = Connection(server.uri, READER, password_file=str(server.home / "reader"), base=SUFFIX)
    with session(connection) as asked:
        found = visibility.compare_sample(asked, SUFFIX)
    assert found is not None
    return found


@pytest.mark.long
def test_a_comparison_says_what_it_did_not_see() -> None:
    rule, named = HIDDEN["no search for passwords"]
    with provider(rule) as server, consumer(server) as target:
        seed(server, target, "--allow-hidden").ok()
        target.start()
        replication.wait_in_sync(server, target)
        there = ("--consumer", target.uri, "--consumer-bind-dn", "cn=replicator")
        password = ("--consumer-password-file", target.replicator_password_file)
        done = ditseed("replica", "verify", *bound(server), *there, *password).ok()
        assert named in done.out


def test_an_online_seeding_refuses_as_well() -> None:
    rule, named = HIDDEN["no search for passwords"]
    with provider(rule) as server, Slapd(replication.as_consumer(server.settings)) as target:
        for more in ((), ("--dry-run",)):
            ditseed(*online(server, target, *bound(server)), *more).refused(HiddenFromAccount, named)
        assert not target.slapcat(), "nothing was written"
