"""Writes files durably, with holes, without a name, or in place of another account's file; checks owner, mode and free
space. Creates temporary directories, and removes those of killed runs, which may contain passwords."""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from loader import child, units
from loader.errors import (
    FULL,
    FULL_ERRNOS,
    ConfigNotEditable,
    DirectoryUnsafe,
    NoSpace,
    NoSuchPath,
    NotPermitted,
    ReadOnly,
    UsageProblem,
)
from loader.storage import held

PARTIAL = ".partial"
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION, linux/fs.h


class Owner(Struct, frozen=True):
    """The owner and group of a file, as numbers."""

    uid: int
    gid: int

    @classmethod
    def of(cls, path: Path) -> Owner:
        return cls.from_status(path.stat())

    @classmethod
    def from_status(cls, status: os.stat_result) -> Owner:
        return cls(status.st_uid, status.st_gid)

    def apply_to(self, descriptor: int) -> None:
        """Gives an open file to this owner if the process runs as root; no other process can or needs to."""
        if os.geteuid() == 0:
            os.fchown(descriptor, self.uid, self.gid)


def make_durable(path: Path) -> None:
    """Syncs a file or directory to disk (fsync)."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    with held.closing_descriptor(os.open(path, flags)) as descriptor, held.named(path):
        os.fsync(descriptor)


def publish(partial: Path, final: Path) -> None:
    """Renames a finished file to its final name, durably: after a power cut either the old or the new file is there."""
    make_durable(partial)
    os.replace(partial, final)
    make_durable(final.parent)


def write_durably(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a small file atomically: after a crash either the old or the new file is there."""
    with held.opened(path.parent) as parent:
        partial = path.name + PARTIAL
        parent.remove(partial)  # a file that a killed run left behind would keep its own mode
        with held.named(path), os.fdopen(parent.create(partial, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        parent.move_in(parent.path / partial, path.name)


def creating(path: Path, mode: int = 0o666) -> BinaryIO:
    """Returns an empty file for writing. In a directory of another account, first removes a file with this name."""
    with held.opened(path.absolute().parent) as parent:
        if not parent.is_foreign:
            return path.open("wb")
        parent.remove(path.name)
        return os.fdopen(parent.create(path.name, mode), "wb")


def reading(path: Path) -> BinaryIO:
    """Opens a regular file for reading; raises FileUnsafe for any other file (`held.reading`)."""
    return os.fdopen(held.reading(path), "rb")


def read(path: Path) -> bytes:
    with reading(path) as file, held.named(path):
        return file.read()


def free_bytes(path: Path) -> int:
    """Returns the bytes that the current user may still write on the file system of `existing(path)`."""
    status = os.statvfs(existing(path))
    return status.f_bavail * status.f_frsize


def require_space(path: Path, needed: int, leftover: Path | None = None) -> int:
    """Returns the free bytes on the file system of `path`, plus those of the file `leftover`, which will be
    overwritten. Raises NoSpace if the sum is less than `needed`."""
    free = free_bytes(path) + (allocated_bytes(leftover) if leftover and leftover.exists() else 0)
    if free < needed:
        raise no_space(path, needed, free)
    return free


def no_space(path: Path, needed: int, free: int) -> NoSpace:
    return NoSpace(path=path, lack=f"{units.size(needed)} needed, {units.size(free)} free")


def same(first: Path | None, second: Path) -> bool:
    """Returns whether two paths lead to the same file or directory; False if one of them cannot be reached."""
    try:
        return first is not None and os.path.samefile(first, second)
    except OSError:
        return False


def existing(path: Path) -> Path:
    """Returns `path`, or its nearest existing parent."""
    while not os.path.exists(path):  # unlike Path.exists, False instead of an error if a parent may not be entered
        path = path.parent
    return path


def owner_name(path: Path) -> str:
    """Returns the name of the owner of `path` or its nearest existing parent; the number if it has no name."""
    return account_name(existing(path).stat().st_uid)


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def allocated_bytes(path: Path) -> int:
    """Returns the bytes that a (sparse) file takes on the disk."""
    return path.stat().st_blocks * 512


def identity(path: Path) -> list[int]:
    """Returns the inode's number and its generation, which differs for a later file with the same inode number."""
    with held.closing_descriptor(held.reading(path)) as descriptor:
        generation = 0
        with suppress(OSError):  # tmpfs and others keep no generation
            generation = int.from_bytes(fcntl.ioctl(descriptor, _GET_GENERATION, bytes(8)), "little")
        return [os.fstat(descriptor).st_ino, generation]


def require_readable(path: Path) -> None:
    with explained(path):
        path.stat()
    if not os.access(path, os.R_OK):
        raise NotPermitted(action="read", path=path, owner=owner_name(path))


def require_writable(directory: Path) -> None:
    """Raises UsageProblem, ReadOnly or NotPermitted if no file can be created in `existing(directory)`."""
    found = existing(directory)
    if not found.is_dir():
        raise _no_directory(found)
    if os.statvfs(found).f_flag & os.ST_RDONLY:
        raise ReadOnly(path=found)
    if not os.access(found, os.W_OK | os.X_OK):
        raise NotPermitted(action="write in", path=found, owner=owner_name(found))


def _no_directory(path: Path) -> UsageProblem:
    return UsageProblem(reason=f"{path} is a file, but must be a directory")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the body's OSErrors about `path` into LoaderErrors. Adds the file name to all other OSErrors."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoSuchPath(path=error.filename or path) from error
    except OSError as error:
        is_named = error.filename and not isinstance(error.filename, int)  # a number after os.listdir(DESCRIPTOR)
        named = Path(os.fsdecode(error.filename)) if is_named else path
        if error.errno == errno.EROFS:
            raise ReadOnly(path=named) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise NotPermitted(action="use", path=named, owner=owner_name(named)) from error
        if error.errno in FULL_ERRNOS:
            free = units.size(free_bytes(named))
            raise NoSpace(path=named, lack=f"{FULL} ({free} free)") from error
        if error.errno == errno.ENOTDIR and existing(named).is_file():
            raise _no_directory(existing(named)) from error
        error.filename = str(named)
        raise


def remove_tree(path: Path) -> None:
    """Removes one of ditseed's own directories with its contents. Ignores errors, such as a missing directory."""
    with suppress(OSError):
        held.remove_tree(path)


def emptied(path: Path) -> Path:
    """Makes `path` a new, private directory, and removes what a killed run left under this name."""
    remove_tree(path)
    path.mkdir(mode=0o700)
    return path


# --- holes -----------------------------------------------------------------------------------------------------------
#
# Leaves holes for blocks of zeros, so that a restored file takes no more space than it must.


BLOCK = 4096
_ZEROS = bytes(BLOCK)


def write(file: BinaryIO, piece: bytes) -> None:
    """Writes at the current position, skipping whole blocks of zeros. Call `finish` after the last piece."""
    if _ZEROS not in piece:
        file.write(piece)
        return
    for start in range(0, len(piece), BLOCK):
        block = piece[start : start + BLOCK]
        if block == _ZEROS:
            file.seek(BLOCK, os.SEEK_CUR)
        else:
            file.write(block)


def finish(file: BinaryIO) -> None:
    """Sets the file's length, because a skipped block at the end has not extended the file."""
    file.flush()
    os.ftruncate(file.fileno(), file.tell())


# --- nameless --------------------------------------------------------------------------------------------------------
#
# Files without a name: removed when they are closed, or when the process ends.


_NO_SUCH_FLAG = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


def nameless(directory: Path) -> int:
    """Returns a nameless file on the file system of `directory`, open for reading and writing, mode 0600.

    If the file system has no O_TMPFILE (OCFS2, NFS), creates a file in a private directory and removes its name at
    once. Raises DirectoryUnsafe, OSError.
    """
    with held.opened(directory) as open_dir:
        try:
            flags = os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC
            return os.open(open_dir.path, flags, mode=0o600)
        except OSError as error:
            if error.errno not in _NO_SUCH_FLAG:
                raise
    with held.scratch(directory, ".ditseed-watch-") as own:
        descriptor = own.create("probe")
        own.remove("probe")
        return descriptor


def fill_randomly(descriptor: int, size: int, piece: int = 1 << 20) -> None:
    """Fills a file with random bytes, which a device cannot compress. Raises OSError."""
    for offset in range(0, size, piece):
        os.pwrite(descriptor, os.urandom(min(piece, size - offset)), offset)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


# --- rewrite ---------------------------------------------------------------------------------------------------------
#
# Rewrites a small file of another account atomically, and keeps its owner and mode.


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Replaces the content `before` by `after`. A symbolic link stays a link; its target changes.

    After a kill, the file has the old or the new content. Raises NotPermitted, NoSpace, FileUnsafe (as root: for a link
    that another account made), and ConfigNotEditable if the content is no longer `before`.
    """
    with explained(path), held.checked_file(path) as pin:
        real = Path(os.readlink(pin))
        with held.opened(real.parent) as parent:
            partial = real.name + PARTIAL
            try:
                parent.remove(partial)
                # Descriptors only: slapd's account may own the directory, and ditseed may run as root.
                with os.fdopen(parent.open(real.name), "rb") as model, os.fdopen(parent.create(partial), "wb") as copy:
                    copy.write(after)
                    copy.flush()
                    status = os.fstat(model.fileno())
                    Owner.from_status(status).apply_to(copy.fileno())
                    os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
                    for label in os.listxattr(model.fileno()):  # ACLs and the SELinux label
                        with suppress(OSError):  # not permitted: the directory's default stays
                            os.setxattr(copy.fileno(), label, os.getxattr(model.fileno(), label))
                    os.fsync(copy.fileno())
                with os.fdopen(parent.open(real.name), "rb") as file:
                    is_unchanged = file.read() == before
                if not is_unchanged:
                    raise ConfigNotEditable(
                        path=path,
                        reason="somebody else changed it meanwhile",
                        advice="Nothing was changed; run the same command again.",
                        lines=(),
                    )
                parent.move_in(parent.path / partial, real.name)
            finally:
                parent.remove(partial)


PREFIX = "ditseed-held-"  # only directories with this prefix are locked
_ALL_MAPPED = ["0", "0", str(2**32 - 1)]  # content of /proc/self/uid_map outside of user namespaces
_UNMAPPED = 65534  # fs.overflowuid


@contextmanager
def temporary_directory(kind: str, parent: str | Path | None = None) -> Iterator[Path]:
    """Creates a private directory in `parent` (default: $TMPDIR or /tmp), and removes it after the body. The caller may
    give the directory to another account. Raises DirectoryUnsafe, OSError."""
    top = require_safe(Path(parent or tempfile.gettempdir()))
    sweep_temporary(top)
    outer: Path | None = None
    try:  # around the creation, too: a signal may arrive as soon as signals are not deferred any more
        with child.deferred():
            new = Path(tempfile.mkdtemp(prefix=".ditseed-", dir=top))
            new.chmod(0o711)
            lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):  # where locking fails, `sweep_temporary` removes nothing
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The directory gets a name that `sweep_temporary` recognizes only once it is locked.
            outer = top / f"{PREFIX}{kind}-{new.name.removeprefix('.ditseed-')}"
            new.rename(outer)
        # `outer` stays ditseed's, so that a later run recognizes it even if `inside` belongs to another account.
        inside = outer / "inside"
        inside.mkdir(mode=0o700)
        yield inside
    finally:
        if outer is not None:
            remove_tree(outer)
            os.close(lock)


def require_safe(directory: Path) -> Path:
    """Returns the real path of a directory. Raises DirectoryUnsafe if another account could rename or replace what
    ditseed creates there; OSError.

    Temporary directories are reached by name, because slapd's tools run as another account and cannot use root's
    descriptors. So for root, no other account may be able to rename a directory on the path either.
    """
    is_root = os.geteuid() == 0
    trusted = {0, os.geteuid()}
    with suppress(OSError):
        if Path("/proc/self/uid_map").read_text().split() != _ALL_MAPPED:
            trusted.add(_UNMAPPED)  # the host's root in a user namespace, as in a rootless container
    # Ordinary users often have a group of their own, which may write to their directories.
    others = stat.S_IWOTH | (stat.S_IWGRP if is_root else 0)
    with held.opened(directory) as opened:
        real = Path(os.readlink(opened.path))
        # Not strict: if a link replaces a directory meanwhile, there are more statuses than directories.
        steps = [*zip((*reversed(real.parents), real), held.statuses_along(real), strict=False)]
        for step, status in steps if is_root else steps[-1:]:
            at = "" if step == real else f"is below {step}, which "
            if status.st_uid not in trusted:
                reason = f"{at}belongs to another account (uid {status.st_uid})"
            elif status.st_mode & others and not status.st_mode & stat.S_ISVTX:
                reason = f"{at}can be written to by others (mode {stat.S_IMODE(status.st_mode):04o})"
            else:
                continue
            raise DirectoryUnsafe(path=opened.name, reason=reason)
    return real


@functools.cache
def sweep_temporary(top: Path | None = None) -> None:
    """Removes what killed runs left in `top` (default: $TMPDIR or /tmp), once in a process."""
    parent = top or Path(os.environ.get("TMPDIR") or "/tmp")  # `gettempdir` would try to write
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError, DirectoryUnsafe), held.private(path, make=False) as abandoned:
            fcntl.flock(abandoned.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
