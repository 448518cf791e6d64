"""A run is a list of steps: each is done once, at whatever point the one before was killed."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.waiting import until
from loader.defaults import ENV_KILL_AT
from loader.errors import FULL, CatalogueDamaged, Locked, NoSpace, RunMismatch, StepTimeout
from loader.progress import Meter, Progress
from loader.run.log import FILE
from loader.run.steps import LIVE_FILE, RunStatus, open_run, status_of
from tests.support.command import environment

QUIET = Progress("none")


@dataclass(frozen=True)
class Fact:
    by: str
    nth: int


def listing(directory: Path, done: list[str], **more: bool) -> list[Fact]:
    """A run of three steps that write down what they do."""

    def work(name: str) -> Fact:
        done.append(name)
        return Fact(name, len(done))

    with open_run(directory, "test", {"a": 1}, QUIET, **more) as run:
        return [run.do(name, lambda meter, name=name: work(name), Fact) for name in ("one", "two", "three")]  # type: ignore[misc]


def test_finished_steps_are_not_repeated_and_their_facts_are_the_same(tmp_path: Path) -> None:
    done: list[str] = []
    assert listing(tmp_path, done) == listing(tmp_path, done)
    assert done == ["one", "two", "three"]
    out = io.StringIO()
    with open_run(tmp_path, "test", {"a": 1}, Progress("plain", stream=out)) as run:
        run.do("one", lambda meter: None)
    assert out.getvalue() == f"resuming the run in {tmp_path}\none: done before\n"


def test_a_failed_step_is_done_again_and_those_before_it_are_not(tmp_path: Path) -> None:
    done: list[str] = []

    def fails(meter: Meter) -> None:
        raise NoSpace(path="/srv", lack="full")

    with open_run(tmp_path, "test", {"a": 1}, QUIET) as run:
        run.do("one", lambda meter: Fact("one", 1), Fact)
        with pytest.raises(NoSpace):
            run.do("two", fails)
    found = listing(tmp_path, done)
    assert done == ["two", "three"]
    assert found[0] == Fact("one", 1)


def test_restart_begins_again_with_other_options_or_a_damaged_log(tmp_path: Path) -> None:
    """The hint of that error says so."""
    listing(tmp_path, [])
    with pytest.raises(RunMismatch, match=r"\(a\)"), open_run(tmp_path, "test", {"a": 2}, QUIET):
        pytest.fail("must not begin")
    with open_run(tmp_path, "test", {"a": 2}, QUIET, restart=True) as run:
        assert run.catalogue.steps() == []
        with pytest.raises(Locked), open_run(tmp_path, "test", {}, QUIET):  # two at once
            pytest.fail("must not begin")
    (tmp_path / FILE).write_bytes(b"rubbish\n")
    with pytest.raises(CatalogueDamaged), open_run(tmp_path, "test", {}, QUIET):
        pytest.fail("must not begin")
    with open_run(tmp_path, "test", {}, QUIET, restart=True) as run:
        assert run.catalogue.steps() == []


@pytest.mark.slow
def test_the_watch_of_a_step_has_its_time_from_the_command_line(tmp_path: Path) -> None:
    def silent(meter: Meter) -> None:
        stopped: list[bool] = []
        with meter.cancelling(lambda: stopped.append(True)):
            while not stopped:
                pass
        raise RuntimeError("cancelled")

    timeouts = {"one": 0.2, "*": 60.0}
    with (
        pytest.raises(StepTimeout, match="step one made no progress"),
        open_run(tmp_path, "test", {}, QUIET, timeouts) as run,
    ):
        run.do("one", silent)


SCRIPT = """
import sys
from pathlib import Path
from loader.progress import Progress
from loader.run.steps import open_run
def work(name):
    with open(sys.argv[2], "a") as file:
        print(name, file=file)
with open_run(Path(sys.argv[1]), "test", {}, Progress("none")) as run:
    for name in ("one", "two"):
        run.do(name, lambda meter: work(name))
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", ["start", "unrecorded", "recorded"])
@pytest.mark.parametrize("step", ["one", "two"])
def test_killed_at_a_point_and_run_again(tmp_path: Path, step: str, at: str) -> None:
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(tmp_path / "done")]
    killed = subprocess.run(argv, env=environment({ENV_KILL_AT: f"{step}.{at}"}), check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):  # the second time does nothing
        subprocess.run(argv, env=environment(), check=True)
    twice = [step] if at == "unrecorded" else []
    assert (tmp_path / "done").read_text().split() == sorted(["one", "two", *twice])


@dataclass(frozen=True)
class Kept:
    path: Path
    pair: tuple[str, int]
    octets: bytes
    size: int
    rate: float
    facts: list[Fact]
    none: str | None = None


KEPT = Kept(Path("/srv/\udcff"), ("cn=\udce4", 1), b"\0\xff", 1 << 40, 0.5, [Fact("one", 1)])


def test_a_run_that_goes_on_has_the_same_facts_of_every_type(tmp_path: Path) -> None:
    for _ in range(2):
        with open_run(tmp_path, "test", {}, QUIET) as run:
            assert run.do("one", lambda meter: KEPT, Kept) == KEPT
    with pytest.raises(CatalogueDamaged, match="another version"), open_run(tmp_path, "test", {}, QUIET) as run:
        run.do("one", lambda meter: Fact("one", 1), Fact)


@pytest.mark.parametrize("error", [NoSpace(path="x", lack="full"), OSError(errno.ENOSPC, "full")])
def test_what_a_run_keeps_of_a_full_disk_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "run/partial").write_bytes(b"x" * (1 << 20))
    with pytest.raises(type(error)), open_run(tmp_path / "run", "seed", {}, QUIET):
        raise error
    (told,) = [one.getMessage() for one in caplog.records if "this run uses" in one.getMessage()]
    assert told.startswith(("this run uses 1.0 MiB", "this run uses 1.1 MiB")), told
    assert "remove that directory" in told


def seen(directory: Path) -> RunStatus:
    found = status_of(directory)
    assert found is not None
    return found


def test_what_a_step_has_done_so_far_is_seen_from_outside(tmp_path: Path) -> None:
    def work(meter: Meter) -> None:
        assert seen(tmp_path).under_way == "load"
        meter.add(250)
        until(lambda: seen(tmp_path).live.entries == 250)

    with open_run(tmp_path, "test", {}, QUIET) as run:
        run.do("load", work, total=1000)
        found = seen(tmp_path)
    assert (found.live.step, found.live.total, found.under_way) == ("load", 1000, None)
    assert found.live.rate is not None
    assert found.process == os.getpid()
    assert (seen(tmp_path).live.done, seen(tmp_path).process) == (True, None)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (NoSpace(path="/srv", lack="full"), "storage.no_space", "/srv"),
        (OSError(errno.EIO, "Input/output error", "/srv/x"), "storage.failed", "/srv/x: Input"),
        (OSError(errno.ENOSPC, "No space left on device"), "storage.no_space", FULL),
        (KeyboardInterrupt("SIGTERM"), "cancelled", "SIGTERM"),
        (RuntimeError("odd"), "internal", "RuntimeError: odd"),
    ],
)
def test_what_a_run_failed_with_is_kept_until_it_goes_on(
    tmp_path: Path, error: BaseException, code: str, said: str
) -> None:
    def fails(meter: Meter) -> None:
        raise error

    with pytest.raises(type(error)), open_run(tmp_path, "test", {}, QUIET) as run:
        run.do("two", fails)
    found = seen(tmp_path)
    assert (found.under_way, found.live.done) == ("two", False)
    assert found.live.failure is not None
    assert (found.live.failure.code, said in found.live.failure.message) == (code, True)
    with pytest.raises(RunMismatch), open_run(tmp_path, "test", {"b": 2}, QUIET):
        pass
    assert seen(tmp_path).live.failure == found.live.failure  # nothing of this run was tried
    with open_run(tmp_path, "test", {}, QUIET):
        assert seen(tmp_path).live.failure is None


def test_a_run_goes_on_where_it_cannot_be_told_what_it_does(tmp_path: Path) -> None:
    (tmp_path / LIVE_FILE).mkdir()
    assert len(listing(tmp_path, [])) == 3
