"""What overlays show, held against what is stored: the table of loader/overlays.py row by row, with a real slapd."""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import ldap
import pytest
from ldif import LDIFRecordList

from fixtures import replication
from fixtures.chroots import chroot, missing_chroot
from fixtures.golden.records import pairs_of
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation, Settings
from fixtures.trees import record
from loader import overlays
from loader.errors import NotAsStored
from loader.overlays import Shows
from tests.support.command import Done, ditseed
from tests.support.require import require
from tests.support.seeding import bind
from tests.support.trees import Tree, assert_same, differences

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
ACCOUNT = "objectClass: inetOrgPerson; cn: U; sn: S; userPassword: secret"
LDIF = "".join(
    record(dn, pairs_of(text))
    for dn, text in (
        (SUFFIX, "objectClass: domain; objectClass: extensibleObject; dc: example; description: of all"),
        (f"cn=default,{SUFFIX}", "objectClass: device; cn: default"),
        (PEOPLE, "objectClass: organizationalUnit; ou: people"),
        (f"uid=u0,{PEOPLE}", f"{ACCOUNT}; uid: u0; ou: {{2}}b; ou: {{1}}a"),
        (f"uid=u1,{PEOPLE}", f"{ACCOUNT}; uid: u1"),
        (f"cn=g,{SUFFIX}", f"objectClass: groupOfNames; cn: g; member: uid=u0,{PEOPLE}"),
        (f"cn=dynamic,{SUFFIX}", f"objectClass: groupOfURLs; cn: dynamic; memberURL: ldap:///{PEOPLE}??sub?(uid=u1)"),
    )
)
CHANGES = (
    f"dn: uid=u0,{PEOPLE}\nchangetype: modify\nreplace: mail\nmail: a@b.example\n\n"
    f"dn: cn=g,{SUFFIX}\nchangetype: modify\nadd: member\nmember: uid=u1,{PEOPLE}\n"
)


def change(server: Slapd) -> None:
    server.ldapmodify(CHANGES)


def binds(server: Slapd) -> None:
    """One that succeeds, one that does not."""
    for uid, password in (("u0", "secret"), ("u1", "wrong")):
        handle = ldap.initialize(server.uri)
        with suppress(ldap.INVALID_CREDENTIALS):
            handle.simple_bind_s(f"uid={uid},ou=people,{SUFFIX}", password)
        handle.unbind_s()


def dynamic_object(server: Slapd) -> None:
    server.ldapadd(f"dn: cn=passing,{SUFFIX}\nobjectClass: device\nobjectClass: dynamicObject\ncn: passing\n")
    time.sleep(1.1)  # until less than the whole time is left


@dataclass(frozen=True)
class Case:
    """lines: from "overlay NAME" on, or of the database. HOME stands for a directory."""

    name: str
    lines: str = ""
    act: Callable[[Slapd], None] = change
    modules: tuple[str, ...] = ()


GROUPS = "-attrset groupOfURLs memberURL member"
CASES = (
    Case("accesslog", "logdb cn=accesslog\nlogops writes"),
    Case("auditlog", "auditlog HOME/audit.log"),
    Case("autogroup", f"autogroup{GROUPS}", modules=("memberof",)),
    Case("collect", f'collectinfo "{SUFFIX}" description'),
    Case("constraint", "constraint_attribute mail count 3"),
    Case("dds", act=dynamic_object),
    Case("deref"),
    Case("dyngroup"),
    Case("dynlist", f"dynlist{GROUPS}+memberOf@groupOfNames*"),
    Case("homedir"),
    Case("lastbind", act=binds),
    Case("memberof"),
    Case("otp"),
    Case("ppolicy", f"ppolicy_default cn=default,{SUFFIX}", act=binds),
    Case("refint", "refint_attributes member"),
    Case("remoteauth", "remoteauth_dn_attribute seeAlso"),
    Case("retcode", f'retcode-parent "cn=codes,{SUFFIX}"\nretcode-item "cn=bad" 0x01'),
    Case("rwm", "rwm-map attribute givenName sn"),
    Case("seqmod"),
    Case("sssvlv"),
    Case("translucent", "uri ldap://127.0.0.1:9/", lambda server: None),
    Case("unique", "unique_uri ldap:///?uid?sub"),
    Case("valsort", f"valsort-attr ou uid=u0,ou=people,{SUFFIX} weighted"),
)
BY_NAME = {case.name: case for case in CASES}
ELSEWHERE = {
    "syncprov": "every provider here has it",
    "pcache": "a proxy's cache, not a database",
    "smbk5pwd": "of slapd-contrib; tests/compat/test_overlays_seeded.py looks at a replica",
}


def test_the_table_is_of_all_overlays() -> None:
    shipped = {one.name for one in overlays.OVERLAYS if one.debian}
    assert shipped == BY_NAME.keys() | ELSEWHERE.keys()
    modules = {path.stem for path in Path("/usr/lib/ldap").glob("*.so")}
    others = {name for name in modules if name.startswith(("back_", "pw-"))} | {"argon2"}
    assert modules - others <= shipped


@pytest.fixture(scope="module", params=["this", "trixie"])
def installation(request: pytest.FixtureRequest) -> Installation:
    """The slapd of this host, and that of Debian 13 (2.6)."""
    if request.param == "this":
        return Installation()
    require(missing_chroot())
    return Installation(chroot(request.param).prefix)


def _log(home: Path) -> str:
    (home / "log").mkdir()
    return f"database mdb\nsuffix cn=accesslog\nrootdn cn=accesslog\ndirectory {home}/log"


@contextmanager
def configured(case: Case, home: Path, installation: Installation | None = None) -> Iterator[Slapd]:
    log = _log(home)
    overlay = f"overlay {case.name}\n{case.lines}".replace("HOME", str(home))
    before = tuple(f"overlay {name}" for name in case.modules)
    settings = Settings(
        modules=("back_mdb", "back_ldap", "syncprov", *case.modules, case.name),
        schema=("/etc/ldap/schema/dyngroup.schema",),
        overlays=(*before, overlay),
        global_lines=(log,) if case.name == "accesslog" else (),
    )
    # translucent keeps no entryCSN, which syncprov needs.
    make = Slapd if case.name == "translucent" else replication.provider
    made = make(settings, installation=installation)
    with closing(made) as server:
        server.slapadd(LDIF)
        server.start()
        case.act(server)
        yield server


def exported(server: Slapd, home: Path) -> Tree:
    ditseed("export", *bind(server), "-b", SUFFIX, "-o", home / "out", "--compress", "none").ok()
    return entries("\n".join(path.read_text() for path in (home / "out").glob("*.ldif")))


def entries(text: str) -> Tree:
    """As tests.support.trees has them, from LDIF of any hand."""
    found = LDIFRecordList(io.BytesIO(text.encode()))
    found.parse()
    return {
        name: tuple(sorted(f"{key}: {value!r}" for key in entry for value in entry[key]))
        for name, entry in (
            (name, {key: entry[key] for key in entry if key != "contextCSN"}) for name, entry in found.all_records
        )
    }


@pytest.mark.rows(5, "trixie-collect")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_exported_is_what_is_stored(case: Case, short_tmp: Path, installation: Installation) -> None:
    row = overlays.BY_NAME[case.name]
    with configured(case, short_tmp, installation) as server:
        found = list(differences(exported(server, short_tmp), entries(server.slapcat())))
    if row.shows is Shows.OTHER:
        assert found, "the table says that a search does not show what is stored"
    else:
        moving = [one for one in found if row.shows is Shows.MOVING and row.attributes[0] in one]
        assert found == moving


def seed(server: Slapd, target: Slapd, *more: object, who: tuple[object, ...] = ()) -> Done:
    words = ("replica", "seed", "--strategy", "search", "--config", target.config_path)
    return ditseed(*words, *(who or bind(server)), *more)


@pytest.mark.long
def test_a_replica_of_what_is_not_shown_as_stored_is_refused(short_tmp: Path) -> None:
    with configured(BY_NAME["collect"], short_tmp) as server:
        plain = dataclasses.replace(server.settings, overlays=(), global_lines=())
        with closing(replication.consumer(server, plain)) as target:
            for words in ((), ("--dry-run",)):
                done = seed(server, target, *words)
                assert done.status == NotAsStored.exit_status, done.err
                assert "computes description " in done.err
            assert not list(target.database_dir.glob("*.mdb"))
            seed(server, target, "--allow-hidden").ok()


def test_overlays_that_the_server_tells_are_named(short_tmp: Path) -> None:
    """No sample shows that rwm maps an attribute: filters are mapped, too. cn=Monitor tells."""
    with configured(BY_NAME["rwm"], short_tmp) as server:
        plain = dataclasses.replace(server.settings, overlays=(), global_lines=())
        with closing(replication.consumer(server, plain)) as target:
            done = seed(server, target, "--dry-run", who=("-H", server.ldapi_uri, "-Y", "EXTERNAL"))
            assert done.status == NotAsStored.exit_status, done.err
            assert "the overlay rwm " in done.err


@pytest.mark.long
def test_the_replicas_overlays_speak_for_a_provider_that_does_not_tell() -> None:
    settings = Settings(modules=("back_mdb", "syncprov", "collect"))
    overlay = f'overlay collect\ncollectinfo "ou=nowhere,{SUFFIX}" description'
    with (
        replication.provider(settings) as server,
        closing(replication.consumer(server, dataclasses.replace(settings, overlays=(overlay,)))) as target,
    ):
        server.ldapadd(LDIF.partition("dn: cn=dynamic")[0])
        done = seed(server, target, "--dry-run")
        assert done.status == NotAsStored.exit_status, done.err
        assert "if the provider has it as well" in done.err
        seed(server, target, "--dry-run", who=("-H", server.ldapi_uri, "-Y", "EXTERNAL")).ok()


@pytest.mark.long
def test_a_replica_beside_an_overlay_is_the_provider_again(short_tmp: Path) -> None:
    """accesslog, dynlist and valsort together, as a natural consumer and slapcat have it."""
    names = ("valsort", "accesslog", "dynlist")
    settings = Settings(
        modules=("back_mdb", "syncprov", *names),
        schema=("/etc/ldap/schema/dyngroup.schema",),
        overlays=tuple(f"overlay {name}\n{BY_NAME[name].lines}" for name in names),
        global_lines=(_log(short_tmp),),
    )
    plain = dataclasses.replace(settings, overlays=(), global_lines=())
    with (
        replication.provider(settings) as server,
        closing(replication.consumer(server, plain)) as natural,
        closing(replication.consumer(server, plain)) as seeded,
    ):
        server.ldapadd(LDIF)
        natural.start()
        replication.wait_in_sync(server, natural)
        seed(server, seeded).ok()
        assert_same(seeded, server)
        assert_same(seeded, natural)
        seeded.start()
        change(server)
        replication.wait_in_sync(server, seeded)
        ditseed(*verifying(server, seeded)).ok()


def verifying(server: Slapd, target: Slapd) -> tuple[object, ...]:
    there = ("--consumer", target.uri, "--consumer-bind-dn", "cn=replicator")
    password = ("--consumer-password-file", target.replicator_password_file)
    return ("replica", "verify", *bind(server), "-b", SUFFIX, *there, *password)


def test_what_a_replica_notes_for_itself_is_no_difference() -> None:
    """A bind at the replica leaves authTimestamp there and nowhere else; another difference is still one."""
    settings = Settings(modules=("back_mdb", "syncprov", "lastbind"))
    noting = dataclasses.replace(settings, overlays=("overlay lastbind",))
    with (
        replication.provider(dataclasses.replace(noting, server_id=1)) as server,
        closing(replication.consumer(server, noting)) as target,
    ):
        server.ldapadd(LDIF.partition("dn: cn=dynamic")[0])
        seed(server, target, "-b", SUFFIX).ok()
        target.start()
        replication.wait_in_sync(server, target)
        words = verifying(server, target)
        assert not ditseed(*words, "--json").ok().facts["local"]
        binds(target)
        noted = ditseed(*words).ok()
        assert "authTimestamp" in noted.out
        assert "equal" in noted.out
        target.stop()
        text = target.slapcat().replace("cn: U\n", "cn: V\n")
        for name in ("data.mdb", "lock.mdb"):
            (target.database_dir / name).unlink()
        target.slapadd(text)
        target.start()
        assert ditseed(*words).status == 1
