"""`--from TEMPLATE`: a tree straight into build, add and export."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from loader import errors
from loader.defaults import ENV_KILL_AT
from tests.support.accounts import build_from, server
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

ENTRIES = 2000
ALL = 2000 + 100 + 4 + 4  # devices, shared mailboxes, the suffix and its containers


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(server()) as made:
        yield made


def data(target: Slapd) -> Path:
    return target.database_dir / "data.mdb"


@pytest.mark.long
def test_the_same_command_makes_the_same_file(target: Slapd) -> None:
    told = build_from(target, "accounts", ENTRIES, "--jobs", 1, "--json").ok().facts
    assert told["read"] == told["entries"] == ALL
    with closing(server()) as other:
        build_from(other, "accounts", ENTRIES, "--jobs", 3, "--memory", "64M").ok()
        assert filecmp.cmp(data(target), data(other), shallow=False)


@pytest.mark.long
def test_it_is_what_the_ldif_of_the_tree_makes(target: Slapd, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    words = ("-n", 500, "--seed", 7, "--operational", "--progress", "none")
    ditseed("export", "--from", "campus", *words, "-o", tree, "--compress", "none").ok()
    build_from(target, "campus", 500, "--seed", 7, "--operational").ok()
    with closing(server()) as other:
        ditseed("build", tree, "--config", other.config_path, "-b", other.suffix).ok()
        assert differences(target.database_dir, other.database_dir) == []


def test_export_from_is_generate(tmp_path: Path) -> None:
    words = ("-n", 300, "--seed", 3, "--suffix", "o=else", "--operational", "--json")
    ours = ditseed("export", "--from", "people", *words, "-o", tmp_path / "ours").ok()
    theirs = ditseed("generate", "people", *words, "-o", tmp_path / "theirs").ok()
    same = ("base", "entries", "content_checksum", "shards")
    assert [ours.facts[name] for name in same] == [theirs.facts[name] for name in same]
    assert ours.facts["base"] == "o=else"


@pytest.mark.long
def test_slapadd_takes_it_too(target: Slapd) -> None:
    build_from(target, "accounts", 300, "--operational", "--engine", "slapadd").ok()
    with closing(server()) as other:
        build_from(other, "accounts", 300, "--operational").ok()
        assert differences(target.database_dir, other.database_dir) == []


@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_a_dry_run_builds_nothing(target: Slapd, engine: str) -> None:
    told = build_from(target, "accounts", 300, "--dry-run", "--engine", engine, "--json").ok()
    assert told.facts["entries"] == 300 + 15 + 1 + 4
    assert not data(target).exists()


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["build", "plan"])
def test_more_than_can_be_numbered_is_refused_before_the_first(target: Slapd, more: tuple[str, ...]) -> None:
    most = 2**32 - 3
    done = build_from(target, "accounts", most, *more)
    assert done.status == errors.TooManyEntries.exit_status, done.err
    assert "at most 4,294,967,293 in a database" in done.err
    assert not data(target).exists()


@pytest.mark.long
def test_it_goes_on_where_it_was_killed(target: Slapd) -> None:
    def build(*more: object, at: str = "") -> Done:
        place = ("--config", target.config_path, "-b", target.suffix)
        words = ("build", "--from", "accounts", "-n", 500, *place, *more)
        return ditseed(*words, env={ENV_KILL_AT: at} if at else {})

    assert build(at="load.middle").status == -9
    assert build(at="load.recorded").status == -9
    other = build("--seed", 2, at="load.recorded")
    assert other.status in (-9, errors.RunMismatch.exit_status)
    again = build("--restart").ok()
    assert "load: " in again.err
    assert "check: done before" in build().ok().err


@pytest.mark.long
def test_progress_knows_how_many_there_are(target: Slapd) -> None:
    said = build_from(target, "campus", 20_000, "--progress", "json").ok().err
    records = [json.loads(line) for line in said.splitlines()]
    totals = {one["total"] for one in records if one["event"] == "progress" and one["step"] == "load"}
    (load,) = (one for one in records if one["event"] == "step" and one["step"] == "load")
    assert totals <= {load["entries"]}


def test_added_to_a_running_server(target: Slapd) -> None:
    def add(*more: object, at: str = "") -> Done:
        connection = ("-H", target.ldapi_uri, "-Y", "EXTERNAL")
        words = ("add", "--from", "accounts", "-n", 400, *connection, *more)
        return ditseed(*words, env={ENV_KILL_AT: at} if at else {})

    with target:
        assert add(at="load.middle").status == -9
        told = add("--json").ok().facts
        assert told["read"] == told["added"] == 400 + 20 + 1 + 4
        again = add("--json").ok().facts
        assert again.pop("done_before")
        assert again == told
        who = ("-x", "-H", target.ldapi_uri, "-b", target.suffix, "-LLL", "1.1")
        assert target.tool("ldapsearch", *who).count(b"dn: ") == told["added"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("build",), "nothing to load"),
        (("build", "--from", "people", "-n", 5, "x.ldif"), "not both"),
        (("build", "x.ldif", "-n", 5), "-n is only for --from TEMPLATE"),
        (("build", "x.ldif", "--operational"), "--operational is only for --from TEMPLATE"),
        (("build", "--from", "people", "-n", 5, "--define", "x"), "write NAME=VALUE"),
        (("build", "--from", "people"), "-n"),
        (("add",), "nothing to load"),
        (("add", "x.ldif", "--suffix", "o=x"), "--suffix is only for --from TEMPLATE"),
        (("export", "-o", "x", "--seed", 2), "--seed is only for --from TEMPLATE"),
        (("export", "-o", "x", "--from", "people", "-n", 5, "-H", "ldap://x"), "-H is only for"),
        (("export", "-o", "x", "--from", "people", "-n", 5, "--page", 5), "--page is only for"),
    ],
)
def test_what_does_not_go_together(target: Slapd, words: tuple[object, ...], reason: str) -> None:
    place = ("--config", target.config_path) if words[0] == "build" else ()
    done = ditseed(*words, *place)
    assert done.status == errors.UsageProblem.exit_status, done.err
    assert reason in done.err


def test_no_such_template(target: Slapd) -> None:
    done = build_from(target, "poeple", 5)
    assert done.status == errors.NoSuchTemplate.exit_status
    assert "accounts, campus, people, worst" in done.err
