"""What is known after a round: a file that a monitoring system may poll as seldom as it likes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from loader.operations.storage.watch.timing import Figures
from loader.operations.storage.watch.verdict import Added
from loader.storage import files

FORMAT = 1


class LayerState(msgspec.Struct, frozen=True):
    """`size`: bytes of a read. `problem`: why the last read measured nothing; `is_error`: it failed.

    Counted are `reads` that were measured, those that came from a cache or failed (`unmeasured`), and rounds that
    passed during a read (`missed`). `in_flight_since`: Unix time. `late`: the longest that a read began behind plan.
    """

    name: str
    path: str
    on: tuple[str, ...]
    size: int | None
    figures: Figures | None
    reads: int
    unmeasured: int
    missed: int
    late: float
    in_flight_since: float | None
    problem: str | None
    is_error: bool
    notes: tuple[str, ...]


class State(msgspec.Struct, frozen=True):
    """`written`: Unix time. Times in seconds. `told`: the verdict as a sentence."""

    written: float
    interval: float
    round: int
    layers: tuple[LayerState, ...]
    verdict: tuple[Added, ...]
    told: str
    format: int = FORMAT


def write(state: State, path: Path) -> None:
    """Whole or not at all, and readable for the account of the monitoring system."""
    files.write_durably(path, msgspec.json.encode(state) + b"\n")


def read(path: Path) -> State:
    """Raises LoaderError, OSError; ValueError where it is no state of this format."""
    found = msgspec.json.decode(files.read(path), type=State)
    if found.format != FORMAT:
        raise ValueError(f"format {found.format}, this ditseed reads {FORMAT}")
    return found
