"""What is made for another host: a file here, or one that is sent while it is made, with two parts of it in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from loader import units
from loader.operations.backup.output import ON_DISK, Output
from loader.storage import files
from loader.storage.remote import Store, Upload

log = logging.getLogger(__name__)
PART = 16 << 20  # bytes; S3 takes 10,000 parts, and none below 5 MiB but the last
_SHARE = 3000  # of what is there a part may be one in so many: 10,000 of them are half a TB
_LARGEST = 1 << 43  # bytes that a hole may have


class Sending:
    """Files are made here if there is room, and sent later."""

    def __init__(self, store: Store) -> None:
        self.store, self.lacks_room = store, False
        self.sent: dict[int, str] = {}  # by inode of the hole that stands for it here

    def require_room(self, repo: Path, needed: int, keep_free: int) -> None:
        """Without it slapd's free pages have to wait for the network, too. Raises RemoteFull."""
        self.store.require_space(needed)
        needed, free = needed + keep_free, files.free_bytes(repo)
        self.lacks_room = free < needed
        if self.lacks_room:
            words = "it takes some %s, and %s are free here: it is sent while it is made"
            log.info(words, units.size(needed), units.size(free))

    @contextmanager
    def making(self, target: Path, backup: str, keep_free: int) -> Iterator[Output]:
        if not self.lacks_room:
            with ON_DISK.making(target, backup, keep_free) as file:
                yield file
            return
        name = f"{backup}/{target.name}"
        with self.store.uploading(name) as upload, ThreadPoolExecutor(1, "send") as sender:
            sent = SentFile(upload, sender)
            yield sent
            sent.finish()
        hole(target, sent.size)
        self.sent[target.stat().st_ino] = name


def hole(path: Path, size: int) -> None:
    """A file of that length that takes no room."""
    with files.creating(path) as file:
        file.truncate(max(0, min(size, _LARGEST)))


class SentFile:
    """The first part stays until the end, for it may change; another is sent while the next one fills."""

    def __init__(self, upload: Upload, sender: ThreadPoolExecutor) -> None:
        self._upload, self._sender = upload, sender
        self._first, self._part = bytearray(), bytearray()
        self._number = 2
        self._sent: Future[None] | None = None
        self.size = 0

    def append(self, content: bytes) -> None:
        self.size += len(content)
        room = max(0, PART - len(self._first))
        self._first += content[:room]
        self._part += content[room:]
        if len(self._part) >= max(PART, self.size // _SHARE):
            self._send()

    def put_first(self, content: bytes) -> None:
        self._first[: len(content)] = content

    def finish(self) -> None:
        if self._part:
            self._send()
        self._wait()
        self._upload.put(1, 0, bytes(self._first))

    def _send(self) -> None:
        """Raises what the part before came to."""
        self._wait()
        start, content = self.size - len(self._part), bytes(self._part)
        self._sent = self._sender.submit(self._upload.put, self._number, start, content)
        self._number, self._part = self._number + 1, bytearray()

    def _wait(self) -> None:
        if self._sent is not None:
            self._sent.result()
