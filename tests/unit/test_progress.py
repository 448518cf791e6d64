"""Meters add up, samples tell recent from average, and each mode shows what its reader can use."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from fixtures.waiting import until
from loader import progress
from loader.ldif import Counters
from loader.progress import Meter, Progress, Recorder, Sample, samples_of


class Steady:
    """What a native call offers, at a pace that the test sets."""

    def __init__(self, entries: int = 0, size: int = 0) -> None:
        self.entries, self.bytes, self.cancelled = entries, size, False
        self.files: list[progress.WholeFile] = []
        self.open_ends: list[str] = []

    def cancel(self) -> None:
        self.cancelled = True


def test_running_calls_count_and_stay_counted_unless_they_fail() -> None:
    meter = Meter("load")
    meter.add(10, 100)
    counters = Steady()
    with meter.counting(counters):
        counters.entries, counters.bytes = 5, 50
        assert (meter.entries, meter.bytes) == (15, 150)
    with meter.counting(Counters()):  # the native ones
        assert (meter.entries, meter.bytes) == (15, 150)
    with pytest.raises(OSError, match="gone"), meter.counting(Steady(5, 50)):
        raise OSError("gone")
    assert (meter.entries, meter.bytes) == (15, 150)


def test_to_cancel_reaches_whoever_works_now() -> None:
    meter, before, now, ended = Meter("read"), Steady(), Steady(), []
    with meter.counting(before):
        pass
    with meter.counting(now), meter.cancelling(lambda: ended.append("child")):
        meter.cancel()
    meter.cancel()
    assert (before.cancelled, now.cancelled, ended) == (False, True, ["child"])


def test_many_threads_lose_no_count() -> None:
    meter = Meter("read")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: [meter.add(1) for _ in range(2000)], range(4)))
    assert meter.entries == 8000


def samples(clock: list[float], paces: list[tuple[float, int]]) -> list[Sample]:
    """One look at the end of each (seconds, entries)."""
    meter = Meter("load", total=100_000, started=clock[0])
    sampler, found = samples_of(meter), []
    for seconds, entries in paces:
        clock[0] += seconds
        meter.add(entries)
        found.append(next(sampler))
    return found


def test_the_recent_rate_forgets_and_the_average_does_not(clock: list[float]) -> None:
    fast, slow = [(1.0, 1000)] * 20, [(1.0, 10)] * 20
    last = samples(clock, fast + slow)[-1]
    assert last.recent == pytest.approx(10, rel=0.2)
    assert last.average == pytest.approx(505)
    assert last.left == pytest.approx((100_000 - 20_200) / 505)


def test_a_rate_is_never_negative(clock: list[float]) -> None:
    meter = Meter("read", started=clock[0])
    sampler = samples_of(meter)
    with contextlib.suppress(OSError), meter.counting(Steady(500)):
        clock[0] += 20
        assert next(sampler).entries == 500
        raise OSError
    clock[0] += 1
    assert next(sampler).recent == 0


def test_bytes_of_a_known_size(clock: list[float]) -> None:
    meter = Meter("fetch", size=400 << 20, started=clock[0])
    meter.add(size=100 << 20)
    clock[0] += 10
    sample = next(samples_of(meter))
    assert sample.left == pytest.approx(30)
    assert sample.lines() == ["fetch: 100.0 MiB of 400.0 MiB (25%), 10.0 MiB/s on average, 30.0 s left"]


def test_time_left_is_unknown_without_a_total_or_a_start(clock: list[float]) -> None:
    (nothing_yet,) = samples(clock, [(1.0, 0)])
    assert nothing_yet.left is None
    clock[0] += 1
    assert next(samples_of(Meter("copy", started=clock[0] - 1))).left is None
    (over,) = samples(clock, [(1.0, 150_000)])
    assert (over.left, "(100%)" in over.lines()[0]) == (0, True)  # no more than all


@dataclass
class Stages:
    """What a native call offers that goes on when all is read."""

    stage: tuple[str, int, int]


@pytest.mark.parametrize(
    ("stage", "note"),
    [(("", 0, 0), ""), (("read", 0, 0), "read"), (("write", 0, 8), "write 0%"), (("write", 6, 8), "write 75%")],
)
def test_a_stage_is_told(stage: tuple[str, int, int], note: str) -> None:
    meter = Meter("load")
    with meter.following(Stages(stage)):
        assert next(samples_of(meter)).note == note
        meter.note = "of the step's own"
        assert next(samples_of(meter)).note == "of the step's own"
    assert meter.stage == ("", 0, 0)


def test_a_line_says_all_of_it(clock: list[float]) -> None:
    (sample,) = samples(clock, [(10.0, 25_000)])
    assert sample.lines() == ["load: 25,000 of 100,000 (25%), 2,500/s, average 2,500/s, 30.0 s left"]
    of_millions = Sample("stream", "", 12_345_678, 0, 295.0, 41_780.0, 40_123.0, 30_000_000)
    line = "stream: 12.3M of 30.0M (41%), 41,780/s, average 40,123/s, 7 min 20 s left"
    assert of_millions.lines() == [line]


@pytest.mark.parametrize("step", ["read", "catch-up", "attributes"])
@pytest.mark.parametrize("total", [None, 0, 5_011, 30_000_000, 999_999_999])
@pytest.mark.parametrize("note", ["", "write 75%", "phase refresh: every entry is sent " * 8])
def test_no_line_is_wider_than_a_terminal(step: str, total: int | None, note: str) -> None:
    done = total or 123_456_789
    large = Sample(step, note, done, 2**40, 1e6, 123_456.7, 98_765.4, total)
    lines = large.lines()
    assert max(map(len, lines)) <= 80
    assert " ".join(note.split()) in re.sub(r"\s+", " ", " ".join(lines))


def shown(mode: str, awaited: str = "") -> str:
    """What a step of 1,000 entries prints, once `awaited` is in it."""
    out = io.StringIO()
    shower = Progress(mode, stream=out)
    shower._every = 0.01
    shower.say("begin")
    with shower.step("load", total=1000) as meter:
        meter.add(1000, 4096)
        until(lambda: awaited in out.getvalue())
    return out.getvalue()


@pytest.mark.parametrize("mode", ["plain", "auto"])
def test_plain_lines(mode: str) -> None:
    """Which `auto` chooses off a terminal."""
    begin, *progressed, end = shown(mode, "1,000 of 1,000").splitlines()
    assert begin == "begin"
    before = [line for line in progressed if line.startswith("load: 0 of 1,000 (0%)")]
    after = progressed[len(before) :]
    assert after
    assert all(line.startswith("load: 1,000 of 1,000 (100%)") for line in after)
    assert re.fullmatch(r"load: 1,000 entries in \d+\.\d s, [\d,]+/s", end)


def test_json_records_carry_their_version() -> None:
    *running, end = [json.loads(line) for line in shown("json", '"entries": 1000').splitlines()]
    assert running
    assert {one["schema_version"] for one in [*running, end]} == {progress.SCHEMA_VERSION}
    wanted = {"event": "progress", "step": "load", "entries": 1000, "bytes": 4096, "total": 1000}
    assert running[-1].items() >= wanted.items()
    assert {"recent", "average", "left", "seconds"} <= running[-1].keys()
    assert end.items() >= {"event": "step", "step": "load", "entries": 1000}.items()


def test_a_terminal_shows_the_step_and_is_left_clean() -> None:
    ours, theirs = pty.openpty()
    pieces: list[bytes] = []
    with os.fdopen(theirs, "w") as stream, Progress("auto", stream=stream).step("load", total=1000) as meter:
        meter.add(500)
        while b"500 of 1,000" not in b"".join(pieces):
            pieces.append(os.read(ours, 65536))
    with os.fdopen(ours, "rb", buffering=0) as screen, contextlib.suppress(OSError):  # EIO: the other end is closed
        while piece := screen.read(65536):
            pieces.append(piece)
    text = b"".join(pieces).decode()
    assert "load: 500 of 1,000 (50%), " in text, text
    assert "load: 500 entries in" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor was hidden and not shown again"


def test_a_step_begins_with_its_meter() -> None:
    """Whatever the processor does between its start and the recording, its seconds lead from there to its end."""
    recorder, meter = Recorder(), Meter("load")
    time.sleep(0.05)
    with recorder.following(meter):
        pass
    (step,) = recorder.steps
    assert step.points[-1].at >= step.begun + step.seconds
    assert step.points[0].at == step.begun


def test_what_is_recorded_does_not_grow_with_the_run() -> None:
    recorder, meter = Recorder(interval=0.0005, most=20), Meter("load")
    with recorder.following(meter):
        for _ in range(2000):
            meter.add(10, 100)
            time.sleep(0.0001)
    (step,) = recorder.steps
    assert 2 <= len(step.points) <= 22
    assert (step.points[0].entries, step.points[-1].entries) == (0, 20_000)
    assert (step.state, step.entries, step.bytes) == ("done", 20_000, 200_000)
    times = [one.at for one in step.points]
    assert times == sorted(times)
    assert step.points[-1].at >= step.begun + step.seconds


def test_thinned_points_keep_the_ends() -> None:
    recorder, meter = Recorder(interval=3600, most=4), Meter("load")
    with recorder.following(meter):
        for _ in range(100):
            meter.add(1)
            recorder.add_point(recorder.steps[0], meter)
            assert len(recorder.steps[0].points) <= 6
    found = [one.entries for one in recorder.steps[0].points]
    assert (found[0], found[-1], found) == (0, 100, sorted(found))


@pytest.mark.parametrize("mode", ["none", "plain", "json"])
def test_every_mode_records_and_a_failed_step_is_not_called_done(mode: str) -> None:
    recorder, out = Recorder(), io.StringIO()
    shower = Progress(mode, stream=out, recorder=recorder)
    shower.skipped("config")
    with shower.step("scan") as meter:
        meter.add(3)
    with pytest.raises(OSError, match="gone"), shower.step("load"):
        raise OSError("gone")
    told = [(one.name, one.state, one.entries) for one in recorder.steps]
    assert told == [("config", "done before", 0), ("scan", "done", 3), ("load", "failed", 0)]
    assert "load" not in out.getvalue()
    assert (out.getvalue() == "") == (mode == "none")
