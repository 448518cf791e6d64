"""`ditseed add` into a running slapd: everything arrives, once, whatever the order, the form and the way; what is there
already (--on-exists); what the server does not take: only the guilty suffer, and are told of; and a server with an
accesslog, to which another client writes."""

from __future__ import annotations

import dataclasses
import gzip
import random
import subprocess
import time
from pathlib import Path

import pytest
import zstandard

from fixtures import history
from fixtures.churn import Churn
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from loader import errors
from tests.support import adding
from tests.support.adding import SUFFIX, TOP, add, command, facts, names, names_in, people, person, unit, write
from tests.support.command import ditseed, piped, start

pytestmark = pytest.mark.slapd


def rejects(server: Slapd, ldif: Path, added: int, rejected: int, *options: object) -> str:
    """Runs a load that must add `added` entries and reject `rejected`. Returns the content of its rejects file."""
    kept = ldif.with_suffix(".rejects")
    done = add(server, ldif, "--max-rejects", rejected, "--rejects", kept, "--json", *options)
    assert (done.status, done.facts["added"], done.facts["rejected"]) == (errors.EXIT_DIFFERENT, added, rejected), done
    fates = ("added", "present", "replaced", "rejected")
    assert done.facts["read"] == sum(done.facts[fate] for fate in fates), done
    return kept.read_text()


def with_another(kind: str, suffix: str, directory: Path) -> Settings:
    """Returns settings with a second database of the given kind after the main one."""
    directory.mkdir(mode=0o700)
    lines = (f"database {kind}", f'suffix "{suffix}"', f"directory {directory}", f'rootdn "{Settings().root_dn}"')
    return Settings(database_lines=lines)


def entry(server: Slapd, dn: str) -> dict[str, list[bytes]]:
    values: dict[str, list[bytes]] = server.search(base=dn, scope=0)[0][1]
    return values


def test_everything_arrives(slapd_instance: Slapd, people_ldif: Path) -> None:
    told = facts(slapd_instance, people_ldif)
    assert told["added"] == told["read"] == people_ldif.read_text().count("\n\n")
    assert told["transactions"] > 0
    assert names(slapd_instance) == names_in(people_ldif.read_text())


def test_every_form_of_input(slapd_instance: Slapd, tmp_path: Path) -> None:
    texts = [TOP, unit("a"), people(50, f"ou=a,{SUFFIX}"), people(50, f"ou=a,{SUFFIX}", "q")]
    gz, zst, directory = tmp_path / "x.ldif.gz", tmp_path / "x.ldif.zst", tmp_path / "directory"
    gz.write_bytes(gzip.compress(texts[0].encode()))
    zst.write_bytes(zstandard.compress(texts[1].encode()))
    directory.mkdir()
    write(directory / "1.ldif", texts[2])
    piped(texts[3].encode(), *command(slapd_instance, gz, zst, directory, "-")).ok()
    assert names(slapd_instance) == names_in("".join(texts))


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("order", ["reverse", "shuffled"])
def test_children_before_parents(slapd_instance: Slapd, tmp_path: Path, jobs: int, order: str) -> None:
    """Across batches and connections; in the end all of them are there."""
    deep, above = [TOP], SUFFIX
    for level in range(8):
        deep.append(unit(f"l{level}", above))
        above = f"ou=l{level},{above}"
        deep += [person(f"q{level}-{n}", above) for n in range(40)]
    chance = random.Random(7)
    shuffled = deep[::-1] if order == "reverse" else chance.sample(deep, len(deep))
    path = write(tmp_path / "late.ldif", *shuffled)
    told = facts(slapd_instance, path, "--jobs", jobs, "--batch", 10)
    assert told["added"] == len(deep)
    assert told["waited_for_parents"] > 0
    assert names(slapd_instance) == names_in("".join(deep))


@pytest.mark.long("1")
@pytest.mark.parametrize("batch", ["auto", "1", "7"])
def test_many_containers_over_many_connections(slapd_instance: Slapd, tmp_path: Path, batch: str) -> None:
    """Each begins a batch that others depend on. No child has to be tried twice."""
    texts = [TOP]
    for number in range(60):
        texts.append(unit(f"u{number}"))
        texts += [person(f"c{number}-{n}", f"ou=u{number},{SUFFIX}") for n in range(9)]
    told = facts(slapd_instance, write(tmp_path / "x.ldif", *texts), "--jobs", 4, "--batch", batch)
    assert told["added"] == len(texts)
    assert told["waited_for_parents"] == 0
    assert bool(told["transactions"]) == (batch != "1")


def test_operational_attributes(slapd_instance: Slapd, tmp_path: Path) -> None:
    """They stay at home, and the server's own are made; on request, with the relax control, those that slapd lets a
    manager set are kept."""
    uuid = "11111111-2222-4333-8444-555555555555"
    csn = "20200101000000.000000Z#000000#000#000000"
    stamps = (
        *(("entryUUID", uuid), ("createTimestamp", "20200101000000Z"), ("entryCSN", csn)),
        *(("creatorsName", "cn=somebody"), ("structuralObjectClass", "person")),
    )
    path = write(tmp_path / "x.ldif", TOP, person("one", SUFFIX, *stamps, ("entryDN", "cn=x")))
    assert facts(slapd_instance, path)["values_left_out"] == 6
    assert entry(slapd_instance, f"cn=one,{SUFFIX}")["entryUUID"] != [uuid.encode()]
    path = write(tmp_path / "y.ldif", person("two", SUFFIX, *stamps), people(5))
    told = facts(slapd_instance, path, "--keep-operational")
    found = entry(slapd_instance, f"cn=two,{SUFFIX}")
    assert found["entryUUID"] == [uuid.encode()]
    assert found["createTimestamp"] == [b"20200101000000Z"]
    assert found["creatorsName"] == [b"cn=somebody"]
    assert found["entryCSN"] != [csn.encode()]
    assert told["values_left_out"] == 2


def test_no_faster_than_asked(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(299))
    began = time.monotonic()
    facts(slapd_instance, path, "--max-rate", 100)
    assert time.monotonic() - began > 1.9


def test_dry_run_adds_nothing(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, person("one", SUFFIX, ("entryUUID", "x")))
    told = add(slapd_instance, path, "--dry-run", "--json").ok().facts
    assert (told["entries"], told["transactions"]) == (2, True)
    assert told["left_out"] == ["entryuuid"]
    assert not slapd_instance.log_lines(" ADD dn=")


def test_a_server_with_two_databases(tmp_path: Path) -> None:
    """No transaction spans both."""
    there = TOP + "dn: o=other\nobjectClass: organization\no: other\n\n"
    mixed = "".join(person(f"m{n}", SUFFIX if n % 3 else "o=other") for n in range(60))
    with Slapd(with_another("mdb", "o=other", tmp_path / "other")) as server:
        assert facts(server, write(tmp_path / "x.ldif", there, mixed))["added"] == 62
        assert len(server.search(base="o=other", attributes=("1.1",))) == 21


@pytest.mark.long
def test_large_and_small_batches_make_the_same(people_ldif: Path) -> None:
    found = []
    for options in (("--batch", 1), ("--batch", 13, "--jobs", 3), ()):
        with Slapd(Settings()) as server:
            facts(server, people_ldif, *options)
            found.append(sorted((dn, sorted(values.items())) for dn, values in server.search(attributes=("*",))))
    assert found[0] == found[1] == found[2]


# --- what is there already --------------------------------------------------------------------------

ONE = f"cn=one,{SUFFIX}"
OLD, NEW = "20200101000000.000000Z#000000#000#000000", "20991231000000.000000Z#000000#000#000000"


@pytest.fixture
def held(slapd_instance: Slapd) -> Slapd:
    """A server that has the top, `one`, and some of the people."""
    more = (("description", "old"), ("telephoneNumber", "1"))
    slapd_instance.ldapadd(TOP + person("one", SUFFIX, *more) + people(7))
    return slapd_instance


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    """The same, `one` otherwise, and more."""
    one = person("one", SUFFIX, ("description", "new"), sn="Changed")
    return write(tmp_path / "x.ldif", TOP, one, people(20))


def _description(server: Slapd) -> list[bytes]:
    return entry(server, ONE)["description"]


def test_an_error_or_skipped(held: Slapd, ldif: Path) -> None:
    """What is there stays as it is, and is rejected or skipped; all else is added."""
    kept = rejects(held, ldif, 13, 9)
    assert kept.count("# entryAlreadyExists (68)\n") == 9
    assert f"# {ldif}, line 5\n" in kept
    assert _description(held) == [b"old"]
    assert len(names(held)) == 22
    more = people(3, prefix="more")
    told = facts(held, write(ldif, ldif.read_text(), more), "--restart", "--on-exists", "skip")
    assert (told["added"], told["present"], told["replaced"]) == (3, 22, 0)
    assert _description(held) == [b"old"]


def test_replaced(held: Slapd, ldif: Path) -> None:
    """The user attributes become those of the LDIF; what is equal is not touched."""
    before = entry(held, f"cn=p1,{SUFFIX}")["entryCSN"]
    told = facts(held, ldif, "--on-exists", "replace")
    assert (told["added"], told["present"], told["replaced"]) == (13, 8, 1)
    found = entry(held, ONE)
    assert (found["description"], found["sn"]) == ([b"new"], [b"Changed"])
    assert "telephoneNumber" not in found
    assert entry(held, f"cn=p1,{SUFFIX}")["entryCSN"] == before


def test_a_replacement_that_the_server_refuses(held: Slapd, tmp_path: Path) -> None:
    text = f"dn: {ONE}\nobjectClass: organizationalRole\ncn: one\n\n"
    kept = rejects(held, write(tmp_path / "x.ldif", text, people(3)), 0, 1, "--on-exists", "replace")
    assert "# objectClassModsProhibited (69): structural object class" in kept


@pytest.mark.parametrize(
    ("stamp", "replaced"),
    [
        (("entryCSN", OLD), 0),
        (("entryCSN", NEW), 1),
        (("modifyTimestamp", "20200101000000Z"), 0),
        (("modifyTimestamp", "20991231000000Z"), 1),
        (("description", "without a stamp"), 0),
    ],
    ids=lambda value: str(value),
)
def test_newer(held: Slapd, tmp_path: Path, stamp: tuple[str, str], replaced: int) -> None:
    one = person("one", SUFFIX, ("description", "new"), stamp)
    path = write(tmp_path / "x.ldif", one, people(20))
    told = facts(held, path, "--on-exists", "newer")
    assert (told["replaced"], told["present"]) == (replaced, 8 - replaced)
    assert (b"new" in _description(held)) == bool(replaced)


def test_other_spellings_are_the_same_entry(held: Slapd, tmp_path: Path) -> None:
    text = f"dn: CN=one , {SUFFIX.upper()}\nobjectClass: person\ncommonName: one\nsurname: Test\n"
    path = write(tmp_path / "x.ldif", text + "description: old\ntelephoneNumber: 1\n\n")
    told = facts(held, path, "--on-exists", "replace")
    assert (told["present"], told["replaced"]) == (1, 0)


@pytest.mark.parametrize("how", ["replace", "newer"])
def test_operational_attributes_that_clients_set(held: Slapd, tmp_path: Path, how: str) -> None:
    """Servers show the `ref` of a referral, or a subtreeSpecification, to those only who name it."""
    ldif = write(tmp_path / "x.ldif", *adding.OPERATIONAL)
    assert facts(held, ldif)["added"] == 2
    assert facts(held, ldif, "--restart", "--on-exists", how)["present"] == 2
    ldif.write_text(ldif.read_text().replace("ldap://a/", "ldap://b/"))
    assert facts(held, ldif, "--restart", "--on-exists", "replace")["replaced"] == 1


# --- what the server does not take ------------------------------------------------------------------


@pytest.mark.long("1-1", "3-1")
@pytest.mark.parametrize("batch", ["auto", "1"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_only_the_guilty_are_rejected(slapd_instance: Slapd, tmp_path: Path, batch: str, jobs: int) -> None:
    """Of the schema, of a syntax, of a name, in the middle of others; a DN that comes twice, a parent that never comes,
    what is below a rejected entry; with the server's words, file and line."""
    bad = record(f"ou=bad,{SUFFIX}", [("objectClass", "organizationalUnit"), ("ou", "bad"), ("sn", "x")])
    lost = f"ou=nowhere,{SUFFIX}"
    texts = [TOP, people(300), bad, people(40, f"ou=bad,{SUFFIX}")]
    for number in range(4):
        texts += [person(f"bad{number}", sn=None), people(50, prefix=f"m{number}-")]
    texts += [person("worse", SUFFIX, ("seeAlso", "no dn")), people(30, prefix="last")]
    texts += [person("unknown", SUFFIX, ("noSuchAttribute", "x")), person("p3", SUFFIX, ("description", "again"))]
    texts += [person("lost", lost), person("below", f"cn=lost,{lost}")]
    path = write(tmp_path / "x.ldif", *texts)
    words = rejects(slapd_instance, path, 531, 50, "--jobs", jobs, "--batch", batch)
    assert words.count("# objectClassViolation (65): object class 'person' requires attribute 'sn'") == 4
    assert "# invalidAttributeSyntax (21): seeAlso: value #0 invalid per syntax" in words
    assert "# undefinedAttributeType (17): noSuchAttribute: attribute type undefined" in words
    assert words.count("# noSuchObject (32)") == 42
    assert "description: again" in words
    line = "".join(texts)[: "".join(texts).index("dn: cn=bad2,")].count("\n") + 1
    assert f"# {path}, line {line}\ndn: cn=bad2,{SUFFIX}\n" in words
    assert (tmp_path / "x.rejects").stat().st_mode & 0o777 == 0o600
    assert len(names(slapd_instance)) == 531
    assert "description" not in entry(slapd_instance, f"cn=p3,{SUFFIX}")


@pytest.mark.parametrize("batch", ["auto", "1"])
def test_a_map_that_is_full_is_named_with_its_setting(tmp_path: Path, batch: str) -> None:
    """slapd says what failed ("index generation failed", "txn_commit failed"), and not why."""
    large = ("description", "x" * 2000)
    texts = [TOP, *(person(f"p{number}", SUFFIX, large) for number in range(1000))]
    with Slapd(Settings(maxsize=1 << 20)) as server:
        done = add(server, write(tmp_path / "x.ldif", *texts), "--batch", batch)
    assert "maxsize" in done.refused(errors.AddRefused, "other (80)")


def test_what_was_stored_can_be_read_after_a_restart(tmp_path: Path) -> None:
    """A transaction that fails must not be the first to use an attribute: slapd would forget its name."""

    def inet(name: str, *more: tuple[str, str]) -> str:
        return record(f"cn={name},{SUFFIX}", [("objectClass", "inetOrgPerson"), ("cn", name), *more])

    odd = ("telephoneNumber", "title", "street", "l", "postalCode", "description")
    with Slapd() as server:
        texts = [TOP]
        for name in odd:
            texts.append(inet(f"bad-{name}", (name, "1")))
            texts += [inet(f"{name}{number}", (name, "1"), ("sn", "x")) for number in range(20)]
        rejects(server, write(tmp_path / "x.ldif", *texts), 121, 6)
        before = server.search()
        server.restart()
        assert server.search() == before
        for name in odd:
            assert len(server.search(f"({name}=*)")) == 20


def test_too_many_end_the_load_with_counts(slapd_instance: Slapd, tmp_path: Path) -> None:
    """And mended, the same command goes on: what was added is ours."""
    texts = [TOP, people(100), person("bad", sn=None), people(100, prefix="late")]
    path = write(tmp_path / "x.ldif", *texts)
    said = f"cn=bad,{SUFFIX} was refused: objectClassViolation (65)"
    add(slapd_instance, path).refused(errors.AddRefused, said, "(1 refused, ")
    path.write_text(path.read_text().replace(person("bad", sn=None), person("bad")))
    told = facts(slapd_instance, path)
    assert (told["read"], told["added"], told["rejected"]) == (202, 202, 0)
    assert len(names(slapd_instance)) == 202


def test_access_control(tmp_path: Path) -> None:
    writer, secret = f"cn=writer,{SUFFIX}", "not-a-real-secret"
    with Slapd() as server:
        account = person("writer", SUFFIX, ("userPassword", secret))
        server.ldapadd(TOP + account + unit("open") + unit("closed"))
        rule = f'{{0}}to dn.subtree="ou=open,{SUFFIX}" by dn.exact="{writer}" write by * break'
        server.configure(f"dn: olcDatabase={{3}}mdb,cn=config\nchangetype: modify\nadd: olcAccess\nolcAccess: {rule}\n")
        texts = [people(20, f"ou=open,{SUFFIX}"), people(2, f"ou=closed,{SUFFIX}")]
        path, kept = write(tmp_path / "x.ldif", *texts, people(20, f"ou=open,{SUFFIX}", "more")), tmp_path / "kept.ldif"
        (tmp_path / "pw").write_text(secret)
        options = ("--max-rejects", 2, "--rejects", kept, "--json")
        who = ("-H", server.uri, "-D", writer, "-y", tmp_path / "pw")
        done = ditseed("add", path, *who, *options)
        assert (done.status, done.facts["added"], done.facts["rejected"]) == (1, 40, 2), done
        assert kept.read_text().count("# insufficientAccessRights (50): no write access to parent") == 2


def test_an_entry_that_the_server_hangs_up_on(tmp_path: Path) -> None:
    """Larger than sockbuf_max_incoming_auth: slapd closes the connection without a word."""
    limit = ("sockbuf_max_incoming_auth 65536",)
    large = person("large", SUFFIX, ("description", "x" * 100_000))
    with Slapd(Settings(global_lines=limit)) as server:
        kept = rejects(server, write(tmp_path / "x.ldif", TOP, people(60), large, people(60, prefix="q")), 121, 1)
        assert "# the server closes the connection when this entry is sent (100" in kept
        assert len(names(server)) == 121


@pytest.mark.long
def test_slapd_is_not_asked_for_more_than_it_takes_at_once(slapd_instance: Slapd, tmp_path: Path) -> None:
    """It would note each request that has to wait, and hang up when there are many."""
    facts(slapd_instance, write(tmp_path / "x.ldif", TOP, people(2000)))
    assert len(slapd_instance.log_lines("deferring operation")) < 500


@pytest.mark.parametrize("batch", ["auto", "1"])
def test_a_database_without_transactions(tmp_path: Path, batch: str) -> None:
    """slapd offers them, back-ldif has none."""
    top = record("o=files", [("objectClass", "organization"), ("o", "files")])
    texts = [top, people(50, "o=files"), person("bad", "o=files", sn=None), people(50, "o=files", "q")]
    with Slapd(with_another("ldif", "o=files", tmp_path / "ldif")) as server:
        options = ("--max-rejects", 1, "--batch", batch, "--json")
        told = add(server, write(tmp_path / "x.ldif", *texts), *options).facts
        assert (told["added"], told["rejected"], told["transactions"]) == (101, 1, 0)
        assert len(server.search(base="o=files", attributes=("1.1",))) == 101


@pytest.mark.long
def test_a_refusal_of_an_export_is_told_as_it_is(slapd_instance: Slapd, tmp_path: Path) -> None:
    """The manifest is held to what was read, and after a refusal not all was."""
    path, out = write(tmp_path / "x.ldif", TOP, people(6000)), tmp_path / "out"
    add(slapd_instance, path).ok()
    ditseed("export", slapd_instance.database_dir, "-o", out).ok()
    done = add(slapd_instance, out, "--batch", 1, "--jobs", 1)
    done.refused(errors.AddRefused, "entryAlreadyExists", "--on-exists")


def test_a_value_that_is_a_url(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", f"{TOP.rstrip()}\ndescription:< file:///etc/hostname\n")
    line = path.read_text().splitlines().index("description:< file:///etc/hostname") + 1
    said = f"{path}, line {line}: the value of description is a URL"
    add(slapd_instance, path).refused(errors.LdifSyntax, said, "--allow-file-urls")


# --- an accesslog ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads_config", [True, False])
def test_no_transactions_with_an_accesslog(tmp_path: Path, reads_config: bool) -> None:
    with history.history(tmp_path / "source") as logged, logged.server as server:
        path = write(tmp_path / "x.ldif", TOP, people(50))
        words = ["add", path, "-H", server.ldapi_uri, "-Y", "EXTERNAL"] if reads_config else command(server, path)
        assert not ditseed(*words, "--dry-run", "--json").ok().facts["transactions"]
        told = ditseed(*words, "--json").ok().facts
    assert (told["added"], told["transactions"]) == (51, 0)


@pytest.mark.long
def test_other_clients_can_write_meanwhile(tmp_path: Path) -> None:
    """In transactions, slapd 2.5.13 deadlocks within seconds, and SIGTERM does not end it."""
    settings = dataclasses.replace(history.SETTINGS, database_lines=("dbnosync",))
    with history.history(tmp_path / "source", settings, log_lines=("dbnosync",)) as logged, logged.server as server:
        server.ldapadd(TOP)
        with Churn(server, rate=1000) as churn:
            process = start(*command(server, write(tmp_path / "x.ldif", people(20_000))))
            try:
                process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                server.kill9()
                process.kill()
                process.communicate()
                raise
            churn.wait_for(churn.changes() + 1)
        assert process.returncode == 0
