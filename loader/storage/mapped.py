"""Which processes have a file open or mapped, whatever its name is by now: asked of /proc.

A process that maps a file of LMDB keeps a descriptor of it. A look at the descriptor gives the device and inode number
that stat gives; the lines of /proc/PID/maps may have another device (btrfs: that of the whole file system; overlayfs:
that of the layer below), so of a process whose descriptor told the file only the inode number is looked for there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_INITIAL = 0xEFFFFFFC  # inode of the initial PID namespace, PROC_PID_INIT_INO of linux/proc_ns.h
_PROC = "/proc"


@dataclass(frozen=True)
class User:
    """A process that maps a file or may write to it. also: it has the second file open too."""

    pid: int
    writes: bool
    also: bool


@dataclass(frozen=True)
class Users:
    """`unseen`: which processes could not be looked at; None: all that matter were."""

    found: tuple[User, ...]
    unseen: str | None


def users(path: Path, second: Path) -> Users:
    """Of the file `path`, this process left out. Who only reads it without a map (a copy by `cp`) is no user."""
    try:
        file = os.stat(path)
    except FileNotFoundError:
        return Users((), None)
    beside = os.stat(second) if second.exists() else None
    found: list[User] = []
    refused: list[str] = []
    for pid in others():
        try:
            user = _looked_at(pid, file, beside)
        except PermissionError:
            refused.append(pid)
        except OSError:
            continue  # it has ended
        else:
            found += [user] if user else []
    return Users(tuple(found), _unseen(refused))


def others() -> Iterator[str]:
    own = str(os.getpid())
    return (name for name in os.listdir(_PROC) if name.isdigit() and name != own)


def _looked_at(pid: str, file: os.stat_result, second: os.stat_result | None) -> User | None:
    """Raises OSError."""
    same: list[str] = []
    elsewhere = also = False
    for name, there in descriptors(pid):
        if there.st_ino == file.st_ino:
            if there.st_dev == file.st_dev:
                same.append(name)
            else:
                elsewhere = True
        elif second is not None and os.path.samestat(there, second):
            also = True
    if not same and not (elsewhere and _maps(pid, file, _device(file))):
        return None
    writes = any(is_writable(pid, name) for name in same) or not same
    return User(int(pid), writes, also) if writes or _maps(pid, file) else None


def descriptors(pid: str) -> Iterator[tuple[str, os.stat_result]]:
    """Through the directory's own descriptor: a host may have thousands of processes."""
    place = os.open(f"{_PROC}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(place):
            try:
                yield name, os.stat(name, dir_fd=place)
            except OSError:
                continue  # closed meanwhile
    finally:
        os.close(place)


def _device(status: os.stat_result) -> str:
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"


def _maps(pid: str, status: os.stat_result, device: str = "") -> bool:
    with open(f"{_PROC}/{pid}/maps", "rb") as lines:
        text = lines.read()
    return f"{device} {status.st_ino} ".encode() in text


def is_writable(pid: str, name: str) -> bool:
    try:
        text = Path(f"{_PROC}/{pid}/fdinfo/{name}").read_text()
    except OSError:
        return False  # closed meanwhile
    flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _unseen(refused: list[str]) -> str | None:
    """Of the processes that may not be looked at, those of slapd and its tools matter."""
    slapds = [pid for pid in refused if "slap" in command_name(pid)]
    if slapds:
        return f"process {', '.join(slapds)} ({command_name(slapds[0])}) of another account"
    if not os.path.exists(f"{_PROC}/1"):
        return "the processes of other accounts (hidepid)"
    if os.stat(f"{_PROC}/self/ns/pid").st_ino != _INITIAL:
        return "the processes outside this container"
    return None


def command_name(pid: str | int) -> str:
    """Of a process; empty once it has ended."""
    try:
        return Path(f"{_PROC}/{pid}/comm").read_text().strip()
    except OSError:
        return ""
