"""Load plans against a real slapd that holds the tree they are for: all they say comes true."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.operations import READS, Driver, change_record
from fixtures.slapd import Slapd
from loader.errors import UsageProblem
from tests.support.accounts import build_from, server
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

ENTRIES = 1000
TEMPLATES = ("people", "accounts", "campus", "worst")
Loaded = tuple[str, Slapd]


@pytest.fixture(scope="module", params=TEMPLATES)
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    """A running server with the tree of a template."""
    target = server()
    try:
        build_from(target, request.param, ENTRIES).ok()
        with target:
            yield request.param, target
    finally:
        target.close()


def asked(template: str, operations: int, *more: object) -> Done:
    words = ("--operations", operations, "-n", ENTRIES, "--progress", "none")
    return ditseed("generate", "operations", template, *words, *more)


def lines(template: str, operations: int, *more: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in asked(template, operations, *more).ok().out.splitlines()]


@pytest.mark.long("accounts", "campus", "worst")
def test_searches_and_binds_end_as_they_say(loaded: Loaded) -> None:
    template, target = loaded
    plan = lines(template, 1000, "--mix", "search=60,bind=40", "--miss", "20%")
    driver = Driver(target.ldapi_uri)
    assert [one for one in map(driver.wrong, plan) if one] == []
    kinds = Counter((one["op"], one.get("result", 0), one.get("entries")) for one in plan)
    assert kinds["bind", 0, None] > 200 < kinds["search", 0, 1]
    assert kinds["bind", 49, None] > 30 < kinds["search", 0, 0]
    assert kinds["search", 32, 0] > 5 < kinds["search", 0, None]


@pytest.mark.long("accounts", "worst")
def test_a_plan_that_lies_is_found_out(loaded: Loaded) -> None:
    template, target = loaded
    hit = next(one for one in lines(template, 200) if one.get("entries") == 1)
    bind = next(one for one in lines(template, 200) if one["op"] == "bind")
    driver = Driver(target.ldapi_uri)
    assert driver.wrong({**hit, "entries": 2})
    assert driver.wrong({**hit, "result": 32})
    assert driver.wrong({**bind, "result": 49 - bind["result"]})


def test_changes_apply_and_what_is_said_stays_true(loaded: Loaded) -> None:
    template, target = loaded
    mix = "search=300,bind=100,modify=60,add=15,delete=15,modrdn=10"
    plan = lines(template, 500, "--mix", mix)
    changes = [one for one in plan if one["op"] not in READS]
    assert {one["op"] for one in changes} == {"modify", "add", "delete", "modrdn"}
    target.ldapmodify("".join(map(change_record, changes)))
    driver = Driver(target.ldapi_uri)
    reads = [one for one in plan if one["op"] in READS]
    assert [one for one in map(driver.wrong, reads) if one] == []


@pytest.mark.long("campus", "worst")
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_ldif_applies(template: str) -> None:
    target = server()
    try:
        build_from(target, template, ENTRIES).ok()
        with target:
            text = asked(template, 160, "--format", "ldif").ok().out
            assert text.count("changetype: ") == 160
            target.ldapmodify(text)
    finally:
        target.close()


def test_a_plan_is_the_same_with_any_jobs(tmp_path: Path) -> None:
    one = asked("campus", 3000, "--jobs", 1).ok().out
    assert one == asked("campus", 3000, "--jobs", 5).ok().out
    out = tmp_path / "plan.jsonl"
    assert asked("campus", 3000, "-o", out).ok().out == ""
    assert out.read_text() == one


def test_who_is_asked_for_is_skewed() -> None:
    plan = lines("accounts", 4000, "--mix", "bind=1", "--miss", "0%", "--skew", "1")
    counts = Counter(one["dn"] for one in plan)
    assert counts.most_common(1)[0][1] > 100
    assert len(counts) > 300


def test_searched_by_what_is_asked_for() -> None:
    words = ("--mix", "search=1", "--miss", "0%", "--search", "mail=9,sn*=1", "--seed", "1")
    filters = [one["filter"].removeprefix("(&(objectClass=acctAccount)") for one in lines("accounts", 300, *words)]
    assert sum(one.startswith("(mail=") for one in filters) > 200
    assert any(one.startswith("(sn=") and one.endswith("*)") for one in filters)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--mix", "serach=1"), "did you mean search"),
        (("--mix", "search"), "write NAME=SHARE"),
        (("--mix", "search=0"), "more than 0"),
        (("--mix", "search=1", "--format", "ldif"), "LDIF holds changes"),
        (("--mix", "delete=1", "--operations", "5000"), "entries are to be deleted"),
        (("--miss", "101%"), "write 5% or 0.05, up to 100%"),
        (("--search", "nothing"), "no kind of the template has an attribute"),
        (("--search", "=5"), "write ATTRIBUTE"),
    ],
)
def test_what_cannot_be_planned(words: tuple[str, ...], reason: str) -> None:
    done = asked("people", 10, *words)
    assert done.status == UsageProblem.exit_status
    assert reason in done.err
    assert done.out == ""


@pytest.mark.long
def test_nobody_binds_without_passwords(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        '[[kinds]]\nname = "host"\nrdn = "cn"\n[kinds.attributes]\nobjectClass = "device"\ncn = "h{number}"\n'
    )
    done = asked(str(path), 10)
    assert done.status == UsageProblem.exit_status
    assert "nobody can bind" in done.err
    assert "(cn=h" in asked(str(path), 50, "--mix", "search=1").ok().out
