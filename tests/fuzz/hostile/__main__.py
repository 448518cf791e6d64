"""bin/fuzz-files: every input follows from the target, the seed and its number, so that any can be had again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from tests.fuzz.hostile.campaign import Outcome, replay, run
from tests.fuzz.hostile.targets import TARGETS

SHOWN = 5  # findings of a target


def told(name: str, outcome: Outcome, seconds: float) -> Iterator[str]:
    ends = ", ".join(f"{code} {count:,}" for code, count in outcome.ends.most_common())
    broken = f"{len(outcome.broken):,} broken" if outcome.broken else "fine"
    yield f"{name:<8} {outcome.count:>10,} inputs {seconds:>6.0f} seconds  {broken}  ({ends})"
    yield from outcome.broken[:SHOWN]


def main() -> int:
    parser = argparse.ArgumentParser("fuzz-files", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="default: all")
    parser.add_argument("--runs", type=int, default=10_000, help="inputs for each target")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one input of one target")
    asked = parser.parse_args()
    names = asked.targets or list(TARGETS)
    if asked.replay is not None:
        replay(names[0], asked.seed, asked.replay)
        return 0
    failed = False
    for name in names:
        began = time.monotonic()
        outcome = run(name, asked.runs, asked.seed, asked.jobs, asked.first)
        print(*told(name, outcome, time.monotonic() - began), sep="\n", flush=True)
        failed |= bool(outcome.broken)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
