"""`replica seed --dry-run` in prepared situations: the right strategy, or why none."""

from __future__ import annotations

import dataclasses
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
from fixtures.slapd_config import Installation, Settings
from tests.support.command import Done, ditseed
from tests.support.disks import loop_filesystem
from tests.support.require import require
from tests.support.seeding import Pair, consumer_of, pair

pytestmark = pytest.mark.slapd

PEOPLE = 2000
LOG = 8  # writes that the provider's session log holds
RATE = 10 << 20  # bytes a second


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
        assert all(found[name]["refused"] is None for name in ("search", "ldif", "clone"))
        assert found["online"]["refused"] == "usage"
        assert "--consumer" in found["online"]["reason"]
        assert found["search"]["only_changes"]
        assert found["clone"]["only_changes"]
        assert not found["ldif"]["only_changes"]
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
    """What `replica seed` refuses is not planned."""
    ldif = tmp_path / "tree.ldif"
    ldif.write_text(f"dn: {both.provider.suffix}\nobjectClass: domain\ndc: example\n")
    with consumer_of(both) as other:
        found = rows(planned(other, "--from", ldif))["ldif"]
        seed = ("replica", "seed", "--strategy", "ldif", "--from", ldif)
        done = ditseed(*seed, *other.bind, *other.where, "--dry-run")
    assert found["refused"] == "server.no_context_csn", found
    assert f"[{found['refused']}]" in done.err


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
