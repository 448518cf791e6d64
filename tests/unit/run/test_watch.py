"""The watch gives up what stands still, and leaves alone what moves, however slowly."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest

from loader.defaults import SILENCE_FACTOR, SILENCE_FLOOR
from loader.errors import StepTimeout, mark_resumable
from loader.progress import Meter
from loader.run.steps import Watch, watching
from loader.server import session


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def look_after(one: Watch, clock: list[float], seconds: float) -> None:
    clock[0] += seconds
    one.check()


def moved(one: Watch, meter: Meter, clock: list[float], paces: list[float]) -> None:
    """An entry after each of these pauses."""
    for pause in paces:
        meter.add(1)
        look_after(one, clock, pause)


def test_below_the_floor_silence_says_nothing(clock: list[float]) -> None:
    one = Watch(Meter("load", started=clock[0]), None)
    look_after(one, clock, SILENCE_FLOOR - 1)
    assert one.error is None
    look_after(one, clock, 2)
    assert one.error is not None


@dataclass
class Stages:
    """What a native call offers that goes on when all is read."""

    stage: tuple[str, int, int] = ("", 0, 0)


def test_a_stage_that_moves_is_not_silent(clock: list[float]) -> None:
    meter, stages = Meter("load", started=clock[0]), Stages()
    one = Watch(meter, SILENCE_FLOOR)
    with meter.following(stages):
        for stage in (("read", 0, 0), ("write", 0, 7), ("write", 1, 7), ("sync", 0, 7)):
            stages.stage = stage
            look_after(one, clock, SILENCE_FLOOR)
            assert one.error is None
        look_after(one, clock, SILENCE_FLOOR + 1)
    assert one.error is not None


def test_silence_may_last_as_long_as_it_moved_before(clock: list[float]) -> None:
    """A slapadd that loaded for an hour may sync for an hour."""
    meter = Meter("load", started=clock[0])
    one = Watch(meter, None)
    moved(one, meter, clock, [1.0] * 3600)
    assert one.allowed() == (3600.0, "as long as it made progress before")
    look_after(one, clock, 3599)
    assert one.error is None
    look_after(one, clock, 2)
    assert "allowed 1 h 0 min: as long as it made progress before" in str(one.error)


def test_silence_may_last_many_times_the_longest_pause(clock: list[float]) -> None:
    meter = Meter("read", started=clock[0])
    one = Watch(meter, None)
    moved(one, meter, clock, [30.0, 1.0])
    assert one.allowed() == (30 * SILENCE_FACTOR, "longest pause so far 30.0 s")


def test_a_time_from_the_command_line_is_taken_as_it_is(clock: list[float]) -> None:
    meter = Meter("read", started=clock[0])
    one = Watch(meter, 5.0)
    moved(one, meter, clock, [1.0] * 100)
    look_after(one, clock, 5.5)
    assert "allowed 5.0 s: set with --timeout" in str(one.error)


def test_bytes_are_a_move_too(clock: list[float]) -> None:
    meter = Meter("copy", started=clock[0])
    one = Watch(meter, 5.0)
    for _ in range(10):
        meter.add(size=1)
        look_after(one, clock, 4)
    assert one.error is None


def test_it_gives_up_once(clock: list[float]) -> None:
    meter, stopped = Meter("read", started=clock[0]), []
    one = Watch(meter, 5.0)
    with meter.cancelling(lambda: stopped.append(1)):
        for _ in range(5):
            look_after(one, clock, 6)
    assert stopped == [1]


def test_a_silent_body_is_cancelled_and_the_timeout_is_its_error() -> None:
    def waits_for_its_child() -> None:
        meter, stop = Meter("read"), threading.Event()
        with watching(meter, 0.2), meter.cancelling(stop.set):
            assert stop.wait(60)
            raise OSError("the child was killed")

    with pytest.raises(StepTimeout, match="step read") as caught:
        waits_for_its_child()
    assert isinstance(caught.value.__cause__, OSError)
    mark_resumable(caught.value)
    assert "--timeout read=SECONDS" in str(caught.value.advice())


def test_a_body_that_moves_may_take_longer_than_its_silence() -> None:
    meter = Meter("read")
    with watching(meter, 2.0):
        for _ in range(9):
            meter.add(1)
            time.sleep(0.25)


def test_an_error_of_the_body_stays_what_it_is() -> None:
    with pytest.raises(KeyError), watching(Meter("read"), 60):
        raise KeyError


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    with watching(Meter("read"), 60):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_server_has_its_time_within_a_step(clock: list[float]) -> None:
    """docs/access.md promises it 300 s; a step that began to wait was given up after 60."""
    one = Watch(Meter("read", started=clock[0]), None)
    look_after(one, clock, session.SILENCE + 1)
    assert one.error is None
