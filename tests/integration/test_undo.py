"""`backup undo` and `backup extract --changes`: their LDIF, applied to the running server, takes changes back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ldap
import pytest

from fixtures.history import LOGOLD, SETTINGS, History, history
from fixtures.partial import as_printed, differences
from fixtures.random_changes import ADD, DELETE, INCREMENT, PERMISSIVE, REPLACE, changes, tree
from fixtures.trees import CERTIFICATE
from loader.errors import UsageProblem
from tests.support.backups import backup
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

BASE = SETTINGS.suffix
GROUPS, PEOPLE = f"ou=groups,{BASE}", f"ou=people,{BASE}"
INTERN = f"cn=intern,{BASE}"
MEMBERS = 5000
# Attributes that no client can set: a taken-back entry gets new ones.
OWN = ("entryUUID", "entryCSN", "contextCSN", "createTimestamp", "modifyTimestamp", "creatorsName", "modifiersName")
PAGE = (Path(__file__).parents[2] / "docs/undo.md").read_text()


def entries() -> str:
    account = f"dn: {INTERN}\nobjectClass: person\ncn: intern\nsn: I\nuserPassword: x\n\n"
    people = f"dn: {PEOPLE}\nobjectClass: organizationalUnit\nou: people\n\n" + "".join(
        f"dn: cn=p{number},{PEOPLE}\nobjectClass: gEntry\ncn: p{number}\nsn: of\ndescription;lang-de: d{number}\n\n"
        for number in range(50)
    )
    return tree(BASE, MEMBERS) + "\n" + account + people


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    limits = (*SETTINGS.limits, f'access to * by dn.exact="{INTERN}" write by * break')
    settings = replace(SETTINGS, limits=limits)
    with history(tmp_path_factory.mktemp("undo") / "s", settings, logs=f"logops writes\n{LOGOLD} cn uid") as source:
        source.server.slapadd(entries(), "-w")
        with source.server:
            yield source


@pytest.fixture
def handle(running: History) -> Iterator[Any]:
    """The account that does harm."""
    connection = ldap.initialize(running.server.client_uri)
    connection.simple_bind_s(INTERN, "x")
    yield connection
    connection.unbind_s()


def thing(handle: Any, rdn: str, at: str = PEOPLE, **values: list[bytes]) -> str:
    needed = {"objectClass": [b"gEntry"], "cn": [b"thing"], "sn": [b"of"]}
    handle.add_s(f"{rdn},{at}", list({**needed, **values}.items()))
    return f"{rdn},{at}"


def begin(running: History) -> tuple[str, bytes]:
    """Returns a time after all changes so far, and what slapcat prints."""
    return running.note().forms[2], running.slapcat()


def undo(running: History, *words: object) -> Done:
    return ditseed("backup", "undo", "--log", running.log, *words)


def same(running: History, before: bytes) -> None:
    """Asserts that the tree is as slapcat printed it, the order of ordered values included."""
    after = running.slapcat()
    found = differences(as_printed(before), as_printed(after), (*OWN, "gOrdered"))
    assert not found, found
    assert ordered(before) == ordered(after)


def ordered(text: bytes) -> dict[bytes, list[bytes]]:
    """Returns DN -> ordered values. Their indexes are left out: slapd stores them only when it modifies the values."""
    values = re.compile(rb"(?m)^gOrdered: (?:\{\d+\})?(.*)$")
    return {entry.partition(b"\n")[0]: values.findall(entry) for entry in text.split(b"\n\n")}


def assert_reported(done: Done, head: str, reasons: dict[str, str]) -> None:
    """Asserts that each of these lines on stderr has one of the names with its reason."""
    assert done.status == 1, done
    lines = [line for line in done.err.splitlines() if line.startswith(head)]
    for name, reason in reasons.items():
        assert [line for line in lines if name in line and reason in line], (name, lines)
    assert len(lines) == len(reasons), lines


def taken_back(running: History, done: Done, before: bytes) -> str:
    running.server.ldapmodify(done.ok().out)
    same(running, before)
    return done.out


def test_an_account_that_does_harm(running: History, handle: Any) -> None:
    """It deletes a subtree, changes 50 entries and renames their container, while others work on."""
    start, before = begin(running)
    handle.delete_s(f"cn=small,{GROUPS}")
    handle.delete_s(f"cn=large,{GROUPS}")
    handle.delete_s(GROUPS)
    for number in range(50):
        handle.modify_s(f"cn=p{number},{PEOPLE}", [(REPLACE, "sn", [b"mine"]), (DELETE, "description;lang-de", None)])
    handle.rename_s(PEOPLE, "ou=mine")
    handle.modify_s(f"cn=p7,ou=mine,{BASE}", [(ADD, "mail", [b"x@example.com"])])
    other = f"cn=other,{BASE}"
    with running.server.connection() as admin:
        thing(admin, "cn=other", BASE)
        done = undo(running, "--since", start, "--by", INTERN)
        assert "taken back: 55 of 55 changes" in done.err
        running.server.ldapmodify(done.ok().out)
        assert admin.search_s(other, ldap.SCOPE_BASE)
        admin.delete_s(other)
    same(running, before)
    assert not undo(running, "--since", start, "--by", INTERN, "--until", start).ok().out


def test_values_of_every_kind(running: History, handle: Any) -> None:
    values = [b"x\0y", b"line\nbreak", b" space", b"a: + b", "Émile".encode(), b":", b"< file"]
    full = thing(
        handle,
        "cn=full",
        gOctets=values,
        gOrdered=[b"one", b"two", b"three"],
        objectClass=[b"gEntry", b"simpleSecurityObject"],
        userPassword=[b"{SSHA}abc"],
        gInteger=[b"7"],
        **{"userCertificate;binary": [CERTIFICATE], "description;lang-de": [b"de"], "description": [b"Text"]},
    )
    awkward = thing(handle, r"cn=a\, b\+c ", mail=[b"a@b"])
    handle.modify_s(full, [(ADD, "gOrdered", [b"four"])])  # from now on, the values are stored with their indexes
    start, before = begin(running)
    handle.modify_s(full, [(DELETE, "gOctets", values[:3]), (ADD, "gOctets", [b"new"])])
    handle.modify_s(full, [(DELETE, "description", [b"text"]), (DELETE, "userCertificate;binary", None)])
    handle.modify_s(full, [(ADD, "gOrdered", [b"{1}between"]), (DELETE, "gOrdered", [b"{0}"])])
    handle.modify_s(full, [(INCREMENT, "gInteger", [b"5"]), (ADD, "jpegPhoto", [b"\xff\xd8"])])
    handle.modify_s(full, [(REPLACE, "userPassword", [b"clear"]), (REPLACE, "description;lang-de", None)])
    handle.modify_ext_s(full, [(ADD, "cn", [b"FULL", b"more"])], serverctrls=[PERMISSIVE])
    handle.rename_s(full, "cn=more", PEOPLE.replace("people", "groups"), delold=True)
    handle.rename_s(f"cn=more,{GROUPS}", "cn=other+uid=5", delold=False)
    handle.rename_s(awkward, "cn=plain")
    handle.delete_s(f"cn=other+uid=5,{GROUPS}")
    thing(handle, "cn=again", GROUPS)
    handle.delete_s(f"cn=again,{GROUPS}")
    text = taken_back(running, undo(running, "--since", start, "--by", INTERN), before)
    assert "userPassword:: " not in text or b"{SSHA}abc".decode() not in text


def test_a_large_group_gets_its_members_back(running: History, handle: Any) -> None:
    large = f"cn=large,{GROUPS}"
    start, before = begin(running)
    old = running.server.search(base=large, scope=ldap.SCOPE_BASE)[0][1]["member"]
    handle.modify_s(large, [(DELETE, "member", old[:10]), (ADD, "member", [b"cn=mallory"])])
    text = taken_back(running, undo(running, "--since", start, "--dn", GROUPS), before)
    assert text.count("\nmember:") == 11
    start, before = begin(running)
    handle.modify_s(large, [(REPLACE, "member", [b"cn=mallory"])])
    taken_back(running, undo(running, "--since", start, "--dn", large), before)


def test_what_others_changed_since_is_not_taken_back(running: History, handle: Any) -> None:
    names = [thing(handle, f"cn=c{number}") for number in range(5)]
    start, _ = begin(running)
    modified, deleted, renamed, added, moved = *names[:3], thing(handle, "cn=added"), names[3]
    handle.modify_s(modified, [(REPLACE, "sn", [b"bad"]), (REPLACE, "mail", [b"bad"])])
    handle.modify_s(modified, [(REPLACE, "description", [b"bad"])])
    handle.delete_s(deleted)
    handle.rename_s(renamed, "cn=renamed")
    handle.modify_s(moved, [(REPLACE, "sn", [b"bad"])])
    with running.server.connection() as admin:
        admin.modify_s(modified, [(REPLACE, "mail", [b"good"])])
        thing(admin, "cn=c1")
        admin.rename_s(f"cn=renamed,{PEOPLE}", "cn=found")
        thing(admin, "cn=below", added)
        admin.rename_s(moved, "cn=moved")
    done = undo(running, "--since", start, "--by", INTERN)
    reasons = {
        modified: "changed mail later",
        deleted: "gave its DN to another entry later",
        renamed: "changed the DN of the entry later",
        added: "added an entry below it later",
        moved: "changed the DN of the entry later",
    }
    assert_reported(done, "not taken back: ", reasons)
    assert "taken back: 1 of 6" in done.err
    running.server.ldapmodify(done.out)
    entry = running.server.search(base=modified, scope=ldap.SCOPE_BASE)[0][1]
    assert (entry["sn"], entry.get("description"), entry["mail"]) == ([b"bad"], None, [b"good"])


def test_a_log_without_old_values(tmp_path: Path) -> None:
    with history(tmp_path / "s", logs="logops writes") as source:
        source.server.slapadd(entries(), "-w")
        with source.server as server, server.connection() as admin:
            start, before = begin(source)
            admin.delete_s(f"cn=p1,{PEOPLE}")
            admin.modify_s(f"cn=p2,{PEOPLE}", [(ADD, "mail", [b"x@y"])])
            thing(admin, "cn=new")
            done = undo(source, "--since", start)
            assert done.status == 1
            assert done.err.count("the log has no old values of the entry (logold)") == 2
            server.ldapmodify(done.out)
            assert len(as_printed(source.slapcat())) == len(as_printed(before)) - 1


def blocks(section: str) -> list[str]:
    """Returns the commands of the first block of a section of the page, each in one line."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"```\n(.*?)```", text, re.DOTALL)[0].replace("\\\n", " ").splitlines()


def test_the_page_as_it_stands(running: History, handle: Any, tmp_path: Path) -> None:
    """docs/undo.md, "With an accesslog": find the changes, take them back."""
    server, repo = running.server, tmp_path / "repo"
    backup("run", repo, "--init", "--config", server.config_path, "--all-databases").ok()
    for number in range(20):
        server.describe(f"change {number}", f"cn=p5,{PEOPLE}")
    _, before = begin(running)
    handle.delete_s(f"cn=p3,{PEOPLE}")
    handle.delete_s(f"cn=p4,{PEOPLE}")
    until = running.note()
    before = before.replace(b"description: noted", b"x-noted: ")  # the note is not taken back
    look, take_back, apply = blocks("With an accesslog: `undo`")
    given = {
        "/srv/backup": repo,
        "/srv/look": tmp_path / "look",
        "/var/lib/ldap/accesslog": running.log,
        "2026-11-25T16:20:00": until.forms[2],
    }

    def run(command: str) -> Done:
        words = shlex.split(command.partition(" > ")[0])
        return ditseed(*(given.get(word, word) for word in words[1:]))

    shown = run(look).ok().out.splitlines()
    rows = [line.split() for line in shown if " delete " in line]
    assert [INTERN in row and f"cn=p{number},{PEOPLE}" in row for row, number in zip(rows[-2:], (3, 4), strict=True)]
    listed = run(f"{look} --json").ok().facts["changes"]
    assert len(listed) == 20
    assert [(one["kind"], one["author"]) for one in listed[-3:-1]] == [("delete", INTERN)] * 2
    assert [one["before"] for one in listed[1:]] == [one["csn"] for one in listed[:-1]]
    assert (listed[-1]["attributes"], listed[-1]["start"]) == (["description"], until.start)
    given["20261125151912.000004Z"] = rows[-2][-1]
    ldif = run(take_back).ok().out
    in_backup = ("undo", repo, "-b", BASE, "--since", until.csn)
    assert not backup(*in_backup).ok().out
    assert shlex.split(apply)[-2:] == ["-f", "undo.ldif"]
    server.ldapmodify(ldif, "-M")
    found = differences(as_printed(before), running.stored(), (*OWN, "x-noted", "description"))
    assert not found, found
    backup("run", repo, "--config", server.config_path, "--all-databases").ok()
    assert "changetype: delete" in backup(*in_backup, "--by", server.root_dn).ok().out


def test_random_changes(tmp_path: Path) -> None:
    """All of four clients, in transactions, too, of which some are rolled back."""
    logs = f"logops writes\nlogsuccess FALSE\n{LOGOLD} cn uid o ou"
    with history(tmp_path / "s", logs=logs) as source:
        source.server.slapadd(tree(BASE, 200), "-w")
        with source.server as server:
            start, before = begin(source)
            with changes(server, seed=4, members=200) as writers:
                writers.make(300)
            done = undo(source, "--since", start, "--config", server.config_path)
            assert done.status == 0, done.err
            server.ldapmodify(done.out, "-M", "-e", "relax")
            same(source, before)


# --- extract --changes ------------------------------------------------------------------------------------------------


def extract(running: History, repo: Path, *words: object) -> Done:
    server = running.server
    account = ("-H", server.client_uri, "-D", server.root_dn, "-y", server.password_file)
    return backup("extract", repo, "latest", "-b", BASE, "--changes", *account, *words)


def take(running: History, repo: Path) -> bytes:
    backup("run", repo, "--init", "--config", running.server.config_path, "-b", BASE).ok()
    return running.slapcat()


def test_a_new_name_with_a_value_that_the_entry_had(running: History, handle: Any, tmp_path: Path) -> None:
    """A modrdn removes all values of the old name or none; gEntry requires cn."""
    names = [thing(handle, "uid=half"), thing(handle, "cn=half", cn=[b"half", b"thing"])]
    for take_back in ("undo", "extract"):
        (start, before), _ = begin(running), take(running, tmp_path / take_back)
        handle.rename_s(names[0], "uid=new+cn=thing")
        handle.rename_s(names[1], r"cn=thing+uid=7\, \+8 é", delold=take_back == "undo")
        if take_back == "undo":
            taken_back(running, undo(running, "--since", start), before)
        else:
            brought_back(running, tmp_path / take_back, before)


def brought_back(running: History, repo: Path, before: bytes) -> str:
    """Applies what brings the whole tree back, deletes what is new, and brings back what was in the way of others."""
    done = extract(running, repo, "--dn", BASE)
    running.server.ldapmodify(done.out, "-M")
    gone = re.findall(r"(?m)^# new since the backup: (.*)$", done.out)
    gone += re.findall(r"(?m)^not brought back: .* has its DN now, its own DN is (.*)$", done.err)
    deletions = (f"dn: {name}\nchangetype: delete\n\n" for name in sorted({*gone}, key=lambda name: -name.count(",")))
    running.server.ldapmodify("".join(deletions), "-M")
    running.server.ldapmodify(extract(running, repo, "--dn", BASE).ok().out, "-M")
    same(running, before)
    assert not extract(running, repo, "--dn", BASE).ok().out
    return done.out


def test_what_differs_from_a_backup(running: History, handle: Any, tmp_path: Path) -> None:
    values: dict[str, list[bytes]] = {
        "gOrdered": [b"one", b"two", b"three"],
        "gText": [b"a", b"b"],
        "gOctets": [b"x\0y", b" space"],
        "userCertificate;binary": [CERTIFICATE],
        "description": [b"Text", b"other"],
        "description;lang-de": [b"de"],
    }
    full, bad = thing(handle, "cn=values", **values), thing(handle, "cn=kept", mail=[b"a@b"])
    handle.modify_s(full, [(ADD, "gOrdered", [b"four"])])
    for number in range(3):
        thing(handle, f"cn=swap{number}", GROUPS)
    small = f"cn=small,{GROUPS}"
    again = thing(handle, "cn=again", sn=[b"first"])
    before = take(running, repo := tmp_path / "repo")
    handle.modify_s(full, [(DELETE, "gOrdered", [b"{1}"]), (REPLACE, "gText", [b"a", b"c"])])
    handle.modify_s(full, [(REPLACE, "description", [b"TEXT", b"other"]), (DELETE, "userCertificate;binary", None)])
    handle.modify_s(full, [(REPLACE, "description;lang-de", [b"anders"]), (REPLACE, "gOctets", [b"x\0z"])])
    handle.modify_s(full, [(ADD, "jpegPhoto", [b"\xff\xd8"])])
    handle.rename_s(full, "cn=more+uid=5", GROUPS, delold=False)
    one = extract(running, repo, "--filter", "(cn=values)").ok().out
    assert one.count("changetype:") == 2
    handle.rename_s(bad, r"cn=a\, b", delold=True)
    handle.rename_s(PEOPLE, "ou=mine", GROUPS)
    handle.delete_s(f"cn=p3,ou=mine,{GROUPS}")
    handle.delete_s(again.replace("ou=people", "ou=mine,ou=groups"))
    thing(handle, "cn=again", f"ou=mine,{GROUPS}", mail=[b"second"])
    thing(handle, "cn=new", f"ou=mine,{GROUPS}")
    handle.modify_s(small, [(ADD, "member", [b"cn=mallory"])])
    for old, new in ((2, 3), (1, 2), (0, 1)):
        handle.rename_s(f"cn=swap{old},{GROUPS}", f"cn=swap{new}")
    text = brought_back(running, repo, before)
    assert text.count("\nmember:") == 1
    assert "\ndelete: description\ndescription: TEXT\n-\nadd: description\ndescription: Text\n" in text
    assert text.count("changetype: modrdn") == 6
    assert text.count("# new since the backup: ") == 1
    assert text.count("changetype: add") == 1


def test_what_stands_in_the_way_is_reported(running: History, handle: Any, tmp_path: Path) -> None:
    moved, below = thing(handle, "ou=moved", objectClass=[b"gEntry"]), f"cn=p9,{PEOPLE}"
    thing(handle, "cn=below", moved)
    thing(handle, "cn=class")
    take(running, repo := tmp_path / "repo")
    handle.rename_s(moved, "ou=elsewhere")
    handle.modify_s(f"cn=below,ou=elsewhere,{PEOPLE}", [(REPLACE, "sn", [b"bad"])])
    thing(handle, "ou=moved")
    handle.delete_s(f"cn=class,{PEOPLE}")
    handle.add_s(f"cn=class,{PEOPLE}", [("objectClass", [b"person"]), ("cn", [b"class"]), ("sn", [b"x"])])
    handle.modify_s(below, [(REPLACE, "sn", [b"bad"])])
    done = extract(running, repo, "--dn", PEOPLE)
    reasons = {
        moved: "another entry has its DN now",
        f"cn=below,{moved}": "the entry above it does not exist",
        "cn=class": "another structural object class",
    }
    assert_reported(done, "not brought back: ", reasons)
    assert done.out.count("changetype: ") == 1
    assert f"dn: {below}\n" in done.out
    extract(running, repo, "--dn", below, "--keep-operational").refused(UsageProblem)
    backup("extract", repo, "latest", "--dn", below, "-x").refused(UsageProblem)


def test_random_changes_since_a_backup(running: History, tmp_path: Path) -> None:
    with changes(running.server, seed=7, members=MEMBERS, home="since") as writers:
        writers.make(100)
        before = take(running, repo := tmp_path / "repo")
        writers.make(300)
    brought_back(running, repo, before)
