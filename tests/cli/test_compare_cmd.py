"""`ditseed compare` as an operator meets it: output, exit status, two accounts, no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.trees import write_people
from loader.errors import BadCredentials, LoaderError, NoSuchPath, ServerDown
from tests.support import command
from tests.support.command import Done

SUFFIX = "dc=example,dc=com"


def ditseed(*arguments: object) -> Done:
    return command.ditseed("compare", *arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "whole.ldif"
    write_people(path, SUFFIX, 120)
    return path


@pytest.fixture(scope="module")
def other(whole: Path) -> Path:
    """One entry less, one changed in an attribute and its password."""
    records = whole.read_text().split("\n\n")
    del records[-2]
    place = next(at for at, one in enumerate(records) if "uid: user0000005" in one)
    lines = [
        f"{line}X" if line.startswith("employeeNumber") else line
        for line in records[place].split("\n")
        if not line.startswith("userPassword")
    ]
    records[place] = "\n".join([*lines, "userPassword: s3cret"])
    path = whole.with_name("other.ldif")
    path.write_text("\n\n".join(records))
    return path


def test_equal(whole: Path) -> None:
    assert ditseed(whole, whole).ok().out.splitlines()[-1] == "equal"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--show-attributes",), "different: 1 only in A, 0 only in B, 1 changed"),
        (("--show-attributes",), "(employeenumber, userpassword)"),
        ((), "changed    uid=user0000005,"),
        ((), "only in A  "),
        (("--ignore", "userPassword", "--ignore", "EMPLOYEENUMBER"), "different: 1 only in A, 0 only in B, 0 changed"),
        (("--limit", "1"), "... and 1 more (--limit)"),
    ],
)
def test_different(whole: Path, other: Path, options: tuple[str, ...], said: str) -> None:
    done = ditseed(whole, other, *options)
    assert (done.status, said in done.out) == (1, True), done
    assert "s3cret" not in done.out + done.err


@pytest.mark.long
def test_as_json(whole: Path, other: Path) -> None:
    report = ditseed(whole, other, "--json", "--progress", "none").facts
    assert report["equal"] is False
    assert (report["only_a"], report["only_b"], report["changed"]) == (1, 0, 1)
    assert {sample["kind"] for sample in report["samples"]} == {"only-a", "changed"}
    assert "contextCSN" in report["ignored"]
    kept = ditseed(whole, whole, "--with-context-csn", "--json").facts
    assert "contextCSN" not in kept["ignored"]


@pytest.mark.long
@pytest.mark.slapd
def test_two_accounts(people_server: Slapd) -> None:
    """The replicator at A, the root DN at B."""
    replicator, root = people_server.replicator_password_file, people_server.password_file
    words = (people_server.uri, people_server.ldapi_uri, "-b", SUFFIX, "-D", "cn=replicator", "-y", replicator)
    consumer = ("--consumer-bind-dn", people_server.root_dn)
    ditseed(*words, *consumer, "--consumer-password-file", root).ok()
    done = ditseed(*words, *consumer)
    done.refused(BadCredentials)
    assert replicator.read_text() not in done.out + done.err


@pytest.mark.slapd
def test_a_database_directory_needs_nothing_else(people_server: Slapd) -> None:
    ditseed(people_server.database_dir, f"mdb:{people_server.database_dir}", "--user-attributes").ok()


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [("nowhere.ldif", NoSuchPath, "no such file"), ("ldap://127.0.0.1:1", ServerDown, "cannot reach")],
)
def test_bad_places(place: str, error: type[LoaderError], words: str) -> None:
    done = ditseed(place, place)
    done.refused(error, words)
    assert done.out == ""
