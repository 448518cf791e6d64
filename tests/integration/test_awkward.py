"""Entries that nobody expects, added, exported, compared and added again: each comes back byte for byte."""

from __future__ import annotations

import random
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import Value, hard_tree, record
from loader import errors
from tests.support import killing
from tests.support.adding import SUFFIX
from tests.support.command import Done, ditseed
from tests.support.dumped import exported, records
from tests.support.seeding import bind
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

MANY = 50_000  # values of one attribute
HUGE = 20 << 20  # bytes of one value
LARGER = "sockbuf_max_incoming_auth 100000000"  # than slapd takes by default: 16 MiB


def _tree() -> Iterator[str]:
    yield from hard_tree(SUFFIX)
    (certificate, *_) = ssl.create_default_context().get_ca_certs(binary_form=True)
    members = [("member", f"uid=user{number:06},ou=nowhere,{SUFFIX}") for number in range(MANY)]
    special: dict[str, list[tuple[str, Value]]] = {
        "person": [("sn", "s"), ("userPassword", b"\x00\xff\xfe"), ("userCertificate;binary", certificate)],
        "inetOrgPerson": [("sn", "s"), ("jpegPhoto", random.Random(1).randbytes(HUGE))],
        "groupOfNames": [*members],
        "referral": [("ref", "ldap://a/"), ("ref", "ldap://b/x??sub")],
        "alias": [("aliasedObjectName", f"ou=not there,{SUFFIX}")],
        "subentry": [("subtreeSpecification", "{}")],
    }
    for kind, more in special.items():
        classes = [("objectClass", kind), ("objectClass", "extensibleObject")]
        yield record(f"cn=special {kind},{SUFFIX}", [*classes, ("cn", f"special {kind}"), *more])


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("awkward") / "tree.ldif"
    path.write_text("".join(_tree()))
    return path


@pytest.fixture(scope="module")
def pair(ldif: Path) -> Iterator[tuple[Slapd, Slapd]]:
    """One that was given the tree over LDAP, and an empty one."""
    settings = Settings(global_lines=(LARGER,))
    with ExitStack() as running:
        full, empty = (running.enter_context(replication.provider(settings)) for _ in range(2))
        done = ditseed("add", ldif, *_as_root(full), "--json").ok()
        assert done.facts["added"] == sum(1 for _ in _tree())
        yield full, empty


def _as_root(server: Slapd) -> tuple[object, ...]:
    return ("-H", server.uri, "-D", server.root_dn, "-y", server.password_file)


def _compared(a: object, b: object, server: Slapd, *more: object) -> Done:
    who = ("-D", server.root_dn, "-y", server.password_file, "-b", SUFFIX)
    return ditseed("compare", a, b, *who, *more).ok()


@pytest.mark.rows(1)
@pytest.mark.parametrize("options", ["", "--page 10", "--pieces 7", "--jobs 1 --compress none"])
def test_all_of_it_is_exported(pair: tuple[Slapd, Slapd], ldif: Path, tmp_path: Path, options: str) -> None:
    full, _ = pair
    ditseed("export", *_as_root(full), "-b", SUFFIX, "-o", tmp_path / "out", *options.split()).ok()
    _compared(tmp_path / "out", full.uri, full)
    _compared(tmp_path / "out", full.database_dir, full)
    _compared(tmp_path / "out", ldif, full, "--user-attributes")


@pytest.mark.long
def test_and_added_to_another(pair: tuple[Slapd, Slapd], tmp_path: Path) -> None:
    full, empty = pair
    ditseed("export", *_as_root(full), "-b", SUFFIX, "-o", tmp_path / "out").ok()
    ditseed("add", tmp_path / "out", *_as_root(empty)).ok()
    theirs = ("--consumer-password-file", empty.password_file)
    _compared(full.uri, empty.uri, full, "--user-attributes", *theirs)
    again = ("--restart", "--on-exists", "replace", "--json")
    told = ditseed("add", tmp_path / "out", *_as_root(empty), *again).ok().facts
    assert (told["present"], told["replaced"]) == (told["read"], 0)


def test_a_value_that_is_too_large_for_the_server(ldif: Path, tmp_path: Path) -> None:
    with Slapd() as server:
        kept = ("--max-rejects", 1, "--rejects", tmp_path / "kept.ldif", "--json")
        done = ditseed("add", ldif, *_as_root(server), *kept)
    assert done.status == 1, done
    ((*_, reason),) = done.facts["rejections"]
    assert "olcSockbufMaxIncomingAuth" in reason


@pytest.mark.long
def test_dead_servers_in_the_list(pair: tuple[Slapd, Slapd], tmp_path: Path) -> None:
    """libldap's list: the next one, when one is down."""
    full, _ = pair
    for number, uris in enumerate((f"ldap://127.0.0.1:1 {full.uri}", f"ldap://no.invalid,{full.uri}")):
        who = ("-H", uris, *_as_root(full)[2:])
        ditseed("export", *who, "-b", SUFFIX, "-o", tmp_path / f"{number}").ok()
        _compared(tmp_path / f"{number}", full.uri, full)


# --- subentries (RFC 3672), which are in no search but one that asks for them; replicas have them, too --

PLACES = (SUFFIX, f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}")
PLAIN = [("objectClass", "subentry"), ("subtreeSpecification", "{ }")]
ANY = [*PLAIN, ("objectClass", "extensibleObject"), ("description", "any")]


@pytest.fixture
def provider(provider: Slapd) -> Slapd:
    for place in PLACES:
        provider.ldapadd(record(f"cn=plain,{place}", [*PLAIN, ("cn", "plain")]))
        provider.ldapadd(record(f"cn=any,{place}", [*ANY, ("cn", "any")]))
    return provider


def same_as_slapcat(server: Slapd, out: Path) -> None:
    """Record by record; the same DN twice would show."""
    found, expected = (sorted(one[0] for one in made) for made in (exported(out), records(server.slapcat())))
    assert found == expected
    text = out.with_suffix(".slapcat")
    text.write_text(server.slapcat())
    ditseed("compare", out, text).ok()


@pytest.mark.long("3")
@pytest.mark.parametrize("pieces", [1, 3])
def test_exports_and_comparisons_have_them(provider: Slapd, tmp_path: Path, pieces: int) -> None:
    """Also below a container that moves meanwhile: they keep their entryCSN, so syncrepl would not tell of them."""
    out, moved = tmp_path / "out", tmp_path / "moved"
    export = ("export", *bind(provider), "-b", SUFFIX, "--compress", "none", "--pieces", pieces, "-o")
    assert provider.search("(objectClass=subentry)", ("1.1",)) == [], "hidden"
    ditseed(*export, out).ok()
    same_as_slapcat(provider, out)
    assert "the server counts" not in (out / "manifest.json").read_text()
    words = ("compare", provider.uri, out, *bind(provider)[2:], "-b", SUFFIX)
    ditseed(*words).ok()
    provider.ldapmodify(f"dn: cn=plain,ou=people,{SUFFIX}\nchangetype: delete\n")
    done = ditseed(*words)
    assert (done.status, "cn=plain,ou=people" in done.out) == (errors.EXIT_DIFFERENT, True), done
    killing.killed("read.recorded", *export, moved)
    renamed = "changetype: modrdn\nnewrdn: ou=folk\ndeleteoldrdn: 1\n"
    provider.ldapmodify(f"dn: ou=people,{SUFFIX}\n{renamed}")
    ditseed(*export, moved).ok()
    same_as_slapcat(provider, moved)


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
            _change(provider, f"cn=any,ou=people,{SUFFIX}")
            replication.wait_in_sync(provider, target)
            assert_same(provider, target)
            target.restart()
            # Once this has come, the consumer's search has begun.
            _change(provider, SUFFIX)
            replication.wait_in_sync(provider, target)
            _change(provider, f"cn=any,ou=groups,{SUFFIX}")
            replication.wait_in_sync(provider, target)
            ditseed(*verify, *password).ok()


def _change(server: Slapd, dn: str) -> None:
    server.ldapmodify(f"dn: {dn}\nchangetype: modify\nadd: description\ndescription: changed\n")
