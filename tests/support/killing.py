"""Kills `replica seed` at named or random moments, and checks the result."""

from __future__ import annotations

import ast
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import Done, ditseed, start
from tests.support.processes import wait_until_gone
from tests.support.seeding import Pair
from tests.support.trees import tree

KILL_AT = "DITSEED_KILL_AT"
RUN_DIR = ".ditseed-seed"
_IMPORTED = """
import sys, seeders.replica.seed
for name, module in sys.modules.items():
    if name.startswith(("loader.", "seeders.")) and module.__file__.endswith(".py"):
        print(module.__file__)
"""


def steps_of(both: Pair) -> list[str]:
    """Returns the names of the finished steps of the consumer's seeding, in order."""
    facts = ditseed("replica", "status", *both.where, "--json").ok().facts
    assert facts["done"]
    return [step["name"] for step in facts["steps"]]


def points_of(steps: Sequence[str]) -> list[str]:
    """Returns every kill point of a run of these steps, in the order in which the run reaches them."""
    middles = sorted(set(_middles()))
    points: list[str] = []
    for step in steps:
        points += [f"{step}.start"]
        points += [point for point in middles if point.startswith(f"{step}.")]
        points += [f"{step}.unrecorded", f"{step}.recorded"]
    return points


def _middles() -> Iterator[str]:
    """Yields the arguments of killpoint("...") in all modules that `replica seed` imports."""
    command = [sys.executable, "-c", _IMPORTED]
    for path in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split():
        for node in ast.walk(ast.parse(Path(path).read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "killpoint":
                (argument,) = node.args
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)


def killed(point: str, *command: object) -> None:
    done = ditseed(*command, env={KILL_AT: point})
    assert done.status == -signal.SIGKILL, f"{point}: {done}"


def kill_at(point: str, both: Pair, command: Sequence[str]) -> None:
    """Kills a command at `point`, and asserts that it leaves no process behind."""
    killed(point, *command)
    assert_nobody_left(both, point)


def chance() -> random.Random:
    """Returns a generator with a random seed, which is printed."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    return random.Random(seed)


def kill_after(seconds: float, *command: object) -> None:
    """Runs the command, and kills it after `seconds` unless it has ended."""
    process = start(*command)
    time.sleep(seconds)
    process.kill()
    process.communicate()


def assert_nobody_left(both: Pair, when: str) -> None:
    texts = (str(both.consumer.home), str(both.scratch), f":{both.provider.port}")
    left = wait_until_gone(*texts, but=both.provider.pid)
    assert not left, f"{when}: {left}"


@dataclass(frozen=True)
class Stamp:
    """Identity of a file, and its last modification."""

    inode: int
    written: int
    size: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        return cls(status.st_ino, status.st_mtime_ns, status.st_size)


def assert_seeded(both: Pair) -> None:
    """Asserts that the stopped consumer has the provider's entries and contextCSN, and no leftover files."""
    inside = {path.name for path in both.consumer.database_dir.iterdir()}
    assert inside - {"lock.mdb"} == {"data.mdb", RUN_DIR}
    run_dir = {path.name for path in (both.consumer.database_dir / RUN_DIR).iterdir()}
    assert run_dir == {"lock", "now.json", "run.log"}
    theirs, ours = both.provider.slapcat(), both.consumer.slapcat()
    assert tree(ours) == tree(theirs)
    stored = {line[12:].strip() for line in ours.splitlines() if line.startswith("contextCSN:")}
    theirs_told = both.provider.context_csns()
    assert stored == theirs_told, f"{stored} is not {theirs_told}"


def assert_does_nothing(both: Pair, command: Sequence[str]) -> None:
    """Asserts that the same command, after success, changes nothing and says so."""
    data = both.consumer.database_dir / "data.mdb"
    before = Stamp.of(data)
    again: Done = ditseed(*command).ok()
    assert Stamp.of(data) == before
    said = [line for line in again.err.splitlines() if ": done before" in line]
    assert "publish: done before" in said
