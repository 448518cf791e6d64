"""Many inputs in several processes: what each ended with, and what broke."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from loader.errors import LoaderError
from tests.fuzz.hostile.targets import TARGETS

SLOW = 5.0  # seconds for one input; the slowest sound ones take some milliseconds


@dataclass
class Outcome:
    """Of some inputs of one target. `ends`: how many ended with which code, or with success ("read")."""

    ends: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    count: int = 0


def chance_of(target: str, seed: int, number: int) -> Random:
    return Random(f"{target} {seed} {number}")


def worked(task: tuple[str, int, int, int, int]) -> Outcome:
    """One worker's share: the numbers from `first` to `end`, every `step`th."""
    name, seed, first, end, step = task
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="ditseed-fuzz-", dir=_place()) as home:
        target = TARGETS[name](Path(home) / name)
        for number in range(first, end, step):
            began = time.monotonic()
            outcome.count += 1
            try:
                target.once(chance_of(name, seed, number))
                outcome.ends["read"] += 1
            except LoaderError as error:
                outcome.ends[error.code] += 1
                broken = error.code == "internal"
                outcome.broken += [f"{name} {seed} {number}: {error}"] * broken
            except Exception as error:
                told = traceback.format_exception_only(error)[-1].strip()
                outcome.broken.append(f"{name} {seed} {number}: {told}")
            if time.monotonic() - began > SLOW:
                outcome.broken.append(f"{name} {seed} {number}: took {time.monotonic() - began:.0f} s")
    return outcome


def _place() -> str | None:
    """In memory where there is room."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def run(name: str, runs: int, seed: int, jobs: int, first: int = 0) -> Outcome:
    whole = Outcome()
    tasks = [(name, seed, first + at, first + runs, jobs) for at in range(jobs)]
    # Not forked: the native core has threads.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for part in pool.imap_unordered(worked, tasks):
            whole.ends += part.ends
            whole.broken += part.broken
            whole.count += part.count
    return whole


def replay(name: str, seed: int, number: int) -> None:
    """Its error shows with all of its traceback."""
    with tempfile.TemporaryDirectory(prefix="ditseed-fuzz-") as home:
        TARGETS[name](Path(home) / name).once(chance_of(name, seed, number))
