"""An earlier watch, from the lines that `--json` printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loader.errors import UsageProblem
from loader.operations.storage.watch import state as states
from loader.operations.storage.watch.state import State
from loader.storage import files

_LONGEST = 4 << 20  # bytes of a line


def rounds(path: Path) -> Iterator[State]:
    """One after the other. Raises UsageProblem, NoSuchPath, NotPermitted, FileUnsafe."""
    number = 0
    with files.explained(path), files.reading(path) as file:
        while line := file.readline(_LONGEST):
            number += 1
            yield _state(line, f"{path}, line {number}")
    if not number:
        raise UsageProblem(reason=f"{path} is empty: the watch has told nothing")


def _state(line: bytes, where: str) -> State:
    if not line.endswith(b"\n"):
        reason = "it is longer than a line can be" if len(line) == _LONGEST else "it is cut short"
        raise UsageProblem(reason=f"{where}: {reason}; --replay reads whole lines")
    try:
        return states.decoded(line)
    except ValueError as error:  # msgspec's errors are ValueErrors
        reason = f"{where} is none of `ditseed storage watch --json`: {error}"
        raise UsageProblem(reason=reason) from None
