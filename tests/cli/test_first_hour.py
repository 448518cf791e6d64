"""What a stranger types in the first hour, and what is said to it: one line, a code, and what to type instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import NoRun, UsageProblem
from tests.support.command import Done, ditseed

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    with Slapd() as running:
        running.ldapadd(f"dn: {running.suffix}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n")
        yield running


@pytest.mark.parametrize(
    ("arguments", "said", "verb"),
    [
        (("export", "--no-such-option"), "no such option", "export: "),
        (("no-such-verb",), "no such verb: no-such-verb", ""),
        (("export",), "missing option '-o'", "export: "),
        (("build", "x", "--config", "/x", "--maxsize", "much"), "not a size", "build: "),
        (("build", "x", "--config", "/x", "--engine", "steam"), "'steam' is not", "build: "),
        (("backup", "run", "--no-such"), "no such option", "backup run: "),
        (("compare", "one"), "missing argument 'B'", "compare: "),
    ],
)
def test_a_wrong_command_line_is_an_error_like_any_other(arguments: tuple[str, ...], said: str, verb: str) -> None:
    done = ditseed(*arguments)
    message, hint = done.err.splitlines()
    assert (done.status, done.out) == (UsageProblem.exit_status, "")
    assert said in message
    assert message.endswith(f"[{UsageProblem.code}]")
    assert message.startswith(f"ditseed: {verb}")
    assert hint == "hint: --help after the verb lists its options, with examples."


def refused_without_the_secret(done: Done) -> None:
    assert done.status == UsageProblem.exit_status
    assert "[usage]" in done.err
    assert "-y FILE" in done.err
    assert "Every user of the host can read" in done.err
    assert SECRET not in done.err + done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "-x", "-D", "cn=x", "-w", SECRET, "-o", "/tmp/never"),
        ("export", f"-w{SECRET}", "-o", "/tmp/never"),
        ("add", "x.ldif", "-w", SECRET),
        ("compare", "a", "b", "-w", SECRET),
        ("tune", "maxsize", "-w", SECRET),
        ("replica", "verify", "--consumer", "ldapi:///", "-w", SECRET),
        ("replica", "refresh", "--config", "/x", "-w", SECRET),
        ("replica", "seed", "--strategy", "search", "-w", SECRET),
    ],
)
def test_a_password_on_the_command_line_is_refused_and_not_repeated(arguments: tuple[str, ...]) -> None:
    refused_without_the_secret(ditseed(*arguments))


@pytest.mark.slapd
def test_x_is_taken_as_ldapsearch_takes_it(server: Slapd, tmp_path: Path) -> None:
    bind = ("-x", "-H", server.uri, "-D", server.root_dn, "-y", server.password_file)
    ditseed("export", *bind, "-b", server.suffix, "-o", tmp_path / "out").ok()
    both = ditseed("export", "-x", "-Y", "EXTERNAL", "-H", server.ldapi_uri, "-o", tmp_path / "no")
    assert both.status == UsageProblem.exit_status
    assert "-x requests a simple bind" in both.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-H", "127.0.0.1"), "127.0.0.1 is not an LDAP URI: write ldap://HOST"),
        (("-H", "ldap://127.0.0.1:1", "-D", "cn=x"), "-D cn=x needs a password: -y FILE"),
        (("ldap://127.0.0.1:1",), "ldap://127.0.0.1:1 is a server: give it with -H"),
    ],
)
def test_what_a_stranger_mistypes(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = ditseed("export", *arguments, "-o", tmp_path / "out")
    assert done.status == UsageProblem.exit_status, done
    assert said in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slapd
def test_status_where_no_seeding_was_started(server: Slapd) -> None:
    done = ditseed("replica", "status", "--config", server.config_path)
    assert done.status == NoRun.exit_status, done
    assert "no seeding was started there" in done.err


@pytest.mark.slapd
@pytest.mark.parametrize(("mode", "who"), [(0o600, ""), (0o640, "its group"), (0o644, "every user of this host")])
def test_a_password_file_that_others_can_read_is_warned_of_once(
    server: Slapd, tmp_path: Path, mode: int, who: str
) -> None:
    file = tmp_path / "a password"
    file.write_bytes(server.password_file.read_bytes())
    file.chmod(mode)
    bind = ("-H", server.uri, "-D", server.root_dn, "-y", file)
    done = ditseed("export", *bind, "-b", server.suffix, "-o", tmp_path / "out").ok()
    warned = 1 if who else 0
    assert done.err.count(f"{who} can read the password") == warned
    assert done.err.count(f"chmod 600 '{file}'") == warned
