"""What each verb prints to a person at its end: words and numbers, no dictionary or list of Python's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.cli.report import for_people
from tests.support.command import ditseed
from tests.support.seeding import Pair, pair

# Brackets, and the words for what is not there or is so. DNs and paths of these tests have none of them.
_PYTHON = re.compile(r"[\[\]{}]|\b(?:None|True|False)\b|Path\(|'[^' ]*'[,:]")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("pair"), people=20) as made:
        made.prepare("ldif")
        yield made


def commands(both: Pair, new: Slapd, scratch: Path) -> Iterator[tuple[object, ...]]:
    """In an order in which each has something to do."""
    source, data = both.provider, both.provider.database_dir
    server = ("-H", source.ldapi_uri, "-Y", "EXTERNAL", "-b", source.suffix)
    consumer = ("--config", both.consumer.config_path)
    one = scratch / "one.ldif"
    one.write_text(f"dn: ou=new,{source.suffix}\nobjectClass: organizationalUnit\nou: new\n")
    yield ("export", *both.bind, "-b", source.suffix, "-o", scratch / "a", "--dry-run")
    yield ("export", *both.bind, "-b", source.suffix, "-o", scratch / "a")
    yield ("export", data, "-o", scratch / "b", "--dry-run")
    yield ("export", data, "-o", scratch / "b")
    yield ("add", one, *server, "--dry-run")
    yield ("add", one, *server)
    build = ("build", both.export_dir, "--config", new.config_path)
    yield (*build, "--dry-run")
    yield build
    yield (*build, "--replace", "--engine", "slapadd", "--restart")
    for strategy in ("search", "ldif", "clone"):
        yield (*both.seed(strategy), "--replace", "--dry-run")
        yield (*both.seed(strategy), "--replace", "--restart")
        yield ("replica", "status", *consumer, "-b", both.consumer.suffix)
    refresh = ("replica", "refresh", *both.bind, *consumer, "-b", both.consumer.suffix)
    yield (*refresh, "--dry-run")
    yield refresh
    yield ("compare", data, scratch / "b")
    yield ("compare", data, both.export_dir)
    yield ("verify", data)
    yield ("clone", data, scratch / "c", "--dry-run")
    yield ("clone", data, scratch / "c")
    migrate = ("migrate", data, scratch / "m", "--config", new.config_path)
    yield (*migrate, "--dry-run")
    yield migrate
    repo = ("-R", scratch / "repo")
    yield ("-v", "backup", "run", "--init", "--from", data, *repo)
    yield ("backup", "list", *repo)
    yield ("backup", "check", *repo)
    yield ("backup", "restore", "latest", *repo, "--target", scratch / "d", "--dry-run")
    yield ("backup", "restore", "latest", *repo, "--target", scratch / "d")
    yield ("generate", "people", "-n", "10", "-o", scratch / "e")
    yield ("generate", "templates")
    for what in ("maxsize", "indexes", "sync"):
        yield ("tune", what, *server)
    yield ("tune", "maxsize", *server, "--maxsize", "2G")
    yield ("tune", "history")


@pytest.mark.long
@pytest.mark.slapd
def test_every_verb_ends_in_words(both: Pair, tmp_path: Path) -> None:
    wrong, run = [], 0
    new = Slapd()
    try:
        for command in commands(both, new, tmp_path):
            done = ditseed(*command)
            assert done.status in (0, 1), (command, done)
            run += 1
            lines = [line for line in done.out.splitlines() if _PYTHON.search(line)]
            wrong += [(command[:3], line) for line in lines if "olc" not in line]
    finally:
        new.close()
    assert run > 30
    assert not wrong, "\n".join(map(str, wrong))


def test_facts_of_any_kind_are_words() -> None:
    facts = {
        "context_csns": ["one", "two"],
        "phases": {"read": 1.0},
        "prepared": [],
        "transactions": True,
        "nothing": None,
        "notes": {"a": [1, 2], "b": {"c": False}},
        "bytes": 2048,
    }
    assert for_people(facts) == {
        "contextCSN": "one, two",
        "prepared": "none",
        "transactions": "yes",
        "notes": "a 1, 2, b c no",
        "bytes": "2.0 KiB",
    }
