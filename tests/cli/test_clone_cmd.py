"""`ditseed clone` as an operator meets it: its words, its JSON, its exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import NoSuchPath, TargetInUse, TargetNotEmpty, UsageProblem
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd


def test_it_says_what_it_made(people_server: Slapd, tmp_path: Path) -> None:
    done = ditseed("clone", people_server.database_dir, tmp_path / "clone").ok()
    facts = dict(line.split("  ", 1) for line in done.out.splitlines())
    assert facts["entries"].strip() == "1,029"
    assert facts["verified"].strip() == "pages"
    assert "copy: " in done.err


def test_json(people_server: Slapd, tmp_path: Path) -> None:
    options = ("--json", "--progress", "none", "--verify", "quick")
    done = ditseed("clone", people_server.database_dir, tmp_path / "clone", *options).ok()
    assert done.facts["entries"] == 1029
    assert done.facts["format"] == 1
    assert done.facts["verified"] == "quick"
    assert done.err == ""


def test_dry_run_changes_nothing(people_server: Slapd, tmp_path: Path) -> None:
    target = tmp_path / "clone"
    done = ditseed("clone", people_server.database_dir, target, "--dry-run", "--json").ok()
    assert done.facts["needed"] > 0
    assert not done.facts["replaces"]
    assert not target.exists()
    assert "needed / free" in ditseed("clone", people_server.database_dir, target, "--dry-run").ok().out


def test_exit_statuses_and_hints(people_server: Slapd, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    ditseed("clone", people_server.database_dir, clone).ok()
    for arguments, error, words in [
        ((people_server.database_dir, clone), TargetNotEmpty, "--replace"),
        ((clone, people_server.database_dir, "--replace"), TargetInUse, "systemctl stop slapd"),
        ((tmp_path / "none", clone), NoSuchPath, "no such file"),
        ((clone, clone, "--replace"), UsageProblem, "the source itself"),
        ((clone, tmp_path / "x", "--verify", "much"), UsageProblem, "much"),
    ]:
        done = ditseed("clone", *arguments)
        assert done.status == error.exit_status, done.err
        assert words in done.err
        assert "Traceback" not in done.err
