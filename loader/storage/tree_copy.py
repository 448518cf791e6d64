"""A directory copied with all that is below it: owners, modes, ACLs and other attributes, times, hard links, holes.

The target stays closed to every other account until all is there. What was copied completely before a kill is known by
its size and time, which a file gets last, and is not copied again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from loader.errors import MigrationRefused
from loader.progress import Meter
from loader.storage import held, holes, trees
from loader.storage.files import Owner
from loader.storage.trees import Node

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class _Copy:
    source: int
    target: int
    meter: Meter
    after_block: Callable[[], None]

    def __post_init__(self) -> None:
        self.first: dict[tuple[int, int], str] = {}

    def whole(self) -> None:
        os.fchown(self.target, os.geteuid(), os.getegid())
        os.fchmod(self.target, 0o700)
        self._inside(self.source, self.target, "")
        _become(self.target, os.fstat(self.source), trees.attributes_of(self.source))
        os.fsync(self.target)

    def _inside(self, source: int, target: int, path: str) -> None:
        names = trees.names_in(source, not path)
        for name in set(trees.names_in(target, not path)).difference(names):
            _remove(target, name)
        for name in names:
            self._one(Node(f"{path}{name}", source, name, os.lstat(name, dir_fd=source)), target)
        os.fsync(target)

    def _one(self, node: Node, target: int) -> None:
        if stat.S_ISSOCK(node.kind):
            _remove(target, node.name)
        elif stat.S_ISDIR(node.kind):
            self._directory(node, target)
        elif node.status.st_nlink > 1 and node.inode in self.first:
            _remove(target, node.name)
            os.link(
                self.first[node.inode],
                node.name,
                src_dir_fd=self.target,
                dst_dir_fd=target,
                follow_symlinks=False,
            )
        else:
            self.first[node.inode] = node.path
            self._file(node, target)

    def _file(self, node: Node, target: int) -> None:
        if _is_done(node, target):
            self.meter.add(size=node.status.st_size)
            return
        _remove(target, node.name)
        if stat.S_ISREG(node.kind):
            self._contents(node, target)
        elif stat.S_ISLNK(node.kind):
            os.symlink(node.link_target(), node.name, dir_fd=target)
            _become_at(target, node)
        elif stat.S_ISFIFO(node.kind):
            os.mkfifo(node.name, 0o600, dir_fd=target)
            _become_at(target, node)
        else:
            advice = "Remove it, or put it elsewhere."
            raise MigrationRefused(
                path=node.path, reason="a device cannot be copied", advice=advice
            )

    def _directory(self, node: Node, target: int) -> None:
        found = _seen(target, node.name)
        if found is None or not stat.S_ISDIR(found.st_mode):
            _remove(target, node.name)
            os.mkdir(node.name, 0o700, dir_fd=target)
        source = node.open()
        made = os.open(node.name, trees.LIST, dir_fd=target)
        try:
            self._inside(source, made, f"{node.path}/")
            _become(made, os.fstat(source), trees.attributes_of(source))
        finally:
            os.close(source)
            os.close(made)

    def _contents(self, node: Node, target: int) -> None:
        source = node.open()
        try:
            with os.fdopen(os.open(node.name, _NEW, 0o600, dir_fd=target), "wb") as file:
                for offset, piece in trees.blocks(source, node.status.st_size):
                    file.seek(offset)
                    holes.write(file, piece)
                    self.meter.add(size=len(piece))
                    self.after_block()
                file.flush()
                os.ftruncate(file.fileno(), node.status.st_size)
                os.fsync(file.fileno())
                _become(file.fileno(), node.status, trees.attributes_of(source))
                os.fsync(file.fileno())
        finally:
            os.close(source)


def copy_tree(
    source: held.Directory, target: held.Directory, meter: Meter, after_block: Callable[[], None]
) -> None:
    """Make `target` equal to `source`, durably; what else is in it is removed. `after_block` is called after each
    block of a file. Raises MigrationRefused, OSError."""
    with held.named(target.name):
        _Copy(source.descriptor, target.descriptor, meter, after_block).whole()


def _seen(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def _is_done(node: Node, target: int) -> bool:
    found = _seen(target, node.name)
    if found is None or not stat.S_ISREG(node.kind):
        return False
    mine = (
        found.st_mode,
        found.st_uid,
        found.st_gid,
        found.st_size,
        found.st_mtime_ns,
        found.st_nlink,
    )
    status = node.status
    return mine == (
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_size,
        status.st_mtime_ns,
        1,
    )


def _remove(directory: int, name: str) -> None:
    found = _seen(directory, name)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        held.remove_tree(held.through(directory) / name)
    else:
        os.unlink(name, dir_fd=directory)


def _become(descriptor: int, status: os.stat_result, attributes: dict[str, bytes]) -> None:
    """In this order: a change of owner takes set-user-ID bits away, and ACLs change the mode."""
    Owner.told(status).give(descriptor)
    for name, value in attributes.items():
        os.setxattr(descriptor, name, value)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))


def _become_at(directory: int, node: Node) -> None:
    status = node.status
    os.chown(node.name, status.st_uid, status.st_gid, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISLNK(node.kind):
        os.chmod(node.name, stat.S_IMODE(status.st_mode), dir_fd=directory)
    os.utime(
        node.name,
        ns=(status.st_atime_ns, status.st_mtime_ns),
        dir_fd=directory,
        follow_symlinks=False,
    )
