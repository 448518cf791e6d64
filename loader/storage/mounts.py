"""Reads mounts: the mount that a path is on, its line in /etc/fstab, and mounts in other mount namespaces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from loader.errors import SystemFailed
from loader.storage import held

FSTAB = Path("/etc/fstab")
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(msgspec.Struct, frozen=True):
    """`device`: device number, such as "254:0". `root`: the mounted directory of the file system. `options`: options of
    the mount, then of the file system."""

    device: str
    root: str
    target: str
    kind: str
    source: str
    options: tuple[str, ...]

    @property
    def is_subvolume(self) -> bool:
        return self.root != "/" and f"subvol={self.root}" in self.options


class FstabEntry(msgspec.Struct, frozen=True):
    """`number`: line number, from 1. `rest`: the fifth and sixth field of the line."""

    number: int
    source: str
    target: str
    kind: str
    options: tuple[str, ...]
    rest: str


def mount_of(path: Path) -> Mount:
    """Returns the mount that contains `path`. Looks up its mount ID, because a later mount may hide the mount point."""
    with held.closing_descriptor(os.open(path, os.O_PATH | os.O_CLOEXEC)) as descriptor:
        number = re.search(r"^mnt_id:\s*(\d+)", Path(f"/proc/self/fdinfo/{descriptor}").read_text(), re.MULTILINE)
    mount = _all().get(number[1] if number else "")
    if mount is None:  # for example, if the path goes through /proc/PID/root
        raise SystemFailed(path=path, reason="this path is on a mount of another mount namespace")
    return mount


def on_device(number: str) -> str | None:
    """Returns a mount point of the device, or None if the device is not mounted."""
    return next((mount.target for mount in _all().values() if mount.device == number), None)


def mounted_at(path: Path) -> Mount | None:
    """Returns the topmost mount on `path` itself, or None if `path` is not a mount point."""
    mount = mount_of(path)
    return mount if mount.target == os.path.realpath(path) else None


def device_and_path(path: Path) -> tuple[str, str]:
    """Returns the device of the mount that `path` is on, and the path within the file system."""
    mount = mount_of(path)
    relative = os.path.relpath(os.path.realpath(path), mount.target)
    return mount.device, os.path.normpath(f"{mount.root}/{relative}")


def other_mount_points(path: Path) -> list[str]:
    """Returns other mount points that show `path` or a part of it: the same file system again, or bind mounts."""
    itself = mount_of(path).target, os.path.realpath(path)
    return sorted(target for target in _targets(_all(), device_and_path(path)) if target not in itself)


def in_other_namespaces(shown: tuple[str, str]) -> Iterator[tuple[int, str]]:
    """Yields a process ID and a mount point for each other mount namespace that has mounted `shown` (a device and a
    path on it) or a directory below it."""
    namespaces = {os.stat("/proc/self/ns/mnt").st_ino}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # the process has ended
            number = os.stat(f"/proc/{pid}/ns/mnt").st_ino
            if number not in namespaces:
                targets = _targets(_all(pid), shown)
                namespaces.add(number)
                yield from ((int(pid), target) for target in targets[:1])


def _targets(mounts: dict[str, Mount], shown: tuple[str, str]) -> list[str]:
    device, top = shown
    return [each.target for each in mounts.values() if each.device == device and is_within(each.root, top)]


def is_within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")


def _all(pid: str = "self") -> dict[str, Mount]:
    """Returns the mounts in the mount namespace of a process, by mount ID."""
    return parse(Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape"))


def below(path: Path) -> list[str]:
    """Returns the mount points below `path`."""
    top = os.path.realpath(path)
    return sorted(mount.target for mount in _all().values() if mount.target.startswith(f"{top}/"))


def parse(mountinfo: str) -> dict[str, Mount]:
    """Returns the mounts by mount ID; proc_pid_mountinfo(5) describes the format."""
    mounts = {}
    for line in mountinfo.splitlines():
        words = line.split(" ")
        kind, source, of_super = words[words.index("-", 6) + 1 :][:3]
        options = dict.fromkeys((*words[5].split(","), *of_super.split(",")))
        root, target = _unescape(words[3]), _unescape(words[4])
        mounts[words[0]] = Mount(words[2], root, target, kind, _unescape(source), tuple(options))
    return mounts


def fstab_of(target: str, fstab: Path = FSTAB) -> FstabEntry | None:
    """Returns the last entry for a mount point, since its mount covers the earlier ones. None if there is no entry."""
    try:
        text = fstab.read_text(errors="surrogateescape")
    except OSError:
        return None
    return next((entry for entry in [*entries(text)][::-1] if entry.target == target), None)


def entries(text: str) -> Iterator[FstabEntry]:
    """Yields the entries of a text in the format of fstab(5)."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if len(words) >= 3 and not words[0].startswith("#"):
            source, target = map(_unescape, words[:2])
            options = tuple((words[3] if len(words) > 3 else "defaults").split(","))
            yield FstabEntry(number, source, target.rstrip("/") or "/", words[2], options, " ".join(words[4:6]))


def _unescape(word: str) -> str:
    """Decodes octal escapes, such as those of white space."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), word)
