"""What `replica status` says of a seeding, offline and online: while it goes on, killed or refused, and at its end; and
`replica follow` until the consumer has caught up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tests.support.refusal import refused
from tests.support.seeding import Pair, consumer_of, follow, online, pair
from tests.support.stopping import stopped_at
from tests.support.terminal import on_terminal

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
    of_it = ("--consumer", of.ldapi_uri, "-b", of.suffix) if isinstance(of, Slapd) else of.where
    return ditseed("replica", "status", *of_it, *more)


def facts(of: Pair | Slapd) -> Any:
    return status(of, "--json").ok().facts


def row(done: Done, name: str) -> str:
    [value] = [line for line in done.out.splitlines() if line.startswith(f"{name}  ")]
    return value.removeprefix(name).strip()


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def cut_seeding(both: Pair, scratch: Path) -> list[str]:
    """Returns the command that seeds from an LDIF whose last record is cut."""
    cut = scratch / "cut.ldif"
    cut.write_bytes(both.slapcat_file.read_bytes()[:-20])
    return [str(cut) if word == str(both.slapcat_file) else word for word in both.seed("slapcat")]


def test_while_it_goes_on_and_when_it_is_killed(both: Pair) -> None:
    assert status(both).status == NoRun.exit_status
    words = both.seed("slapcat")
    seeding = stopped_at("load.middle", *words).process
    with killed_at_the_end(seeding):
        found, said = facts(both), status(both).ok()
        assert (found["done"], found["step"], found["failure"]) == (False, "load", None)
        assert found["process"] == seeding.pid
        assert (row(said, "under way"), row(said, "process")) == ("load", str(seeding.pid))
        assert "interrupted" not in said.out
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
    words = cut_seeding(both, tmp_path)
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
    with pair(tmp_path_factory.mktemp("online"), ONLINE) as both:
        yield both.provider


def test_going_on_killed_and_finished_online(provider: Slapd, slapd_instance: Slapd, state: Path) -> None:
    target = slapd_instance
    assert status(target).status == NoRun.exit_status
    killed("plan.recorded", *online(provider, target))
    seed = facts(target)["seed"]
    assert (seed["step"], seed["process"], seed["done"]) == ("read", None, False)
    assert 0 <= seed["heard"] < 60

    seeding = stopped_at("load.middle", *online(provider, target)).process
    with killed_at_the_end(seeding):
        seed, words = facts(target)["seed"], status(target).ok().out
        assert (seed["step"], seed["process"], seed["done"]) == ("load", seeding.pid, False)
        assert "under way" in words
        assert str(seeding.pid) in words
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


def test_one_of_the_two() -> None:
    for words in ((), ("--config", "/x", "--consumer", "ldapi:///")):
        ditseed("replica", "status", *words).refused(UsageProblem)


# --- follow ------------------------------------------------------------------------------------------


@contextmanager
def follower(status: int, *words: object) -> Iterator[Callable[..., Any]]:
    """Follows a run, and asserts the exit status at the end. Yields a function that returns the next line of JSON that
    contains a text and has the given members."""
    process = start("replica", "follow", *words)

    def line(text: str = "", **members: Any) -> Any:
        for printed in process.stdout:
            found = json.loads(printed)
            if text in printed and all(found[name] == value for name, value in members.items()):
                return {**found, "follower": process}
        raise AssertionError(process.communicate())

    with killed_at_the_end(process):
        yield line
        process.wait(timeout=60)
        assert process.returncode == status


def test_followed_killed_resumed_and_caught_up(both: Pair) -> None:
    words = both.seed("search")
    assert ditseed("replica", "follow", *both.where).status == NoRun.exit_status
    seeding = stopped_at("stream.unrecorded", *words).process
    with follower(0, *both.where, "--json") as line:
        with killed_at_the_end(seeding):
            found = line(step="stream", process=seeding.pid)
            assert [step["name"] for step in found["steps"]] == ["preflight", "config", "start", "plan"]
        line(process=None, done=False)
        ditseed(*words).ok()
        found = line("slapd: it is not started", done=True, process=None)
        assert {step["name"]: step["entries"] for step in found["steps"]}["stream"] > PEOPLE
        both.consumer.own_files()
        with both.consumer:
            last = line('"caught up"')["catch_up"]
            assert last["consumer"] == last["provider"] == sorted(both.provider.context_csns())


def test_followed_behind_on_a_terminal(both: Pair) -> None:
    """The screen has the steps, then how far the consumer is behind; at the end it stays."""
    ditseed(*both.seed("slapcat")).ok()
    both.consumer.own_files()
    with both.consumer:
        replication.wait_in_sync(both.provider, both.consumer)
        os.kill(both.consumer.pid, signal.SIGSTOP)
        both.provider.describe("the consumer lacks this")
        timer = threading.Timer(3.0, os.kill, (both.consumer.pid, signal.SIGCONT))
        timer.start()
        status, screen = on_terminal("replica", "status", "--watch", *both.where, stream="stdout")
        timer.join()
    assert status == 0, screen
    assert "the provider sends what changed" in screen
    assert "behind (server ID 001)" in screen
    assert "\x1b[?1049h" not in screen  # the alternate screen
    assert re.search(r"publish .*finished.*replica +caught up", screen.rpartition("\x1b[2K")[2], re.DOTALL)


def test_followed_on_a_dumb_terminal_and_ctrl_c(both: Pair) -> None:
    """Without cursor movements it prints a line a change. Ctrl-C ends the following, not the seeding."""
    seeding = stopped_at("load.middle", *both.seed("slapcat"))
    with follower(128 + signal.SIGINT, *both.where) as line:  # into a pipe
        line(step="load", process=seeding.process.pid)["follower"].send_signal(signal.SIGINT)
    shown: list[tuple[int, str]] = []
    words, dumb = ("replica", "follow", *both.where), {"TERM": "dumb"}
    thread = threading.Thread(target=lambda: shown.append(on_terminal(*words, env=dumb, stream="stdout")))
    thread.start()
    seeding.end().ok()
    both.consumer.own_files()
    with both.consumer:
        thread.join()
    [(status, text)] = shown
    assert (status, "\x1b" in text, "replica  caught up" in text) == (0, False, True), text


def test_following_a_failed_seeding(both: Pair, tmp_path: Path) -> None:
    seeding = stopped_at("config.recorded", *cut_seeding(both, tmp_path))
    with follower(LdifTruncated.exit_status, *both.where, "--json") as line:
        line(process=seeding.process.pid)
        assert seeding.end().status == LdifTruncated.exit_status
        assert line(process=None)["failure"]["code"] == LdifTruncated.code


def test_following_online(provider: Slapd, slapd_instance: Slapd, state: Path) -> None:
    """After the seeding it waits for olcSyncrepl."""
    target = slapd_instance
    seeding = stopped_at("load.middle", *online(provider, target))
    with follower(0, "--consumer", target.ldapi_uri, "-b", target.suffix) as line:
        line(step="load", process=seeding.process.pid)
        seeding.end().ok()
        line("waiting for olcSyncrepl", done=True)
        follow(provider, target)
        line('"caught up"')


def test_following_a_backup(provided: Pair, tmp_path: Path) -> None:
    words = ("backup", "run", "--init", "-R", tmp_path / "repo", "--from", provided.provider.database_dir)
    backup = stopped_at("copy.unrecorded", *words)
    with follower(0, "--run-dir", tmp_path / "repo" / ".ditseed") as line:
        line(verb="backup run", step="copy", process=backup.process.pid)
        backup.end().ok()
        line(done=True, process=None)
