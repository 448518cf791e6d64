"""The measurements of `storage watch`: the times of direct reads (without the page cache), durable writes and flock(2),
at real-time priority. A probe that cannot measure reports why."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from loader import child
from loader.errors import LoaderError
from loader.storage import files, held

_THREAD_IO = Path("/proc/thread-self/io")


class Unmeasurable(Exception):
    """The error of a probe that cannot measure. The text is the reason."""


class TimedProbe(ABC):
    """An open probe, for the thread that opened it. `size`: bytes of a read or write, or None if the probe does
    neither. `note` says how the probe differs from the requested probe, or is None."""

    size: int | None = None
    note: str | None = None

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @abstractmethod
    def measure(self) -> float:
        """Runs the probe once; returns the seconds. Raises Unmeasurable; OSError or LoaderError if the probe fails."""

    def close(self) -> None:
        os.close(self._descriptor)


def _time(counter: str, work: Callable[[], int]) -> tuple[float, int, int]:
    """Runs `work`. Returns its seconds, its result, and the bytes that the kernel read from devices for this thread
    meanwhile (`counter`: "read_bytes") or wrote to them ("write_bytes"). Raises Unmeasurable."""

    def count() -> int:
        try:
            return int(_THREAD_IO.read_text().partition(f"\n{counter}: ")[2].split()[0])
        except (OSError, IndexError, ValueError) as error:
            raise Unmeasurable("this kernel does not count what a thread reads and writes") from error

    count_before = count()
    start = time.perf_counter_ns()
    size = work()
    elapsed = time.perf_counter_ns() - start
    return elapsed / 1e9, size, count() - count_before


@contextmanager
def _unless_refused(reason: str) -> Iterator[None]:
    """Raises Unmeasurable with this reason if the file system does not support direct access."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unmeasurable(reason) from error
        raise


# --- real-time priority, so that a busy processor and other reads do not add to the times ----------------------------

PRIORITY = 79  # SCHED_FIFO priority, below that of the kernel threads that a driver may need
_CLASS, _LEVEL = "1", "7"  # arguments of ionice(1): the real-time class, and its lowest level


def claim_priority() -> tuple[str, ...]:
    """Gives this thread real-time priority for I/O and CPU. Returns a text for each priority that was refused."""
    refusals = []
    try:
        answer = child.run(["ionice", "-c", _CLASS, "-n", _LEVEL, "-p", str(threading.get_native_id())])
        reason = " ".join(answer.stderr_lines[-1:]) if answer.status else None
    except LoaderError as error:
        reason = str(error)
    if reason is not None:
        refusals.append(f"not at real-time I/O priority ({reason})")
    try:  # SCHED_RESET_ON_FORK: children of the thread get ordinary priority
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except OSError as error:
        refusals.append(f"not at real-time priority {PRIORITY} ({error.strerror})")
    return tuple(refusals)


# --- direct reads past the page cache that the kernel really fetches from a device -----------------------------------

LEAST = 512  # bytes; the first size that is tried
_MOST = 65536  # bytes; the largest block of a file system that Linux mounts
_FILE_BYTES = 16 << 20  # bytes; if the path is a directory, a file of this size is created there and read
_CACHE_NOTE = "come from the page cache and are not measured"


class Reader(TimedProbe):
    """A file or device that is open for direct reads of `size` bytes, which the kernel counts. If `size` is not LEAST,
    `note` says why."""

    size: int = LEAST

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._buffer = mmap.mmap(-1, _MOST)  # mmap aligns the buffer to a page
        self._settle()

    def measure(self) -> float:
        """Times a read at a random offset."""
        seconds, is_fetched = self._read(self._offset())
        if not is_fetched:
            raise Unmeasurable("the read came from a cache: the kernel fetched nothing from a device for it")
        return seconds

    def _settle(self) -> None:
        """Sets `size` to the smallest size at which the device serves every read. Reads each offset twice, because a
        file system may silently serve a direct read of less than a block from the page cache (btrfs does)."""
        obstacles: dict[str, int] = {}  # maps an obstacle to the largest size that it prevented
        most = min(_MOST, self._extent())
        while self.size <= most:
            obstacle, offset = "are refused", self._offset()
            try:
                self._read(offset)
                _, is_fetched = self._read(offset)
                obstacle = _CACHE_NOTE
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                is_fetched = False
            if is_fetched:
                reasons = "; ".join(f"reads of {size} bytes {what}" for what, size in obstacles.items())
                self.note = f"{reasons}; of {self.size} bytes instead" if reasons else None
                return
            obstacles[obstacle] = self.size
            self.size *= 2
        if most < LEAST:
            raise Unmeasurable(f"it has less than {LEAST} bytes")
        if _CACHE_NOTE in obstacles:
            raise Unmeasurable("the kernel counts no read from a device: they come from a cache")
        raise Unmeasurable("direct reads are refused")

    def _read(self, offset: int) -> tuple[float, bool]:
        """Returns the seconds of a read, and whether the kernel counted it as a read from a device."""
        view = memoryview(self._buffer)[: self.size]
        seconds, size, fetched = _time("read_bytes", partial(os.preadv, self._descriptor, [view], offset))
        return seconds, size == self.size and fetched >= self.size

    def _offset(self) -> int:
        """Returns a random offset; in a regular file, an offset with data, because reading a hole needs no device."""
        offset = random.randrange(max(1, self._extent() // self.size)) * self.size
        for start in (offset, 0) if self._is_file else ():
            with suppress(OSError):  # ENXIO: only a hole follows
                data = os.lseek(self._descriptor, start, os.SEEK_DATA)
                return data - data % self.size
        return offset

    def _extent(self) -> int:
        """Returns the size of a device, or the size of the part at a file's beginning that probably has blocks."""
        if not self._is_file:
            return os.lseek(self._descriptor, 0, os.SEEK_END)
        status = os.fstat(self._descriptor)
        return min(status.st_size, status.st_blocks * 512)


def open_reader(path: Path) -> Reader:
    """Opens a block device, a regular file, or a new file without a name if `path` is a directory. Raises Unmeasurable,
    FileUnsafe, DirectoryUnsafe, OSError."""
    device = held.device(path, os.O_RDONLY | os.O_DIRECT)
    is_directory = path.is_dir()
    descriptor = device
    if descriptor is None:
        descriptor = files.nameless(path) if is_directory else held.reading(path)
    try:
        if is_directory:
            files.fill_randomly(descriptor, _FILE_BYTES)
        if device is None:
            with _unless_refused("its file system has no direct reads"):
                fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
        return Reader(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


# --- durable writes: they end when the device has the data; on a mirror, when every leg has the data -----------------

SIZE = 4096  # bytes of a write: a page of LMDB
_ROOM = 4 << 20  # bytes of the file that is overwritten
_FLAGS = os.O_WRONLY | os.O_DSYNC | os.O_DIRECT | os.O_CLOEXEC


class Writer(TimedProbe):
    """Overwrites blocks of a file without a name. The file is filled first, so that no write has to allocate space."""

    size: int = SIZE

    def __init__(self, directory: Path) -> None:
        """Raises Unmeasurable, DirectoryUnsafe, OSError."""
        with held.closing_descriptor(files.nameless(directory)) as descriptor:
            files.fill_randomly(descriptor, _ROOM)
            with _unless_refused("its file system has no direct writes (O_DIRECT, O_DSYNC)"):
                super().__init__(os.open(held.through(descriptor), _FLAGS))
        self._buffer = mmap.mmap(-1, SIZE)  # mmap aligns the buffer to a page

    def measure(self) -> float:
        self._buffer[:8] = os.urandom(8)
        offset = random.randrange(_ROOM // SIZE) * SIZE
        seconds, size, written = _time("write_bytes", partial(os.pwrite, self._descriptor, self._buffer, offset))
        if size != SIZE or written < SIZE:
            raise Unmeasurable("the kernel counts no write to a device for it")
        return seconds


# --- file locks: granted at once, unless the system is slow or the nodes of a cluster must agree ---------------------


class FileLock(TimedProbe):
    """Times flock(2) on a file without a name."""

    def __init__(self, directory: Path) -> None:
        """Raises DirectoryUnsafe, OSError."""
        super().__init__(files.nameless(directory))

    def measure(self) -> float:
        """Times a lock and an unlock."""
        start = time.perf_counter_ns()
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return (time.perf_counter_ns() - start) / 1e9
