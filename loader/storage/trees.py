"""Lists, compares and copies directory trees, with owners, modes, ACLs, times, hard links and holes.

Everything is opened through descriptors, one path component at a time, and no symbolic link is followed. lost+found at
the top is omitted, because it belongs to the file system. Sockets are omitted, because their servers create them again.
Comparisons ignore lock.mdb beside a data.mdb, because it changes whenever the database is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

import xxhash
from msgspec import Struct

from loader.errors import MigrationRefused
from loader.progress import Meter
from loader.storage import files, held
from loader.storage.holders import DATA, LOCK

BLOCK = 1 << 20
_ZEROS = bytes(BLOCK)
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_LOST_AND_FOUND = "lost+found"
_DEEPEST = 200  # levels of directories; each level needs up to three descriptors and three Python stack frames
# xfs lists each ACL a second time, under its on-disk name, and sets that attribute itself (fs/xfs/xfs_xattr.c).
_XFS_ACLS = ("trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT")


class Node(Struct, frozen=True, dict=True):
    """A file of any kind. `path` is relative to the top. `pin` is an O_PATH descriptor: owner, mode, attributes and
    contents read through it belong to one inode, even if the name is replaced meanwhile."""

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
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def inode(self) -> tuple[int, int]:
        return self.status.st_dev, self.status.st_ino

    def open(self) -> int:
        """Returns a descriptor for reading a regular file or a directory."""
        with held.named(Path(self.path)):
            if self.is_directory:
                return os.open(".", held.LIST, dir_fd=self.pin)
            return os.open(held.through(self.pin), _FILE)

    def link_target(self) -> str:
        return os.readlink("", dir_fd=self.pin)

    def attributes(self) -> dict[str, bytes]:
        """Returns the extended attributes, including ACLs. For a symbolic link, returns none."""
        with held.named(Path(self.path)):
            return {} if stat.S_ISLNK(self.kind) else attributes_of(held.through(self.pin))


@contextmanager
def pinned(directory: int, name: str, path: str) -> Iterator[Node]:
    with held.closing_descriptor(os.open(name, held.PIN, dir_fd=directory)) as pin:
        yield Node(path, name, pin)


def attributes_of(file: int | Path) -> dict[str, bytes]:
    names = sorted(name for name in os.listxattr(file) if name not in _XFS_ACLS)
    return {name: os.getxattr(file, name) for name in names}


def names_in(directory: int, is_top: bool) -> list[str]:
    return sorted(name for name in os.listdir(directory) if not (is_top and name == _LOST_AND_FOUND))


def walk(top: int) -> Iterator[Node]:
    """Yields the nodes below `top` that a comparison needs: each directory before its contents, in the order of names.
    Requesting the next node closes the present one. Raises MigrationRefused if another file system is mounted below
    `top`, or if directories are nested too deeply."""
    device = os.fstat(top).st_dev

    def below(directory: int, path: str) -> Iterator[Node]:
        names = names_in(directory, not path)
        for name in names:
            with pinned(directory, name, f"{path}{name}") as node:
                reason = advice = ""
                if node.status.st_dev != device:
                    reason = "it is on another file system than the directory above it"
                    advice = "Give a directory in which nothing else is mounted."
                elif path.count("/") > _DEEPEST:
                    reason = f"there are more than {_DEEPEST} directories above it"
                    advice = "Give a directory whose subdirectories are nested less deeply."
                if reason:
                    raise MigrationRefused(path=node.path, reason=reason, advice=advice)
                is_lock = name == LOCK and DATA in names and not node.is_directory
                if not is_lock and not stat.S_ISSOCK(node.kind):
                    yield node
                if node.is_directory:
                    with held.closing_descriptor(node.open()) as inner:
                        yield from below(inner, f"{node.path}/")

    return below(top, "")


class State(Struct, frozen=True):
    """The state of a tree. `size` (as in ls) and `allocated` (as in du) are in bytes. `mark` is a checksum that changes
    with every write to the tree. `databases`: directories with a data.mdb, relative to the top ("": the top)."""

    files: int
    size: int
    allocated: int
    mark: str
    databases: tuple[str, ...]


def state_of(top: int) -> State:
    mark = xxhash.xxh3_128()
    count = size = allocated = 0
    databases = []
    for node in walk(top):
        status = node.status
        # Directories' times are omitted, because creating lock.mdb changes them. `mark` includes the names anyway.
        times = () if node.is_directory else (status.st_mtime_ns, status.st_ctime_ns)
        mark.update(repr((os.fsencode(node.path), (*_owner_and_size(node), status.st_ino, *times))).encode())
        count += 1
        size += status.st_size if stat.S_ISREG(node.kind) else 0
        allocated += status.st_blocks * 512
        if node.name == DATA:
            databases.append(node.path.removesuffix(DATA))
    return State(count, size, allocated, mark.hexdigest(), tuple(databases))


def shape_of(top: int) -> dict[str, object]:
    """Maps each path to owner, mode, size, hard link, link target, time and attributes, for comparison with a copy."""
    first: dict[tuple[int, int], str] = {}
    shape: dict[str, object] = {}
    for node in walk(top):
        same_as = first.setdefault(node.inode, node.path)
        link = node.link_target() if stat.S_ISLNK(node.kind) else ""
        seconds = 0 if node.is_directory else node.status.st_mtime_ns // 10**9
        shape[node.path] = (_owner_and_size(node), same_as, link, seconds, node.attributes())
    return shape


def _owner_and_size(node: Node) -> tuple[object, ...]:
    status = node.status
    owner = status.st_mode, status.st_uid, status.st_gid
    return (owner,) if node.is_directory else (owner, status.st_size)


def checksums(top: int, meter: Meter, from_device: bool = False) -> dict[str, str]:
    """Maps the path of each regular file to its XXH3-128 checksum; holes count as zeros. With `from_device`, first
    drops the clean pages of each file from the page cache, so that the file is read from the disk."""
    by_inode: dict[tuple[int, int], str] = {}
    by_path: dict[str, str] = {}
    for node in walk(top):
        if stat.S_ISREG(node.kind):
            if node.inode not in by_inode:
                digest = xxhash.xxh3_128(node.status.st_size.to_bytes(8, "little"))
                with held.closing_descriptor(node.open()) as descriptor:
                    if from_device:
                        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                    for offset, piece in blocks(descriptor, node.status.st_size):
                        meter.add(size=len(piece))
                        if piece != _ZEROS[: len(piece)]:
                            digest.update(offset.to_bytes(8, "little"))
                            digest.update(piece)
                by_inode[node.inode] = digest.hexdigest()
            by_path[node.path] = by_inode[node.inode]
    return by_path


def blocks(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yields (offset, content) of each aligned block of 1 MiB that is not entirely a hole."""
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


# --- tree copy -------------------------------------------------------------------------------------------------------
#
# No other account can enter the target before `open_up`. Its top directory is private (root's, mode 0700) from before
# the first file is created until the copy is verified. So nobody can replace a name in the target, although its inner
# directories get their owners earlier. A private top directory contains only files that an earlier run copied. Any
# other top directory must be empty (`claim`) or is emptied (`empty`), because a process may have a directory in it
# open. The time of a file is set last: a file with the right size and time was copied completely by an earlier run.


_PRIVATE = 0o700
_BEING_EMPTIED = 0o500  # also private, but marks a directory whose contents must not be resumed
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Copy(Struct):
    """The state of one tree copy. `first` maps the inode of a file with several names to the path of its first copy;
    the other names become hard links to this copy."""

    target: int
    meter: Meter
    after_block: Callable[[], None]
    first: dict[tuple[int, int], str] = {}

    def contents(self, source: int, target: int, path: str) -> None:
        names = names_in(source, not path)
        for name in set(names_in(target, not path)).difference(names):
            _remove(target, name)
        for name in names:
            with pinned(source, name, f"{path}{name}") as node:
                self._node(node, target)
        os.fsync(target)

    def _node(self, node: Node, target: int) -> None:
        if node.is_directory:
            self._directory(node, target)
            return
        first = self.first.setdefault(node.inode, node.path) if node.status.st_nlink > 1 else node.path
        if first == node.path and stat.S_ISREG(node.kind):
            old, fields = _status(target, node.name), ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns")
            is_same = old is not None and all(getattr(old, name) == getattr(node.status, name) for name in fields)
            if old is not None and old.st_nlink == 1 and is_same:  # an earlier run has copied the whole file
                self.meter.add(size=node.status.st_size)
                return
        _remove(target, node.name)
        if stat.S_ISSOCK(node.kind):
            return
        if first != node.path:
            os.link(first, node.name, src_dir_fd=self.target, dst_dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(node.kind):
            self._file(node, target)
        elif stat.S_ISLNK(node.kind) or stat.S_ISFIFO(node.kind):
            if stat.S_ISLNK(node.kind):
                os.symlink(node.link_target(), node.name, dir_fd=target)
            else:
                os.mkfifo(node.name, 0o600, dir_fd=target)
            with pinned(target, node.name, node.path) as copy:
                _become(held.through(copy.pin), node.status, node.attributes())
        else:
            advice = "Remove it, or put it elsewhere."
            raise MigrationRefused(path=node.path, reason="a device cannot be copied", advice=advice)

    def _directory(self, node: Node, target: int) -> None:
        existing = _status(target, node.name)
        if existing is None or not stat.S_ISDIR(existing.st_mode):
            _remove(target, node.name)
            os.mkdir(node.name, 0o700, dir_fd=target)
        copying = held.closing_descriptor(os.open(node.name, held.LIST, dir_fd=target))
        with copying as copy, held.closing_descriptor(node.open()) as source:
            held.make_private(copy)  # an earlier run may have changed the owner already
            self.contents(source, copy, f"{node.path}/")
            _become(copy, os.fstat(source), attributes_of(source))

    def _file(self, node: Node, target: int) -> None:
        with (
            os.fdopen(node.open(), "rb", buffering=0) as source,
            os.fdopen(os.open(node.name, _NEW, 0o600, dir_fd=target), "wb") as file,
        ):
            status = os.fstat(source.fileno())
            for offset, piece in blocks(source.fileno(), status.st_size):
                file.seek(offset)
                files.write(file, piece)
                self.meter.add(size=len(piece))
                self.after_block()
            file.flush()
            os.ftruncate(file.fileno(), status.st_size)
            os.fsync(file.fileno())
            _become(file.fileno(), status, attributes_of(source.fileno()))
            os.fsync(file.fileno())


def is_private(target: held.Directory) -> bool:
    """Returns whether only this process's account (and root) can enter the directory."""
    status = target.status
    return status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == _PRIVATE


def claim(target: held.Directory) -> None:
    """Makes an empty directory private. A private directory may contain an earlier copy. Raises MigrationRefused, and
    leaves the directory as it was, if it is neither private nor empty."""
    if is_private(target):
        return
    old_status = target.status
    held.make_private(target.descriptor, _BEING_EMPTIED)
    names = names_in(target.descriptor, True)
    if names:
        os.fchown(target.descriptor, old_status.st_uid, old_status.st_gid)
        os.fchmod(target.descriptor, stat.S_IMODE(old_status.st_mode))
        raise not_empty(target.name, names)
    os.fchmod(target.descriptor, _PRIVATE)


def not_empty(target: Path, names: Sequence[str]) -> MigrationRefused:
    advice = f"If its contents are not needed: find {target} -mindepth 1 -delete"
    return MigrationRefused(path=target, reason=f"the new volume is not empty: {', '.join(names[:5])}", advice=advice)


def empty(target: held.Directory) -> None:
    """Makes the directory private. Removes its contents, because another process may have opened a directory in it."""
    with held.named(target.name):
        held.make_private(target.descriptor, _BEING_EMPTIED)
        for name in names_in(target.descriptor, True):
            _remove(target.descriptor, name)
        os.fsync(target.descriptor)
        os.fchmod(target.descriptor, _PRIVATE)


def open_up(source: held.Directory, target: held.Directory) -> None:
    """Gives the top directory of a verified copy the owner, mode, attributes and times of the source."""
    with held.named(target.name):
        _become(target.descriptor, source.status, attributes_of(source.descriptor))
        os.fsync(target.descriptor)


def copy_tree(source: held.Directory, target: held.Directory, meter: Meter, after_block: Callable[[], None]) -> None:
    """Copies the contents of `source`, durably. Removes files that only `target` has. `target` stays private. Calls
    `after_block` after each block of a file. Raises MigrationRefused, OSError."""
    claim(target)
    with held.named(target.name):
        _Copy(target.descriptor, meter, after_block).contents(source.descriptor, target.descriptor, "")


def _status(directory: int, name: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.lstat(name, dir_fd=directory)
    return None


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=directory)
        except IsADirectoryError:
            held.remove_tree(held.through(directory) / name)


def _become(file: int | Path, status: os.stat_result, attributes: dict[str, bytes]) -> None:
    """Sets owner, attributes, mode and times, in this order, because a change of owner clears set-user-ID bits, and
    ACLs change the mode. `file`: a descriptor, or the path through an O_PATH descriptor."""
    if os.geteuid() == 0:
        os.chown(file, status.st_uid, status.st_gid)
    if not stat.S_ISLNK(status.st_mode):
        for name in attributes_of(file).keys() - attributes.keys():
            os.removexattr(file, name)
        for name, value in attributes.items():
            os.setxattr(file, name, value)
        os.chmod(file, stat.S_IMODE(status.st_mode))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
