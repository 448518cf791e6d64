"""Priority for the calling thread: neither a busy processor nor the reads of others shall add to what it times."""

from __future__ import annotations

import os
import threading

from loader import child
from loader.errors import LoaderError

PRIORITY = 79  # of SCHED_FIFO: below the kernel's own threads that a driver may need
_CLASS, _LEVEL = "1", "7"  # of ionice(1): real-time, its lowest level


def claim() -> tuple[str, ...]:
    """What of it was not permitted, and why."""
    return tuple(word for word in (_io_priority(), _scheduling()) if word)


def _scheduling() -> str | None:
    try:  # children of the thread are ordinary ones
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(PRIORITY))
    except OSError as error:
        return f"not at real-time priority {PRIORITY} ({error.strerror})"
    return None


def _io_priority() -> str | None:
    thread = str(threading.get_native_id())
    try:
        done = child.ask(["ionice", "-c", _CLASS, "-n", _LEVEL, "-p", thread])
    except LoaderError as error:
        return f"not at real-time I/O priority ({error})"
    if done.status:
        return f"not at real-time I/O priority ({' '.join(done.words[-1:])})"
    return None
