"""`ditseed add` to a server whose overlays look for the entries that an added entry names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from tests.support import killing
from tests.support.adding import SUFFIX, TOP, command, facts, names, names_in, people, person, unit, write
from tests.support.command import ditseed
from tests.support.require import require_2_7

pytestmark = pytest.mark.slapd

GROUPS, MEMBERS = 10, 60
MODULES = ("back_mdb", "syncprov", "memberof", "constraint", "refint")


def started(*overlays: str) -> Slapd:
    return Slapd(Settings(modules=MODULES, overlays=overlays, database_lines=("dbnosync",)))


def group(name: str, *members: str) -> str:
    values = [("member", f"cn={member},{SUFFIX}") for member in members]
    return record(f"cn={name},{SUFFIX}", [("objectClass", "groupOfNames"), ("cn", name), *values])


def sets() -> list[tuple[str, str]]:
    """Groups and their members: every person is in one group."""
    numbered = ([f"p{n}-{number}" for n in range(MEMBERS)] for number in range(GROUPS))
    return [(group(f"g{number}", *members), "".join(map(person, members))) for number, members in enumerate(numbered)]


def member_of(server: Slapd) -> dict[str, set[str]]:
    """The names of the groups of each entry that has one."""
    shown = server.search("(memberOf=*)", attributes=("memberOf",))
    return {
        dn.split(",")[0][3:]: {value.decode().split(",")[0][3:] for value in found["memberOf"]} for dn, found in shown
    }


def everybody() -> dict[str, set[str]]:
    return {f"p{n}-{number}": {f"g{number}"} for n in range(MEMBERS) for number in range(GROUPS)}


@pytest.mark.parametrize(
    ("order", "options"),
    [
        *(("after", options) for options in (("--jobs", 3), ("--jobs", 1), ("--batch", 1))),
        *((order, ("--jobs", 3)) for order in ("before", "shuffled")),
    ],
)
def test_every_member_gets_its_member_of(tmp_path: Path, order: str, options: tuple[object, ...]) -> None:
    """slapo-memberof passes over members that are not there yet, and reports success."""
    with started("overlay memberof") as server:
        texts = [text for groups, persons in sets() for text in (persons, groups)]
        if order == "before":
            texts.reverse()
        elif order == "shuffled":
            random.Random(3).shuffle(texts)
        told = facts(server, write(tmp_path / "x.ldif", TOP, *texts), *options)
        assert (told["added"], told["waited_for_named_entries"]) == (1 + GROUPS * (MEMBERS + 1), GROUPS)
        assert told["waited_for_parents"] == 0
        assert member_of(server) == everybody()


@pytest.mark.parametrize("jobs", [1, 3])
def test_groups_in_groups(tmp_path: Path, jobs: int) -> None:
    """Each names one that comes after it in the LDIF; a batch holds few of them."""
    with started("overlay memberof") as server:
        count = 40
        chain = [group(f"g{n}", f"g{n + 1}", "p0") for n in range(count)]
        texts = [TOP, *chain, group(f"g{count}", "p0"), people(1)]
        facts(server, write(tmp_path / "x.ldif", *texts), "--jobs", jobs, "--batch", 3)
        expected = {f"g{n + 1}": {f"g{n}"} for n in range(count)}
        assert member_of(server) == {**expected, "p0": {f"g{n}" for n in range(count + 1)}}


def test_children_of_an_entry_that_waits(tmp_path: Path) -> None:
    with started("overlay memberof") as server:
        above = unit("a").rstrip("\n") + f"\nseeAlso: cn=p1,{SUFFIX}\n\n"
        texts = [TOP, above, people(9, f"ou=a,{SUFFIX}", "below"), people(9)]
        told = facts(server, write(tmp_path / "x.ldif", *texts))
        assert (told["waited_for_named_entries"], told["waited_for_parents"]) == (1, 9)
        assert names(server) == names_in("".join(texts))


@pytest.mark.parametrize(
    "overlay",
    [
        "overlay memberof\nmemberof-dangling error",
        f"overlay constraint\nconstraint_attribute member uri ldap:///{SUFFIX}?entryDN?sub?(sn=*)",
    ],
)
def test_no_group_is_refused_for_a_member_that_comes_later(tmp_path: Path, overlay: str) -> None:
    with started(overlay) as server:
        texts = [TOP, *(groups for groups, _ in sets()), *(persons for _, persons in sets())]
        assert facts(server, write(tmp_path / "x.ldif", *texts))["rejected"] == 0


@pytest.mark.parametrize(("overlays", "waited"), [(("overlay refint",), 0), (("overlay memberof",), GROUPS)])
def test_the_configuration_says_whether_to_wait(tmp_path: Path, overlays: tuple[str, ...], waited: int) -> None:
    """As far as it can be read: cn=config is shown to this very user alone."""
    with started(*overlays) as server:
        path = write(tmp_path / "x.ldif", TOP, *(text for one in sets() for text in one))
        done = ditseed("add", path, "-H", server.ldapi_uri, "-Y", "EXTERNAL", "--json").ok()
        assert done.facts["waited_for_named_entries"] == waited
        assert done.facts["added"] == 1 + GROUPS * (MEMBERS + 1)


@pytest.mark.parametrize("point", ["load.single", "load.committed", "load.middle"])
def test_killed_and_finished(tmp_path: Path, point: str) -> None:
    """Groups that were not sent yet are read again, and wait again."""
    with started("overlay memberof") as server:
        path = write(tmp_path / "x.ldif", TOP, *(text for one in sets() for text in one))
        options = ("--batch", 40, "--jobs", 2)
        killing.killed(point, *command(server, path, *options))
        if not server.running:
            server.start()
        told = facts(server, path, *options)
        assert (told["added"], told["rejected"]) == (told["read"], 0)
        assert member_of(server) == everybody()


@pytest.mark.parametrize("reads_config", [False, True])
def test_members_stay_as_they_are_on_2_7(tmp_path: Path, reads_config: bool) -> None:
    """slapd 2.7.0 damages entries that slapo-memberof changes within an LDAP transaction: values of one entry stand
    in another one afterwards."""
    require_2_7()
    settings = Settings(modules=("memberof",), overlays=("overlay memberof",), database_lines=("dbnosync",))
    with Slapd(settings, installation=openldap_27.installation()) as server:
        texts = [text for groups, persons in sets() for text in (persons, groups)]
        path = write(tmp_path / "x.ldif", TOP, *texts)
        who = ("-H", server.ldapi_uri, "-Y", "EXTERNAL")
        words = ["add", path, *who] if reads_config else command(server, path)
        assert ditseed(*words, "--json").ok().facts["transactions"] > 0
        assert member_of(server) == everybody()
        shown = server.search("(objectClass=person)", attributes=("cn",))
        assert {dn.split(",")[0][3:] for dn, _ in shown} == set(everybody())
        assert all(found["cn"] == [dn.split(",")[0][3:].encode()] for dn, found in shown)
