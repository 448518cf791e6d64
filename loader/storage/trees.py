"""All that is below a directory, and whether it is still the same, or the same as in a copy.

Everything is reached through descriptors, one component at a time, and no symbolic link is followed. Left out are
lost+found at the top, which belongs to a file system; sockets, which their server makes anew; and, where two states are
compared, lock.mdb beside a data.mdb, which says who has the database open.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import xxhash

from loader.errors import MigrationRefused
from loader.progress import Meter
from loader.storage import held
from loader.storage.holders import DATA, LOCK

BLOCK = 1 << 20
_ZEROS = bytes(BLOCK)
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_OF_FILE_SYSTEM = "lost+found"
_DEEPEST = 200  # levels of directories: each takes up to three descriptors, and three frames of Python's stack
# xfs lists each ACL a second time, under its name on disk (fs/xfs/xfs_xattr.c), and sets that one itself.
_OF_XFS = ("trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT")


@dataclass(frozen=True)
class Node:
    """A file of any kind. `pin`: its O_PATH descriptor, through which everything is read, so that owner, mode,
    attributes and contents are those of one inode even if the name is replaced meanwhile. `path`: from the top."""

    path: str
    name: str
    pin: int

    @cached_property
    def status(self) -> os.stat_result:
        return os.fstat(self.pin)

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.status.st_mode)

    @property
    def inode(self) -> tuple[int, int]:
        return self.status.st_dev, self.status.st_ino

    def open(self) -> int:
        """A regular file or a directory, for reading."""
        with held.named(Path(self.path)):
            if stat.S_ISDIR(self.kind):
                return os.open(".", LIST, dir_fd=self.pin)
            return os.open(held.through(self.pin), _FILE)

    def link_target(self) -> str:
        return os.readlink("", dir_fd=self.pin)

    def attributes(self) -> dict[str, bytes]:
        """Extended ones, ACLs among them; of a symbolic link none."""
        with held.named(Path(self.path)):
            return {} if stat.S_ISLNK(self.kind) else attributes_of(held.through(self.pin))


@contextmanager
def pinned(directory: int, name: str, path: str) -> Iterator[Node]:
    pin = os.open(name, held.LOOK, dir_fd=directory)
    try:
        yield Node(path, name, pin)
    finally:
        os.close(pin)


@dataclass(frozen=True)
class State:
    """Of a tree. Bytes: `size` as ls shows them, `allocated` as du does. `mark` changes with anything that is written
    there. `databases`: directories with a data.mdb, from the top, "" for the top itself."""

    files: int
    size: int
    allocated: int
    mark: str
    databases: tuple[str, ...]


def attributes_of(file: int | Path) -> dict[str, bytes]:
    names = sorted(name for name in os.listxattr(file) if name not in _OF_XFS)
    return {name: os.getxattr(file, name) for name in names}


def names_in(directory: int, is_top: bool) -> list[str]:
    return sorted(
        name for name in os.listdir(directory) if not (is_top and name == _OF_FILE_SYSTEM)
    )


def walk(top: int) -> Iterator[Node]:
    """Directories before what is in them, names in order; the top itself is left out. A node can be
    opened until the next one is taken. Raises MigrationRefused where another file system begins, or directories are
    nested too deep."""
    yield from _walk(top, "", os.fstat(top).st_dev)


def _walk(directory: int, path: str, device: int) -> Iterator[Node]:
    for name in names_in(directory, not path):
        with pinned(directory, name, f"{path}{name}") as node:
            if node.status.st_dev != device:
                reason = "it is on another file system than the directory above it"
                raise MigrationRefused(
                    path=node.path,
                    reason=reason,
                    advice="Give a directory in which nothing else is mounted.",
                )
            if path.count("/") > _DEEPEST:
                raise MigrationRefused(
                    path=node.path,
                    reason=f"there are more than {_DEEPEST} directories above it",
                    advice="Give a directory whose subdirectories are not nested as deep as that.",
                )
            yield node
            if stat.S_ISDIR(node.kind):
                inner = node.open()
                try:
                    yield from _walk(inner, f"{node.path}/", device)
                finally:
                    os.close(inner)


def state_of(top: int) -> State:
    mark = xxhash.xxh3_128()
    nodes = [node for node in walk(top) if not stat.S_ISSOCK(node.kind)]
    places = tuple(node.path.removesuffix(DATA) for node in nodes if node.name == DATA)
    size = sum(node.status.st_size for node in nodes if stat.S_ISREG(node.kind))
    allocated = sum(node.status.st_blocks * 512 for node in nodes)
    for node in nodes:
        if node.path not in {f"{place}{LOCK}" for place in places}:
            what = (
                _owned(node.status),
                *_told(node.status),
                node.status.st_ino,
                *_times(node.status),
            )
            mark.update(repr((os.fsencode(node.path), what)).encode())
    return State(len(nodes), size, allocated, mark.hexdigest(), places)


def shape_of(top: int) -> dict[str, object]:
    """What a faithful copy has too, by path, for a comparison that names what differs; the top itself is left out."""
    first: dict[tuple[int, int], str] = {}
    found: dict[str, object] = {}
    for node in walk(top):
        if stat.S_ISSOCK(node.kind):
            continue
        same_as = first.setdefault(node.inode, node.path)
        link = node.link_target() if stat.S_ISLNK(node.kind) else ""
        seconds = 0 if stat.S_ISDIR(node.kind) else node.status.st_mtime_ns // 10**9
        found[node.path] = (
            _owned(node.status),
            _told(node.status),
            same_as,
            link,
            seconds,
            node.attributes(),
        )
    for path in [path for path in found if os.path.basename(path) == DATA]:
        found.pop(f"{path.removesuffix(DATA)}{LOCK}", None)
    return found


def checksums(top: int, meter: Meter, from_device: bool = False) -> dict[str, str]:
    """XXH3 of 128 bits of each regular file, by path; a hole counts as the zeros that it reads as. `from_device`: what
    the page cache has is dropped first, where it is on the disk."""
    found: dict[str, str] = {}
    known: dict[tuple[int, int], str] = {}
    for node in walk(top):
        if not stat.S_ISREG(node.kind):
            continue
        if node.inode not in known:
            known[node.inode] = _checksum(node, meter, from_device)
        found[node.path] = known[node.inode]
    for path in [path for path in found if os.path.basename(path) == DATA]:
        found.pop(f"{path.removesuffix(DATA)}{LOCK}", None)
    return found


def _checksum(node: Node, meter: Meter, from_device: bool) -> str:
    digest = xxhash.xxh3_128(node.status.st_size.to_bytes(8, "little"))
    descriptor = node.open()
    try:
        if from_device:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for offset, piece in blocks(descriptor, node.status.st_size):
            meter.add(size=len(piece))
            if piece != _ZEROS[: len(piece)]:
                digest.update(offset.to_bytes(8, "little"))
                digest.update(piece)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def blocks(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """What may be other than zeros, in aligned blocks, each with its offset."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError:  # ENXIO: nothing but a hole follows
            return
        offset = max(offset, start - start % BLOCK)
        while offset < end:
            yield offset, os.pread(descriptor, BLOCK, offset)
            offset += BLOCK


def _owned(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mode, status.st_uid, status.st_gid


def _told(status: os.stat_result) -> tuple[int, ...]:
    return () if stat.S_ISDIR(status.st_mode) else (status.st_size,)


def _times(status: os.stat_result) -> tuple[int, ...]:
    """A directory's change with lock.mdb, too; the names in it count in any case."""
    return () if stat.S_ISDIR(status.st_mode) else (status.st_mtime_ns, status.st_ctime_ns)
