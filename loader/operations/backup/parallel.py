"""Work on pieces by as many threads as there are processors, at lower priority than slapd's."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from loader import resources

_NICE = 10

Asked = TypeVar("Asked")
Done = TypeVar("Done")


def in_order(work: Callable[[Asked], Done], asked: Iterable[Asked]) -> Iterator[Done]:
    """As `map`, by threads, no more than two for each processor ahead."""
    threads = resources.processors()
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads, "pack", initializer=_be_nice) as pool:
        try:
            for one in asked:
                waiting.append(pool.submit(work, one))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _be_nice() -> None:
    """Of a thread, as Linux has it: slapd's come first."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
