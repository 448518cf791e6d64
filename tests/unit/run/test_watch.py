"""The watch gives up what stands still, and leaves alone what moves, however slowly."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest

from loader import units
from loader.defaults import SILENCE_FACTOR, SILENCE_FLOOR
from loader.errors import StepTimeout, mark_resumable
from loader.progress import Meter
from loader.run.steps import Watch, watching
from loader.server import session


def error_after(one: Watch, clock: list[float], seconds: float) -> StepTimeout | None:
    clock[0] += seconds
    one.check()
    return one.error


@pytest.mark.parametrize(
    ("timeout", "pauses", "allowed", "reason"),
    [
        (None, [], SILENCE_FLOOR, "longest pause so far 0.0 s"),
        # A slapadd that loaded for an hour may sync for an hour.
        (None, [1.0] * 3600, 3600, "as long as it made progress before"),
        (None, [30.0, 1.0], 30 * SILENCE_FACTOR, "longest pause so far 30.0 s"),
        (5.0, [1.0] * 100, 5.0, "set with --timeout"),
    ],
)
def test_how_long_a_step_may_be_silent(
    clock: list[float], timeout: float | None, pauses: list[float], allowed: float, reason: str
) -> None:
    meter = Meter("load", started=clock[0])
    one = Watch(meter, timeout)
    for pause in pauses:
        meter.add(1)
        assert error_after(one, clock, pause) is None
    assert one.allowed() == (allowed, reason)
    assert error_after(one, clock, allowed - 1) is None
    assert f"allowed {units.duration(allowed)}: {reason}" in str(error_after(one, clock, 2))


def test_a_server_has_its_time_within_a_step() -> None:
    """docs/access.md promises it 300 s; a step that began to wait was given up after 60."""
    assert session.SILENCE + 1 < SILENCE_FLOOR


@dataclass
class Stages:
    """What a native call offers that goes on when all is read."""

    stage: tuple[str, int, int] = ("", 0, 0)


def test_a_stage_or_bytes_that_move_are_not_silent(clock: list[float]) -> None:
    meter, stages = Meter("load", started=clock[0]), Stages()
    one = Watch(meter, SILENCE_FLOOR)
    for _ in range(3):
        meter.add(size=1)
        assert error_after(one, clock, SILENCE_FLOOR) is None
    with meter.following(stages):
        for stage in (("read", 0, 0), ("write", 0, 7), ("write", 1, 7), ("sync", 0, 7)):
            stages.stage = stage
            assert error_after(one, clock, SILENCE_FLOOR) is None
        assert error_after(one, clock, SILENCE_FLOOR + 1) is not None


def test_it_gives_up_once(clock: list[float]) -> None:
    meter, stopped = Meter("read", started=clock[0]), []
    one = Watch(meter, 5.0)
    with meter.cancelling(lambda: stopped.append(1)):
        for _ in range(5):
            error_after(one, clock, 6)
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
