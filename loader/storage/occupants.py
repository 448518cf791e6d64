"""Which processes keep a directory busy: by a file that they have open, mapped or locked there, or because they work in
it.

Files are recognized by device and inode: a process in another mount namespace or another root directory, such as a
container, has the same files under other names.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loader.storage import held, holders, mapped, mounts

_DEEPEST = 250  # levels of directories below the top: os.fwalk keeps a descriptor of each open


@dataclass(frozen=True)
class Occupant:
    """`pid`: 0 if the process is in another PID namespace. `how`: the rest of a sentence about it. `writes`: it has a
    file there open for writing, or mapped, or has the lock of an LMDB environment there."""

    pid: int
    name: str
    how: str
    writes: bool

    def __str__(self) -> str:
        if not self.pid:
            return f"a process of another PID namespace {self.how}"
        return f"{self.name or 'a process'} (process {self.pid}) {self.how}"


@dataclass(frozen=True)
class _Directory:
    """The files of a directory: all of `devices` if a file system is mounted on it, else those of `inodes`."""

    top: str
    devices: frozenset[int]
    inodes: frozenset[tuple[int, int]]

    def has(self, device: int, inode: int) -> bool:
        return device in self.devices or (device, inode) in self.inodes

    def has_name(self, name: str) -> bool:
        """For a file that was deleted or created meanwhile; names of a mounted file system prove nothing more."""
        return not self.devices and (name == self.top or name.startswith(f"{self.top}/"))


def occupants(top: Path, databases: Sequence[str] = ()) -> list[Occupant]:
    """By what /proc reports, this process left out. `databases`: directories of LMDB environments below `top`, whose
    locks are asked for, too. Processes that may not be looked at are missing (root sees all but those of other PID
    namespaces)."""
    directory = _directory(top)
    users = (_occupant(pid, directory) for pid in map(int, mapped.others()))
    found = {one.pid: one for one in users if one is not None}
    for pid in _lockers(
        directory
    ):  # the kernel's NFS server locks files for its clients, and has none open
        found.setdefault(pid, _named(pid, "has a file of it locked", False))
    for name in databases:
        locker = _locker(top / name)
        if locker is not None and locker not in found:
            found[locker] = _named(locker, f"has the database {top / name} open", True)
    return [found[pid] for pid in sorted(found)]


def _named(pid: int, how: str, writes: bool) -> Occupant:
    return Occupant(pid, mapped.command_name(pid), how, writes)


def _directory(top: Path) -> _Directory:
    mount = mounts.mounted_at(top)
    if mount is None or mount.root != "/":
        return _Directory(os.path.realpath(top), frozenset(), frozenset(_inodes(top)))
    major, minor = map(int, mount.device.split(":"))
    devices = {os.makedev(major, minor)}
    with suppress(OSError):  # the device is dead
        devices.add(os.stat(top).st_dev)  # btrfs: the device of its files is not that of the mount
    return _Directory(mount.target, frozenset(devices), frozenset())


def _inodes(top: Path) -> Iterator[tuple[int, int]]:
    with held.opened(top) as place:
        yield place.status.st_dev, place.status.st_ino
        for path, inner, names, descriptor in os.fwalk(".", dir_fd=place.descriptor):
            for name in (*inner, *names):
                with suppress(OSError):  # removed meanwhile
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    yield status.st_dev, status.st_ino
            if path.count("/") >= _DEEPEST:
                inner.clear()


def _occupant(pid: int, directory: _Directory) -> Occupant | None:
    place = f"/proc/{pid}"
    try:
        is_near = os.path.samestat(os.stat(f"{place}/ns/mnt"), os.stat("/proc/self/ns/mnt"))
        opened = [
            name
            for name, status in mapped.descriptors(str(pid))
            if directory.has(status.st_dev, status.st_ino)
            or (is_near and _names(f"{place}/fd/{name}", directory))
        ]
        writes = any(mapped.is_writable(str(pid), name) for name in opened) or _maps(
            place, directory, is_near
        )
        stays = any(
            _is_in(f"{place}/{name}", directory, is_near) for name in ("cwd", "root", "exe")
        )
    except OSError:  # it has ended, or is another account's
        return None
    if not (opened or writes or stays):
        return None
    how = "writes to it" if writes else "has a file of it open" if opened else "works in it"
    return _named(pid, how if is_near else f"{how}, in another mount namespace", writes)


def _is_in(link: str, directory: _Directory, is_near: bool) -> bool:
    with suppress(OSError):
        status = os.stat(link)
        return directory.has(status.st_dev, status.st_ino) or (is_near and _names(link, directory))
    return False


def _names(link: str, directory: _Directory) -> bool:
    with suppress(OSError):
        return directory.has_name(os.readlink(link))
    return False


def _maps(place: str, directory: _Directory, is_near: bool) -> bool:
    for line in Path(f"{place}/maps").read_bytes().splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6:
            continue
        major, _, minor = words[3].partition(b":")
        if directory.has(os.makedev(int(major, 16), int(minor, 16)), int(words[4])):
            return True
        if is_near and directory.has_name(os.fsdecode(words[5])):
            return True
    return False


def _lockers(directory: _Directory) -> Iterator[int]:
    """proc_locks(5) has the format. A lock of an open file description has no process, but then one has it open; one
    that waits has an arrow, and one without an inode "<none>"."""
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "->" or words[5].startswith("<"):
            continue
        major, minor, inode = words[5].split(":")
        device = os.makedev(int(major, 16), int(minor, 16))
        pid = int(words[4])
        if directory.has(device, int(inode)) and pid > 0 and pid != os.getpid():
            yield pid


def _locker(database: Path) -> int | None:
    try:
        return holders.locker(database)
    except OSError as error:
        if error.errno != errno.EIO:  # the device is dead
            raise
        return None
