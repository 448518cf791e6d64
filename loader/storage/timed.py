"""What is timed once in every round of a watch, and how it tells that it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

_COUNTED = Path("/proc/thread-self/io")


class Unmeasurable(Exception):
    """This cannot be timed, and why."""


class Timed(Protocol):
    """Used by the thread that opened it. `size`: bytes of a read or a write, None where there are none.

    `note`: what of it is not as asked, and why.
    """

    @property
    def size(self) -> int | None: ...

    @property
    def note(self) -> str | None: ...

    def once(self) -> float:
        """Seconds that it took. Raises Unmeasurable; OSError or LoaderError where it failed."""

    def close(self) -> None: ...


def counted(what: str) -> int:
    """Bytes that the kernel has read from devices (`read_bytes`), or written to them (`write_bytes`), for this thread.
    Raises Unmeasurable."""
    try:
        told = _COUNTED.read_text()
        return int(told.partition(f"\n{what}: ")[2].split()[0])
    except (OSError, IndexError, ValueError) as error:
        raise Unmeasurable("this kernel does not count what a thread reads and writes") from error
