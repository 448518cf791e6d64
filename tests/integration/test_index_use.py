"""`ditseed tune indexes --stats-log`: what it says of a search is what slapd itself does with it."""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_people
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

SUFFIX = Settings.suffix
INDEXES = (
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
    settings = Settings(indexes=INDEXES, loglevel="stats filter", global_lines=("attributeoptions lang- x-tag",))
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


def use_of(server: Slapd, *more: object) -> dict[str, Any]:
    where = ("--config", server.config_path, "-b", server.suffix)
    found: dict[str, Any] = ditseed("tune", "indexes", *where, *more, "--json").ok().facts["use"]
    return found


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
    found = use_of(server, "--filters", tmp_path / "filter")
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
    found = use_of(server, "--stats-log", log, "--stats-log", packed)
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


def test_a_log_without_searches(asked: tuple[Slapd, Path], tmp_path: Path) -> None:
    (tmp_path / "log").write_text("slapd starting\n")
    found = use_of(asked[0], "--stats-log", tmp_path / "log")
    assert found["notes"] == ["no search of this database was found: does slapd log with loglevel stats?"]
    done = ditseed("tune", "indexes", "--config", asked[0].config_path, "--stats-log", tmp_path / "none")
    assert "[storage.no_such_path]" in done.err


def test_a_base_above_the_suffix_reaches_the_database_by_a_subtree_only(
    asked: tuple[Slapd, Path], tmp_path: Path
) -> None:
    above = SUFFIX.partition(",")[2]
    line = f'conn=1 op={{0}} SRCH base="{above}" scope={{0}} deref=0 filter="(uid=a)"\n'
    (tmp_path / "log").write_text(line.format(1) + line.format(2))
    found = use_of(asked[0], "--stats-log", tmp_path / "log")
    assert (found["searches"], found["notes"]) == (1, ["1 of the searches are of other databases"])


def test_the_schema_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "filters").write_text("(uid=a)\n")
    (tmp_path / "log").write_text("nothing\n")
    with closing(Slapd()) as own:
        words = ("--stats-log", tmp_path / "log", "--filters", tmp_path / "filters")
        done = ditseed("tune", "indexes", "--config", own.config_path, *words, "-v").ok()
    assert len(re.findall("running .*slapcat .*schema", done.err)) == 1, done.err
