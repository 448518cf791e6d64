"""Files made beside their place, made durable, then renamed; owner, mode, space."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.errors import FULL, NoSpace, NoSuchPath, NotPermitted, ReadOnly

PARTIAL = ".partial"
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION, linux/fs.h


@dataclass(frozen=True)
class Owner:
    """Whom a file belongs to, as numbers."""

    uid: int
    gid: int

    @classmethod
    def of(cls, path: Path) -> Owner:
        status = path.stat()
        return cls(status.st_uid, status.st_gid)

    def give(self, path: Path) -> None:
        """Chown; only root can give files away, and only root needs to."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid)


def make_durable(path: Path) -> None:
    """fsync a file or directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(partial: Path, final: Path) -> None:
    """Put a finished file in its place: after this returns it survives a power cut, before it nothing has changed."""
    make_durable(partial)
    os.replace(partial, final)
    make_durable(final.parent)


def write_durably(path: Path, content: bytes, mode: int = 0o644) -> None:
    """A whole small file, or the old one, never a part."""
    partial = path.with_name(path.name + PARTIAL)
    partial.unlink(missing_ok=True)  # one that a kill left behind keeps its own mode
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    publish(partial, path)


def free_bytes(path: Path) -> int:
    """What the current user may still write on the file system of `path` (or of its nearest existing parent)."""
    status = os.statvfs(existing(path))
    return status.f_bavail * status.f_frsize


def require_space(path: Path, needed: int) -> None:
    """Raise NoSpace unless `needed` bytes fit."""
    free = free_bytes(path)
    if free < needed:
        raise NoSpace(path=path, lack=f"{units.size(needed)} needed, {units.size(free)} free")


def existing(path: Path) -> Path:
    """`path`, or the nearest parent that is there."""
    while not os.path.exists(
        path
    ):  # no error where a parent may not be entered, unlike Path.exists
        path = path.parent
    return path


def owner_name(path: Path) -> str:
    """Whom `path` (or its nearest existing parent) belongs to; a number where that account has no name on this host."""
    uid = existing(path).stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def allocated_bytes(path: Path) -> int:
    """Bytes that a (sparse) file really takes."""
    return path.stat().st_blocks * 512


def identity(path: Path) -> list[int]:
    """Tells a file from every other one on its file system, also from a later one that got the same inode number."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            answer = fcntl.ioctl(descriptor, _GET_GENERATION, bytes(8))
            generation = int.from_bytes(answer, "little")
        except OSError:  # tmpfs and others keep none
            generation = 0
        return [os.fstat(descriptor).st_ino, generation]
    finally:
        os.close(descriptor)


def require_readable(path: Path) -> None:
    with explained(path):
        path.stat()
    if not os.access(path, os.R_OK):
        raise NotPermitted(action="read", path=path, owner=owner_name(path))


def require_writable(directory: Path) -> None:
    """The directory, or the one it would be made in."""
    place = existing(directory)
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        raise ReadOnly(path=place)
    if not os.access(place, os.W_OK | os.X_OK):
        raise NotPermitted(action="write in", path=place, owner=owner_name(place))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoSuchPath(path=error.filename or path) from error
    except OSError as error:
        named = Path(os.fsdecode(error.filename or path))
        if error.errno == errno.EROFS:
            raise ReadOnly(path=named) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise NotPermitted(action="use", path=named, owner=owner_name(named)) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            left = units.size(free_bytes(named))
            raise NoSpace(path=named, lack=f"{FULL} ({left} free)") from error
        raise


def remove_tree(path: Path) -> None:
    """Remove a directory of ours, whole; nothing there is fine."""
    shutil.rmtree(path, ignore_errors=True)
