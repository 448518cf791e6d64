"""Opens directories, and creates, opens, moves and removes files in them by descriptor.

ditseed runs as root in directories that the account of slapd owns. That account can put a symbolic link, a hard link or
a FIFO under any name there, and can rename everything, including ditseed's own directories. So:

- A directory is opened once, and from then on used through its descriptor. A library or child process that needs a path
  gets /proc/PID/fd/N. If the name is replaced later, the descriptor still refers to the directory that was checked.
- ditseed creates its files in a private directory: it belongs to the account that runs ditseed, and nobody else can
  write to it. So nobody can plant a file there.
- A finished file is renamed from there to its final name. A rename follows no link.
- A file in a directory of another account is checked through an O_PATH descriptor before it is opened. It must be
  regular. If it is written to, it must have no second hard link. The account could also make a hard link to another
  account's file, so that root reads that file. Root refuses such a link (`_require_no_foreign_link`).
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

from msgspec import Struct

from loader import plain
from loader.errors import DirectoryUnsafe, FileUnsafe, UsageProblem

_THROUGH = re.compile(r"/proc/(?:self|\d+)/fd/\d+(?=/|$)")
PIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SYMBOLIC_LINK = "a symbolic link"  # the `kind` of a FileUnsafe
_MOST_LINKS = 40  # symbolic links in a path that ditseed follows at most; the same limit as the kernel's
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HARD_LINK = "a file with a second name (hard link)"  # the `kind` of a FileUnsafe
_KINDS = {
    stat.S_IFLNK: SYMBOLIC_LINK,
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Adds the file name to the body's OSErrors, because an error of a read, a write or an fsync has none."""
    try:
        yield
    except OSError as error:
        error.filename = plain.with_operator_paths(str(path))
        raise


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Closes a descriptor after the body."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def through(descriptor: int) -> Path:
    """Returns a path to the file of a descriptor. Child processes can use the path, too."""
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


class Directory(Struct, frozen=True):
    """An open directory. `name` is its path as the operator knows it."""

    descriptor: int
    name: Path

    @property
    def path(self) -> Path:
        """A path through the descriptor, for code that takes only paths."""
        return through(self.descriptor)

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self.descriptor)

    @property
    def is_foreign(self) -> bool:
        """Whether an account other than root and this process's can change the directory's contents."""
        return is_foreign(self.status)

    def exists(self, name: str) -> bool:
        """Returns whether the directory contains the name, even as a dangling link."""
        with suppress(FileNotFoundError):
            os.lstat(name, dir_fd=self.descriptor)
            return True
        return False

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Returns a descriptor of a regular file. Raises FileUnsafe if the file is not regular, or if `flags` permit
        writing and the file has a second hard link; OSError."""
        path = self.name / name
        return _open_pinned(*_pin_name(name, self.descriptor, path), flags, path)

    @contextmanager
    def pinned(self, name: str, written: bool = False) -> Iterator[Path]:
        """Yields a path that always leads to the same regular file, through an O_PATH descriptor: closing it releases
        none of the process's fcntl locks on the file."""
        path = self.name / name
        with _checked_pin(*_pin_name(name, self.descriptor, path), path, written) as pin:
            yield pin

    def create(self, name: str, mode: int = 0o600) -> int:
        """Creates a file; returns a descriptor to read and write it. Raises FileExistsError if the name exists, even as
        a link."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with named(self.name / name):
            return os.open(name, flags, mode, dir_fd=self.descriptor)

    def open_or_create(self, name: str, mode: int = 0o600) -> int:
        """Opens, for reading and writing, a regular file with only one hard link. Creates the file if it is missing."""
        while True:
            with suppress(FileNotFoundError):
                return self.open(name, os.O_RDWR)
            with suppress(FileExistsError):  # another process has just created the file, so `open` must check it
                return self.create(name, mode)

    def remove(self, name: str) -> None:
        """Removes a file or symbolic link if it exists."""
        with suppress(FileNotFoundError), named(self.name / name):
            os.unlink(name, dir_fd=self.descriptor)

    def link(self, name: str, other: str) -> None:
        """Creates `other` as a hard link to `name` (not to its target if `name` is a symbolic link), durably. Raises
        FileExistsError."""
        with named(self.name / other):
            directory = self.descriptor
            os.link(name, other, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            os.fsync(directory)

    def move_in(self, source: Path, name: str) -> None:
        """Moves a finished file from a private directory to `name` here, durably. Replaces an existing file."""
        with named(self.name / name):
            os.replace(source, name, dst_dir_fd=self.descriptor)
            os.fsync(self.descriptor)


@contextmanager
def opened(path: Path) -> Iterator[Directory]:
    """Opens a directory. Raises DirectoryUnsafe if root would follow a symbolic link of another account; OSError."""
    with closing_descriptor(_directory(path)) as descriptor, _operator_name(descriptor, path):
        yield Directory(descriptor, Path(plain.with_operator_paths(str(path))))


@contextmanager
def private(path: Path, make: bool = True) -> Iterator[Directory]:
    """Opens a directory that only this account can write to. If it is missing, creates it with mode 0700, or raises
    FileNotFoundError without `make`. Raises DirectoryUnsafe if another account can write to it; OSError."""
    if make:
        make_directories(path, 0o700)
    with opened(path) as directory:
        require_private(directory.status, directory.name)
        yield directory


def make_directories(path: Path, mode: int = 0o777) -> None:
    """Creates a directory and its missing parents. Unlike os.makedirs, follows only such links as `opened` does. Raises
    DirectoryUnsafe, OSError."""
    try:
        with opened(path):
            return
    except FileNotFoundError:
        make_directories(path.parent)
    with opened(path.parent) as parent_dir, suppress(FileExistsError), named(parent_dir.name / path.name):
        os.mkdir(path.name, mode, dir_fd=parent_dir.descriptor)


def statuses_along(path: Path) -> Iterator[os.stat_result]:
    """Yields the status of each existing directory and symbolic link by which a path is reached, from the top. Follows
    a link only when the next status is requested, so not if the caller stops at a link of another account."""
    links = 0
    with closing(_components(path)) as components, suppress(FileNotFoundError, NotADirectoryError):
        for status in components:
            yield status
            links += stat.S_ISLNK(status.st_mode)
            if links > _MOST_LINKS:
                return


@contextmanager
def scratch(parent: Path, prefix: str) -> Iterator[Directory]:
    """Yields a new private directory in `parent`. Removes it with its contents after the body."""
    with opened(parent) as parent_dir:
        name = parent_dir.path / f"{prefix}{os.urandom(8).hex()}"
        try:
            with private(name) as directory:
                yield directory
        finally:
            with suppress(OSError):
                remove_tree(name)


def remove_tree(path: Path) -> None:
    """Removes a directory with its contents, without following links or opening FIFOs. (`shutil.rmtree` waits for a
    FIFO that has just replaced a directory.) As root, first becomes the owner of each directory, so that the former
    owner can add no files meanwhile. Raises OSError."""
    with opened(path.parent) as parent_dir:
        _remove_tree(parent_dir.descriptor, path.name)


def _remove_tree(parent_dir: int, name: str) -> None:
    with closing_descriptor(os.open(name, LIST, dir_fd=parent_dir)) as directory:
        if os.geteuid() == 0:
            with suppress(OSError):  # over NFS, root may be allowed to remove but not to chown
                make_private(directory)
        for inner in os.listdir(directory):
            with suppress(FileNotFoundError):  # another process has removed it
                try:
                    os.unlink(inner, dir_fd=directory)
                except (IsADirectoryError, PermissionError):
                    try:
                        _remove_tree(directory, inner)
                    except NotADirectoryError:  # a file has replaced the directory
                        os.unlink(inner, dir_fd=directory)
    os.rmdir(name, dir_fd=parent_dir)


def make_private(directory: int, mode: int = 0o700) -> None:
    """Gives the open directory to this process's account, with `mode`. This keeps out even processes that have the
    directory open, because the kernel checks the permissions whenever a name is looked up or created."""
    os.fchown(directory, os.geteuid(), os.getegid())
    os.fchmod(directory, mode)


def remove_empty(path: Path) -> None:
    """Removes an empty directory. Unlike os.rmdir, follows only such links as `opened` does. Raises DirectoryUnsafe,
    OSError."""
    with opened(path.parent) as parent_dir:
        os.rmdir(path.name, dir_fd=parent_dir.descriptor)


def require_private(status: os.stat_result, name: Path) -> None:
    """Raises DirectoryUnsafe if another account could put files into the directory."""
    if status.st_uid != os.geteuid():
        raise DirectoryUnsafe(path=name, reason=f"belongs to another account (uid {status.st_uid})")
    if status.st_mode & _OTHERS_WRITE:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise DirectoryUnsafe(path=name, reason=f"can be written to by others (mode {mode})")


@contextmanager
def checked_file(path: Path) -> Iterator[Path]:
    """Yields a path that always leads to the same regular file. Follows links, and raises errors, like `reading`."""
    with _checked_pin(*_pin_path(path), Path(plain.with_operator_paths(str(path)))) as pin:
        yield pin


def reading(path: Path, links: bool = True) -> int:
    """Returns a descriptor for reading a regular file; never waits for a FIFO. With `links`, follows symbolic links; as
    root, only those that root owns. Raises FileUnsafe, OSError."""
    return _open_pinned(*_pin_path(path, links), os.O_RDONLY, Path(plain.with_operator_paths(str(path))))


def secret(path: Path, others_may_read: bool) -> tuple[int, os.stat_result]:
    """Returns a descriptor for reading a file of passwords or keys, or a pipe of the shell (-y <(command)), and its
    status. Follows links like `reading`. Raises UsageProblem if another account owns the file, may write to it, or may
    read it (unless `others_may_read`); FileUnsafe, OSError."""
    descriptor, status = _pin_path(path)
    with closing_descriptor(descriptor):
        name = plain.with_operator_paths(str(path))
        if not stat.S_ISFIFO(status.st_mode):
            require_regular(status, Path(name))
        # After `sudo ditseed -y FILE`, the file may belong to the operator, who can act as root anyway.
        if not _is_trusted(status) and str(status.st_uid) != os.environ.get("SUDO_UID"):
            advice = "put it into a file that belongs to the account that runs ditseed"
            raise UsageProblem(reason=f"{name} belongs to uid {status.st_uid}: {advice}")
        if status.st_mode & (_OTHERS_WRITE if others_may_read else stat.S_IRWXG | stat.S_IRWXO):
            can = "write to it" if others_may_read else "read or write it"
            advice = f"chmod {'go-w' if others_may_read else '600'} {shlex.quote(name)}"
            raise UsageProblem(reason=f"{name}: others can {can}: {advice}")
        with named(path):
            return os.open(through(descriptor), os.O_RDONLY | os.O_CLOEXEC), status


def device(path: Path, flags: int) -> int | None:
    """Returns a descriptor of a block device, or None for any other file. Follows links like `reading`."""
    descriptor, status = _pin_path(path)
    with closing_descriptor(descriptor):
        return os.open(through(descriptor), flags | os.O_CLOEXEC) if stat.S_ISBLK(status.st_mode) else None


def _pin_path(path: Path, links: bool = True) -> tuple[int, os.stat_result]:
    """Returns an O_PATH descriptor of the file, and its status. Raises FileUnsafe, OSError."""
    if _THROUGH.fullmatch(str(path)):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        return descriptor, os.fstat(descriptor)
    with named(path), closing_descriptor(os.open(path.parent, os.O_PATH | os.O_CLOEXEC)) as parent_dir:
        descriptor, status = _pin_name(path.name or ".", parent_dir, path)
        if stat.S_ISLNK(status.st_mode) and links and (os.geteuid() != 0 or _is_trusted(status)):
            os.close(descriptor)
            descriptor = os.open(path.name, os.O_PATH | os.O_CLOEXEC, dir_fd=parent_dir)
            status = os.fstat(descriptor)
        return descriptor, status


def _require_no_foreign_link(status: os.stat_result, above: os.stat_result, name: Path) -> None:
    """Raises FileUnsafe if an account that can write to the directory `above` may have created the file as a hard link
    to another account's file, so that root reads it. The kernel forbids such links only with fs.protected_hardlinks."""
    if os.geteuid() != 0 or status.st_nlink < 2 or not stat.S_ISREG(status.st_mode) or not is_foreign(above):
        return
    if status.st_uid != above.st_uid or (_is_trusted(status) and above.st_mode & _OTHERS_WRITE):
        raise FileUnsafe(path=plain.with_operator_paths(str(name)), kind=_HARD_LINK)


def require_regular(status: os.stat_result, name: Path, written: bool = False) -> None:
    """Raises FileUnsafe if the file is not regular, or if it has a second hard link and `written` is set."""
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        raise FileUnsafe(path=name, kind=kind)
    if written and status.st_nlink > 1:
        raise FileUnsafe(path=name, kind=_HARD_LINK)


def _open_pinned(descriptor: int, status: os.stat_result, flags: int, name: Path) -> int:
    """Opens the file of an O_PATH descriptor with `flags`. Closes `descriptor`."""
    with closing_descriptor(descriptor):
        require_regular(status, name, written=bool(flags & (os.O_WRONLY | os.O_RDWR)))
        with named(name):
            return os.open(through(descriptor), flags | os.O_CLOEXEC)


@contextmanager
def _checked_pin(descriptor: int, status: os.stat_result, name: Path, written: bool = False) -> Iterator[Path]:
    """Yields a path to the file of an O_PATH descriptor, and closes it. Raises FileUnsafe as `require_regular` does."""
    with closing_descriptor(descriptor):
        require_regular(status, name, written)
        with _operator_name(descriptor, name) as path:
            yield path


@contextmanager
def _operator_name(descriptor: int, name: Path) -> Iterator[Path]:
    path = through(descriptor)
    plain.register(path, name)
    try:
        yield path
    finally:
        plain.forget(path)


def is_foreign(status: os.stat_result) -> bool:
    """Returns whether another account owns a file or directory, or may write to it."""
    return not _is_trusted(status) or bool(status.st_mode & _OTHERS_WRITE)


def _is_trusted(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _directory(path: Path) -> int:
    """Returns a descriptor for listing and syncing, or only for opening files if this account may not list the
    directory. Raises DirectoryUnsafe if root would follow a link of another account, or after _MOST_LINKS links."""
    links = 0
    try:
        with named(path), closing(_components(path)) as components:
            while True:
                status = next(components)
                is_link = stat.S_ISLNK(status.st_mode)
                links += is_link
                if is_link and (links > _MOST_LINKS or (os.geteuid() == 0 and not _is_trusted(status))):
                    reason = f"is reached by a symbolic link of another account (uid {status.st_uid})"
                    raise DirectoryUnsafe(path=path, reason=reason)
    except StopIteration as end:
        with closing_descriptor(end.value) as directory, named(path):
            try:
                return os.open(".", LIST, dir_fd=directory)
            except PermissionError:
                return os.dup(directory)


def _components(path: Path) -> Generator[os.stat_result, None, int]:
    """Yields the status of each directory and symbolic link by which a path is reached, from the top. Follows a link
    only when the next status is requested. Returns an O_PATH descriptor of the last component."""
    start = _THROUGH.match(str(path))
    top = start.group() if start else "/"
    rest = str(path)[len(top) :] if start else str(path.absolute())
    directory = os.open(top, os.O_PATH | os.O_CLOEXEC)
    try:
        yield os.fstat(directory)
        parts = rest.split("/")[::-1]
        while parts:
            part = parts.pop()
            if not part:
                continue
            component, status = _pin_name(part, directory)
            with closing_descriptor(component):
                yield status
                if stat.S_ISLNK(status.st_mode):
                    target = os.readlink("", dir_fd=component)
                    parts += target.split("/")[::-1]
                    following = os.open("/" if target.startswith("/") else ".", PIN, dir_fd=directory)
                else:
                    following = os.dup(component)
            os.close(directory)
            directory = following
        return directory
    except BaseException:
        os.close(directory)
        raise


def _pin_name(name: str, directory: int, path: Path | None = None) -> tuple[int, os.stat_result]:
    """Returns an O_PATH descriptor of `name`, and its status. If `path` (the path of a file) is given, checks it with
    `_require_no_foreign_link`, and adds it to errors. Raises FileUnsafe, OSError (on a dead disk, even from fstat)."""
    with nullcontext() if path is None else named(path):
        descriptor = os.open(name, PIN, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            if path is not None:
                _require_no_foreign_link(status, os.fstat(directory), path)
            return descriptor, status
        except BaseException:
            os.close(descriptor)
            raise
