"""The work done so far in one step: entries and bytes, also of native calls that are running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

WholeFile = tuple[
    str, int, str
]  # path, bytes and XXH3 of 128 bits of a file that was read to its end


class Counting(Protocol):
    """What a running native call offers (loader._native.Counters)."""

    @property
    def entries(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> Sequence[WholeFile]: ...
    @property
    def open_ends(self) -> Sequence[str]: ...
    def cancel(self) -> None: ...


class Staged(Protocol):
    """A native call that goes on when its entries are read."""

    @property
    def stage(self) -> tuple[str, int, int]:
        """Its name, and how many of how many parts are done; 0 where nobody knows."""


@dataclass
class Meter:
    """Work done so far in one step. `total` is in entries, None while unknown."""

    name: str
    total: int | None = None
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    files: list[WholeFile] = field(default_factory=list)  # LDIF that native calls have read
    open_ends: list[str] = field(default_factory=list)  # those of them whose last line had no end
    _base: int = 0
    _bytes: int = 0
    _watched: list[Counting] = field(default_factory=list)
    _staged: Staged | None = None
    _cancels: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def add(self, entries: int = 0, size: int = 0) -> None:
        with self._lock:
            self._base += entries
            self._bytes += size

    @contextmanager
    def counting(self, counters: Counting) -> Iterator[None]:
        """Add up `counters` while a native call runs; what a failed call counted is taken back."""
        with self._lock:
            self._watched.append(counters)
        if self.cancelled.is_set():
            counters.cancel()
        try:
            yield
        except BaseException:
            with self._lock:
                self._watched.remove(counters)
            raise
        with self._lock:
            self._watched.remove(counters)
            self._base += counters.entries
            self._bytes += counters.bytes
            self.files += counters.files
            self.open_ends += counters.open_ends

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Call `cancel` should the step be given up meanwhile (kill a child, shut a connection)."""
        self._cancels.append(cancel)
        if self.cancelled.is_set():
            cancel()
        try:
            yield
        finally:
            self._cancels.remove(cancel)

    def cancel(self) -> None:
        """The step is given up: end what runs, and what is begun after this."""
        self.cancelled.set()
        for counters in list(self._watched):
            counters.cancel()
        for cancel in list(self._cancels):
            cancel()

    @property
    def entries(self) -> int:
        with self._lock:
            return self._base + sum(counters.entries for counters in self._watched)

    @property
    def bytes(self) -> int:
        with self._lock:
            return self._bytes + sum(counters.bytes for counters in self._watched)

    @contextmanager
    def following(self, staged: Staged) -> Iterator[None]:
        """Tell of the stages of a native call while it runs."""
        self._staged = staged
        try:
            yield
        finally:
            self._staged = None

    @property
    def stage(self) -> tuple[str, int, int]:
        return self._staged.stage if self._staged else ("", 0, 0)

    @property
    def noted(self) -> str:
        """The note, or the stage and how far it is."""
        name, done, total = self.stage
        return self.note or (f"{name} {done / total:.0%}" if total else name)

    @property
    def moved(self) -> tuple[object, ...]:
        """Other than before whenever something was done."""
        return self.entries, self.bytes, *self.stage

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started
