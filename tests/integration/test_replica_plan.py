"""`replica seed --dry-run` in prepared situations: the right strategy, or why none; and all that is missing at once,
with lines that mend it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.chroots import chroot, missing_chroot
from fixtures.network import Proxy
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR, Installation, Settings, search_path
from fixtures.trees import Load, write_people
from loader.errors import HiddenFromAccount
from tests.support.command import COMMAND, Done, ditseed
from tests.support.disks import loop_filesystem
from tests.support.require import require
from tests.support.seeding import Pair, consumer_of, pair

pytestmark = pytest.mark.slapd

PEOPLE = 2000
LOG = 8  # writes that the provider's session log holds
RATE = 10 << 20  # bytes a second
ERRORS = ["seed.hidden", "config.schema_missing", "config.maxsize_too_small"]
WARNINGS = (
    "no index entryCSN eq and entryUUID eq",
    "is ahead of this host's",
    "server ID 1 is also that of",
    "catch-up:",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A provider with an export that is older than its session log reaches back."""
    with pair(tmp_path_factory.mktemp("plan"), PEOPLE, session_log=LOG) as made:
        made.prepare("ldif")
        for number in range(3 * LOG):
            made.provider.describe(str(number))
        yield made


def sources(both: Pair) -> tuple[object, ...]:
    return ("--from", both.provider.database_dir, "--from", both.export_dir)


def planned(both: Pair, *more: object) -> dict[str, Any]:
    plan: dict[str, Any] = ditseed("replica", "seed", "--dry-run", *both.bind, *both.where, "--json", *more).facts
    return plan


def rows(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["strategy"]: row for row in plan["strategies"]}


def carried_out(both: Pair, plan: dict[str, Any]) -> Done:
    chosen = rows(plan)[plan["chosen"]]
    given = [word for path in chosen["source"] for word in ("--from", path)]
    return ditseed("replica", "seed", "--strategy", chosen["strategy"], *given, *both.bind, *both.where)


def test_same_format_and_access(both: Pair) -> None:
    """A fresh copy and a search are answered with changes. The old export, which would be built soonest, is not, for it
    is older than the session log reaches back: so it is not taken."""
    with consumer_of(both) as other:
        plan = planned(other, *sources(other))
        found = rows(plan)
        assert plan["chosen"] in ("search", "clone")
        refused = {name: row["refused"] for name, row in found.items()}
        assert refused == {"search": None, "ldif": None, "clone": None, "online": "usage"}
        assert "--consumer" in found["online"]["reason"]
        only_changes = {name for name in ("search", "ldif", "clone") if found[name]["only_changes"]}
        assert only_changes == {"search", "clone"}
        assert "entryUUIDs" in found["ldif"]["catch_up"]
        assert "session log" in found["ldif"]["catch_up"]
        assert {step["name"] for step in found["search"]["steps"]} >= {"preflight", "plan", "stream"}
        assert plan["entries"] > PEOPLE
        carried_out(other, plan).ok()
        status = ditseed("replica", "status", *other.where, "--json").facts
        assert status["done"]
        steps = {step["name"] for step in found[plan["chosen"]]["steps"]} - {"catch-up"}
        assert {step["name"] for step in status["steps"]} >= steps
        with other.consumer:
            replication.wait_in_sync(other.provider, other.consumer)
            assert len(other.consumer.search()) == len(other.provider.search())


def test_a_schema_that_the_consumer_lacks(both: Pair) -> None:
    settings = replication.as_consumer(both.provider.settings, base_schemas=("core", "cosine"))
    with closing(replication.consumer(both.provider, settings)) as consumer:
        other = dataclasses.replace(both, consumer=consumer)
        done = ditseed("replica", "seed", "--dry-run", *other.bind, *other.where, *sources(other), "--json")
        assert done.status == 1
        assert done.facts["chosen"] is None
        for name in ("search", "ldif", "clone"):
            found = rows(done.facts)[name]
            assert found["refused"] == "config.schema_missing", found
            assert "inetorgperson" in found["reason"].lower()


def test_ldif_without_a_context_csn(both: Pair, tmp_path: Path) -> None:
    ldif = tmp_path / "tree.ldif"
    ldif.write_text(f"dn: {both.provider.suffix}\nobjectClass: domain\ndc: example\n")
    with consumer_of(both) as other:
        found = rows(planned(other, "--from", ldif))["ldif"]
        seed = ("replica", "seed", "--strategy", "ldif", "--from", ldif)
        assert "[server.no_context_csn]" in ditseed(*seed, *other.bind, *other.where, "--dry-run").err
    assert found["refused"] == "server.no_context_csn", found


@pytest.mark.long
def test_no_space(both: Pair) -> None:
    with loop_filesystem(2) as disk, consumer_of(both) as other:
        place = str(other.consumer.database_dir)
        subprocess.run(["mount", "--bind", str(disk), place], check=True)
        try:
            plan = planned(other, *sources(other))
        finally:
            subprocess.run(["umount", place], check=True)
    assert plan["chosen"] is None
    assert {rows(plan)[name]["refused"] for name in ("search", "ldif", "clone")} == {"storage.no_space"}


@pytest.mark.long
def test_a_slow_link(both: Pair) -> None:
    """What the link lets through is what is planned; the copy does not cross it. The consumer has a slapd.conf, which
    slapd's tools convert each time it is read."""
    with Proxy(both.provider.uri, rate=RATE) as proxy, consumer_of(both, "conf") as near:
        other = dataclasses.replace(near, uri=proxy.uri)
        plan = planned(other, "--from", both.provider.database_dir)
        rate, unit = plan["measured"]["reading"].removesuffix("/s of LDIF").split()[-2:]
        assert float(rate) * {"KiB": 1 << 10, "MiB": 1 << 20}[unit] < 2 * RATE


@pytest.mark.parametrize("suite", ["bullseye"])
def test_an_older_provider(suite: str, tmp_path: Path, people_ldif: Path) -> None:
    """OpenLDAP 2.4, and nothing but LDAP to reach it by."""
    require(missing_chroot())
    settings = Settings(modules=("back_mdb", "back_monitor", "syncprov"))
    there = Installation(prefix=chroot(suite).prefix)
    with closing(replication.provider(settings, installation=there)) as source:
        source.slapadd(people_ldif, "-w")
        with source, closing(replication.consumer(source)) as target:
            other = Pair(source, target, tmp_path)
            plan = planned(other)
            assert plan["chosen"] == "search"
            assert "the only feasible one" in plan["why"]
            assert rows(plan)["clone"]["refused"] == "usage"
            carried_out(other, plan).ok()


@pytest.fixture
def poor(tmp_path: Path) -> Iterator[Pair]:
    """A provider that hides passwords, is two hours ahead and has no session log; a consumer that lacks the rest."""
    hiding = f'access to attrs=userPassword by dn.exact="{REPLICATOR}" none by * auth'
    settings = Settings(server_id=1, access=(hiding, "access to * by * read"))
    source = replication.provider(settings, session_log=0)
    people = tmp_path / "people.ldif"
    write_people(people, source.suffix, 3000, load=Load(time.time() + 7200, 1))
    lacking = {"base_schemas": ("core", "cosine"), "maxsize": 2 << 20, "indexes": ("objectClass eq",), "server_id": 1}
    lines = (replication.syncrepl(source), "multiprovider on")
    settings = replication.as_consumer(source.settings, **lacking, database_lines=lines)
    with closing(source), closing(Slapd(settings)) as target:
        source.slapadd(people, "-w")
        yield Pair(source.start(), target, tmp_path)


def test_all_that_is_missing_is_listed_at_once(poor: Pair) -> None:
    words = ("replica", "seed", "--dry-run", *poor.bind, *poor.where)
    printed = ditseed(*words, "--strategy", "search")
    printed.refused(HiddenFromAccount, "userPassword")
    done = ditseed(*words, "--json", "--from", poor.provider.database_dir)
    assert done.status == 1
    missing = [each for each in done.facts["missing"] if each["subject"] != "clone"]
    assert [each["rule"] for each in missing if each["severity"] == "critical"] == ERRORS
    assert [each["rule"] for each in done.facts["missing"] if each["subject"] == "clone"] == ERRORS[1:]
    for text in WARNINGS:
        assert any(text in each["what"] for each in missing), (text, missing)
    for each in missing:
        assert each["what"] in printed.out
        assert all(f"\n{line}\n" in printed.out for line in each["mend"])
    # Pastes the lines of each finding into a shell; slapd's socket is not at its usual place here.
    env = {**os.environ, "PATH": f"{COMMAND.parent}:{search_path()}"}
    for each in missing:
        if each["severity"] == "critical" or "no index" in each["what"]:
            text = "\n".join(each["mend"]).replace("ldapi:///", poor.provider.ldapi_uri)
            subprocess.run(["sh", "-eu"], input=text, text=True, check=True, cwd=poor.scratch, env=env)
    after = ditseed(*words, "--strategy", "search", "--json").ok().facts
    assert not [each for each in after["missing"] if each["severity"] == "critical" or "no index" in each["what"]]


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_each_strategy_takes_as_long_as_planned(tmp_path: Path) -> None:
    """By hand, on a machine that does nothing else, with -s."""
    told = []
    with pair(tmp_path, 1_000_000, wanted=Settings(maxsize=16 << 30)) as both:
        both.prepare("ldif")
        for strategy in ("search", "ldif", "clone"):
            with consumer_of(both) as one:
                plan = {**planned(one, *sources(one)), "chosen": strategy}
                steps = rows(plan)[strategy]["steps"]
                seconds = sum(step["seconds"] for step in steps if step["name"] != "catch-up")
                began = time.monotonic()
                carried_out(one, plan).ok()
                took = time.monotonic() - began
                status = ditseed("replica", "status", *one.where).ok().out
                print(f"\n{strategy}: planned {seconds:.1f} s, took {took:.1f} s\n{status}")
                told.append((strategy, seconds, took))
    for strategy, seconds, took in told:
        assert abs(seconds - took) <= 0.3 * took, (strategy, seconds, took)
