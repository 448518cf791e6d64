"""How much the command tells: -q, -v and --log-file, the same for every verb."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import FileUnsafe, LoaderError, NoSuchPath, UsageProblem
from tests.support import command

_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \[\d+\] [A-Z]+: \S.*")


def generate(tmp_path: Path, *more: object, first: tuple[str, ...] = ()) -> command.Done:
    return command.ditseed(*first, "generate", "people", "-n", "50", "-o", tmp_path / "tree", *more)


def test_quiet_leaves_stderr_empty_and_fills_the_log_file(tmp_path: Path) -> None:
    log = tmp_path / "ditseed.log"
    assert generate(tmp_path, "-q", "--log-file", log).ok().err == ""
    assert " entries in " in log.read_text()
    assert generate(tmp_path / "second", first=("-q",)).ok().err == ""


@pytest.mark.slapd
def test_quiet_leaves_the_report_of_a_stream_out(target: Slapd, tmp_path: Path) -> None:
    """It goes to stderr, for stdout has the LDIF."""
    generate(tmp_path).ok()
    command.ditseed("build", tmp_path / "tree", "--config", target.config_path).ok()
    asked = ("export", target.database_dir, "-o", "-")
    assert "entries  " in command.ditseed(*asked).ok().err
    assert command.ditseed(*asked, "-q").ok().err == ""
    assert f"{target.database_dir}/data.mdb: " in command.ditseed(*asked, "-v").ok().err


def test_verbose_tells_steps_files_and_tools(tmp_path: Path) -> None:
    """What progress shows is not told twice."""
    told = generate(tmp_path, "-v").ok().err
    assert "INFO: " in told
    assert ": started" in told
    (said,) = [line for line in told.splitlines() if " entries in " in line]
    assert not said.startswith("INFO: ")
    none = generate(tmp_path / "second", "-v", "--progress", "none").ok().err
    assert re.search(r"INFO: .* entries in ", none)
    missing = command.ditseed("build", "-", "--config", tmp_path, "-v")
    assert f"INFO: reading the configuration {tmp_path}" in missing.err


def test_both_at_once_are_refused(tmp_path: Path) -> None:
    generate(tmp_path, "-q", "-v").refused(UsageProblem, "-q and -v contradict each other")
    generate(tmp_path, "-v", first=("-q",)).refused(UsageProblem)


def test_the_log_file_has_times_and_is_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "ditseed.log"
    told = generate(tmp_path, "--log-file", log).ok().err
    assert "entries" in told
    assert "INFO" not in told
    assert log.stat().st_mode & 0o777 == 0o600
    first = log.read_text().splitlines()
    assert all(_LINE.fullmatch(line) for line in first), first
    assert first[0].endswith("INFO: ditseed generate tree begins")
    assert first[-1].endswith("INFO: ended with exit status 0")
    assert any(" entries in " in line for line in first)
    missing = command.ditseed("verify", tmp_path / "missing", "--log-file", log, "-q")
    assert missing.err.startswith("ditseed: "), "quiet keeps errors"
    lines = log.read_text().splitlines()
    assert lines[: len(first)] == first
    assert any(re.search(r"ERROR: .*missing.* \[[a-z_.]+\]$", line) for line in lines[len(first) :])
    assert re.search(r"ended with exit status [1-9]", lines[-1])


def test_no_password_gets_into_it(tmp_path: Path) -> None:
    log, password = tmp_path / "ditseed.log", tmp_path / "pw"
    password.write_text("S3CRET")
    password.chmod(0o600)
    where = ("-H", "ldap://127.0.0.1:1", "-D", "cn=x", "-b", "o=x", "-o", tmp_path / "out")
    for given in (("-y", password), ("-w", "S3CRET")):
        done = command.ditseed("export", *where, *given, "-vv", "--log-file", log)
        assert done.status
        assert "S3CRET" not in done.err
    assert "S3CRET" not in log.read_text()


@pytest.mark.parametrize(("place", "error"), [("pipe", FileUnsafe), ("nowhere/log", NoSuchPath)])
def test_a_log_file_that_cannot_be_made_ends_it_before_the_work(
    tmp_path: Path, place: str, error: type[LoaderError]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    generate(tmp_path, "--log-file", tmp_path / place).refused(error)
    assert not (tmp_path / "tree").exists()


def test_verbose_tells_servers(slapd_instance: Slapd) -> None:
    uri = slapd_instance.ldapi_uri
    done = command.ditseed("tune", "maxsize", "-H", uri, "-Y", "EXTERNAL", "-v")
    assert f"INFO: connected to {uri} as SASL EXTERNAL" in done.err
