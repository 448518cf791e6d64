"""The probes of `storage watch`: direct reads past the page cache, durable writes and flock(2), timed at real-time
priority. A probe that cannot measure reports why."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from loader import child
from loader.errors import LoaderError
from loader.storage import files, held

_COUNTED = Path("/proc/thread-self/io")


class Unmeasurable(Exception):
    """Something cannot be timed; the text is the reason."""


class Timed(Protocol):
    """An open probe, used only by the thread that opened it. `size`: bytes of a read or a write, None if there are
    none. `note`: what differs from what was requested, and why."""

    @property
    def size(self) -> int | None: ...

    @property
    def note(self) -> str | None: ...

    def once(self) -> float:
        """Returns the seconds that it took. Raises Unmeasurable; OSError or LoaderError if it failed."""

    def close(self) -> None: ...


def counted(what: str) -> int:
    """Returns the bytes that the kernel has read from devices (`read_bytes`), or written to them (`write_bytes`), for
    this thread. Raises Unmeasurable."""
    try:
        told = _COUNTED.read_text()
        return int(told.partition(f"\n{what}: ")[2].split()[0])
    except (OSError, IndexError, ValueError) as error:
        raise Unmeasurable("this kernel does not count what a thread reads and writes") from error


# --- realtime --------------------------------------------------------------------------------------------------------
#
# Real-time priority for the calling thread, so that a busy processor and other reads do not add to the times.


PRIORITY = 79  # of SCHED_FIFO; below those threads of the kernel that a driver may need
_CLASS, _LEVEL = "1", "7"  # arguments of ionice(1): the real-time class, its lowest level


def claim() -> tuple[str, ...]:
    """Sets both priorities of this thread. Returns which were not permitted, and why."""
    return tuple(word for word in (_io_priority(), _scheduling()) if word)


def _scheduling() -> str | None:
    try:  # children of the thread get ordinary priority
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


# --- direct ----------------------------------------------------------------------------------------------------------
#
# Timed reads past the page cache, and whether the kernel really fetched them from a device.


LEAST = 512  # bytes; the first size that is tried
_MOST = 65536  # bytes; the largest block of a file system that Linux mounts
_OWN_FILE = 16 << 20  # bytes of the nameless file that is read in a directory
_CACHED = "the read came from a cache: the kernel fetched nothing from a device for it"


class Reader:
    """A file or device that is open for direct reads of `size` bytes, by one thread, whose reads the kernel counts.

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
        """Times a read at a random offset."""
        seconds, is_fetched = self._timed(self._place(), self.size)
        if not is_fetched:
            raise Unmeasurable(_CACHED)
        return seconds

    def _settle(self) -> None:
        """Finds the smallest size that is always read from the device. A file system may silently serve a direct read
        of less than its block from the page cache (btrfs does): the second read at an offset reveals that."""
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
        """Returns whether reads of that size reach the device; None if they are refused."""
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
        """Returns the seconds, and whether the kernel counted the read as from a device."""
        view = memoryview(self._buffer)[:size]
        before = counted("read_bytes")
        begun = time.perf_counter_ns()
        count = os.preadv(self._descriptor, [view], place)
        took = time.perf_counter_ns() - begun
        return took / 1e9, count == size and counted("read_bytes") - before >= size

    def _place(self) -> int:
        """Returns a random offset; in a file, one that has blocks, because a hole is read without the device."""
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
        """Returns how many bytes from the beginning are likely to have blocks."""
        if not self._is_file:
            return os.lseek(self._descriptor, 0, os.SEEK_END)
        status = os.fstat(self._descriptor)
        return min(status.st_size, status.st_blocks * 512)


def opened(path: Path) -> Reader:
    """Opens a block device, a regular file, or a nameless file in a directory.

    Raises Unmeasurable, FileUnsafe, DirectoryUnsafe, OSError.
    """
    device = held.device(path, os.O_RDONLY | os.O_DIRECT)
    if device is not None:
        return Reader(device)
    return Reader(_file(path))


def _file(path: Path) -> int:
    """Returns a descriptor of the file, or of a nameless one in the directory."""
    is_own = path.is_dir()
    descriptor = files.made(path) if is_own else held.reading(path)
    try:
        if is_own:
            files.filled(descriptor, _OWN_FILE)
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


# --- durable write ---------------------------------------------------------------------------------------------------
#
# Timed writes that end when the device has the data; on a mirror, when every leg has it.


SIZE = 4096  # bytes of a write: a page of LMDB
_ROOM = 4 << 20  # bytes; size of the file
_FLAGS = os.O_WRONLY | os.O_DSYNC | os.O_DIRECT | os.O_CLOEXEC


class Writer:
    """Overwrites blocks of a nameless file that was filled before, so that no write has to allocate space."""

    size: int = SIZE
    note: str | None = None

    def __init__(self, directory: Path) -> None:
        """Raises Unmeasurable, DirectoryUnsafe, OSError."""
        descriptor = files.made(directory)
        try:
            files.filled(descriptor, _ROOM)
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
            raise Unmeasurable("its file system has no direct writes (O_DIRECT, O_DSYNC)") from error
        raise


# --- file lock -------------------------------------------------------------------------------------------------------
#
# Timed flock(2): a lock that nobody else has is granted at once, unless the system is slow or a cluster is asked.


class FileLock:
    """Times flock(2) on a nameless file."""

    size: int | None = None
    note: str | None = None

    def __init__(self, directory: Path) -> None:
        """Raises DirectoryUnsafe, OSError."""
        self._descriptor = files.made(directory)

    def once(self) -> float:
        """Times a lock and an unlock."""
        begun = time.perf_counter_ns()
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return (time.perf_counter_ns() - begun) / 1e9

    def close(self) -> None:
        os.close(self._descriptor)
