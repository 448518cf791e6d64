"""`ditseed backup` as cron, an operator at night and a monitoring system meet it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.errors import (
    NoRepository,
    NoSpace,
    NoSuchBackup,
    NoSuchPath,
    NoSuchSuffix,
    NotLmdb,
    TargetInUse,
    TargetNotEmpty,
    UsageProblem,
)
from loader.operations.backup import repository
from tests.support.backups import backup
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def repo(people_server: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two backups."""
    made = tmp_path_factory.mktemp("cli") / "repo"
    for _ in range(2):
        backup("run", made, "--init", "--config", people_server.config_path).ok()
    return made


def test_run_creates_no_repository_by_itself(people_server: Slapd, tmp_path: Path) -> None:
    """An empty directory may be the mount point of a disk that is missing; only the marker makes a repository."""
    mount_point, missing = tmp_path / "mount", tmp_path / "no/such"
    mount_point.mkdir()
    for repo in (mount_point, missing):
        run = ("run", repo, "--config", people_server.config_path)
        for command in (run, ("prune", repo, "--keep-last", 1)):
            backup(*command).refused(NoRepository, f"`ditseed backup init -R {repo}`")
        assert not repo.exists() or not list(repo.iterdir())
        for is_new in (True, False):
            assert backup("init", repo, "--json").ok().facts["created"] is is_new
        backup(*run).ok()
        (repo / repository.MARKER).unlink()
        backup(*run).refused(NoRepository)


def test_what_run_and_list_tell(people_server: Slapd, tmp_path: Path) -> None:
    source = ("--init", "--from", people_server.database_dir)
    assert "1,029" in ditseed("-v", "backup", "run", "-R", tmp_path, *source).ok().out
    facts = backup("run", tmp_path, *source, "--json").ok().facts
    assert facts["entries"] == 1029
    assert (tmp_path / facts["id"] / "manifest.json").is_file()
    heading, *rows = backup("list", tmp_path).ok().out.splitlines()
    assert heading.split()[:3] == ["id", "age", "entries"]
    assert len(rows) == 2
    assert all("1,029" in row for row in rows)
    found = backup("list", tmp_path, "--json").ok().facts["backups"]
    assert [one["id"] for one in found] == [row.split()[0] for row in rows]


def test_check_is_a_monitoring_plugin(repo: Path, tmp_path: Path) -> None:
    assert len(backup("list", tmp_path).ok().out.splitlines()) == 1  # the heading
    for place, words, status, word in [
        (repo, (), 0, "OK"),
        (repo, ("--min-count", "3"), 1, "WARNING"),
        (tmp_path, (), 2, "CRITICAL"),
        (tmp_path / "none", (), 3, "UNKNOWN"),
    ]:
        done = backup("check", place, *words)
        assert done.status == status
        assert done.out.startswith(f"BACKUP {word} - ")
        assert len(done.out.splitlines()) == 1
        assert " | " in done.out
    assert json.loads(backup("check", repo, "--json").out)["status"] == "OK"


def test_restore(repo: Path, tmp_path: Path) -> None:
    look = tmp_path / "look"
    command = ("restore", repo, "latest", "--target", look)
    assert "replaces  no" in backup(*command, "--dry-run").ok().out
    assert not look.exists()
    assert "1,029" in backup(*command).ok().out
    before = (look / "data.mdb").stat().st_ino
    backup(*command).refused(TargetNotEmpty, "--replace")
    assert (look / "data.mdb").stat().st_ino == before
    assert backup(*command, "--replace", "--json").ok().facts["entries"] == 1029


def test_what_is_refused(people_server: Slapd, repo: Path, tmp_path: Path) -> None:
    """Nothing is changed."""
    config, database = ("--config", people_server.config_path), ("--from", people_server.database_dir)
    none, into = tmp_path / "none", ("--target", tmp_path / "look")
    new, run, put_back = ("run", tmp_path / "repo", "--init"), ("run", repo), ("restore", repo)
    (tmp_path / "data.mdb").write_text("not a database")
    one = repository.listing(repo).backups[0].id
    with closing(Slapd(Settings(suffix="dc=other,dc=org"))) as other:
        foreign = ("--config", other.config_path)
        for words, error, reason in [
            (new, UsageProblem, "give one of --config or --from"),
            ((*new, *config, "--compress-level", 99), UsageProblem, "99 is not in the range"),
            ((*new, *config, "--all-databases", "-b", "dc=x"), UsageProblem, "exclude each other"),
            ((*new, *config, "--kind", "ldif", "--all-databases"), UsageProblem, "needs the pages"),
            ((*new, *config, "--kind", "ldif", "--incremental"), UsageProblem, "needs the pages"),
            ((*new, *config, "--recipient", "age1", "--incremental"), UsageProblem, "needs an identity on this host"),
            ((*new, *database, "--only-role", "provider"), UsageProblem, "give --config"),
            ((*run, "--from", none), NoSuchPath, "no such file"),
            ((*run, "--from", tmp_path), NotLmdb, "data.mdb"),
            ((*run, "--config", none), NoSuchPath, "no such file"),
            ((*run, *config, "-b", "dc=no"), NoSuchSuffix, "dc=no"),
            ((*run, *database, "--keep-free", "100T"), NoSpace, "needed"),
            (("list", none), NoSuchPath, "no such file"),
            (("check", repo, "--max-age", "soon"), UsageProblem, "soon"),
            ((*put_back, "latest"), UsageProblem, "--target"),
            ((*put_back, "latest", *config, *into), UsageProblem, "--target"),
            ((*put_back, "latest", "--all-databases", *config, *into), UsageProblem, "--target"),
            ((*put_back, "latest", "--all-databases", *config), NoSuchBackup, "all databases"),
            ((*put_back, one, "--all-databases", *config), NoSuchBackup, "all databases"),
            ((*put_back, "20200101T000000Z-none", *into), NoSuchBackup, "20200101T000000Z-none"),
            ((*put_back, "../repo", *into), NoSuchBackup, "../repo"),
            ((*put_back, "lock", *into), NoSuchBackup, "lock"),
            ((*put_back, "latest", "-b", "dc=other", *into), NoSuchBackup, "dc=other"),
            (("restore", none, "latest", *into), NoSuchPath, "no such file"),
            ((*put_back, "latest", "--config", none), NoSuchPath, "no such file"),
            ((*put_back, "latest", *config, "-b", "dc=other"), NoSuchSuffix, "dc=other"),
            ((*put_back, "latest", *foreign), NoSuchBackup, "dc=other,dc=org"),
            ((*put_back, one, *foreign), UsageProblem, "dc=other,dc=org"),
            ((*put_back, "latest", *config, "--replace"), TargetInUse, "another process"),
        ]:
            dry_run = [("--dry-run",)] * (words[0] == "restore" and error is not TargetInUse)
            for more in ((), *dry_run):
                done = backup(*words, *more)
                assert (done.status, done.out, reason in done.err) == (error.exit_status, "", True), (words, done)
                assert "Traceback" not in done.err
    assert ditseed("backup", "list").status == UsageProblem.exit_status
    assert [path.name for path in tmp_path.iterdir()] == ["data.mdb"]
    assert len(repository.listing(repo).backups) == 2
    assert len(people_server.search()) == 1029
