"""A file of a backup while it is made: it grows at its end, and what comes first may be known last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from loader.storage import files


class Output(Protocol):
    """size: bytes so far."""

    size: int

    def append(self, content: bytes) -> None:
        """Raises NoSpace, RemoteFailed."""

    def put_first(self, content: bytes) -> None:
        """In the place of as many bytes at the beginning, once."""


class Outputs(Protocol):
    """Where such files are made."""

    def require_room(self, repo: Path, needed: int, keep_free: int) -> None:
        """For `needed` bytes, beside those that stay free on the disk. Raises NoSpace."""

    def making(self, target: Path, backup: str, keep_free: int) -> AbstractContextManager[Output]:
        """`target` (mode 0600), durable afterwards. backup: the ID of that which it is for. keep_free: bytes of the
        disk."""
        ...


class OnDisk:
    """In the repository itself."""

    def require_room(self, repo: Path, needed: int, keep_free: int) -> None:
        files.require_space(repo, needed + keep_free)

    @contextmanager
    def making(self, target: Path, backup: str, keep_free: int) -> Iterator[Output]:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file, files.explained(target):
            yield _DiskFile(cast(BinaryIO, file), target, keep_free)
        files.make_durable(target)


ON_DISK = OnDisk()


class _DiskFile:
    """file: unbuffered."""

    def __init__(self, file: BinaryIO, path: Path, keep_free: int) -> None:
        self._file, self._path, self._keep_free = file, path, keep_free
        self.size = 0

    def append(self, content: bytes) -> None:
        """What was written begins to be stored now, and leaves the page cache to slapd once it is."""
        files.require_space(self._path, self._keep_free + len(content))
        self._write(content)
        self.size += len(content)
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def put_first(self, content: bytes) -> None:
        self._file.seek(0)
        self._write(content)
        self._file.seek(self.size)

    def _write(self, content: bytes) -> None:
        """One write to an unbuffered file may take only a part."""
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]
