"""What makes LDIF, or pages, beside what takes them, in one process: no file of them is in between."""

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
    `write` then returns, which has been returned when the body ends."""
    reading, writing = os.pipe()
    with suppress(OSError):  # more of it than a user may have: then it stays small
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    with beside(lambda: _closing(write, writing), lambda: os.close(reading), name) as made:
        yield reading, made


@contextmanager
def beside(make: Callable[[], Made], stop: Callable[[], None], name: str) -> Iterator[Future[Made]]:
    """What `make` returns, on a thread of its own while the body takes what it makes; in the end it has returned.

    The body may stop early: `stop` tells `make` that nobody takes any more. What `make` raises is raised when the body
    has ended, or in the place of what the body raises because its input was cut off.
    """
    with ThreadPoolExecutor(1, name) as pool:
        made = pool.submit(make)
        try:
            yield made
        except LoaderError as error:
            stop()
            failure = made.exception()
            if failure is None or failure is error or _has_enough(failure):
                raise
            raise failure from error
        except BaseException:
            stop()
            raise
        stop()
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
