"""Shares pieces out among connections, perhaps to several servers, and limits how fast they read.

A piece whose server fails is read by whoever is free; a server that fails is tried again after a pause, which grows.
When no piece is left, a free connection begins a copy of one that another server is slow with, if it is expected to be
through sooner. Whoever ends first has read it, the other is cancelled, and what it read is thrown away.

Nothing here knows how a piece is read, or what of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from loader import defaults
from loader.errors import Cancelled, LoaderError
from loader.ldif import Counters
from loader.progress import Meter
from loader.server.options import Connection
from loader.server.session import session

LONGEST_PAUSE = 5.0  # seconds between two tries
_LOOK = 0.5  # seconds between two looks of a connection that has nothing to do
_SOONER = 1.25  # how many times as long a piece must still take as its copy would


class Named(Protocol):
    """A piece."""

    @property
    def name(self) -> str: ...


Piece = TypeVar("Piece", bound=Named)
Result = TypeVar("Result")


@dataclass(frozen=True)
class ConnectionSlot:
    """A connection to be: `number` tells those to one `server` (a position in somebody's list) apart."""

    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.server}-{self.number}"


@dataclass(frozen=True)
class Callbacks(Generic[Piece, Result]):
    """How a piece is read. `read` returns when it is read whole, or raises: a retryable LoaderError when the server
    failed, any error once its meter is cancelled. `keep` is called once for each piece, `discard` for each try that
    came to nothing, in the thread that read."""

    read: Callable[[ConnectionSlot, Piece, Meter], Result]
    keep: Callable[[ConnectionSlot, Piece, Result], None]
    discard: Callable[[ConnectionSlot, Piece], None]


@dataclass(eq=False)
class _Attempt(Generic[Piece]):
    slot: ConnectionSlot
    piece: Piece
    meter: Meter

    def left(self, size: float) -> float:
        """Seconds that it will still take, for so many entries. It is never taken for nearly done: a line may stall."""
        read = max(self.meter.entries, size / 20)
        return max(size - read, size / 20) * self.meter.seconds / read


@dataclass
class _State(Generic[Piece]):
    """What the connections know of each other; under `changed`."""

    waiting: list[Piece]
    left: int  # pieces that are not read
    running: list[_Attempt[Piece]] = field(default_factory=list)
    rates: dict[int, float] = field(default_factory=dict)  # entries a second of a connection, by server
    sizes: list[int] = field(default_factory=list)  # entries of the pieces that were read
    error: BaseException | None = None
    alive: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def over(self) -> bool:
        return not self.left or self.error is not None


def schedule(
    pieces: Sequence[Piece], slots: Sequence[ConnectionSlot], reading: Callbacks[Piece, Result], meter: Meter
) -> None:
    """Read all pieces; what is read counts in `meter`. Raises the first error that is not retryable, or the last one
    when every connection has failed RETRIES times in turn."""
    state = _State(list(pieces), len(pieces), alive=len(slots))
    threads = [threading.Thread(target=_Worker(slot, reading, meter, state).work, daemon=True) for slot in slots]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as stop:
        _give_up(state, stop)
        for thread in threads:
            thread.join()
        raise
    if state.error:
        raise state.error
    if state.left:
        raise Cancelled(signal="the watch over this step")


def _give_up(state: _State[Piece], error: BaseException) -> None:
    with state.changed:
        state.error = state.error or error
        for one in state.running:
            one.meter.cancel()
        state.changed.notify_all()


@dataclass
class _Worker(Generic[Piece, Result]):
    """One connection."""

    slot: ConnectionSlot
    reading: Callbacks[Piece, Result]
    meter: Meter
    state: _State[Piece]
    failures: int = 0

    def work(self) -> None:
        try:
            while (mine := self._begin()) is not None:
                self._try(mine)
        except BaseException as error:
            _give_up(self.state, error)

    @property
    def _gave_up(self) -> bool:
        return self.failures > defaults.RETRIES

    def _begin(self) -> _Attempt[Piece] | None:
        """The next piece to read, as soon as there is one; None when all are read, or no more shall be."""
        state = self.state
        with state.changed:
            while not (state.over or self.meter.cancelled.is_set() or self._gave_up):
                chosen = state.waiting.pop(0) if state.waiting else self._slow()
                if chosen is not None:
                    mine = _Attempt(self.slot, chosen, Meter(chosen.name))
                    state.running.append(mine)
                    return mine
                state.changed.wait(_LOOK)
        return None

    def _slow(self) -> Piece | None:
        """A piece of another server that this one would be through with sooner."""
        state, rate = self.state, self.state.rates.get(self.slot.server)
        if not rate or not state.sizes:
            return None
        size = sum(state.sizes) / len(state.sizes)
        alone = [
            one
            for one in state.running
            if one.slot.server != self.slot.server and sum(other.piece is one.piece for other in state.running) == 1
        ]
        slowest = max(alone, key=lambda one: one.left(size), default=None)
        if slowest is None or slowest.left(size) < _SOONER * size / rate:
            return None
        return slowest.piece

    def _try(self, mine: _Attempt[Piece]) -> None:
        try:
            with self.meter.counting(mine.meter):
                found = self.reading.read(self.slot, mine.piece, mine.meter)
                if not self._is_first(mine):
                    raise _Superseded
        except (LoaderError, _Superseded) as error:
            self.reading.discard(self.slot, mine.piece)
            self._failed(mine, error)
            return
        self.reading.keep(self.slot, mine.piece, found)
        self.failures = 0
        with self.state.changed:
            self.state.left -= 1
            self.state.changed.notify_all()

    def _is_first(self, mine: _Attempt[Piece]) -> bool:
        """Has it ended before any other try of the piece? Then those are cancelled."""
        state = self.state
        with state.changed:
            if mine not in state.running:
                return False
            others = [one for one in state.running if one.piece is mine.piece]
            state.running = [one for one in state.running if one.piece is not mine.piece]
            for one in others:
                if one is not mine:
                    one.meter.cancel()
            state.sizes.append(mine.meter.entries)
            state.rates[self.slot.server] = mine.meter.entries / max(mine.meter.seconds, 1e-3)
        return True

    def _failed(self, mine: _Attempt[Piece], error: Exception) -> None:
        """Beaten by another, or its server has failed: then the piece is for whoever is free, and this one pauses."""
        state = self.state
        with state.changed:
            if mine not in state.running:
                return
            state.running.remove(mine)
            if not isinstance(error, LoaderError) or not error.retryable:
                raise error
            if not any(one.piece is mine.piece for one in state.running):
                state.waiting.insert(0, mine.piece)
            state.changed.notify_all()
        self._pause(error)

    def _pause(self, error: LoaderError) -> None:
        self.meter.note = f"{error}; trying again"
        self.failures += 1
        state = self.state
        with state.changed:
            if self._gave_up:
                state.alive -= 1
                if not state.alive:
                    raise error
                return
            until = time.monotonic() + min(LONGEST_PAUSE, 0.5 * 2 ** (self.failures - 1))
            while time.monotonic() < until and not (state.over or self.meter.cancelled.is_set()):
                state.changed.wait(_LOOK)


class _Superseded(Exception):
    """Another try of the piece has ended before."""


# --- pace ------------------------------------------------------------------------------------------------------------
#
# How fast a live server is read: as fast as can be, at most so many entries a second, and slower while it is busy.


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
        pace.set(_next_rate(pace, max(0, now - before) / LOOKS, _latency(connection, ended) > latency))
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
