"""A directory copied with all that is below it: owners, modes, ACLs and other attributes, times, hard links, holes.

No other account can enter the target before `open_up`: its top directory belongs to root, with mode 0700, from before
the first file is made until the copy is verified. So nobody can replace a name in the target, although its directories
get their owners earlier. A closed top directory contains only what an earlier run copied. One that is not closed is
refused (`claim`) or emptied (`empty`), because a process that was in it may still have a directory open.

What was copied completely before a kill is known by its size and time, which a file gets last, and is not copied again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader.errors import MigrationRefused
from loader.progress import Meter
from loader.storage import held, holes, trees
from loader.storage.trees import Node

_CLOSED = 0o700
_BEING_EMPTIED = 0o500  # closed as well, but a copy in it must not be resumed
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
        self._inside(self.source, self.target, "")

    def _inside(self, source: int, target: int, path: str) -> None:
        names = trees.names_in(source, not path)
        for name in set(trees.names_in(target, not path)).difference(names):
            _remove(target, name)
        for name in names:
            with trees.pinned(source, name, f"{path}{name}") as node:
                self._one(node, target)
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
            self._finish(node, target)
        elif stat.S_ISFIFO(node.kind):
            os.mkfifo(node.name, 0o600, dir_fd=target)
            self._finish(node, target)
        else:
            advice = "Remove it, or put it elsewhere."
            raise MigrationRefused(
                path=node.path, reason="a device cannot be copied", advice=advice
            )

    def _finish(self, node: Node, target: int) -> None:
        with trees.pinned(target, node.name, node.path) as made:
            _become(held.through(made.pin), node.status, node.attributes())

    def _directory(self, node: Node, target: int) -> None:
        found = _seen(target, node.name)
        if found is None or not stat.S_ISDIR(found.st_mode):
            _remove(target, node.name)
            os.mkdir(node.name, 0o700, dir_fd=target)
        source = node.open()
        made = os.open(node.name, trees.LIST, dir_fd=target)
        try:
            held.close_to_others(made)  # an earlier run may have given it to its owner
            self._inside(source, made, f"{node.path}/")
            _become(made, os.fstat(source), trees.attributes_of(source))
        finally:
            os.close(source)
            os.close(made)

    def _contents(self, node: Node, target: int) -> None:
        source = node.open()
        try:
            with os.fdopen(os.open(node.name, _NEW, 0o600, dir_fd=target), "wb") as file:
                status = os.fstat(source)
                for offset, piece in trees.blocks(source, status.st_size):
                    file.seek(offset)
                    holes.write(file, piece)
                    self.meter.add(size=len(piece))
                    self.after_block()
                file.flush()
                os.ftruncate(file.fileno(), status.st_size)
                os.fsync(file.fileno())
                _become(file.fileno(), status, trees.attributes_of(source))
                os.fsync(file.fileno())
        finally:
            os.close(source)


def is_closed(target: held.Directory) -> bool:
    """Can no other account enter the directory?"""
    status = target.status
    return status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == _CLOSED


def claim(target: held.Directory) -> None:
    """Close an empty directory to every other account; one that is closed may contain an earlier copy. Raises
    MigrationRefused if an open one is not empty, and leaves it as it was."""
    if is_closed(target):
        return
    before = target.status
    held.close_to_others(target.descriptor, _BEING_EMPTIED)
    left = trees.names_in(target.descriptor, True)
    if left:
        os.fchown(target.descriptor, before.st_uid, before.st_gid)
        os.fchmod(target.descriptor, stat.S_IMODE(before.st_mode))
        raise not_empty(target.name, left)
    os.fchmod(target.descriptor, _CLOSED)


def not_empty(target: Path, names: Sequence[str]) -> MigrationRefused:
    advice = f"If nothing of it is needed: find {target} -mindepth 1 -delete"
    reason = f"the new volume is not empty: {', '.join(names[:5])}"
    return MigrationRefused(path=target, reason=reason, advice=advice)


def empty(target: held.Directory) -> None:
    """Close the directory and remove all that is in it: of a copy that other accounts could enter, a process may have a
    directory open."""
    with held.named(target.name):
        held.close_to_others(target.descriptor, _BEING_EMPTIED)
        for name in trees.names_in(target.descriptor, True):
            _remove(target.descriptor, name)
        os.fsync(target.descriptor)
        os.fchmod(target.descriptor, _CLOSED)


def open_up(source: held.Directory, target: held.Directory) -> None:
    """Give the top directory of a verified copy the owner, mode, attributes and times of the source's."""
    with held.named(target.name):
        attributes = trees.attributes_of(source.descriptor)
        _become(target.descriptor, source.status, attributes)
        os.fsync(target.descriptor)


def copy_tree(
    source: held.Directory, target: held.Directory, meter: Meter, after_block: Callable[[], None]
) -> None:
    """Make the contents of `target` equal to those of `source`, durably; what else an earlier copy left there is
    removed. The target stays closed. `after_block` is called after each block of a file.

    Raises MigrationRefused, OSError.
    """
    claim(target)
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


def _become(file: int | Path, status: os.stat_result, attributes: dict[str, bytes]) -> None:
    """In this order: a change of owner takes set-user-ID bits away, and ACLs change the mode. `file`: a descriptor, or
    the path through an O_PATH descriptor."""
    if os.geteuid() == 0:
        os.chown(file, status.st_uid, status.st_gid)
    if not stat.S_ISLNK(status.st_mode):
        for name in trees.attributes_of(file).keys() - attributes.keys():
            os.removexattr(file, name)
        for name, value in attributes.items():
            os.setxattr(file, name, value)
        os.chmod(file, stat.S_IMODE(status.st_mode))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
