"""bin/bench seed in its short form: it seeds, catches up and compares, and notices what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import replication
from fixtures.bench import reading, trial
from fixtures.bench.provided import CONTAINERS
from fixtures.ports import free_port
from tests.bench.test_online import facts, run

pytestmark = pytest.mark.slapd
SMALL = 2000


@pytest.mark.alone
def test_a_consumer_is_seeded_while_the_provider_changes_and_catches_up_at_once(short_tmp: Path) -> None:
    found = facts(short_tmp, "seed", "-n", 30_000, "--no-export")
    (one,) = found["runs"]
    assert one["equal"]
    assert one["caught_up"] is not None
    assert one["sent"] <= one["changes"]
    assert one["seeding"]["entries"] > 29_900
    whole = [step for step in one["steps"] if not step["name"].startswith(" ")]  # no phases
    steps = {step["name"]: step["seconds"] for step in whole}
    assert 0 < sum(steps.values()) < one["usage"]["seconds"]
    assert not steps.keys() & {"read", "arrange", "scan", "load"}  # one pass
    assert not any("counted" in step["how"] for step in one["steps"])
    (ratio,) = found["ratios"]
    alone = sum(part["usage"]["seconds"] for part in one["alone"]) / 2
    assert ratio["median"] == pytest.approx(one["usage"]["seconds"] / alone)
    assert 0 < one["seeding"]["memory"] < 3 << 30
    assert [path.name for path in short_tmp.iterdir()] == ["out.json"]


def test_a_provider_that_is_kept_is_used_again(short_tmp: Path) -> None:
    kept = short_tmp / "kept"
    words = ("seed", "-n", SMALL, "--uuids", "time", "--no-session-log", "--keep", kept)
    first = facts(short_tmp, *words)["runs"][0]
    (short_tmp / "out.json").unlink()
    built = (kept / "bench.json").stat().st_mtime_ns
    second = facts(short_tmp, *words)["runs"][0]
    assert (kept / "bench.json").stat().st_mtime_ns == built
    assert first["equal"]
    assert second["equal"]
    assert second["alone"][0]["entries"] > SMALL + CONTAINERS  # the writer of the first left some
    assert first["exported"] > 0
    done = run(short_tmp, "seed", "-n", SMALL + 1, "--uuids", "time", "--keep", kept)
    assert done.returncode != 0
    assert f"'accounts': {SMALL}" in done.stderr


def test_who_cannot_reach_its_provider_does_not_catch_up(short_tmp: Path) -> None:
    with replication.provider(directory=short_tmp / "provider") as source:
        source.ldapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
        nowhere = f"ldap://127.0.0.1:{free_port()}"
        target = replication.consumer(source, uri=nowhere, directory=short_tmp / "consumer")
        try:
            assert trial.catch_up(source, target, patience=0.2) is None
        finally:
            target.close()


def test_what_the_disk_does_not_hold_is_not_begun(short_tmp: Path) -> None:
    done = run(short_tmp, "seed", "-n", 10**12)
    assert done.returncode == 3
    assert "1,000,000,000,000 accounts and their seeding need" in done.stderr


@pytest.mark.parametrize("uuids", reading.UUIDS)
def test_each_entry_is_in_one_piece(uuids: str) -> None:
    between = reading.cuts(uuids, 8, 4)
    assert len(between) == 3
    assert between == sorted(between)
    first, *_, last = reading.filters(between)
    assert first == f"(!(entryUUID>={between[0]}))"
    assert last == f"(!(!(entryUUID>={between[2]})))"
    assert list(reading.filters([])) == ["(objectClass=*)"]
