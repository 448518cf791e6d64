"""`ditseed clone` as an operator meets it: its words, its JSON, its exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import NoSuchPath, TargetInUse, TargetNotEmpty, UsageProblem
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd


def test_it_says_what_it_will_make_and_what_it_made(people_server: Slapd, tmp_path: Path) -> None:
    command = ("clone", people_server.database_dir, tmp_path / "clone")
    planned = ditseed(*command, "--dry-run", "--json").ok().facts
    assert planned["needed"] > 0
    assert not planned["replaces"]
    assert "\nneeded  " in ditseed(*command, "--dry-run").ok().out
    assert not (tmp_path / "clone").exists()
    done = ditseed(*command).ok()
    facts = dict(line.split("  ", 1) for line in done.out.splitlines())
    assert facts["entries"].strip() == "1,029"
    assert facts["verified"].strip() == "pages"
    assert "copy: " in done.err
    done = ditseed(*command, "--replace", "--json", "--progress", "none", "--verify", "quick").ok()
    assert [done.facts[name] for name in ("entries", "format", "verified")] == [1029, 1, "quick"]
    assert done.err == ""


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
