"""Runs a producer of LDIF or pages on a thread while the caller consumes its output, without a file in between."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from loader.errors import LoaderError, ReaderGone, StreamBroken
from loader.storage import held

_PIPE = 1 << 20  # bytes: the largest pipe that Linux allows every user
Result = TypeVar("Result")


@contextmanager
def piped(write: Callable[[int], Result], name: str) -> Iterator[tuple[int, Future[Result]]]:
    """Runs `write` on a thread, with the writing end of a pipe. Yields the reading end, and a Future of the result of
    `write`. At its end, this context waits for `write`."""
    reading, writing = os.pipe()
    with suppress(OSError):  # beyond the user's limit, a pipe keeps its default size
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)

    def write_and_close() -> Result:
        with held.closing_descriptor(writing):
            return write(writing)

    with producing(write_and_close, lambda: os.close(reading), name) as result:
        yield reading, result


@contextmanager
def producing(make: Callable[[], Result], stop: Callable[[], None], name: str) -> Iterator[Future[Result]]:
    """Runs `make` on a thread while the body consumes its output. Yields a Future of the result of `make`.

    When the body ends, even early, `stop` ends `make`. An exception of `make` is raised after the body. It
    replaces a LoaderError of the body, because the body may have failed only for lack of input."""
    with ThreadPoolExecutor(1, name) as pool:
        result = pool.submit(make)
        try:
            yield result
        except LoaderError as error:
            stop()
            failure = result.exception()
            if failure is None or failure is error or _is_broken_pipe(failure):
                raise
            raise failure from error
        except BaseException:
            stop()
            raise
        stop()
        failure = result.exception()
        if failure is not None and not _is_broken_pipe(failure):
            raise failure


def _is_broken_pipe(failure: BaseException) -> bool:
    """Returns whether the producer failed only because its reader had ended."""
    return isinstance(failure, BrokenPipeError | ReaderGone | StreamBroken)
