"""Standard input, output and error: where they carry data, and where they are closed or cannot be written."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from loader.errors import UsageProblem

_for_data = False
_closed: set[int] = set()


def prepare() -> None:
    """To be called before anything is opened.

    The number of a closed descriptor would be that of the next file, which then gets what libraries and children write
    to it: /dev/null takes its place. And a message or a report that cannot be written does not end the work.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _closed.add(number)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has no stream for a descriptor that was closed when it started.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = _tolerant(1, sys.stdout, "strict")
    sys.stderr = _tolerant(2, sys.stderr, "backslashreplace")


class _Tolerant(io.FileIO):
    """Remembers that it could not be written, instead of raising. Where the reader has ended it raises: `| head`."""

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
    """In the place of Python's own."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Tolerant(number, "w", closefd=False)),
        encoding=stream.encoding if stream else "utf-8",
        errors=stream.errors if stream else errors,
        line_buffering=number == 2 or os.isatty(number) or bool(os.environ.get("PYTHONUNBUFFERED")),
    )


def failure() -> OSError | None:
    """Why stdout could not be written, so far."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Tolerant) else None


def reserve_output() -> None:
    """stdout is for data from now on: whoever reads it must not meet a report there."""
    global _for_data
    _for_data = True


def is_for_data() -> bool:
    return _for_data


def output(what: str, readable: bool = False) -> int:
    """The descriptor that `what` is written to; a terminal only takes what people can read. Raises UsageProblem."""
    reserve_output()
    number = _opened(1, f"{what} goes to stdout")
    if not readable and os.isatty(number):
        raise UsageProblem(reason=f"{what} goes to stdout, which is a terminal: put a pipe there")
    return number


def input(what: str) -> int:
    """The descriptor that `what` is read from. Raises UsageProblem."""
    number = require_input(what)
    if os.isatty(number):
        raise UsageProblem(reason=f"{what} comes from stdin, which is a terminal: put a pipe there")
    return number


def require_input(what: str) -> int:
    """Raises UsageProblem if stdin was closed; /dev/null, which is there now, would be an input without entries."""
    return _opened(0, f"{what} comes from stdin")


def _opened(number: int, what: str) -> int:
    if number in _closed:
        raise UsageProblem(reason=f"{what}, which is closed: put a pipe there")
    return number
