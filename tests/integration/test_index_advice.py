"""`ditseed tune indexes`. --costs: pages, keys and ranges as LMDB's tools and py-lmdb count them in slapd's files.
--stats-log, --filters: what it says of a search is what slapd itself does with it."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import lmdb
import pytest

from fixtures import openldap_27
from fixtures.golden.configured import CROWDED as LONG
from fixtures.golden.configured import crowd
from fixtures.golden.reading import Database
from fixtures.golden.records import top
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_people
from tests.support.command import ditseed
from tests.support.require import require, require_2_7

pytestmark = pytest.mark.slapd

SUFFIX = Settings.suffix
PAGE = 4096
INDEXES = (
    "objectClass,entryUUID,entryCSN eq",
    "uid pres,eq",
    "cn pres,eq,sub,approx",
    "surname eq",  # another name of sn
    "mail eq,subinitial",
    "mail;lang-de sub",
    "modifyTimestamp eq",
    "street eq",  # an empty table
)


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("ldif") / "people.ldif"
    write_people(found, SUFFIX, 3000)
    return found


@pytest.fixture(scope="module")
def server(ldif: Path) -> Iterator[Slapd]:
    settings = Settings(indexes=INDEXES, global_lines=("attributeoptions lang-",))
    with closing(Slapd(settings, form="conf")) as made:
        made.slapadd(ldif)
        yield made


@pytest.fixture(scope="module")
def told(server: Slapd) -> dict[str, Any]:
    return costs(server)


def facts_of(server: Slapd, *more: object, **env: str) -> dict[str, Any]:
    where = ("-H", server.ldapi_uri, "-Y", "EXTERNAL") if server.running else ("--config", server.config_path)
    return dict(ditseed("tune", "indexes", *where, "-b", server.suffix, *more, "--json", env=env).ok().facts)


def costs(server: Slapd, *more: object, **env: str) -> dict[str, Any]:
    return dict(facts_of(server, "--costs", *more, **env)["costs"])


def by_table(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["attribute"]: one for one in found["tables"]}


def stat(place: Path, *words: str) -> dict[str, int]:
    """What mdb_stat says of one table, of the environment (-e) or the free list (-f): the last of each name."""
    done = subprocess.run(["mdb_stat", *words, str(place)], capture_output=True, text=True, check=True)
    lines = (line.partition(":") for line in done.stdout.splitlines())
    return {name.strip(): int(value) for name, _, value in lines if value.strip().isdigit()}


def missing_tool() -> str | None:
    return None if shutil.which("mdb_stat") else "lmdb-utils are not installed"


def pages_of_trees(place: Path, tables: list[str]) -> int:
    """Pages of the file that no table counts as its own: those of the trees that the values of keys have."""
    said = subprocess.run(["mdb_stat", "-e", "-f", "-a", str(place)], capture_output=True, text=True, check=True).stdout
    numbers = {
        kind: sum(map(int, re.findall(rf"^ *{kind}: (\d+)$", said, re.MULTILINE)))
        for kind in ("Branch pages", "Leaf pages", "Overflow pages", "Free pages", "Number of pages used")
    }
    assert said.count("Status of ") == len(tables) + 1  # Main DB, too
    free = numbers.pop("Free pages")
    used = numbers.pop("Number of pages used")
    return used - 2 - free - sum(numbers.values())


def assert_counted(server: Slapd, found: dict[str, Any]) -> None:
    """Asserts that keys, records and ranges are those of the file."""
    with closing(Database(server.database_dir)) as database:
        for name, one in by_table(found).items():
            lists = database.index(name)
            ranges = sum(ids[0] == 0 for ids in lists.values())
            counted = (len(lists), sum(map(len, lists.values())), ranges)
            assert (one["keys"], one["records"], one["ranges"]) == counted, name


@pytest.mark.long
def test_bytes_keys_and_records(server: Slapd, told: dict[str, Any]) -> None:
    require(missing_tool())
    assert told["used"] == stat(server.database_dir, "-e")["Number of pages used"] * PAGE
    assert_counted(server, told)
    for one in told["tables"]:
        assert one["ranges"] == 0
        assert one["share"] == pytest.approx(one["bytes"] / told["used"])
    assert by_table(told)["street"]["bytes"] == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["objectClass", "cn", "modifyTimestamp"])
def test_the_bytes_are_what_dropping_it_frees(server: Slapd, told: dict[str, Any], tmp_path: Path, name: str) -> None:
    """LMDB itself takes the table apart; mdb_stat counts the pages that are left to other trees."""
    require(missing_tool())
    shutil.copy(server.database_dir / "data.mdb", tmp_path)
    with lmdb.open(str(tmp_path), max_dbs=64, map_size=1 << 30) as environment:
        with environment.begin() as transaction:
            tables = [key.decode() for key, _ in transaction.cursor()]
        before = pages_of_trees(tmp_path, tables)
        pages = stat(tmp_path, "-s", name)
        own = sum(pages[f"{kind} pages"] for kind in ("Branch", "Leaf", "Overflow"))
        handle = environment.open_db(name.encode(), create=False)
        with environment.begin(write=True) as transaction:
            transaction.drop(handle, delete=False)
    in_trees = before - pages_of_trees(tmp_path, tables)
    assert in_trees > 0
    assert by_table(told)[name]["bytes"] == (own + in_trees) * PAGE


def test_which_index_a_table_is_of(server: Slapd, told: dict[str, Any], tmp_path: Path) -> None:
    """Without searches nothing is unused."""
    found = by_table(told)
    assert found["sn"]["indexes"] == ["sn eq"]
    assert sorted(found["mail"]["indexes"]) == ["mail eq,subinitial", "mail;lang-de sub"]
    (tmp_path / "log").write_text("slapd starting\n")
    for each in (told, costs(server, "--stats-log", tmp_path / "log")):
        assert all(one["unused"] is None for one in each["tables"])


def test_unused_ones_come_first_and_can_be_removed(tmp_path: Path) -> None:
    filters, few = tmp_path / "filters", tmp_path / "few.ldif"
    write_people(few, SUFFIX, 100)
    filters.write_text("(uid=u1)\n(cn=abc*)\n(objectClass=person)\n(modifyTimestamp>=20200101000000Z)\n")
    with closing(Slapd(Settings(indexes=INDEXES, global_lines=("attributeoptions lang-",)))) as own:
        own.slapadd(few)
        found = costs(own, "--filters", filters)
        unused = [one for one in found["tables"] if one["attribute"] in ("mail", "sn", "street")]
        assert found["tables"][:3] == sorted(unused, key=lambda one: -one["bytes"])
        assert {one["attribute"]: sorted(one["unused"]) for one in found["tables"]} == {
            **{name: [] for name in ("objectClass", "entryUUID", "entryCSN", "modifyTimestamp")},
            "uid": ["uid pres"],
            "cn": ["cn pres,eq,approx"],
            "sn": ["sn"],
            "mail": ["mail", "mail;lang-de"],
            "street": ["street"],
        }
        where = ("--config", own.config_path, "-b", SUFFIX)
        shown = ditseed("tune", "indexes", *where, "--costs", "--filters", filters).ok().out
        told = re.search(r"^to remove the unused indexes: ditseed (.*)$", shown, re.MULTILINE)
        assert told, shown
        ditseed(*shlex.split(told[1])).ok()
        left = by_table(costs(own, "--filters", filters))
        assert left["cn"]["indexes"] == ["cn sub"]
        assert left["mail"]["indexes"] == []
        assert not any(one["unused"] for one in left.values())
        shown = ditseed("tune", "indexes", *where, "--costs").ok().out
        assert re.search(r"^mail .* not configured$", shown, re.MULTILINE), shown


def test_beside_a_running_slapd(ldif: Path) -> None:
    with closing(Slapd(Settings(indexes=("uid eq",)))) as own:
        own.slapadd(ldif)
        before = by_table(costs(own))["uid"]
        own.start()
        record = "dn: cn={0},{1}\nobjectClass: account\nobjectClass: extensibleObject\ncn: {0}\nuid: new {0}\n\n"
        own.ldapadd("".join(record.format(f"new {at}", SUFFIX) for at in range(20)))
        after = by_table(costs(own))["uid"]
    assert (after["keys"], after["records"]) == (before["keys"] + 20, before["records"] + 20)


def test_files_on_another_host(ldif: Path) -> None:
    with closing(Slapd()) as own:
        own.slapadd(ldif)
        own.start()
        own.configure(
            "dn: olcDatabase={0}config,cn=config\nchangetype: modify\nreplace: olcAccess\n"
            f'olcAccess: to * by dn.exact="{own.settings.root_dn}" manage\n'
        )
        where = ("-H", own.uri, "-D", own.settings.root_dn, "-y", own.password_file)
        done = ditseed("tune", "indexes", *where, "-b", SUFFIX, "--costs")
    assert "give the command on the server's host [usage]" in done.err


@pytest.mark.long
def test_keys_that_became_ranges(tmp_path: Path) -> None:
    (tmp_path / "crowd.ldif").write_text(top() + "".join(crowd()))
    with closing(Slapd(Settings(indexes=LONG))) as own:
        own.slapadd(tmp_path / "crowd.ldif")
        told = costs(own)
        shown = ditseed("tune", "indexes", "--config", own.config_path, "--costs").ok().out
        assert_counted(own, told)
    found = by_table(told)
    assert found["description"]["ranges"] == 0
    assert found["objectClass"]["ranges"] > 0
    assert "had more than 65,535 entries (idlexp 16)" in shown


def test_openldap_2_7(ldif: Path) -> None:
    require_2_7()
    indexes = ("uid,entryUUID eq", "cn pres,eq,sub,approx")
    with closing(Slapd(Settings(indexes=indexes), installation=openldap_27.installation())) as own:
        own.slapadd(ldif)
        found = costs(own, DITSEED_TOOLS=openldap_27.tools())
        assert_counted(own, found)
    assert all(one["bytes"] > 0 for one in found["tables"])
    assert by_table(found).keys() == {"objectClass", "uid", "entryUUID", "cn"}


# --- the indexes that searches use --------------------------------------------------------------------

USED = (
    "objectClass,uid,entryUUID,entryCSN eq",
    "name eq",
    "cn eq,subinitial",
    "givenName eq,sub,nosubtypes",
    "mail eq,notags",
    "telephoneNumber sub",
    "description pres",
    "modifyTimestamp eq",
)
# Filters, and the indexes that they use. None: slapd looks at every entry.
SERVED = {
    "(uid=u1)": "uid eq",
    "(UserID=u1)": "uid eq",
    "(sn=x)": "name eq",
    "(sn;lang-de=x)": "name eq",
    "(cn=ab*)": "cn sub",
    "(cn~=x)": None,
    "(cn;lang-de=x)": "cn eq",
    "(givenName=ab*)": "givenName sub",
    "(givenName=*abcd*)": "givenName sub",
    "(mail=x)": "mail eq",
    "(mail;x-tag=x)": "mail eq",  # slapd looks at the type itself once more, among its super-types
    "(mail=*)": None,
    "(telephoneNumber=*1234*)": "telephoneNumber sub",
    "(telephoneNumber=1234)": None,
    "(description=*)": "description pres",
    "(description=x)": None,
    "(modifyTimestamp>=20200101000000Z)": "modifyTimestamp eq",
    "(modifyTimestamp<=20200101000000Z)": "modifyTimestamp eq",
    "(uidNumber<=5)": None,
    "(objectClass=person)": "objectClass eq",
    "(entryUUID=49a0d5e2-5c54-4a2c-8d54-1fd3d5d1f4b3)": "entryUUID eq",
    "(o=x)": "name eq",
}
# Of which slapd says nothing, and still looks at every entry; and what it needs no index for.
SILENT = {
    "(givenName=*ab*)": False,
    "(cn=*abcd*)": False,
    "(cn=*abcd)": False,
    "(objectClass=*)": False,
    "(!(uid=x))": False,
    f"(entryDN=uid=u1,ou=people,{SUFFIX})": True,
    "(unknown=x)": True,
    "(uid>=a)": True,
}
TOGETHER = {
    "(&(objectClass=person)(postalCode=x))": True,
    "(|(uid=a)(postalCode=b))": False,
    "(&(|(uid=a)(uid=b))(!(cn=c)))": True,
    "(|(uid=a)(sn=b))": True,
    "(&(!(uid=a))(postalCode=b))": False,
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Slapd, Path]]:
    """A stopped server, and the log of its searches."""
    scratch = tmp_path_factory.mktemp("searches")
    write_people(scratch / "people.ldif", SUFFIX, 200)
    settings = Settings(indexes=USED, loglevel="stats filter", global_lines=("attributeoptions lang- x-tag",))
    with closing(Slapd(settings)) as server:
        server.slapadd(scratch / "people.ldif")
        server.start()
        for filter in (*SERVED, *SILENT, *TOGETHER):
            server.search(filter, ("1.1",))
        server.search("(objectClass=*)", ("1.1",), base=f"ou=people,{SUFFIX}")
        server.stop()
        log = scratch / "slapd.log"
        log.write_text("\n".join(server.log_lines()) + "\n")
        yield server, log


def refused_by_slapd(log: Path) -> dict[str, bool]:
    """For each filter in the log, in lower case: does slapd say that something of it is not indexed?"""
    found: dict[str, bool] = {}
    asked = ""
    for line in log.read_text().lower().splitlines():
        if told := re.search(r' srch base="[^"]*" scope=2 deref=0 filter="(.*)"$', line):
            asked = told[1]
            found[asked] = False
        elif "not indexed" in line:
            found[asked] = True
    return found


@pytest.mark.rows(15)
@pytest.mark.parametrize("text", [*SERVED, *SILENT, *TOGETHER])
def test_which_index_serves_it(asked: tuple[Slapd, Path], tmp_path: Path, text: str) -> None:
    server, log = asked
    (tmp_path / "filter").write_text(text + "\n")
    found = facts_of(server, "--filters", tmp_path / "filter")["use"]
    if text not in SERVED:
        assert bool(found["unindexed"]) != {**SILENT, **TOGETHER}[text]
        return
    used = [f"{one['attribute']} {one['kind']}" for one in found["indexes"] if one["searches"]]
    assert used == ([SERVED[text]] if SERVED[text] else [])
    assert bool(found["unindexed"]) == (SERVED[text] is None)
    assert refused_by_slapd(log)[text.lower().replace("userid", "uid")] == (SERVED[text] is None)


def test_the_searches_of_a_log(asked: tuple[Slapd, Path], tmp_path: Path) -> None:
    server, log = asked
    packed = tmp_path / "slapd.log.1.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    found = facts_of(server, "--stats-log", log, "--stats-log", packed)["use"]
    every = len(SERVED) + len(SILENT) + len(TOGETHER) + 1
    assert found["searches"] == 2 * every
    assert found["notes"][0].endswith(" of the searches are of other databases")  # the root DSE
    by_index = {one["index"]: one for one in found["missing"]}
    assert by_index["cn sub"]["filter"] in ("(cn=*xxxx*)", "(cn=*xx)")  # the one that took longer
    assert by_index["cn sub"]["searches"] == 4
    assert by_index["cn sub"]["seconds"] > 0
    assert "uid eq" not in by_index


def test_what_it_proposes_is_what_is_missing(asked: tuple[Slapd, Path], tmp_path: Path) -> None:
    """The printed command is given: then every search is served."""
    server, _ = asked
    filters = tmp_path / "filters"
    filters.write_text("# from the mail server\n(mail=*)\n(|(uid=a)(postalCode=b))\n\n(cn=*abcd*)\n")
    where = ("--config", server.config_path, "-b", server.suffix)
    shown = ditseed("tune", "indexes", *where, "--filters", filters).ok().out
    told = re.search(r"^to add these: ditseed (.*)$", shown, re.MULTILINE)
    assert told, shown
    words = shlex.split(told[1])
    assert words.count("--add") == 3
    for index in ("cn sub", "postalCode eq", "mail pres"):
        assert re.search(rf"^{index} +1 +- +\(", shown, re.MULTILINE), shown
    ditseed(*words).ok()
    again = ditseed("tune", "indexes", *where, "--filters", filters).ok().out
    assert "every search is served by indexes" in again
    ditseed("verify", *where[:2], "-b", SUFFIX, "--verify", "indexes").ok()


def test_a_log_without_searches_of_this_database(asked: tuple[Slapd, Path], tmp_path: Path) -> None:
    """A base above the suffix reaches the database by a subtree only."""
    log = tmp_path / "log"
    log.write_text("slapd starting\n")
    found = facts_of(asked[0], "--stats-log", log)["use"]
    assert found["notes"] == ["no search of this database was found: does slapd log with loglevel stats?"]
    line = f'conn=1 op={{0}} SRCH base="{SUFFIX.partition(",")[2]}" scope={{0}} deref=0 filter="(uid=a)"\n'
    log.write_text(line.format(1) + line.format(2))
    found = facts_of(asked[0], "--stats-log", log)["use"]
    assert (found["searches"], found["notes"]) == (1, ["1 of the searches are of other databases"])
    done = ditseed("tune", "indexes", "--config", asked[0].config_path, "--stats-log", tmp_path / "none")
    assert "[storage.no_such_path]" in done.err


def test_the_schema_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "filters").write_text("(uid=a)\n")
    (tmp_path / "log").write_text("nothing\n")
    with closing(Slapd()) as own:
        words = ("--stats-log", tmp_path / "log", "--filters", tmp_path / "filters")
        done = ditseed("tune", "indexes", "--config", own.config_path, *words, "-v").ok()
    assert len(re.findall("running .*slapcat .*schema", done.err)) == 1, done.err
