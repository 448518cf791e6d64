"""What a file system was made with, and the space on it."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import msgspec

from loader.storage.asking import Asker
from loader.storage.mounts import Mount

EXT = ("ext2", "ext3", "ext4")
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS, linux/fs.h
_NO_COW = 0x00800000


class Parameters(msgspec.Struct, frozen=True):
    """In bytes; stripe unit and width are 0 where it was made for none. `groups`: of allocation; 0 for ext.

    `journal`: does it have one; xfs always does.
    """

    block: int
    stripe_unit: int = 0
    stripe_width: int = 0
    groups: int = 0
    journal: bool = True


class Space(msgspec.Struct, frozen=True):
    """Bytes. `free`: what the current user may still write."""

    size: int
    free: int
    block: int


def space(path: Path) -> Space:
    told = os.statvfs(path)
    return Space(told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize, told.f_bsize)


def parameters(mount: Mount, asker: Asker) -> Parameters | None:
    """None where it is of another kind, or nobody tells."""
    what = f"parameters of the {mount.kind} file system"
    if mount.kind == "xfs":
        told = asker.output(what, "xfs_info", mount.target)
        return of_xfs(told) if told else None
    if mount.kind in EXT:
        told = asker.output(what, "tune2fs", "-l", mount.source)
        return of_ext(told) if told else None
    return None


def of_xfs(text: str) -> Parameters | None:
    """From xfs_info(8), which counts stripes in blocks."""
    data = re.search(r"^data .*?bsize=(\d+).*?sunit=(\d+)\s+swidth=(\d+)", text, re.M | re.S)
    groups = re.search(r"agcount=(\d+)", text)
    if not data or not groups:
        return None
    block = int(data[1])
    return Parameters(block, int(data[2]) * block, int(data[3]) * block, int(groups[1]))


def of_ext(text: str) -> Parameters | None:
    """From tune2fs(8), which counts stripes in blocks, and leaves them out where there are none."""
    found = dict(re.findall(r"^([A-Z][\w ]+):\s+(\d+)$", text, re.MULTILINE))
    if "Block size" not in found:
        return None
    block = int(found["Block size"])
    stride, width = (int(found.get(f"RAID {name}", 0)) for name in ("stride", "stripe width"))
    features = re.search(r"^Filesystem features:.*", text, re.MULTILINE)
    journal = features is None or "has_journal" in features[0].split()
    return Parameters(block, stride * block, width * block, journal=journal)


def is_without_cow(path: Path) -> bool:
    """Does the file or directory have the attribute C of chattr(1)?"""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        answer = fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8))
        return bool(int.from_bytes(answer, "little") & _NO_COW)
    except OSError:
        return False
    finally:
        os.close(descriptor)
