"""`ditseed compare` as an operator meets it: output, exit status, two accounts, no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.trees import write_people
from loader.errors import BadCredentials, NoSuchPath, ServerDown
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


@pytest.fixture(scope="module")
def server(whole: Path) -> Iterator[Slapd]:
    made = Slapd(form="config")
    made.slapadd(whole)
    with made:
        yield made


def test_equal(whole: Path) -> None:
    done = ditseed(whole, whole)
    assert done.status == 0
    assert done.out.splitlines()[-1] == "equal"


def test_different(whole: Path, other: Path) -> None:
    done = ditseed(whole, other, "--show-attributes")
    assert done.status == 1
    assert "different: 1 only in A, 0 only in B, 1 changed" in done.out
    assert "changed    uid=user0000005," in done.out
    assert "(employeenumber, userpassword)" in done.out
    assert "only in A  " in done.out
    assert "s3cret" not in done.out + done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ignore", "userPassword", "--ignore", "EMPLOYEENUMBER"), "different: 1 only in A, 0 only in B, 0 changed"),
        (("--limit", "1"), "... and 1 more (--limit)"),
    ],
)
def test_what_is_left_out(whole: Path, other: Path, options: tuple[str, ...], said: str) -> None:
    assert said in ditseed(whole, other, *options).out


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
def test_two_accounts(server: Slapd, whole: Path) -> None:
    """The replicator at A, the root DN at B."""
    words = (
        *(server.uri, server.ldapi_uri, "-b", SUFFIX),
        *("-D", "cn=replicator", "-y", server.replicator_password_file),
        *("--consumer-bind-dn", server.root_dn),
    )
    ditseed(*words, "--consumer-password-file", server.password_file).ok()
    done = ditseed(*words)
    assert done.status == BadCredentials.exit_status
    assert server.replicator_password_file.read_text() not in done.out + done.err


@pytest.mark.slapd
def test_a_database_directory_needs_nothing_else(server: Slapd) -> None:
    ditseed(server.database_dir, f"mdb:{server.database_dir}", "--user-attributes").ok()


@pytest.mark.parametrize(
    ("places", "status", "words"),
    [
        (["nowhere.ldif", "nowhere.ldif"], NoSuchPath.exit_status, "no such file"),
        (["ldap://127.0.0.1:1", "ldap://127.0.0.1:1"], ServerDown.exit_status, "cannot reach"),
    ],
)
def test_bad_places(places: list[str], status: int, words: str) -> None:
    done = ditseed(*places)
    assert done.status == status
    assert words in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
