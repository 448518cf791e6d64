"""`--from TEMPLATE`: a tree straight into build and add; and `generate operations` for such a tree."""

from __future__ import annotations

import filecmp
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures.golden.tables import differences
from fixtures.operations import READS, Driver, change_record
from fixtures.slapd import Slapd
from loader import errors
from loader.defaults import ENGINES, ENV_KILL_AT
from tests.support.accounts import build_from, server
from tests.support.command import Done, ditseed
from tests.support.killing import killed

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
@pytest.mark.parametrize("engine", ENGINES)
def test_it_is_what_the_ldif_of_the_tree_makes(target: Slapd, tmp_path: Path, engine: str) -> None:
    tree = tmp_path / "tree"
    words = ("-n", 500, "--seed", 7, "--operational", "--progress", "none")
    ditseed("generate", "campus", *words, "-o", tree, "--compress", "none").ok()
    build_from(target, "campus", 500, "--seed", 7, "--operational", "--engine", engine).ok()
    with closing(server()) as other:
        ditseed("build", tree, "--config", other.config_path, "-b", other.suffix).ok()
        assert differences(target.database_dir, other.database_dir) == []


def test_a_dry_run_builds_nothing(target: Slapd) -> None:
    """More than can be numbered is refused before the first entry."""
    for engine in ENGINES:
        told = build_from(target, "accounts", 300, "--dry-run", "--engine", engine, "--json").ok()
        assert told.facts["entries"] == 300 + 15 + 1 + 4
    for more in ((), ("--dry-run",)):
        done = build_from(target, "accounts", 2**32 - 3, *more)
        done.refused(errors.TooManyEntries, "at most 4,294,967,293 in a database")
    assert not data(target).exists()


@pytest.mark.long
def test_it_goes_on_where_it_was_killed(target: Slapd) -> None:
    command = ("build", "--from", "accounts", "-n", 500, "--config", target.config_path, "-b", target.suffix)
    killed("load.middle", *command)
    killed("load.recorded", *command)
    other = ditseed(*command, "--seed", 2, env={ENV_KILL_AT: "load.recorded"})
    assert other.status in (-9, errors.RunMismatch.exit_status)
    assert "load: " in ditseed(*command, "--restart").ok().err
    assert "check: done before" in ditseed(*command).ok().err


@pytest.mark.long
def test_progress_knows_how_many_there_are(target: Slapd) -> None:
    said = build_from(target, "campus", 20_000, "--progress", "json").ok().err
    records = [json.loads(line) for line in said.splitlines()]
    totals = {one["total"] for one in records if one["event"] == "progress" and one["step"] == "load"}
    (load,) = (one for one in records if one["event"] == "step" and one["step"] == "load")
    assert totals <= {load["entries"]}


def test_added_to_a_running_server(target: Slapd) -> None:
    add = ("add", "--from", "accounts", "-n", 400, "-H", target.ldapi_uri, "-Y", "EXTERNAL")
    with target:
        killed("load.middle", *add)
        told = ditseed(*add, "--json").ok().facts
        assert told["read"] == told["added"] == 400 + 20 + 1 + 4
        again = ditseed(*add, "--json").ok().facts
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
        (("build", "--from", "people", "-n", 5, "--engine", "slapadd", "--shards", 2), "--shards divides"),
        (("build", "--from", "people", "-n", 5, "--define", "x"), "write NAME=VALUE"),
        (("build", "--from", "people"), "-n"),
        (("add",), "nothing to load"),
        (("add", "x.ldif", "--suffix", "o=x"), "--suffix is only for --from TEMPLATE"),
    ],
)
def test_what_does_not_go_together(target: Slapd, words: tuple[object, ...], reason: str) -> None:
    place = ("--config", target.config_path) if words[0] == "build" else ()
    ditseed(*words, *place).refused(errors.UsageProblem, reason)


# --- load plans: all they say comes true in a real slapd that holds the tree they are for ------------

PLANNED = 1000  # entries
TEMPLATES = ("people", "accounts", "campus", "worst")
Loaded = tuple[str, Slapd]


@pytest.fixture(scope="module", params=TEMPLATES)
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    """A running server with the tree of a template."""
    with closing(server()) as made:
        build_from(made, request.param, PLANNED).ok()
        yield request.param, made.start()


def asked(template: str, operations: int, *more: object) -> Done:
    words = ("--operations", operations, "-n", PLANNED, "--progress", "none")
    return ditseed("generate", "operations", template, *words, *more)


def lines(template: str, operations: int, *more: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in asked(template, operations, *more).ok().out.splitlines()]


@pytest.mark.long("accounts", "campus", "worst")
def test_searches_and_binds_end_as_they_say(loaded: Loaded) -> None:
    template, running = loaded
    plan = lines(template, 1000, "--mix", "search=60,bind=40", "--miss", "20%")
    driver = Driver(running.ldapi_uri)
    assert [one for one in map(driver.wrong, plan) if one] == []
    kinds = Counter((one["op"], one.get("result", 0), one.get("entries")) for one in plan)
    assert kinds["bind", 0, None] > 200 < kinds["search", 0, 1]
    assert kinds["bind", 49, None] > 30 < kinds["search", 0, 0]
    assert kinds["search", 32, 0] > 5 < kinds["search", 0, None]
    # A plan that lies is found out.
    hit = next(one for one in plan if one.get("entries") == 1)
    bind = next(one for one in plan if one["op"] == "bind")
    assert driver.wrong({**hit, "entries": 2})
    assert driver.wrong({**hit, "result": 32})
    assert driver.wrong({**bind, "result": 49 - bind["result"]})


def test_changes_apply_and_what_is_said_stays_true(loaded: Loaded) -> None:
    template, running = loaded
    mix = "search=300,bind=100,modify=60,add=15,delete=15,modrdn=10"
    plan = lines(template, 500, "--mix", mix)
    changes = [one for one in plan if one["op"] not in READS]
    assert {one["op"] for one in changes} == {"modify", "add", "delete", "modrdn"}
    running.ldapmodify("".join(map(change_record, changes)))
    driver = Driver(running.ldapi_uri)
    reads = [one for one in plan if one["op"] in READS]
    assert [one for one in map(driver.wrong, reads) if one] == []


@pytest.mark.long("campus", "worst")
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_ldif_applies(target: Slapd, template: str) -> None:
    build_from(target, template, PLANNED).ok()
    text = asked(template, 160, "--format", "ldif").ok().out
    assert text.count("changetype: ") == 160
    with target:
        target.ldapmodify(text)


def test_a_plan_is_the_same_with_any_jobs(tmp_path: Path) -> None:
    one = asked("campus", 3000, "--jobs", 1).ok().out
    assert one == asked("campus", 3000, "--jobs", 5).ok().out
    out = tmp_path / "plan.jsonl"
    assert asked("campus", 3000, "-o", out).ok().out == ""
    assert out.read_text() == one


def test_searched_by_what_is_asked_for() -> None:
    """Whoever is asked for is skewed."""
    plan = lines("accounts", 4000, "--mix", "bind=1", "--miss", "0%", "--skew", "1")
    counts = Counter(one["dn"] for one in plan)
    assert counts.most_common(1)[0][1] > 100
    assert len(counts) > 300
    words = ("--mix", "search=1", "--miss", "0%", "--search", "mail=9,sn*=1", "--seed", "1")
    filters = [one["filter"].removeprefix("(&(objectClass=acctAccount)") for one in lines("accounts", 300, *words)]
    assert sum(one.startswith("(mail=") for one in filters) > 200
    assert any(one.startswith("(sn=") and one.endswith("*)") for one in filters)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--mix", "serach=1"), "did you mean search"),
        (("--mix", "search"), "write NAME=SHARE"),
        (("--mix", "search=0"), "must be from 1 to"),
        (("--mix", "search=1", "--format", "ldif"), "LDIF contains only changes"),
        (("--mix", "delete=1", "--operations", "5000"), "entries are to be deleted"),
        (("--miss", "101%"), "write 5% or 0.05, up to 100%"),
        (("--search", "nothing"), "no kind of the template has an attribute"),
        (("--search", "=5"), "write ATTRIBUTE"),
    ],
)
def test_what_cannot_be_planned(words: tuple[str, ...], reason: str) -> None:
    done = asked("people", 10, *words)
    done.refused(errors.UsageProblem, reason)
    assert done.out == ""


@pytest.mark.long
def test_nobody_binds_without_passwords(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    own = 'objectClass = "device"\ncn = "h{number}"'
    path.write_text(f'[[kinds]]\nname = "host"\nrdn = "cn"\n[kinds.attributes]\n{own}\n')
    asked(str(path), 10).refused(errors.UsageProblem, "nobody can bind")
    assert "(cn=h" in asked(str(path), 50, "--mix", "search=1").ok().out
