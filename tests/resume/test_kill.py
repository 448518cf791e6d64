"""kill -9 of `replica seed` at every point of every step, and at random moments; then the same command finishes.

One run is killed at each of its points in turn. With -m heavy, a run of its own is killed at each point.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from loader.defaults import ENGINES
from tests.support import killing
from tests.support.command import ditseed
from tests.support.seeding import STRATEGIES, Pair, consumer_of, pair
from tests.support.stopping import stopped_at

pytestmark = pytest.mark.slapd

PEOPLE = 300
SMALL = ("--page", "50")  # several partitions
# A clone is copied: no engine writes it.
CASES = [(strategy, engine) for strategy in STRATEGIES for engine in ENGINES[: 1 + (strategy != "clone")]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("kill"), PEOPLE) as made:
        for strategy in STRATEGIES:
            made.prepare(strategy)
        yield made


@pytest.fixture
def fresh(both: Pair) -> Iterator[Pair]:
    """The same provider, and a consumer of its own."""
    with consumer_of(both) as made:
        yield made


def _command(both: Pair, strategy: str, engine: str = ENGINES[0]) -> list[str]:
    small = SMALL if strategy == "search" else ()
    by = () if strategy == "clone" else ("--engine", engine)
    return both.seed(strategy, *small, *by)


@pytest.mark.long
@pytest.mark.parametrize(("strategy", "engine"), CASES)
@pytest.mark.parametrize("in_turn", [True, pytest.param(False, marks=pytest.mark.heavy)])
def test_killed_at_every_point(both: Pair, in_turn: bool, strategy: str, engine: str) -> None:
    with consumer_of(both) as whole:  # a run that is left alone, so that a new step is killed too
        ditseed(*_command(whole, strategy, engine)).ok()
        points = killing.points_of(killing.steps_of(whole))
    assert len(points) > 15, points
    for some in [points] if in_turn else [[point] for point in points]:
        with consumer_of(both) as fresh:
            command = _command(fresh, strategy, engine)
            for point in some:
                killing.kill_at(point, fresh, command)
            _finish(fresh, command)


def _finish(both: Pair, command: list[str]) -> None:
    ditseed(*command).ok()
    killing.assert_does_nothing(both, command)
    killing.assert_seeded(both)


@pytest.mark.rows(4)  # two of which are heavy
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("runs", [1, pytest.param(10, marks=pytest.mark.heavy)])
def test_killed_at_random_moments(both: Pair, runs: int, strategy: str) -> None:
    chance = killing.chance()
    for _ in range(runs):
        with consumer_of(both) as fresh:
            command = _command(fresh, strategy)
            for _ in range(3 if runs == 1 else chance.randint(1, 4)):
                killing.kill_after(chance.uniform(0.2, 1.2), *command)
                killing.assert_nobody_left(fresh, "killed at random")
            _finish(fresh, command)


@pytest.mark.long
@pytest.mark.parametrize("point", ["plan.recorded", "stream.settled", "load.middle"])
def test_another_strategy_takes_over(fresh: Pair, point: str) -> None:
    """Nothing of the abandoned run stays behind."""
    killing.kill_at(point, fresh, _command(fresh, "search"))
    _finish(fresh, _command(fresh, "clone"))


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("strategy", ["search", "clone"])
def test_stopped_by_a_signal(fresh: Pair, strategy: str, number: signal.Signals, status: int) -> None:
    command = _command(fresh, strategy)
    done = stopped_at("plan.recorded,copy.start", *command).end(number)
    said = [words in done.err for words in ("[cancelled]", "hint: The same command resumes here", "Traceback")]
    assert (done.status, said) == (status, [True, True, False]), done
    assert not (fresh.consumer.database_dir / "data.mdb").exists()
    killing.assert_nobody_left(fresh, "stopped")
    ditseed(*command).ok()
    killing.assert_seeded(fresh)
