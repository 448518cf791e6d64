"""What `replica status` says of online runs: while they go on, when they were killed, when they are through."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.trees import write_people
from fixtures.waiting import until
from loader.errors import NoRun, UsageProblem
from tests.support.command import Done, ditseed, start

pytestmark = pytest.mark.slapd

PEOPLE = 3000


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    made = replication.provider()
    people = tmp_path_factory.mktemp("people") / "people.ldif"
    write_people(people, made.suffix, PEOPLE)
    made.slapadd(people)
    with made:
        yield made


def seeding(source: Slapd, target: Slapd) -> tuple[object, ...]:
    bind = ("-D", "cn=replicator", "-y", source.replicator_password_file, "-b", source.suffix)
    consumer = ("--consumer", target.ldapi_uri, "--consumer-mechanism", "EXTERNAL")
    return ("replica", "seed", "--strategy", "online", "-H", source.uri, *bind, *consumer)


def status(target: Slapd, state: Path, *more: object) -> Done:
    where = ("--consumer", target.ldapi_uri, "-b", target.suffix)
    return ditseed("replica", "status", *where, *more, env={"DITSEED_STATE_DIR": str(state)})


def facts(target: Slapd, state: Path) -> Any:
    return status(target, state, "--json").ok().facts


@contextmanager
def standing_still(server: Slapd) -> Iterator[None]:
    """It answers nobody meanwhile."""
    server.process.send_signal(signal.SIGSTOP) if server.process else None
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT) if server.process else None


def test_killed_gone_on_with_and_finished(provider: Slapd, slapd_instance: Slapd, tmp_path: Path) -> None:
    target, env = slapd_instance, {"DITSEED_STATE_DIR": str(tmp_path)}
    assert status(target, tmp_path).status == NoRun.exit_status
    for point, step in (("plan.recorded", "read"), ("load.middle", "load")):
        done = ditseed(*seeding(provider, target), env={**env, "DITSEED_KILL_AT": point})
        assert done.status == -signal.SIGKILL, done
        seed = facts(target, tmp_path)["seed"]
        assert (seed["step"], seed["process"], seed["done"]) == (step, None, False)
        assert 0 <= seed["heard"] < 60
    everything = len(provider.search(attributes=("1.1",)))
    assert seed["entries"] == seed["expected"] == everything
    (lease,) = facts(target, tmp_path)["leases"]
    assert (lease["kind"], lease["process"]) == ("updatedn", None)
    words = status(target, tmp_path).ok().out
    assert f"{everything:,} of {everything:,} (100 %)" in words
    assert "the same `replica seed` command resumes" in words
    assert "nothing will reset it" in words
    assert "ldapmodify" in words
    ditseed(*seeding(provider, target), env=env).ok()
    found = facts(target, tmp_path)
    assert (found["seed"]["done"], found["seed"]["step"], found["leases"]) == (True, None, [])
    assert "finished" in status(target, tmp_path).ok().out


@pytest.mark.long
def test_while_it_goes_on(provider: Slapd, slapd_instance: Slapd, tmp_path: Path) -> None:
    """The provider stands still, and the seeding waits for it; to look at that takes nothing from it."""
    target, env = slapd_instance, {"DITSEED_STATE_DIR": str(tmp_path)}
    done = ditseed(*seeding(provider, target), env={**env, "DITSEED_KILL_AT": "plan.recorded"})
    assert done.status == -signal.SIGKILL, done
    with standing_still(provider):
        process = start(*seeding(provider, target), env=env)
        until(lambda: facts(target, tmp_path)["seed"]["process"] is not None)
        seed = facts(target, tmp_path)["seed"]
        assert (seed["step"], seed["process"]) == ("read", process.pid)
        words = status(target, tmp_path).ok().out
        assert "under way" in words
        assert str(process.pid) in words
    finish(process)
    assert facts(target, tmp_path)["seed"]["done"]


def finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate()
    assert process.returncode == 0, (out, err)


def test_a_load_and_its_lease(slapd_instance: Slapd, tmp_path: Path) -> None:
    """While it goes on, some entries are there and nosync is on; afterwards all are, and it is off."""
    people = tmp_path / "people.ldif"
    write_people(people, slapd_instance.suffix, PEOPLE)
    everything = sum(line.startswith("dn:") for line in people.read_text().splitlines())
    bind = ("-H", slapd_instance.ldapi_uri, "-Y", "EXTERNAL", "-b", slapd_instance.suffix)
    slow = ("add", people, *bind, "--nosync", "--max-rate", 400, "--batch", 20)
    process = start(*slow, env={"DITSEED_STATE_DIR": str(tmp_path)})
    until(lambda: status(slapd_instance, tmp_path).status == 0)
    until(lambda: bool(facts(slapd_instance, tmp_path)["loads"]))
    until(lambda: facts(slapd_instance, tmp_path)["loads"][0]["entries"] > 0)
    found = facts(slapd_instance, tmp_path)
    (load,), (lease,) = found["loads"], found["leases"]
    assert 0 < load["entries"] < load["expected"] == everything
    assert (load["process"], load["done"], found["seed"]) == (process.pid, False, None)
    assert (lease["kind"], lease["process"], lease["undo"]) == ("nosync", process.pid, None)
    assert f"process {process.pid} will reset it" in status(slapd_instance, tmp_path).ok().out
    finish(process)
    found = facts(slapd_instance, tmp_path)
    assert (found["loads"][0]["entries"], found["loads"][0]["done"]) == (everything, True)
    assert found["leases"] == []


@pytest.mark.long
def test_the_base_of_a_profile(provider: Slapd, slapd_instance: Slapd, tmp_path: Path) -> None:
    """It names the seeding, as it does for `replica seed`."""
    home = tmp_path / "home" / "ditseed"
    home.mkdir(parents=True, mode=0o700)
    (home / "config.toml").write_text(f'[default]\nbase = "{provider.suffix}"\n')
    env = {"DITSEED_STATE_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(home.parent)}
    ditseed(*seeding(provider, slapd_instance), env=env).ok()
    where = ("--consumer", slapd_instance.ldapi_uri)
    assert "finished" in ditseed("replica", "status", *where, env=env).ok().out


@pytest.mark.long("words1")
@pytest.mark.parametrize("words", [(), ("--config", "/x", "--consumer", "ldapi:///")])
def test_one_of_the_two(words: tuple[str, ...]) -> None:
    assert ditseed("replica", "status", *words).status == UsageProblem.exit_status
