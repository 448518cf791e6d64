"""Finds the processes that use an LMDB environment, a file or a directory.

While an environment is open, liblmdb keeps a shared fcntl lock on the first byte of lock.mdb (mdb.c,
mdb_env_share_locks). F_GETLK asks for a conflicting lock: it names a process that has the environment open, and locks
nothing. But lock.mdb may have been removed or replaced while data.mdb is in use. So if there is no lock, /proc shows
which processes have data.mdb open."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from loader import plain
from loader.errors import LockUnused, NotPermitted, TargetInUse
from loader.storage import held, mounts
from loader.storage.files import owner_name

_log = logging.getLogger(__name__)
DATA, LOCK = "data.mdb", "lock.mdb"
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid


def holder(directory: Path) -> int | None:
    """Returns the ID of a process that has the environment open. Returns 0 if the process is in another PID namespace,
    and None if neither lock.mdb nor /proc shows a process."""
    return _holder(directory)[0]


def _holder(directory: Path) -> tuple[int | None, str | None]:
    """Returns the result of `holder`, and the processes that could not be examined, as in `users_of`."""
    pid = locker(directory)
    if pid is not None:
        return pid, None
    users, unseen = users_of(directory / DATA, directory / LOCK)
    return (users[0].pid if users else None), unseen


def locker(directory: Path, byte: int = 0) -> int | None:
    """Like `holder`, but examines only the lock on lock.mdb. `byte`: 0, or the process ID of a reader, which locks the
    byte at that offset."""
    lock = directory / LOCK
    try:
        with held.opened(directory) as open_dir:
            descriptor = open_dir.open(lock.name)  # read-only is enough for F_GETLK, and works on a read-only mount
    except FileNotFoundError:
        return None
    except PermissionError:
        raise NotPermitted(action="query the locks on", path=lock, owner=owner_name(lock)) from None
    with held.closing_descriptor(descriptor):
        return lock_holder(descriptor, byte)


def lock_holder(descriptor: int, byte: int) -> int | None:
    """Returns the ID of a process that has locked the byte at offset `byte` of an open file. Returns 0 if the process
    is in another PID namespace, and None if there is no lock."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def require_unused(directory: Path) -> None:
    """Raises TargetInUse if a process has the environment open. Warns if some processes could not be examined."""
    pid, unseen = _holder(directory)
    if pid is not None:
        raise TargetInUse(path=directory, process=_description(pid))
    if unseen is not None and (directory / DATA).exists():
        _warn(plain.with_operator_paths(str(directory)), unseen)


def require_lock_used(directory: Path) -> None:
    """Raises LockUnused if a process may write to data.mdb without having the present lock.mdb open: that process would
    ignore reader slots in this lock.mdb."""
    for user in users_of(directory / DATA, directory / LOCK)[0]:
        if user.writes and not user.has_second:
            reason = f"it is open in another process{_description(user.pid)} that does not use its lock.mdb"
            raise LockUnused(path=directory / DATA, reason=reason)


@cache  # logs the warning only once in a run
def _warn(directory: str, unseen: str) -> None:
    _log.warning("%s: no process has its lock.mdb locked, but %s could not be examined", directory, unseen)


def _description(pid: int) -> str:
    if not pid:
        return ", in another container or PID namespace"
    return f" ({command_name(pid) or 'a process'}, process {pid})"


# --- processes that have a file open or mapped, even if the file was renamed -----------------------------------------
#
# A process that maps a file of LMDB keeps a descriptor of the file. The descriptor has the device and inode number that
# stat returns. In /proc/PID/maps the device may be another one (btrfs: the whole file system's; overlayfs: the lower
# layer's). So once a descriptor has identified the file, only the inode number is compared with /proc/PID/maps.

_INITIAL = 0xEFFFFFFC  # inode of the initial PID namespace, PROC_PID_INIT_INO of linux/proc_ns.h
_PROC = "/proc"


class User(Struct, frozen=True):
    """A process that maps a file or may write to it. `has_second`: it has the file `second` of `users_of` open, too."""

    pid: int
    writes: bool
    has_second: bool


def users_of(path: Path, second: Path) -> tuple[list[User], str | None]:
    """Returns the users of `path`, without this process. The second result names processes that could not be examined,
    or is None. A process that reads the file without mapping it (`cp`) is not a user."""
    try:
        file = os.stat(path)
    except FileNotFoundError:
        return [], None
    second_file = os.stat(second) if second.exists() else None
    users: list[User] = []
    unreadable_pids: list[str] = []
    for pid in others():
        try:
            if user := _user(pid, file, second_file):
                users.append(user)
        except PermissionError:
            unreadable_pids.append(pid)
        except OSError:
            continue  # the process has ended
    # Among the processes that could not be examined, only slapd and its tools matter.
    slapds = [pid for pid in unreadable_pids if "slap" in command_name(pid)]
    unseen = None
    if slapds:
        unseen = f"process {', '.join(slapds)} ({command_name(slapds[0])}) of another account"
    elif not os.path.exists(f"{_PROC}/1"):
        unseen = "the processes of other accounts (hidepid)"
    elif os.stat(f"{_PROC}/self/ns/pid").st_ino != _INITIAL:
        unseen = "the processes outside this container"
    return users, unseen


def others() -> Iterator[str]:
    this = str(os.getpid())
    return (name for name in os.listdir(_PROC) if name.isdigit() and name != this)


def _user(pid: str, file: os.stat_result, second: os.stat_result | None) -> User | None:
    """Returns the process if it uses `file`. Raises OSError if the process cannot be examined."""
    names: list[str] = []
    other_device = has_second = False
    for name, status in descriptors(pid):
        if status.st_ino == file.st_ino:
            if status.st_dev == file.st_dev:
                names.append(name)
            else:
                other_device = True
        elif second is not None and os.path.samestat(status, second):
            has_second = True
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    if not names and not (other_device and _maps(pid, file, device)):
        return None
    writes = any(is_open_for_writing(pid, name) for name in names) or not names
    return User(int(pid), writes, has_second) if writes or _maps(pid, file) else None


def descriptors(pid: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yields name and status of each descriptor of a process. Looks them up through one descriptor of /proc/PID/fd,
    because a host may have many processes."""
    with held.closing_descriptor(os.open(f"{_PROC}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd_dir:
        for name in os.listdir(fd_dir):
            try:
                yield name, os.stat(name, dir_fd=fd_dir)
            except OSError:
                continue  # the process has closed it


def _maps(pid: str, status: os.stat_result, device: str = "") -> bool:
    return f"{device} {status.st_ino} ".encode() in Path(f"{_PROC}/{pid}/maps").read_bytes()


def is_open_for_writing(pid: str, descriptor: str) -> bool:
    try:
        text = Path(f"{_PROC}/{pid}/fdinfo/{descriptor}").read_text()
    except OSError:
        return False  # the process has closed it
    flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def command_name(pid: str | int) -> str:
    """Returns the name of a process, or "" if the process has ended."""
    with suppress(OSError):
        return Path(f"{_PROC}/{pid}/comm").read_text().strip()
    return ""


# --- processes that occupy a directory: with an open, mapped or locked file in it, or as their working directory -----
#
# Files are recognized by device and inode, because they have other names in another mount namespace or below another
# root directory (a container).

_DEEPEST = 250  # levels of directories below the top; os.fwalk keeps a descriptor open for each level


class Occupant(Struct, frozen=True):
    """A process that uses a directory. `pid` is 0 if the process is in another PID namespace. `use`: words that follow
    its name in a message. `writes`: it has a file there mapped or open for writing, or an environment open."""

    pid: int
    name: str
    use: str
    writes: bool

    def __str__(self) -> str:
        if not self.pid:
            return f"a process of another PID namespace {self.use}"
        return f"{self.name or 'a process'} (process {self.pid}) {self.use}"


class _Directory(Struct, frozen=True):
    """The files of a directory: all files on `devices` if it is a mount point, otherwise the files `inodes`."""

    top: str
    devices: frozenset[int]
    inodes: frozenset[tuple[int, int]]

    def has(self, device: int, inode: int) -> bool:
        return device in self.devices or (device, inode) in self.inodes

    def has_name(self, name: str) -> bool:
        """Returns whether a file of this name, even a new or deleted one, which `inodes` lacks, is in the directory."""
        return not self.devices and (name == self.top or name.startswith(f"{self.top}/"))


def occupants(top: Path, databases: Sequence[str] = ()) -> list[Occupant]:
    """Returns the other processes that use `top` according to /proc, or that have opened an LMDB environment in one of
    the directories `databases` below `top`. Omits processes that this account may not examine. Root may examine all
    processes of its PID namespace."""
    directory = _directory(top)
    users = (_occupant(pid, directory) for pid in map(int, others()))
    by_pid = {user.pid: user for user in users if user is not None}
    for _, pid, device, inode in locks():  # the kernel's NFS server locks files for clients without opening them
        if directory.has(device, inode) and pid > 0 and pid != os.getpid():
            by_pid.setdefault(pid, Occupant(pid, command_name(pid), "has a file in it locked", False))
    for name in databases:
        try:
            user = locker(top / name)
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the device is dead, so the lock file cannot be read
                raise
            continue
        if user is not None and user not in by_pid:
            by_pid[user] = Occupant(user, command_name(user), f"has the database {top / name} open", True)
    return [by_pid[pid] for pid in sorted(by_pid)]


def _directory(top: Path) -> _Directory:
    mount = mounts.mounted_at(top)
    if mount is None or mount.root != "/":
        inodes = set()
        with held.opened(top) as open_dir:
            inodes.add((open_dir.status.st_dev, open_dir.status.st_ino))
            for path, inner, names, descriptor in os.fwalk(".", dir_fd=open_dir.descriptor):
                for name in (*inner, *names):
                    with suppress(OSError):  # another process has removed it
                        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                        inodes.add((status.st_dev, status.st_ino))
                if path.count("/") >= _DEEPEST:
                    inner.clear()
        return _Directory(os.path.realpath(top), frozenset(), frozenset(inodes))
    major, minor = map(int, mount.device.split(":"))
    devices = {os.makedev(major, minor)}
    with suppress(OSError):  # the device may be dead
        devices.add(os.stat(top).st_dev)  # on btrfs, files have another device number than the mount
    return _Directory(mount.target, frozenset(devices), frozenset())


def _occupant(pid: int, directory: _Directory) -> Occupant | None:
    proc = f"/proc/{pid}"
    try:
        same_mounts = os.path.samestat(os.stat(f"{proc}/ns/mnt"), os.stat("/proc/self/ns/mnt"))
        files = [name for name in os.listdir(f"{proc}/fd") if _is_in(f"{proc}/fd/{name}", directory, same_mounts)]
        writes = any(is_open_for_writing(str(pid), name) for name in files) or _maps_in(proc, directory, same_mounts)
        works = any(_is_in(f"{proc}/{name}", directory, same_mounts) for name in ("cwd", "root", "exe"))
    except OSError:  # the process has ended, or belongs to another account
        return None
    if not (files or writes or works):
        return None
    use = "writes to it" if writes else "has a file in it open" if files else "works in it"
    return Occupant(pid, command_name(pid), use if same_mounts else f"{use}, in another mount namespace", writes)


def _is_in(link: str, directory: _Directory, same_mounts: bool) -> bool:
    with suppress(OSError):  # the process has closed it
        status = os.stat(link)
        return directory.has(status.st_dev, status.st_ino) or (same_mounts and directory.has_name(os.readlink(link)))
    return False


def _maps_in(proc: str, directory: _Directory, same_mounts: bool) -> bool:
    for line in Path(f"{proc}/maps").read_bytes().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6:
            major, _, minor = words[3].partition(b":")
            is_in = directory.has(os.makedev(int(major, 16), int(minor, 16)), int(words[4]))
            if is_in or (same_mounts and directory.has_name(os.fsdecode(words[5]))):
                return True
    return False


def locks() -> Iterator[tuple[str, int, int, int]]:
    """Yields kind (such as FLOCK), process ID (0 or less in other PID namespaces, or of open file descriptions), device
    and inode of each lock of this host (proc_locks(5)). Omits locks that wait, or that have no inode ("<none>")."""
    for line in Path(f"{_PROC}/locks").read_text().splitlines():
        _, kind, _, _, pid, file, *_ = line.split()
        if kind != "->" and not file.startswith("<"):
            major, minor, inode = file.split(":")
            yield kind, int(pid), os.makedev(int(major, 16), int(minor, 16)), int(inode)
