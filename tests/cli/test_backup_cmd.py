"""`ditseed backup` as cron, an operator at night and a monitoring system meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import NoRepository, NoSuchBackup, NoSuchPath, TargetInUse, TargetNotEmpty, UsageProblem
from loader.operations.backup import repository
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def repo(people_server: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two backups."""
    made = tmp_path_factory.mktemp("cli") / "repo"
    for _ in range(2):
        ditseed("backup", "run", "--init", "--config", people_server.config_path, "-R", made).ok()
    return made


def test_run_says_nothing_to_cron(people_server: Slapd, tmp_path: Path) -> None:
    done = ditseed("backup", "run", "--init", "--config", people_server.config_path, "-R", tmp_path).ok()
    assert done.out == done.err == ""


def test_run_says_what_went_wrong_to_cron(tmp_path: Path) -> None:
    done = ditseed("backup", "run", "--init", "--from", tmp_path / "none", "-R", tmp_path / "repo")
    assert done.status == NoSuchPath.exit_status
    assert done.out == ""
    assert "no such file" in done.err


def test_run_creates_no_repository_by_itself(people_server: Slapd, tmp_path: Path) -> None:
    """An empty directory may be the mount point of a disk that is missing."""
    mount_point, missing = tmp_path / "mount", tmp_path / "no/such"
    mount_point.mkdir()
    for repo in (mount_point, missing):
        run = ("backup", "run", "--config", people_server.config_path, "-R", repo)
        for command in (run, ("backup", "prune", "-R", repo, "--keep-last", 1)):
            done = ditseed(*command)
            assert done.status == NoRepository.exit_status
            assert f"`ditseed backup init -R {repo}`" in done.err
        assert not repo.exists() or not list(repo.iterdir())
        for is_new in (True, False):
            assert ditseed("backup", "init", "-R", repo, "--json").ok().facts["created"] is is_new
        ditseed(*run).ok()
    assert not (tmp_path / "no").stat().st_mode & 0o022


def test_only_the_marker_makes_a_repository(people_server: Slapd, tmp_path: Path) -> None:
    run = ("backup", "run", "--config", people_server.config_path, "-R", tmp_path)
    ditseed(*run, "--init").ok()
    (tmp_path / repository.MARKER).unlink()
    assert ditseed(*run).status == NoRepository.exit_status


def test_run_with_v_and_with_json(people_server: Slapd, tmp_path: Path) -> None:
    told = ditseed("-v", "backup", "run", "--init", "--from", people_server.database_dir, "-R", tmp_path).ok()
    assert "1,029" in told.out
    command = ("backup", "run", "--init", "--from", people_server.database_dir, "-R", tmp_path, "--json")
    facts = ditseed(*command).ok().facts
    assert facts["entries"] == 1029
    assert (tmp_path / facts["id"] / "manifest.json").is_file()


@pytest.mark.long
def test_list(repo: Path) -> None:
    done = ditseed("backup", "list", "-R", repo).ok()
    heading, *rows = done.out.splitlines()
    assert heading.split()[:3] == ["id", "age", "entries"]
    assert len(rows) == 2
    assert all("1,029" in row for row in rows)
    found = json.loads(ditseed("backup", "list", "-R", repo, "--json").ok().out)
    assert [one["id"] for one in found["backups"]] == [row.split()[0] for row in rows]


def test_list_of_nothing(tmp_path: Path) -> None:
    assert len(ditseed("backup", "list", "-R", tmp_path).ok().out.splitlines()) == 1
    assert ditseed("backup", "list", "-R", tmp_path / "none").status == NoSuchPath.exit_status


def test_check_is_a_monitoring_plugin(repo: Path, tmp_path: Path) -> None:
    for arguments, status, word in [
        (("-R", repo), 0, "OK"),
        (("-R", repo, "--min-count", "3"), 1, "WARNING"),
        (("-R", tmp_path), 2, "CRITICAL"),
        (("-R", tmp_path / "none"), 3, "UNKNOWN"),
    ]:
        done = ditseed("backup", "check", *arguments)
        assert done.status == status
        assert done.out.startswith(f"BACKUP {word} - ")
        assert len(done.out.splitlines()) == 1
        assert " | " in done.out
    assert json.loads(ditseed("backup", "check", "-R", repo, "--json").out)["status"] == "OK"


def test_restore(people_server: Slapd, repo: Path, tmp_path: Path) -> None:
    look = tmp_path / "look"
    command = ("backup", "restore", "latest", "-R", repo, "--target", look)
    assert "nothing" in ditseed(*command, "--dry-run").ok().out
    assert not look.exists()
    assert "1,029" in ditseed(*command).ok().out
    again = ditseed(*command)
    assert again.status == TargetNotEmpty.exit_status
    assert "--replace" in again.err
    assert ditseed(*command, "--replace", "--json").ok().facts["entries"] == 1029


def test_exit_statuses(people_server: Slapd, repo: Path, tmp_path: Path) -> None:
    config = ("--config", people_server.config_path)
    for arguments, error in [
        (("restore", "latest", "-R", repo), UsageProblem),
        (("restore", "latest", "-R", repo, *config, "--target", tmp_path), UsageProblem),
        (("restore", "nothing", "-R", repo, *config), NoSuchBackup),
        (("restore", "latest", "-R", repo, *config, "--replace"), TargetInUse),
        (("run", "-R", repo), UsageProblem),
        (("run", "-R", repo, *config, "--compress-level", "99"), UsageProblem),
        (("check", "-R", repo, "--max-age", "soon"), UsageProblem),
        (("list",), UsageProblem),
    ]:
        done = ditseed("backup", *arguments)
        assert done.status == error.exit_status, (arguments, done.err)
        assert "Traceback" not in done.err
