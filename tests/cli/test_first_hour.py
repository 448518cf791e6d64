"""What a stranger types in the first hour, and what is said to it: one line, a code, and what to type instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import UsageProblem
from tests.support.command import ditseed

SECRET = "correct-horse"


@pytest.mark.parametrize(
    ("arguments", "said", "verb"),
    [
        (("export", "--no-such-option"), "no such option", "export: "),
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
    done = ditseed(*arguments)
    done.refused(UsageProblem, "-y FILE", "Every user of the host can read")
    assert SECRET not in done.err + done.out


@pytest.mark.slapd
def test_x_is_taken_as_ldapsearch_takes_it(server: Slapd, tmp_path: Path) -> None:
    bind = ("-x", "-H", server.uri, "-D", server.root_dn, "-y", server.password_file)
    ditseed("export", *bind, "-b", server.suffix, "-o", tmp_path / "out").ok()
    both = ditseed("export", "-x", "-Y", "EXTERNAL", "-H", server.ldapi_uri, "-o", tmp_path / "no")
    both.refused(UsageProblem, "-x requests a simple bind")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-H", "127.0.0.1"), "127.0.0.1 is not an LDAP URI: write ldap://HOST"),
        (("-H", "ldap://127.0.0.1:1", "-D", "cn=x"), "-D cn=x needs a password: -y FILE"),
    ],
)
def test_what_a_stranger_mistypes(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    ditseed("export", *arguments, "-o", tmp_path / "out").refused(UsageProblem, said)
    assert not (tmp_path / "out").exists()


@pytest.mark.slapd
def test_a_password_file_that_others_can_read_is_warned_of_once(server: Slapd, tmp_path: Path) -> None:
    file = tmp_path / "a password"
    file.write_bytes(server.password_file.read_bytes())
    file.chmod(0o644)
    bind = ("-H", server.uri, "-D", server.root_dn, "-y", file)
    done = ditseed("export", *bind, "-b", server.suffix, "-o", tmp_path / "out").ok()
    assert done.err.count("every user of this host can read the password") == 1
    assert done.err.count(f"chmod 600 '{file}'") == 1
