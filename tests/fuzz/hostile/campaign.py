"""bin/fuzz-files: every input follows from the target, the seed and its number, so that any can be had again."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

from loader.errors import LoaderError
from tests.fuzz.hostile.targets import TARGETS

SLOW = 5.0  # seconds for one input; the slowest sound ones take some milliseconds
SHOWN = 5  # findings of a target
# How many inputs ended with which code, or with success ("read"); and what broke.
Outcome = tuple[Counter[str], list[str]]


def chance_of(target: str, seed: int, number: int) -> Random:
    return Random(f"{target} {seed} {number}")


def outcome_of(name: str, seed: int, numbers: Iterable[int]) -> Outcome:
    ends, broken = Counter[str](), []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="ditseed-fuzz-", dir=memory if memory.is_dir() else None) as home:
        target = TARGETS[name](Path(home) / name)
        for number in numbers:
            began, end, fault = time.monotonic(), "read", ""
            try:
                target.once(chance_of(name, seed, number))
            except LoaderError as error:
                end, fault = error.code, str(error) if error.code == "internal" else ""
            except Exception as error:
                end, fault = "broken", traceback.format_exception_only(error)[-1].strip()
            if (seconds := time.monotonic() - began) > SLOW:
                fault = f"took {seconds:.0f} s"
            ends[end] += 1
            broken += [f"{name} {seed} {number}: {fault}"] if fault else []
    return ends, broken


def main() -> int:
    parser = argparse.ArgumentParser("fuzz-files", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="default: all")
    parser.add_argument("--runs", type=int, default=10_000, help="inputs for each target")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one input of one target, with its traceback")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    if options.replay is not None:
        with tempfile.TemporaryDirectory(prefix="ditseed-fuzz-") as home:
            TARGETS[names[0]](Path(home)).once(chance_of(names[0], options.seed, options.replay))
        return 0
    failed = False
    for name in names:
        began, ends, broken = time.monotonic(), Counter[str](), []
        end = options.first + options.runs
        tasks = [(name, options.seed, range(options.first + at, end, options.jobs)) for at in range(options.jobs)]
        # Not forked: the native core has threads.
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            for some_ends, some_broken in pool.starmap(outcome_of, tasks):
                ends += some_ends
                broken += some_broken
        words = ", ".join(f"{code} {count:,}" for code, count in ends.most_common())
        verdict = f"{len(broken):,} broken" if broken else "fine"
        seconds = time.monotonic() - began
        print(f"{name:<8} {options.runs:>10,} inputs {seconds:>6.0f} seconds  {verdict}  ({words})")
        print(*broken[:SHOWN], sep="\n", flush=True)
        failed |= bool(broken)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
