"""What `replica status` says of the seeding of a stopped consumer: while it goes on, when it was killed or refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.waiting import until
from loader import units
from loader.defaults import ENV_STOP_AT
from loader.errors import LdifTruncated, NoRun
from loader.progress import Meter, Progress
from loader.run.steps import open_run
from seeders.replica.strategies import RUN_DIR
from tests.support.command import Done, ditseed, start
from tests.support.refusal import refused, where
from tests.support.seeding import Pair, consumer_of, pair
from tests.support.stopping import Stopping

pytestmark = pytest.mark.slapd

PEOPLE = 300


@pytest.fixture(scope="module")
def provided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("pair"), PEOPLE) as both:
        both.prepare("slapcat")
        yield both


@pytest.fixture
def both(provided: Pair) -> Iterator[Pair]:
    with consumer_of(provided) as fresh:
        yield fresh


def status(both: Pair, *more: object) -> Done:
    return ditseed("replica", "status", *where(both), *more)


def facts(both: Pair) -> Any:
    return status(both, "--json").ok().facts


def row(done: Done, name: str) -> str:
    [value] = [line for line in done.out.splitlines() if line.startswith(f"{name}  ")]
    return value.removeprefix(name).strip()


def test_while_it_goes_on_and_when_it_is_killed(both: Pair) -> None:
    assert status(both).status == NoRun.exit_status
    words = both.seed("slapcat")
    seeding = Stopping(start(*words, env={ENV_STOP_AT: "load.middle"}))
    try:
        seeding.wait_for_stop()
        found, said = facts(both), status(both).ok()
        assert (found["done"], found["step"], found["failure"]) == (False, "load", None)
        assert found["process"] == seeding.process.pid
        assert row(said, "under way") == "load"
        assert row(said, "process") == str(seeding.process.pid)
        assert "interrupted" not in said.out
    finally:
        seeding.process.kill()
        seeding.process.communicate()
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


def test_stopped_by_a_signal(both: Pair) -> None:
    seeding = Stopping(start(*both.seed("slapcat"), env={ENV_STOP_AT: "load.start"}))
    seeding.wait_for_stop()
    seeding.process.send_signal(signal.SIGTERM)
    seeding.go_on()
    seeding.process.communicate()
    assert row(status(both).ok(), "error") == "stopped by SIGTERM [cancelled]"
