"""Standard input and output where they carry data."""

from __future__ import annotations

import sys
from typing import TextIO

from loader.errors import UsageProblem

_for_data = False


def reserve_output() -> None:
    """stdout is for data from now on: whoever reads it must not meet a report there."""
    global _for_data
    _for_data = True


def is_for_data() -> bool:
    return _for_data


def output(what: str, readable: bool = False) -> int:
    """The descriptor that `what` is written to; a terminal only takes what people can read. Raises UsageProblem."""
    reserve_output()
    stream = _open(sys.stdout, f"{what} goes to stdout")
    if not readable and stream.isatty():
        raise UsageProblem(reason=f"{what} goes to stdout, which is a terminal: put a pipe there")
    return stream.fileno()


def input(what: str) -> int:
    """The descriptor that `what` is read from. Raises UsageProblem."""
    stream = _open(sys.stdin, f"{what} comes from stdin")
    if stream.isatty():
        raise UsageProblem(reason=f"{what} comes from stdin, which is a terminal: put a pipe there")
    return stream.fileno()


def _open(stream: TextIO | None, what: str) -> TextIO:
    """Python has none for a descriptor that was closed, whose number the next file gets."""
    if stream is None:
        raise UsageProblem(reason=f"{what}, which is closed: put a pipe there")
    return stream
