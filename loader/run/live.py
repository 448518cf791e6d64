"""What a run is doing now, or what it failed with: a small file in its run directory, which `status` reads.

The catalogue has the finished steps only, and its rows are durable. This file is not: it is written at the beginning of
each step and about once a second while the step moves, so its age is the time since the run last moved.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from loader.errors import (
    FULL,
    FULL_ERRNOS,
    Cancelled,
    Internal,
    LoaderError,
    NoSpace,
    chain,
    is_resumable,
    keeps_run_directory,
    of_system,
)
from loader.storage import files, held

FILE = "now.json"
_BLOCK = 4096  # bytes


class Failure(msgspec.Struct, frozen=True):
    """`at`: Unix time."""

    code: str
    message: str
    hint: str | None
    at: float


class Live(msgspec.Struct, frozen=True):
    """`step`: the step that was begun last. `entries`: those of it so far, of `total` where that is known. `seconds`:
    for how long it had run by then. `failure`: what ended the run. `done`: the run ended, and nothing was wrong."""

    step: str | None = None
    entries: int = 0
    total: int | None = None
    seconds: float = 0.0
    failure: Failure | None = None
    done: bool = False

    @property
    def rate(self) -> float | None:
        """Entries a second; None where none were counted."""
        return self.entries / self.seconds if self.entries and self.seconds > 0 else None


def write(directory: Path, live: Live) -> None:
    """Never fails: a run does not end because this cannot be written. It is written in place, in one block, which a
    full disk still takes."""
    content = msgspec.json.encode(live).ljust(_BLOCK)
    with suppress(OSError, LoaderError), held.opened(directory) as place:
        descriptor = place.found_or_made(FILE)
        try:
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)


def read(directory: Path) -> Live:
    """An empty one where none is, or where it is being written."""
    try:
        return msgspec.json.decode(files.read(directory / FILE), type=Live)
    except (FileNotFoundError, ValueError):  # msgspec's errors are ValueErrors
        return Live()


def failure_of(error: BaseException, directory: Path) -> Failure:
    """The error as the verb itself shows it. `directory`: what an error of the system is about if it names no file."""
    known = _known(error, directory)
    if is_resumable(error):
        keeps_run_directory(known)
    hint = (
        None if isinstance(known, Internal) else known.advice()
    )  # it names a file that is made later
    return Failure(known.code, str(known), hint, time.time())


def _known(error: BaseException, directory: Path) -> LoaderError:
    stop = next((one for one in chain(error) if isinstance(one, KeyboardInterrupt)), None)
    if stop is not None:
        return Cancelled(signal=str(stop) or "SIGINT")
    if isinstance(error, LoaderError):
        return error
    if isinstance(error, OSError):
        known = of_system(error, directory)
        is_full = error.errno in FULL_ERRNOS
        return NoSpace(path=known.facts["path"], lack=FULL) if is_full else known
    first = str(error).partition("\n")[0]
    return Internal(what=f"{type(error).__name__}: {first}", path=directory)
