"""Timed waking: how much later than planned the kernel lets a thread run."""

from __future__ import annotations

import time

_NAP = 0.001  # seconds


class WakeUp:
    """What it takes is no storage's: the processor was busy, or the hypervisor had given it to another machine."""

    size: int | None = None
    note: str | None = None

    def once(self) -> float:
        planned = time.monotonic() + _NAP
        time.sleep(_NAP)
        return max(0.0, time.monotonic() - planned)

    def close(self) -> None:
        pass
