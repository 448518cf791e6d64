"""What `replica status` says of a seeding, offline and online: while it goes on, killed or refused, and at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.trees import write_people
from fixtures.waiting import until
from loader import units
from loader.errors import LdifTruncated, NoRun, UsageProblem
from loader.progress import Meter, Progress
from loader.run.steps import open_run
from seeders.replica.strategies import RUN_DIR
from tests.support.command import Done, ditseed, start
from tests.support.killing import killed
from tests.support.refusal import refused, where
from tests.support.seeding import Pair, consumer_of, online, pair
from tests.support.stopping import stopped_at

pytestmark = pytest.mark.slapd

PEOPLE = 300
ONLINE = 3000


@pytest.fixture(scope="module")
def provided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("pair"), PEOPLE) as both:
        both.prepare("slapcat")
        yield both


@pytest.fixture
def both(provided: Pair) -> Iterator[Pair]:
    with consumer_of(provided) as fresh:
        yield fresh


def status(of: Pair | Slapd, *more: object) -> Done:
    """Of the consumer, or of a server that is seeded while it runs."""
    of_it = ("--consumer", of.ldapi_uri, "-b", of.suffix) if isinstance(of, Slapd) else where(of)
    return ditseed("replica", "status", *of_it, *more)


def facts(of: Pair | Slapd) -> Any:
    return status(of, "--json").ok().facts


def row(done: Done, name: str) -> str:
    [value] = [line for line in done.out.splitlines() if line.startswith(f"{name}  ")]
    return value.removeprefix(name).strip()


def test_while_it_goes_on_and_when_it_is_killed(both: Pair) -> None:
    assert status(both).status == NoRun.exit_status
    words = both.seed("slapcat")
    seeding = stopped_at("load.middle", *words).process
    try:
        found, said = facts(both), status(both).ok()
        assert (found["done"], found["step"], found["failure"]) == (False, "load", None)
        assert found["process"] == seeding.pid
        assert (row(said, "under way"), row(said, "process")) == ("load", str(seeding.pid))
        assert "interrupted" not in said.out
    finally:
        seeding.kill()
        seeding.communicate()
    said = status(both).ok()
    assert row(said, "next") == "load"
    assert row(said, "state") == "interrupted; the same `replica seed` command resumes"
    ditseed(*words).ok()
    assert status(both).ok().out.splitlines()[-1] == "finished"
    assert facts(both)["process"] is None


def test_how_fast_it_is_and_what_is_left(both: Pair) -> None:
    """A seeding whose step `load` has done 250 of 1000 entries and does no more."""

    def load(meter: Meter) -> None:
        meter.add(250)
        found = until(lambda: told if (told := facts(both))["entries"] else None)
        assert (found["step"], found["entries"], found["expected"]) == ("load", 250, 1000)
        assert found["left"] == pytest.approx(750 / found["rate"])
        said = status(both).ok()
        assert row(said, "entries") == "250 of 1,000 (25 %)"
        assert row(said, "rate") == f"{found['rate']:,.0f} entries/s"
        assert row(said, "time left") == units.duration(found["left"])
        assert row(said, "process") == str(os.getpid())

    with open_run(both.consumer.database_dir / RUN_DIR, "replica seed", {}, Progress("none")) as run:
        run.do("load", load, total=1000)


def test_why_it_was_refused(both: Pair, tmp_path: Path) -> None:
    """An error is told until the seeding goes on."""
    cut = tmp_path / "cut.ldif"
    cut.write_bytes(both.slapcat_file.read_bytes()[:-20])
    words = both.seed("slapcat")
    words[words.index(str(both.slapcat_file))] = str(cut)
    done = refused(both, LdifTruncated, *words)
    found, said = facts(both), status(both).ok()
    failure = found["failure"]
    assert (found["done"], found["process"]) == (False, None)
    assert f"{failure['message']} [{failure['code']}]" in done.err
    assert f"hint: {failure['hint']}" in done.err
    assert row(said, "error") == f"{failure['message']} [{failure['code']}]"
    assert row(said, "hint") == failure["hint"]
    assert row(said, "state") == ("failed; once that is corrected, the same `replica seed` command resumes")


# --- online -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    made = replication.provider()
    people = tmp_path_factory.mktemp("people") / "people.ldif"
    write_people(people, made.suffix, ONLINE)
    made.slapadd(people)
    with made:
        yield made


def test_going_on_killed_and_finished_online(provider: Slapd, slapd_instance: Slapd, state: Path) -> None:
    target = slapd_instance
    assert status(target).status == NoRun.exit_status
    killed("plan.recorded", *online(provider, target))
    seed = facts(target)["seed"]
    assert (seed["step"], seed["process"], seed["done"]) == ("read", None, False)
    assert 0 <= seed["heard"] < 60

    seeding = stopped_at("load.middle", *online(provider, target)).process
    try:
        seed, words = facts(target)["seed"], status(target).ok().out
        assert (seed["step"], seed["process"], seed["done"]) == ("load", seeding.pid, False)
        assert "under way" in words
        assert str(seeding.pid) in words
    finally:
        seeding.kill()
        seeding.communicate()
    seed, everything = facts(target)["seed"], len(provider.search(attributes=("1.1",)))
    assert (seed["step"], seed["process"], seed["done"]) == ("load", None, False)
    assert seed["entries"] == seed["expected"] == everything
    (lease,) = facts(target)["leases"]
    assert (lease["kind"], lease["process"]) == ("updatedn", None)
    words = status(target).ok().out
    assert f"{everything:,} of {everything:,} (100 %)" in words
    assert "the same `replica seed` command resumes" in words
    assert "nothing will reset it" in words
    assert "ldapmodify" in words

    ditseed(*online(provider, target)).ok()
    found = facts(target)
    assert (found["seed"]["done"], found["seed"]["step"], found["leases"]) == (True, None, [])
    assert "finished" in status(target).ok().out


def test_a_load_and_its_lease(slapd_instance: Slapd, state: Path) -> None:
    """While it goes on, some entries are there and nosync is on; afterwards all are, and it is off."""
    people = state / "people.ldif"
    write_people(people, slapd_instance.suffix, ONLINE)
    everything = sum(line.startswith("dn:") for line in people.read_text().splitlines())
    bind = ("-H", slapd_instance.ldapi_uri, "-Y", "EXTERNAL", "-b", slapd_instance.suffix)
    process = start("add", people, *bind, "--nosync", "--max-rate", 400, "--batch", 20)
    until(lambda: status(slapd_instance).status == 0)
    until(lambda: bool(facts(slapd_instance)["loads"]))
    until(lambda: facts(slapd_instance)["loads"][0]["entries"] > 0)
    found = facts(slapd_instance)
    (load,), (lease,) = found["loads"], found["leases"]
    assert 0 < load["entries"] < load["expected"] == everything
    assert (load["process"], load["done"], found["seed"]) == (process.pid, False, None)
    assert (lease["kind"], lease["process"], lease["undo"]) == ("nosync", process.pid, None)
    assert f"process {process.pid} will reset it" in status(slapd_instance).ok().out
    out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    found = facts(slapd_instance)
    assert (found["loads"][0]["entries"], found["loads"][0]["done"]) == (everything, True)
    assert found["leases"] == []


@pytest.mark.long
def test_the_base_of_a_profile(provider: Slapd, slapd_instance: Slapd, state: Path, tmp_path: Path) -> None:
    """It names the seeding, as it does for `replica seed`."""
    home = tmp_path / "home" / "ditseed"
    home.mkdir(parents=True, mode=0o700)
    (home / "config.toml").write_text(f'[default]\nbase = "{provider.suffix}"\n')
    env = {"XDG_CONFIG_HOME": str(home.parent)}
    ditseed(*online(provider, slapd_instance), env=env).ok()
    where = ("--consumer", slapd_instance.ldapi_uri)
    assert "finished" in ditseed("replica", "status", *where, env=env).ok().out


@pytest.mark.long("words1")
@pytest.mark.parametrize("words", [(), ("--config", "/x", "--consumer", "ldapi:///")])
def test_one_of_the_two(words: tuple[str, ...]) -> None:
    assert ditseed("replica", "status", *words).status == UsageProblem.exit_status
