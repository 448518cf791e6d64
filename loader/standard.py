"""Standard input, output and error: reserves these streams for data, and handles closed streams and write errors."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from loader.errors import UsageProblem

_REDIRECT = "redirect it to a pipe or a file"
_for_data = False
_closed: set[int] = set()


def prepare() -> None:
    """Prepares the standard streams, before any file is opened. Opens /dev/null in place of a closed stream: otherwise
    the next file would get the stream's descriptor, and libraries and children would write into that file. Makes stdout
    and stderr tolerate write errors, so that a lost message does not end the run."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _closed.add(number)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # If a descriptor was closed when Python started, its stream is None.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = _tolerant(1, sys.stdout, "strict")
    sys.stderr = _tolerant(2, sys.stderr, "backslashreplace")


class _Tolerant(io.FileIO):
    """Records write errors in `failure` instead of raising them, except BrokenPipeError (`| head`)."""

    failure: OSError | None = None

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            raise
        except OSError as error:
            self.failure = error
            return memoryview(data).nbytes  # type: ignore[arg-type]


def _tolerant(number: int, stream: TextIO | None, errors: str) -> TextIO:
    """Returns a tolerant replacement for `stream`, Python's stream of descriptor `number`."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Tolerant(number, "w", closefd=False)),
        encoding=stream.encoding if stream else "utf-8",
        errors=stream.errors if stream else errors,
        line_buffering=number == 2 or os.isatty(number) or bool(os.environ.get("PYTHONUNBUFFERED")),
    )


def failure() -> OSError | None:
    """Returns the last write error of stdout, or None."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Tolerant) else None


def reserve_output() -> None:
    """Reserves stdout for data: afterwards, no report may be printed there."""
    global _for_data
    _for_data = True


def is_for_data() -> bool:
    return _for_data


def output(data: str, readable: bool = False) -> int:
    """Returns stdout's descriptor. Raises UsageProblem if stdout is closed. Accepts a terminal only if `readable`."""
    reserve_output()
    descriptor = _require_open(1, f"{data} goes to stdout")
    if not readable and os.isatty(descriptor):
        raise UsageProblem(reason=f"{data} goes to stdout, which is a terminal: {_REDIRECT}")
    return descriptor


def input(data: str) -> int:
    """Returns stdin's descriptor. Raises UsageProblem, which names `data`, if stdin is closed or a terminal."""
    descriptor = require_input(data)
    if os.isatty(descriptor):
        raise UsageProblem(reason=f"{data} comes from stdin, which is a terminal: {_REDIRECT}")
    return descriptor


def require_input(data: str) -> int:
    """Like `input`, but accepts a terminal. Without this check, a closed stdin (now /dev/null) would appear empty."""
    return _require_open(0, f"{data} comes from stdin")


def _require_open(descriptor: int, use: str) -> int:
    if descriptor in _closed:
        raise UsageProblem(reason=f"{use}, which is closed: {_REDIRECT}")
    return descriptor
