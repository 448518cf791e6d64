"""Timed writes that end when the device has them: those of a mirror, when every leg has."""

from __future__ import annotations

import errno
import mmap
import os
import random
import time
from pathlib import Path

from loader.storage import held, nameless
from loader.storage.timed import Unmeasurable, counted

SIZE = 4096  # bytes of a write: a page of LMDB
_ROOM = 4 << 20  # bytes of the file
_FLAGS = os.O_WRONLY | os.O_DSYNC | os.O_DIRECT | os.O_CLOEXEC


class Writer:
    """Overwrites blocks of a nameless file, which is written once before: no write has to find room for itself."""

    size: int = SIZE
    note: str | None = None

    def __init__(self, directory: Path) -> None:
        """Raises Unmeasurable, DirectoryUnsafe, OSError."""
        descriptor = nameless.made(directory)
        try:
            nameless.filled(descriptor, _ROOM)
            self._descriptor = _durably(descriptor)
        finally:
            os.close(descriptor)
        self._buffer = mmap.mmap(-1, SIZE)  # aligned to a page

    def once(self) -> float:
        self._buffer[:8] = os.urandom(8)
        place = random.randrange(_ROOM // SIZE) * SIZE
        before = counted("write_bytes")
        begun = time.perf_counter_ns()
        count = os.pwrite(self._descriptor, self._buffer, place)
        took = time.perf_counter_ns() - begun
        if count != SIZE or counted("write_bytes") - before < SIZE:
            raise Unmeasurable("the kernel counts no write to a device for it")
        return took / 1e9

    def close(self) -> None:
        os.close(self._descriptor)


def _durably(descriptor: int) -> int:
    try:
        return os.open(held.through(descriptor), _FLAGS)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unmeasurable(
                "its file system has no direct writes (O_DIRECT, O_DSYNC)"
            ) from error
        raise
