"""Files made beside their place, made durable, then renamed; owner, mode, space."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from loader import units
from loader.errors import (
    FULL,
    FULL_ERRNOS,
    NoSpace,
    NoSuchPath,
    NotPermitted,
    ReadOnly,
    UsageProblem,
)
from loader.storage import held

PARTIAL = ".partial"
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION, linux/fs.h


@dataclass(frozen=True)
class Owner:
    """Whom a file belongs to, as numbers."""

    uid: int
    gid: int

    @classmethod
    def of(cls, path: Path) -> Owner:
        return cls.told(path.stat())

    @classmethod
    def told(cls, status: os.stat_result) -> Owner:
        return cls(status.st_uid, status.st_gid)

    def give(self, descriptor: int) -> None:
        """Chown; only root can give files away, and only root needs to."""
        if os.geteuid() == 0:
            os.fchown(descriptor, self.uid, self.gid)


def make_durable(path: Path) -> None:
    """fsync a file or directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with held.named(path):
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
    with held.opened(path.parent) as place:
        partial = path.name + PARTIAL
        place.remove(partial)  # one that a kill left behind keeps its own mode
        with held.named(path), os.fdopen(place.create(partial, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        place.take(place.path / partial, path.name)


def creating(path: Path, mode: int = 0o666) -> BinaryIO:
    """An empty file for writing. In a directory of somebody else's it is a new one, whatever stood there."""
    with held.opened(path.absolute().parent) as place:
        if not place.is_foreign:
            return path.open("wb")
        place.remove(path.name)
        return os.fdopen(place.create(path.name, mode), "wb")


def reading(path: Path) -> BinaryIO:
    """A regular file; whatever else stands there is an error at once (`held.reading`)."""
    return os.fdopen(held.reading(path), "rb")


def read(path: Path) -> bytes:
    with reading(path) as file, held.named(path):
        return file.read()


def free_bytes(path: Path) -> int:
    """What the current user may still write on the file system of `path` (or of its nearest existing parent)."""
    status = os.statvfs(existing(path))
    return status.f_bavail * status.f_frsize


def require_space(path: Path, needed: int) -> None:
    """Raise NoSpace unless `needed` bytes fit."""
    free = free_bytes(path)
    if free < needed:
        raise NoSpace(path=path, lack=f"{units.size(needed)} needed, {units.size(free)} free")


def same(one: Path | None, other: Path) -> bool:
    """Do two names lead to one file or directory? Not where one of them leads to nothing that can be reached."""
    try:
        return one is not None and os.path.samefile(one, other)
    except OSError:
        return False


def existing(path: Path) -> Path:
    """`path`, or the nearest parent that is there."""
    while not os.path.exists(
        path
    ):  # no error where a parent may not be entered, unlike Path.exists
        path = path.parent
    return path


def owner_name(path: Path) -> str:
    """Whom `path` (or its nearest existing parent) belongs to; a number where that account has no name on this host."""
    return account_name(existing(path).stat().st_uid)


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def allocated_bytes(path: Path) -> int:
    """Bytes that a (sparse) file really takes."""
    return path.stat().st_blocks * 512


def identity(path: Path) -> list[int]:
    """Tells a file from every other one on its file system, also from a later one that got the same inode number."""
    descriptor = held.reading(path)
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
    if not place.is_dir():
        raise _no_directory(place)
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        raise ReadOnly(path=place)
    if not os.access(place, os.W_OK | os.X_OK):
        raise NotPermitted(action="write in", path=place, owner=owner_name(place))


def _no_directory(path: Path) -> UsageProblem:
    return UsageProblem(reason=f"{path} is a file, where a directory is needed")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoSuchPath(path=error.filename or path) from error
    except OSError as error:
        is_named = error.filename and not isinstance(error.filename, int)  # os.listdir(DESCRIPTOR)
        named = Path(os.fsdecode(error.filename)) if is_named else path
        if error.errno == errno.EROFS:
            raise ReadOnly(path=named) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise NotPermitted(action="use", path=named, owner=owner_name(named)) from error
        if error.errno in FULL_ERRNOS:
            left = units.size(free_bytes(named))
            raise NoSpace(path=named, lack=f"{FULL} ({left} free)") from error
        if error.errno == errno.ENOTDIR and existing(named).is_file():
            raise _no_directory(existing(named)) from error
        error.filename = str(named)
        raise


def remove_tree(path: Path) -> None:
    """Remove a directory of ours, whole; nothing there is fine."""
    with suppress(OSError):
        held.remove_tree(path)
