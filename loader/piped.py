"""A pipe from what makes LDIF, or pages, to what reads them, in one process: no file of them is in between."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from loader.errors import LoaderError, ReaderGone, StreamBroken

_PIPE = 1 << 20  # bytes, the most that Linux gives everybody
Made = TypeVar("Made")


@contextmanager
def piped(write: Callable[[int], Made], name: str) -> Iterator[tuple[int, Future[Made]]]:
    """A descriptor to read once what `write` puts into the one that it is given, on a thread of its own; and what
    `write` then returns, which has been returned when the body ends.

    A reader may stop early. What `write` raises is raised when the body has ended, or in the place of what the body
    raises because its input was cut off.
    """
    reading, writing = os.pipe()
    with suppress(OSError):  # more of it than a user may have: then it stays small
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    with ThreadPoolExecutor(1, name) as pool:
        made = pool.submit(_closing, write, writing)
        try:
            yield reading, made
        except LoaderError as error:
            os.close(reading)
            failure = made.exception()
            if failure is None or _has_enough(failure):
                raise
            raise failure from error
        except BaseException:
            os.close(reading)
            raise
        os.close(reading)
        failure = made.exception()
        if failure is not None and not _has_enough(failure):
            raise failure


def _closing(write: Callable[[int], Made], descriptor: int) -> Made:
    try:
        return write(descriptor)
    finally:
        os.close(descriptor)


def _has_enough(failure: BaseException) -> bool:
    """The reader ended before the writer, and knows why."""
    return isinstance(failure, BrokenPipeError | ReaderGone | StreamBroken)
