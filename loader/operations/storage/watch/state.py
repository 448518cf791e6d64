"""What is known after a round: a file that a monitoring system may poll as seldom as it likes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec

from loader.operations.storage.watch.timing import Figures, Seconds
from loader.operations.storage.watch.verdict import Added
from loader.run.lease import boot_id
from loader.storage import files

FORMAT = 1
Moment = Annotated[
    float, msgspec.Meta(ge=0, lt=253402300800)
]  # up to the year 9999, as dates are shown


class LayerState(msgspec.Struct, frozen=True):
    """`size`: bytes of a read. `problem`: why the last read measured nothing; `is_error`: it failed.

    Counted are `reads` that were measured, those that came from a cache or failed (`unmeasured`), and rounds that
    passed during a read (`missed`). `in_flight_since`: Unix time. `late`: the longest that a read began behind plan.
    `limit`: seconds after which it counts as failed. Of a probe beside the layers, "read" means what it does.
    `measured`: when the last read that was measured ended. `failed`: reads that failed since the start, the last
    of them with `error`; `errors`: those that are held as emax is (timing.Errors), the last of them at `failed_at`.
    """

    name: str
    path: str
    on: tuple[str, ...]
    size: int | None
    figures: Figures | None
    reads: int
    unmeasured: int
    missed: int
    late: Seconds
    in_flight_since: Moment | None
    problem: str | None
    is_error: bool
    notes: tuple[str, ...]
    limit: float | None
    measured: Moment | None
    failed: int
    errors: int
    error: str | None
    failed_at: Moment | None


class Watcher(msgspec.Struct, frozen=True):
    """The process that writes the state. A process ID means something in its own namespace, until the next boot."""

    process: int
    namespace: str

    @classmethod
    def own(cls) -> Watcher:
        return cls(os.getpid(), f"{boot_id()} {os.stat('/proc/self/ns/pid').st_ino}")

    def has_ended(self) -> bool:
        """False where that cannot be told from here."""
        if self.namespace != Watcher.own().namespace:
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # of another account
            return False
        return False


class State(msgspec.Struct, frozen=True):
    """`written`: Unix time. Times in seconds. `told`: the verdict as a sentence. `probes`: those beside the layers."""

    written: Moment
    interval: Seconds
    round: int
    layers: tuple[LayerState, ...]
    verdict: tuple[Added, ...]
    told: str
    probes: tuple[LayerState, ...]
    watcher: Watcher
    format: int = FORMAT

    @property
    def rows(self) -> tuple[LayerState, ...]:
        """All that is timed."""
        return self.layers + self.probes


def write(state: State, path: Path) -> None:
    """Whole or not at all, and readable for the account of the monitoring system."""
    files.write_durably(path, msgspec.json.encode(state) + b"\n")


def read(path: Path) -> State:
    """Raises LoaderError, OSError; ValueError where it is no state of this format."""
    return decoded(files.read(path))


def decoded(text: bytes) -> State:
    """Raises ValueError."""
    found = msgspec.json.decode(text, type=State)
    if found.format != FORMAT:
        raise ValueError(f"format {found.format}, this ditseed reads {FORMAT}")
    return found
