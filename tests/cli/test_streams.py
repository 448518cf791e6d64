"""Standard streams that are closed or full: the work is done all the same, and its status is that of the work."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import NoSpace, NoSuchPath, UsageProblem
from tests.support.command import Done, by_shell, ditseed, environment

REDIRECTED = ("2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full")


def require_told(done: Done, redirected: str) -> None:
    """What can be written, is; and each on its own stream."""
    if ">&-" not in redirected.split() and ">/dev/full" not in redirected.split():
        assert json.loads(done.out), "stderr's trouble is not stdout's"
    lost = "the report could not be written: standard output: No space left on device"
    assert (lost in done.err) == (redirected == ">/dev/full"), done.err
    assert "Traceback" not in done.err + done.out


@pytest.mark.slapd
@pytest.mark.parametrize("redirected", REDIRECTED)
def test_build_verify_export(redirected: str, other: Slapd, people_ldif: Path, tmp_path: Path) -> None:
    place = ("--config", other.config_path, "-b", other.suffix)
    for verb in (
        ("build", people_ldif, *place, "-vv", "--json"),
        ("verify", *place, "-vv", "--json"),
        ("export", other.database_dir, "-o", tmp_path / "out", "-vv", "--json"),
    ):
        done = by_shell(redirected, *verb)
        assert done.status == 0, done
        require_told(done, redirected)
    assert ditseed("verify", *place, "--json").ok().facts["entries"] == 1029
    ditseed("compare", other.database_dir, tmp_path / "out").ok()
    other.database_dir.joinpath("data.mdb").unlink()


@pytest.mark.parametrize("redirected", REDIRECTED)
def test_the_status_of_a_run_that_failed_stays(redirected: str, tmp_path: Path) -> None:
    assert by_shell(redirected, "verify", tmp_path / "none", "--json").status == NoSuchPath.exit_status


@pytest.mark.parametrize("verb", [("--help",), ("doctor", "--help"), ("generate", "templates")])
def test_a_run_that_only_prints_fails_with_its_output(verb: tuple[str, ...]) -> None:
    by_shell(">/dev/full", *verb).refused(NoSpace, "standard output: no space left")


@pytest.mark.parametrize(
    "verb", [("compare", "-", "/etc/hostname"), ("clone", "-", "/nowhere"), ("add", "-", "-H", "ldap://x")]
)
def test_a_closed_input_is_not_one_without_entries(verb: tuple[str, ...]) -> None:
    by_shell("<&-", *verb).refused(UsageProblem, "comes from stdin, which is closed")


LIBRARY = """
import os, sys
from loader.cli import ending, main
leave = ending.leave
def said_by_a_library(status):
    os.write(2, b"a library says so")
    leave(status)
ending.leave = said_by_a_library
sys.argv = ["ditseed", *sys.argv[1:]]
main()
"""


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """The log file would, which is opened first."""
    log = tmp_path / "log"
    script = [sys.executable, "-c", LIBRARY, "--log-file", str(log), "generate", "templates"]
    line = f"exec {shlex.join(script)} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", line], env=environment(), check=True)
    assert "begins" in log.read_text()
    assert "library" not in log.read_text()
