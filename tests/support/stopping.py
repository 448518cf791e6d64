"""Commands that stop at named points, so that a test can change something there."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fixtures.waiting import until
from loader.defaults import ENV_STOP_AT
from tests.support.command import Done, start
from tests.support.seeding import Pair


@dataclass(frozen=True)
class Stopping:
    """A running command."""

    process: subprocess.Popen[str]

    def wait_for_stop(self) -> None:
        until(lambda: state_of(self.process.pid) in "TZ")
        assert state_of(self.process.pid) == "T", self.process.communicate()

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self, number: signal.Signals | None = None) -> Done:
        """Continues the command to its end. `number`: a signal to send first."""
        if number is not None:
            self.process.send_signal(number)
        self.go_on()
        out, err = self.process.communicate()
        return Done(self.process.returncode, out, err)


def stopped_at(points: str, *command: object) -> Stopping:
    stopped = Stopping(start(*command, env={ENV_STOP_AT: points}))
    stopped.wait_for_stop()
    return stopped


def begin(both: Pair, points: Sequence[str], *options: object) -> Stopping:
    """Starts a seeding by search that stops at `points`."""
    command = both.seed("search", *options)
    return Stopping(start(*command, env={ENV_STOP_AT: ",".join(points)}))


@contextmanager
def stopping(both: Pair, points: Sequence[str], *options: object) -> Iterator[Stopping]:
    """Yields a seeding by search that stops at `points`; after the body, it continues to its end."""
    seeding = begin(both, points, *options)
    process = seeding.process
    try:
        yield seeding
        seeding.go_on()
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, (out, err)
    finally:
        process.kill()
        process.wait()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
