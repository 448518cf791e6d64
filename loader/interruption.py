"""Signals that end a run: they unwind the stack of the main thread, but leave nothing half begun."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_came: list[int] = []  # while it was deferred
_deferring = 0


def unwind(number: int, frame: FrameType | None) -> None:
    """A signal handler."""
    if _deferring:
        _came.append(number)
    else:
        raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def deferred() -> Iterator[list[Callable[[], None]]]:
    """What is inside is done whole; a signal that came meanwhile unwinds the stack behind it. What is appended to the
    list is called before that, whole as well. In other threads, where no signal unwinds anything, it does nothing."""
    global _deferring
    undoing: list[Callable[[], None]] = []
    if threading.current_thread() is not threading.main_thread():
        yield undoing
        return
    _deferring += 1
    try:
        yield undoing
    finally:
        for undo in undoing if _came and _deferring == 1 else ():
            undo()
        _deferring -= 1
        if _came and not _deferring:
            name = signal.Signals(_came[0]).name
            _came.clear()
            raise KeyboardInterrupt(name)
