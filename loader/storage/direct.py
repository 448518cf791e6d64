"""Timed reads past the page cache, and whether the kernel really fetched them from a device."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import stat
import time
from contextlib import suppress
from pathlib import Path

from loader.storage import held, nameless
from loader.storage.timed import Unmeasurable, counted

LEAST = 512  # bytes: what is tried first
_MOST = 65536  # bytes: the largest block of a file system that Linux mounts
_OWN_FILE = 16 << 20  # bytes of the nameless file that is read where there is no other
_CACHED = "the read came from a cache: the kernel fetched nothing from a device for it"


class Reader:
    """A file or a device, open for direct reads of `size` bytes; of one thread, whose reads the kernel counts.

    `note`: why `size` is not LEAST, or None.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._buffer = mmap.mmap(-1, _MOST)  # aligned to a page
        self.size = LEAST
        self.note: str | None = None
        try:
            self._settle()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._descriptor)

    def once(self) -> float:
        """A read at a random place."""
        seconds, is_fetched = self._timed(self._place(), self.size)
        if not is_fetched:
            raise Unmeasurable(_CACHED)
        return seconds

    def _settle(self) -> None:
        """The smallest size that is read from the device each time. A file system may take a direct read of less than
        its block from the page cache and say nothing (btrfs does): the second read of a place shows it."""
        refused, cached = 0, 0
        most = min(_MOST, self._extent())
        while self.size <= most:
            found = self._fits()
            if found:
                self.note = self._explained(refused, cached)
                return
            refused, cached = (self.size, cached) if found is None else (refused, self.size)
            self.size *= 2
        if most < LEAST:
            raise Unmeasurable(f"it holds less than {LEAST} bytes")
        if cached:
            raise Unmeasurable("the kernel counts no read from a device: they come from a cache")
        raise Unmeasurable("direct reads are refused")

    def _fits(self) -> bool | None:
        """None where reads of that size are refused."""
        place = self._place()
        try:
            self._timed(place, self.size)
            return self._timed(place, self.size)[1]
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise

    def _explained(self, refused: int, cached: int) -> str | None:
        said = [f"reads of {refused} bytes are refused"] if refused else []
        if cached:
            said.append(f"reads of {cached} bytes come from the page cache and are not measured")
        return f"{'; '.join(said)}; of {self.size} bytes instead" if said else None

    def _timed(self, place: int, size: int) -> tuple[float, bool]:
        """Seconds; did the kernel count it as read from a device?"""
        view = memoryview(self._buffer)[:size]
        before = counted("read_bytes")
        begun = time.perf_counter_ns()
        count = os.preadv(self._descriptor, [view], place)
        took = time.perf_counter_ns() - begun
        return took / 1e9, count == size and counted("read_bytes") - before >= size

    def _place(self) -> int:
        """Of a file, one that has blocks: a hole is zeros that no device is asked for."""
        place = random.randrange(max(1, self._extent() // self.size)) * self.size
        return self._with_blocks(place) if self._is_file else place

    def _with_blocks(self, place: int) -> int:
        with suppress(OSError):  # ENXIO: a hole up to the end
            found = os.lseek(self._descriptor, place, os.SEEK_DATA)
            return found - found % self.size
        with suppress(OSError):
            return os.lseek(self._descriptor, 0, os.SEEK_DATA)
        return place

    def _extent(self) -> int:
        """Bytes from the beginning in which blocks are likely."""
        if not self._is_file:
            return os.lseek(self._descriptor, 0, os.SEEK_END)
        status = os.fstat(self._descriptor)
        return min(status.st_size, status.st_blocks * 512)


def opened(path: Path) -> Reader:
    """A block device, a regular file, or a directory, in which a nameless file is made.

    Raises Unmeasurable, FileUnsafe, DirectoryUnsafe, OSError.
    """
    device = held.device(path, os.O_RDONLY | os.O_DIRECT)
    if device is not None:
        return Reader(device)
    return Reader(_own_file(path) if path.is_dir() else _file(path))


def _file(path: Path) -> int:
    descriptor = held.reading(path)
    try:
        _past_the_cache(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _own_file(directory: Path) -> int:
    descriptor = nameless.made(directory)
    try:
        nameless.filled(descriptor, _OWN_FILE)
        _past_the_cache(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _past_the_cache(descriptor: int) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unmeasurable("its file system has no direct reads") from error
        raise
