"""A database file under a configuration that it was not made with: a clone, a restored backup and a refreshed replica
answer as a database that slapadd made anew, or they are refused before anything was changed."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.errors import RefreshRefused
from loader.operations.made_with import SAMPLE
from loader.operations.options import VerifyOptions
from loader.operations.verify import verify_database
from loader.progress import Progress
from tests.support.command import Done, ditseed
from tests.support.seeding import bind

pytestmark = pytest.mark.slapd

PEOPLE = 300
ATTRIBUTE = (
    "attributetype ( 1.3.6.1.4.1.4203.666.11.97.1 NAME 'myA' EQUALITY {} SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n"
)
CLASS = "objectclass ( 1.3.6.1.4.1.4203.666.11.97.2 NAME 'myClass' SUP top AUXILIARY MAY myA )\n"
BASE = ("objectClass,entryUUID,entryCSN eq", "uid eq")
EQUAL, SUB, SN = (*BASE, "cn eq"), (*BASE, "cn eq,sub"), (*BASE, "sn eq")
OTHER_OPTION = "attributeoptions x-of-another-"
OWN = (*BASE, "myA eq")
HASH64, ANY3 = "index_hash64 on", "index_substr_any_len 3"
FEW, MANY = "multival rfc822Mailbox 2,1", "multival mail 20,10"


@dataclass(frozen=True)
class Row:
    """What the file was made with, what the consumer says, a search, and the code of the refusal if there is one."""

    name: str
    made: dict[str, Any]
    asked: dict[str, Any]
    filter: str
    code: str | None = None
    stale: bool = False
    to_schema: str = "caseIgnoreMatch"
    lacks: str = ""

    def __str__(self) -> str:
        return self.name


def indexed(*lines: str, **more: Any) -> dict[str, Any]:
    return {"indexes": lines, **more}


UNKNOWN_KEYS = indexed(*BASE, global_lines=("index_intlen 20",))  # to the core
ROWS = (
    Row("same", indexed(*SUB), indexed(*SUB), "(cn=*ser 9*)"),
    Row("kind", indexed(*EQUAL), indexed(*SUB), "(cn=*ser 9*)"),
    Row("kind less", indexed(*SUB), indexed(*EQUAL), "(cn=*ser 9*)"),
    Row("index", indexed(*BASE), indexed(*SN), "(sn=Sn7)"),
    Row("presence", indexed(*SN), indexed(*BASE, "sn pres,eq"), "(&(sn=*)(sn=Sn7))"),
    Row("super-type", indexed(*BASE), indexed(*BASE, "name eq"), "(name=User 7)"),
    Row("hash64", indexed(*EQUAL), indexed(*EQUAL, global_lines=(HASH64,)), "(uid=u7)"),
    Row("hash32", indexed(*EQUAL, global_lines=(HASH64,)), indexed(*EQUAL), "(uid=u7)"),
    Row("lengths", indexed(*EQUAL), indexed(*SUB, global_lines=(ANY3,)), "(cn=*ser*)"),
    Row("shorter", indexed(*SUB), indexed(*SUB, global_lines=(ANY3,)), "(cn=*ser 9*)"),
    Row("stale", indexed(*SN), indexed(*SN), "(sn=newsn)", stale=True),
    Row("multival", indexed(*SUB), indexed(*SUB, database_lines=(FEW,)), "(mail=b*)", "mdb.made_otherwise"),
    Row("multival more", indexed(*SUB), indexed(*SUB, database_lines=(MANY,)), "(mail=b*)"),
    Row("multival no more", indexed(*SUB, database_lines=(FEW,)), indexed(*SUB), "(mail=b*)"),
    Row("rule", indexed(*OWN), indexed(*OWN), "(myA=FooBar)", "mdb.made_otherwise", to_schema="caseExactMatch"),
    Row("attribute type", indexed(*BASE), indexed(*BASE), "(uid=u7)", "config.schema_missing", lacks="myA"),
    Row("rule and intlen", indexed(*OWN), UNKNOWN_KEYS, "(uid=u7)", "mdb.made_otherwise", to_schema="caseExactMatch"),
    Row("type and intlen", indexed(*BASE), UNKNOWN_KEYS, "(uid=u7)", "config.schema_missing", lacks="myA"),
    Row("option", indexed(*BASE), indexed(*BASE, global_lines=(OTHER_OPTION,)), "(uid=u7)", "config.schema_missing"),
    Row("object class", indexed(*BASE), indexed(*BASE), "(uid=u7)", "config.schema_missing", lacks="inetOrgPerson"),
)  # fmt: skip

# The others go the same way.
REFRESHED = {
    *("same", "kind", "index", "hash64", "stale", "multival", "multival more", "rule", "attribute type", "object class")
}


def entries() -> str:
    people = (
        f"dn: uid=u{number},{Settings.suffix}\nobjectClass: inetOrgPerson\nobjectClass: myClass\nuid: u{number}\n"
        f"cn: User {number}\ncn;lang-de: X\nsn: Sn{number % 10}\nmyA: FooBar\n"
        f"mail: a{number}@x\nmail: b{number}@x\nmail: c{number}@x\n"
        for number in range(PEOPLE)
    )
    return "\n".join([f"dn: {Settings.suffix}\nobjectClass: domain\ndc: example\n", *people])


class Servers:
    """Files of each shape, made once."""

    def __init__(self, scratch: Path, stack: ExitStack) -> None:
        self.scratch, self.stack = scratch, stack
        self.schema = {}
        for rule in ("caseIgnoreMatch", "caseExactMatch"):
            self.schema[rule] = scratch / f"{rule}.schema"
            self.schema[rule].write_text(ATTRIBUTE.format(rule) + CLASS)
        self._made: dict[str, Slapd] = {}
        self._fresh: dict[str, set[str]] = {}

    @cached_property
    def provider(self) -> Slapd:
        found = replication.provider(self.settings("caseIgnoreMatch", indexed(*SUB)))
        found.slapadd(entries(), "-w")
        server = self.stack.enter_context(found)
        self.ldif = self.scratch / "provider.ldif"
        self.ldif.write_text(server.slapcat())
        server.ldapmodify(
            f"dn: uid=new,{server.suffix}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: new\n"
            "cn: User 9999\nsn: Sn7\n"
        )
        return server

    def settings(self, rule: str, given: dict[str, Any], lacks: str = "") -> Settings:
        schema = () if lacks == "myA" else (self.schema[rule],)
        base = Settings.base_schemas[: 2 if lacks == "inetOrgPerson" else None]
        return Settings(schema=schema, base_schemas=base, maxsize=1 << 28, **given)

    def server(self, settings: Settings) -> Slapd:
        return self.stack.enter_context(closing(Slapd(settings)))

    def made(self, row: Row) -> Slapd:
        key = repr((row.made, row.stale))
        if key not in self._made:
            self._made[key] = server = self.server(self.settings("caseIgnoreMatch", row.made))
            assert self.provider.running
            server.slapadd(self.ldif)
            if row.stale:  # entries that are in no index
                other = self.server(replace(server.settings, indexes=BASE))
                shutil.copy(server.database_dir / "data.mdb", other.database_dir)
                more = "dn: uid=n{0},{1}\nobjectClass: inetOrgPerson\nuid: n{0}\ncn: x\nsn: newsn\n"
                other.slapadd("\n".join(more.format(number, server.suffix) for number in range(20)))
                shutil.copy(other.database_dir / "data.mdb", server.database_dir)
        return self._made[key]

    def fresh(self, row: Row) -> set[str]:
        """What a database finds that slapadd made."""
        if row.name not in self._fresh:
            made, server = self.made(row), self.consumer(row)
            server.slapadd(made.slapcat())
            with server:
                self._fresh[row.name] = names(server, row.filter)
        return self._fresh[row.name]

    def consumer(self, row: Row) -> Slapd:
        return self.server(self.settings(row.to_schema, row.asked, row.lacks))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path_factory.mktemp("copies"), stack)


def command(how: str, servers: Servers, made: Slapd, consumer: Slapd) -> list[object]:
    where = ("--config", consumer.config_path, "-b", consumer.suffix)
    if how == "clone":
        return ["replica", "seed", "--strategy", "clone", "--from", made.database_dir, *where]
    if how == "restore":
        repo = made.home / "backup"
        if not repo.exists():
            ditseed("backup", "run", "--init", "--config", made.config_path, "-b", made.suffix, "-R", repo).ok()
        return ["backup", "restore", "latest", "-R", repo, *where]
    shutil.copy(made.database_dir / "data.mdb", consumer.database_dir)
    return refresh(servers.provider, consumer)


def refresh(provider: Slapd, consumer: Slapd) -> list[object]:
    return ["replica", "refresh", *bind(provider), "--config", consumer.config_path, "-b", consumer.suffix]


def names(server: Slapd, wanted: str) -> set[str]:
    return {name for name, _ in server.search(wanted, ("1.1",))}


def assert_refused(done: Done, code: str, consumer: Slapd, before: bytes) -> None:
    assert f"[{code}]" in done.err, done.err
    data = consumer.database_dir / "data.mdb"
    assert (data.read_bytes() if data.exists() else b"") == before
    assert not list(consumer.database_dir.glob(".ditseed-seed/environment/data*"))


def problems(server: Slapd, level: str = "indexes") -> set[str]:
    options = VerifyOptions(None, server.config_path, server.suffix, level)
    return {one.kind for one in verify_database(options, Progress("none")).problems}


@pytest.mark.rows(4, "restore-stale")
@pytest.mark.long("clone-lengths", "restore-lengths")
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("how", ["clone", "restore"])
def test_a_copy(servers: Servers, how: str, row: Row) -> None:
    made, consumer = servers.made(row), servers.consumer(row)
    done = ditseed(*command(how, servers, made, consumer))
    if row.code:
        assert_refused(done, row.code, consumer, b"")
        if row.lacks == "myA":
            assert "does not know myA; myClass [" in done.err
        if row.name == "multival":  # slapd 2.5 and 2.6 lose values when anything of the entry changes
            shutil.copy(made.database_dir / "data.mdb", consumer.database_dir)
            assert problems(consumer) == {"indexes.multival"}
        return
    done.ok()
    if row.name in ("same", "index"):
        told = re.findall(r"^indexed +(.*)$", done.out, re.MULTILINE)
        assert told == ["none" if row.name == "same" else "sn"]
    more = {"indexes.too_much"} if row.name == "kind less" else set()
    assert problems(consumer) == more
    with consumer:
        assert names(consumer, row.filter) == servers.fresh(row) != set()
        if "multival" in row.name:
            assert_values_can_change(consumer)


def assert_values_can_change(server: Slapd) -> None:
    """Of an entry whose values stand where another configuration has put them."""
    name = f"uid=u7,{server.suffix}"
    server.ldapmodify(f"dn: {name}\nchangetype: modify\nadd: mail\nmail: d7@x\n-\ndelete: mail\nmail: a7@x\n")
    assert names(server, "(mail=d7@x)") == {name}
    assert names(server, "(mail=a7@x)") == set()
    assert len(server.search("(uid=u7)", ("mail",))[0][1]["mail"]) == 3


@pytest.mark.long("False")
@pytest.mark.parametrize("twice", [True, False])
def test_values_that_slapd_sorts(servers: Servers, twice: bool) -> None:
    """slapadd takes equal values; a slapd that has to sort them when it reads the entry cannot (it may crash)."""
    row = Row("sortvals", indexed(*SUB), indexed(*BASE, global_lines=("sortvals description",)), "")
    made, consumer = (servers.server(servers.settings("caseIgnoreMatch", row.made)), servers.consumer(row))
    other = "B  c" if twice else "a c"
    values = f"description;lang-de: z\ndescription;lang-de: b c\ndescription;lang-de: {other}\n"
    made.slapadd(entries() + values, "-w")
    done = ditseed(*command("clone", servers, made, consumer))
    if twice:
        assert_refused(done, "mdb.made_otherwise", consumer, b"")
        assert "description;lang-de: equal values" in done.err
        return
    done.ok()
    with consumer:
        (found,) = consumer.search("(description;lang-de=a c)")
    assert sorted(found[1]["description;lang-de"]) == [b"a c", b"b c", b"z"]


def test_values_without_normal_forms(servers: Servers) -> None:
    """The file was made when the attribute had no equality rule. slapd does not find them, and crashes when one is
    added."""
    without = servers.scratch / "no_rule.schema"
    without.write_text(ATTRIBUTE.replace("EQUALITY {} ", "") + CLASS)
    row = Row("rule", indexed(*BASE), indexed(*BASE), "")
    made = servers.server(replace(servers.settings("caseIgnoreMatch", row.made), schema=(without,)))
    made.slapadd(entries(), "-w")
    consumer = servers.consumer(row)
    done = ditseed(*command("clone", servers, made, consumer))
    assert_refused(done, "mdb.made_otherwise", consumer, b"")
    assert "myA: values without the normal forms" in done.err
    shutil.copy(made.database_dir / "data.mdb", consumer.database_dir)
    assert problems(consumer) == {"indexes.no_normal_form"}
    assert problems(made) == set()


@pytest.mark.long
def test_keys_of_former_settings_beside_the_right_ones(servers: Servers) -> None:
    """slapindex only adds. In a table with keys of two lengths a search by their order misses entries."""
    integer = servers.scratch / "integer.schema"
    rules = "integerMatch ORDERING integerOrderingMatch"
    integer.write_text(ATTRIBUTE.format(rules).replace("15 )", "27 )") + CLASS)
    settings = replace(servers.settings("caseIgnoreMatch", indexed(*OWN)), schema=(integer,))
    made = servers.server(replace(settings, global_lines=("index_intlen 20",)))
    consumer = servers.server(settings)
    made.slapadd(entries().replace("myA: FooBar", "myA: 7"), "-w")
    shutil.copy(made.database_dir / "data.mdb", consumer.database_dir)
    again = ("-b", consumer.suffix, "myA")
    consumer.tool("slapindex", "-q", "-F", consumer.config_path, *again)
    assert problems(consumer) == {"indexes.table", "indexes.too_much"}
    consumer.tool("slapindex", "-q", "-t", "-F", consumer.config_path, *again)
    assert problems(consumer) == set()


@pytest.mark.long
@pytest.mark.parametrize("row", [one for one in ROWS if one.name in REFRESHED], ids=str)
def test_a_refresh(servers: Servers, row: Row) -> None:
    made, consumer = servers.made(row), servers.consumer(row)
    words = command("refresh", servers, made, consumer)
    before = (consumer.database_dir / "data.mdb").read_bytes()
    done = ditseed(*words)
    if row.code or done.status:
        assert_refused(done, row.code or "refresh.refused", consumer, before)
    if row.code or "multival" in row.name:  # which a refresh refuses in any case
        return
    if done.status:
        hint = done.err.partition("Run slapindex ")[2].partition(" as slapd's account")[0]
        consumer.tool("slapindex", *shlex.split(hint))
        ditseed(*words).ok()
    assert problems(consumer, "tree") == set()
    with consumer:
        assert names(consumer, "(cn=User 9999)") == {f"uid=new,{consumer.suffix}"}
        if not row.stale:
            assert names(consumer, row.filter) == names(servers.provider, row.filter) != set()


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (UNKNOWN_KEYS, "index_intlen is 20, more than 8"),
        (indexed(*BASE, database_lines=("sync_use_subentry on",)), "sync_use_subentry"),
    ],
)
def test_a_refresh_that_only_slapd_can_do(servers: Servers, given: dict[str, Any], reason: str) -> None:
    """Another level of `verify`, or a new seeding, would not help."""
    row = Row("slapd", given, given, "(uid=u7)")
    made, consumer = servers.made(row), servers.consumer(row)
    done = ditseed(*command("refresh", servers, made, consumer))
    assert_refused(done, "refresh.refused", consumer, (made.database_dir / "data.mdb").read_bytes())
    assert reason in done.err
    assert "hint: Start slapd. Nothing was changed." in done.err


IDLEXP = 18


@pytest.fixture(scope="module")
def long_lists(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """Stopped, with an index key of more entries than the default idlexp has room for."""
    wide = Settings(indexes=("objectClass eq",), global_lines=("backend mdb", f"idlexp {IDLEXP}"))
    ldif = tmp_path_factory.mktemp("long") / "long.ldif"
    with ldif.open("w") as file:
        file.write(f"dn: {wide.suffix}\nobjectClass: domain\ndc: example\n\n")
        for number in range(1 << 16):
            file.write(f"dn: cn={number},{wide.suffix}\nobjectClass: device\ncn: {number}\n\n")
    with closing(Slapd(wide)) as server:
        ditseed("build", ldif, "--config", server.config_path, "-w").ok()
        yield server


@pytest.mark.long
@pytest.mark.parametrize("how", ["clone", "restore"])
def test_longer_lists_than_idlexp_allows(servers: Servers, how: str, long_lists: Slapd) -> None:
    consumer = servers.server(replace(long_lists.settings, global_lines=()))
    done = ditseed(*command(how, servers, long_lists, consumer), "--json").ok()
    assert done.facts["indexed"] == ["objectClass"]
    assert problems(consumer) == set()
    with consumer:
        assert len(names(consumer, "(objectClass=device)")) == 1 << 16


def test_a_refresh_of_longer_lists_is_refused(servers: Servers, long_lists: Slapd) -> None:
    consumer = servers.server(replace(long_lists.settings, global_lines=()))
    done = ditseed(*command("refresh", servers, long_lists, consumer))
    assert_refused(done, "refresh.refused", consumer, (long_lists.database_dir / "data.mdb").read_bytes())


@pytest.mark.parametrize(
    ("value", "reason"), [("abc", "the index of myA lacks entry 3"), (60 * "abc", "myA: no index key can be made")]
)
def test_a_refresh_of_an_entry_whose_old_index_keys_are_unknown(servers: Servers, value: str, reason: str) -> None:
    """It is not among those that are looked at first, and its value was indexed by another syntax."""
    wrong = servers.scratch / "wrong.schema"
    wrong.write_text(ATTRIBUTE.format("integerMatch").replace("15 )", "27 )") + CLASS)
    settings = servers.settings("caseIgnoreMatch", indexed(*OWN))
    ldif = [f"dn: {Settings.suffix}\nobjectClass: domain\ndc: example\n"]
    for number in range(3 * SAMPLE):
        more = f"objectClass: extensibleObject\nmyA: {value}\n" if number == 1 else ""
        ldif.append(f"dn: cn=c{number},{Settings.suffix}\nobjectClass: device\n{more}cn: c{number}\n")
    with replication.provider(settings) as provider:
        provider.stop()
        provider.slapadd("\n".join(ldif), "-w")
        consumer = servers.server(replace(settings, schema=(wrong,)))
        shutil.copy(provider.database_dir / "data.mdb", consumer.database_dir)
        provider.start()
        provider.ldapmodify(f"dn: cn=c1,{provider.suffix}\nchangetype: delete\n")
        before = consumer.slapcat()
        done = ditseed(*refresh(provider, consumer))
    # The missing key is met when writing has begun: LMDB's table of free pages may differ, the entries do not.
    done.refused(RefreshRefused, reason)
    assert consumer.slapcat() == before
