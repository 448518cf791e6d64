"""How fast a live server is read: as fast as can be, at most so many entries a second, and slower while it is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from loader.errors import LoaderError
from loader.ldif import Counters
from loader.server.options import Connection
from loader.server.session import session

LOOKS = 1.0  # seconds between two looks at the server's latency
SLOWEST = 500  # entries a second; below it an export would never end
FASTER = 1.25  # at each look that finds the server at ease


class RateLimit:
    """Shared by all connections of a reading. `rate` in entries a second; 0 is as fast as can be."""

    def __init__(self, max_rate: int = 0) -> None:
        self.max_rate = max_rate
        self.rate = max_rate
        self._readers: list[Counters] = []
        self._lock = threading.Lock()

    @contextmanager
    def over(self, counters: Counters) -> Iterator[None]:
        """One more connection, of which each gets its share."""
        with self._lock:
            self._readers.append(counters)
            self._share()
        try:
            yield
        finally:
            with self._lock:
                self._readers.remove(counters)
                self._share()

    def set(self, rate: int) -> None:
        with self._lock:
            self.rate = rate
            self._share()

    def _share(self) -> None:
        for counters in self._readers:
            counters.limit(max(1, self.rate // len(self._readers)) if self.rate else 0)

    @property
    def entries(self) -> int:
        """Read so far by the connections that stand."""
        with self._lock:
            return sum(counters.entries for counters in self._readers)


@contextmanager
def rate_limit(pace: RateLimit, connection: Connection, latency: float | None) -> Iterator[None]:
    """Meanwhile, slow down when the server takes longer than `latency` seconds to answer a small question, and speed
    up again when it does not. None: never mind."""
    if latency is None:
        yield
        return
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(pace, connection, latency, ended), daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


def _watch(pace: RateLimit, connection: Connection, latency: float, ended: threading.Event) -> None:
    before = pace.entries
    while not ended.wait(LOOKS):
        now = pace.entries
        pace.set(
            _next_rate(pace, max(0, now - before) / LOOKS, _latency(connection, ended) > latency)
        )
        before = now


def _next_rate(pace: RateLimit, measured: float, slow: bool) -> int:
    """Half of what it was while the server is slow, else a little more up to the limit."""
    if slow:
        return max(SLOWEST, int((min(pace.rate, measured) if pace.rate else measured) / 2))
    if not pace.rate:
        return pace.max_rate
    faster = int(pace.rate * FASTER) + 1
    if pace.max_rate:
        return min(faster, pace.max_rate)
    return faster if measured > pace.rate / 2 else 0  # the server gives no more than that anyway


def _latency(connection: Connection, ended: threading.Event) -> float:
    """Seconds until the root DSE is read over a connection of its own; without end when it cannot be."""
    begun = time.monotonic()
    try:
        with session(connection, ended) as server:
            server.read("", ["1.1"])
    except LoaderError:
        return float("inf")
    return time.monotonic() - begun
