"""Timed flock(2): a lock that nobody else holds is had at once, unless the system is slow or a cluster is asked."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from loader.storage import nameless


class FileLock:
    """Of a nameless file."""

    size: int | None = None
    note: str | None = None

    def __init__(self, directory: Path) -> None:
        """Raises DirectoryUnsafe, OSError."""
        self._descriptor = nameless.made(directory)

    def once(self) -> float:
        """Locked, and unlocked."""
        begun = time.perf_counter_ns()
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return (time.perf_counter_ns() - begun) / 1e9

    def close(self) -> None:
        os.close(self._descriptor)
