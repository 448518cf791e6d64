"""Writes files: durably, with holes, without a name, or in place of another account's file. Checks owner, mode and free
space. Creates temporary directories. Removes temporary directories of killed runs, because they may hold passwords."""

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
        """Changes the owner of an open file if the process runs as root; other accounts cannot give files away."""
        if os.geteuid() == 0:
            os.fchown(descriptor, self.uid, self.gid)


def make_durable(path: Path) -> None:
    """Syncs a file or directory to disk (fsync)."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    with held.closing_descriptor(os.open(path, flags)) as descriptor, held.named(path):
        os.fsync(descriptor)


def publish(partial: Path, final: Path) -> None:
    """Renames a finished file to its final name, durably. After a power cut, either the old or the new file exists."""
    make_durable(partial)
    os.replace(partial, final)
    make_durable(final.parent)


def write_durably(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a small file atomically: after a crash, either the old or the new file exists."""
    with held.opened(path.parent) as parent:
        partial = path.name + PARTIAL
        parent.remove(partial)  # a partial file of a killed run would keep its old mode
        with held.named(path), os.fdopen(parent.create(partial, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        parent.move_in(parent.path / partial, path.name)


def creating(path: Path) -> BinaryIO:
    """Returns an empty file for writing. If another account can write to the directory, first removes the file with
    this name, because it may be a link."""
    with held.opened(path.absolute().parent) as parent:
        if not parent.is_foreign:
            return path.open("wb")
        parent.remove(path.name)
        return os.fdopen(parent.create(path.name, 0o666), "wb")


def reading(path: Path) -> BinaryIO:
    """Opens a regular file as `held.reading` does. Raises FileUnsafe, OSError."""
    return os.fdopen(held.reading(path), "rb")


def read(path: Path) -> bytes:
    with reading(path) as file, held.named(path):
        return file.read()


def free_bytes(path: Path) -> int:
    """Returns the free bytes that the current user may use on the file system of `existing(path)`."""
    status = os.statvfs(existing(path))
    return status.f_bavail * status.f_frsize


def require_space(path: Path, needed: int, leftover: Path | None = None) -> int:
    """Returns the free bytes on the file system of `path`, plus the allocated bytes of the file `leftover`, which will
    be overwritten. Raises NoSpace if the sum is less than `needed`."""
    free = free_bytes(path) + (allocated_bytes(leftover) if leftover and leftover.exists() else 0)
    if free < needed:
        raise no_space(path, needed, free)
    return free


def no_space(path: Path, needed: int, free: int) -> NoSpace:
    return NoSpace(path=path, lack=f"{units.size(needed)} needed, {units.size(free)} free")


def same(first: Path | None, second: Path) -> bool:
    """Returns whether two paths lead to the same file or directory. Returns False if one of them cannot be reached."""
    with suppress(OSError):
        return first is not None and os.path.samefile(first, second)
    return False


def existing(path: Path) -> Path:
    """Returns `path`, or its nearest existing parent."""
    while not os.path.exists(path):  # Path.exists would raise an error if a parent may not be entered
        path = path.parent
    return path


def owner_name(path: Path) -> str:
    """Returns the name of the owner of `existing(path)`; if the owner has no name, the number."""
    return account_name(existing(path).stat().st_uid)


def account_name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def allocated_bytes(path: Path) -> int:
    """Returns the bytes that a (sparse) file takes on the disk."""
    return path.stat().st_blocks * 512


def identity(path: Path) -> list[int]:
    """Returns inode number and generation. A later file with the same inode number has another generation."""
    with held.closing_descriptor(held.reading(path)) as descriptor:
        generation = 0
        with suppress(OSError):  # tmpfs and other file systems have no generation
            generation = int.from_bytes(fcntl.ioctl(descriptor, _GET_GENERATION, bytes(8)), "little")
        return [os.fstat(descriptor).st_ino, generation]


def require_readable(path: Path) -> None:
    with explained(path):
        path.stat()
    if not os.access(path, os.R_OK):
        raise NotPermitted(action="read", path=path, owner=owner_name(path))


def require_writable(directory: Path) -> None:
    """Raises UsageProblem, ReadOnly or NotPermitted if no file can be created in `existing(directory)`."""
    parent = existing(directory)
    if not parent.is_dir():
        raise _no_directory(parent)
    if os.statvfs(parent).f_flag & os.ST_RDONLY:
        raise ReadOnly(path=parent)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise NotPermitted(action="write in", path=parent, owner=owner_name(parent))


def _no_directory(path: Path) -> UsageProblem:
    return UsageProblem(reason=f"{path} is a file, but must be a directory")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the body's OSErrors into LoaderErrors. Adds the file name (default: `path`) to those that it re-raises."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoSuchPath(path=error.filename or path) from error
    except OSError as error:
        is_named = error.filename and not isinstance(error.filename, int)  # a number after os.listdir(DESCRIPTOR)
        culprit = Path(os.fsdecode(error.filename)) if is_named else path
        if error.errno == errno.EROFS:
            raise ReadOnly(path=culprit) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise NotPermitted(action="use", path=culprit, owner=owner_name(culprit)) from error
        if error.errno in FULL_ERRNOS:
            raise NoSpace(path=culprit, lack=f"{FULL} ({units.size(free_bytes(culprit))} free)") from error
        if error.errno == errno.ENOTDIR and existing(culprit).is_file():
            raise _no_directory(existing(culprit)) from error
        error.filename = str(culprit)
        raise


def remove_tree(path: Path) -> None:
    """Removes one of ditseed's own directories with its contents. Ignores errors, such as a missing directory."""
    with suppress(OSError):
        held.remove_tree(path)


def emptied(path: Path) -> Path:
    """Creates the private directory `path`, after it has removed any directory that a killed run has left there."""
    remove_tree(path)
    path.mkdir(mode=0o700)
    return path


@contextmanager
def workspace(path: Path) -> Iterator[Path]:
    """Creates a directory as `emptied` does, and removes it after the body."""
    try:
        yield emptied(path)
    finally:
        remove_tree(path)


BLOCK = 4096
_ZEROS = bytes(BLOCK)


def write(file: BinaryIO, piece: bytes) -> None:
    """Writes, but skips whole blocks of zeros. At the end, call `file.truncate()`: a skipped block extends no file."""
    if _ZEROS not in piece:
        file.write(piece)
        return
    for start in range(0, len(piece), BLOCK):
        block = piece[start : start + BLOCK]
        if block == _ZEROS:
            file.seek(BLOCK, os.SEEK_CUR)
        else:
            file.write(block)


_NO_SUCH_FLAG = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


def nameless(directory: Path) -> int:
    """Creates a file without a name (mode 0600) on the file system of `directory`. Returns a descriptor to read and
    write it. The kernel removes the file when it is closed. If the file system has no O_TMPFILE (OCFS2, NFS), creates a
    file in a private directory and removes its name at once. Raises DirectoryUnsafe, OSError."""
    with held.opened(directory) as open_dir:
        try:
            return os.open(open_dir.path, os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC, mode=0o600)
        except OSError as error:
            if error.errno not in _NO_SUCH_FLAG:
                raise
    with held.scratch(directory, ".ditseed-watch-") as scratch:
        descriptor = scratch.create("probe")
        scratch.remove("probe")
        return descriptor


def fill_randomly(descriptor: int, size: int) -> None:
    """Fills a file with random bytes, which a device cannot compress. Raises OSError."""
    for offset in range(0, size, 1 << 20):
        os.pwrite(descriptor, os.urandom(min(1 << 20, size - offset)), offset)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Replaces a small file's content `before` by `after`, atomically. The file keeps its owner, mode, ACLs and label.
    If `path` is a symbolic link, its target changes. Raises ConfigNotEditable if the content is no longer `before`;
    FileUnsafe if root would follow a link that another account made; NotPermitted, NoSpace."""
    with explained(path), held.checked_file(path) as pin:
        real = Path(os.readlink(pin))
        with held.opened(real.parent) as parent:
            partial = real.name + PARTIAL
            try:
                parent.remove(partial)
                # Uses descriptors, because slapd's account may own the directory, and ditseed may run as root.
                with os.fdopen(parent.open(real.name), "rb") as model, os.fdopen(parent.create(partial), "wb") as copy:
                    copy.write(after)
                    copy.flush()
                    status = os.fstat(model.fileno())
                    Owner.from_status(status).apply_to(copy.fileno())
                    os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
                    for label in os.listxattr(model.fileno()):  # ACLs and the SELinux label
                        with suppress(OSError):  # if this is not permitted, the directory's default remains
                            os.setxattr(copy.fileno(), label, os.getxattr(model.fileno(), label))
                    os.fsync(copy.fileno())
                with os.fdopen(parent.open(real.name), "rb") as file:
                    is_unchanged = file.read() == before
                if not is_unchanged:
                    reason = "somebody else changed it meanwhile"
                    advice = "Nothing was changed; run the same command again."
                    raise ConfigNotEditable(path=path, reason=reason, advice=advice, lines=())
                parent.move_in(parent.path / partial, real.name)
            finally:
                parent.remove(partial)


PREFIX = "ditseed-held-"  # of the names of temporary directories, which are locked while in use
_ALL_MAPPED = ["0", "0", str(2**32 - 1)]  # words of /proc/self/uid_map outside of user namespaces
_UNMAPPED = 65534  # fs.overflowuid: the user ID shown for every account that a user namespace does not map


@contextmanager
def temporary_directory(kind: str, parent: str | Path | None = None) -> Iterator[Path]:
    """Creates a private directory in `parent` (default: $TMPDIR or /tmp), and removes it after the body. The body may
    give the directory to another account. Raises DirectoryUnsafe, OSError."""
    top = require_safe(Path(parent or tempfile.gettempdir()))
    sweep_temporary(top)
    outer: Path | None = None
    try:  # includes the creation, because `deferred` raises KeyboardInterrupt at its end after a signal
        with child.deferred():
            directory = Path(tempfile.mkdtemp(prefix=".ditseed-", dir=top))
            directory.chmod(0o711)
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):  # if locking fails, `sweep_temporary` removes nothing
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The directory is locked before it gets a name that `sweep_temporary` recognizes.
            outer = top / f"{PREFIX}{kind}-{directory.name.removeprefix('.ditseed-')}"
            directory.rename(outer)
        # The body may give `inside` to another account. `sweep` removes `outer` only if this account owns it.
        inside = outer / "inside"
        inside.mkdir(mode=0o700)
        yield inside
    finally:
        if outer is not None:
            remove_tree(outer)
            os.close(lock)


def require_safe(directory: Path) -> Path:
    """Returns the real path of a directory. Raises DirectoryUnsafe if another account could replace a file that ditseed
    creates there; OSError. As root, checks all directories on the path, because slapd's tools run as another account
    and reach temporary directories by name, not through root's descriptors."""
    is_root = os.geteuid() == 0
    trusted = {0, os.geteuid()}
    with suppress(OSError):
        if Path("/proc/self/uid_map").read_text().split() != _ALL_MAPPED:
            trusted.add(_UNMAPPED)  # in a user namespace (rootless container) this is the host's root
    # Ordinary users often have a group of their own. This group may write to their directories.
    others_write = stat.S_IWOTH | (stat.S_IWGRP if is_root else 0)
    with held.opened(directory) as open_dir:
        real = Path(os.readlink(open_dir.path))
        # Not strict: if a link has replaced a directory meanwhile, `statuses_along` yields additional statuses.
        steps = [*zip((*reversed(real.parents), real), held.statuses_along(real), strict=False)]
        for step, status in steps if is_root else steps[-1:]:
            at = "" if step == real else f"is below {step}, which "
            if status.st_uid not in trusted:
                reason = f"{at}belongs to another account (uid {status.st_uid})"
            elif status.st_mode & others_write and not status.st_mode & stat.S_ISVTX:
                reason = f"{at}can be written to by others (mode {stat.S_IMODE(status.st_mode):04o})"
            else:
                continue
            raise DirectoryUnsafe(path=open_dir.name, reason=reason)
    return real


@functools.cache
def sweep_temporary(top: Path | None = None) -> None:
    """Removes directories of killed runs in `top` (default: $TMPDIR or /tmp), once per process."""
    sweep(top or Path(os.environ.get("TMPDIR") or "/tmp"), PREFIX)  # not tempfile.gettempdir, which would write a file


def sweep(parent: Path, prefix: str) -> None:
    """Removes the directories in `parent` whose names begin with `prefix`, and that no process has locked."""
    for path in parent.glob(f"{prefix}*"):
        with suppress(OSError, DirectoryUnsafe), held.private(path, make=False) as abandoned:
            fcntl.flock(abandoned.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
