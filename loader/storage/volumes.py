"""Logical volumes and file systems, as tools of the system report them (lvs, pvs, tune2fs, ...). A tool that is absent
or refuses is noted, and its fact is missing."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from loader import child
from loader.storage.mounts import Mount

# Administrators' programs; the path of an ordinary user or of cron often lacks sbin.
_ALSO = "/usr/local/sbin:/usr/sbin:/sbin"
Told = TypeVar("Told")


class Unseen(msgspec.Struct, frozen=True):
    """What could not be looked at, and why."""

    what: str
    why: str


class Asker:
    """Runs tools, and keeps a list of those that gave no answer."""

    def __init__(self) -> None:
        self._unseen: list[Unseen] = []

    @property
    def unseen(self) -> tuple[Unseen, ...]:
        return tuple(self._unseen)

    def missed(self, what: str, why: str) -> None:
        self._unseen.append(Unseen(what, why))

    def output(self, what: str, tool: str, *arguments: str) -> str | None:
        """What the tool prints; None, and `what` is noted as not looked at, when it gives no answer."""
        place = shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_ALSO}")
        if place is None:
            self.missed(what, f"{tool} is not installed")
            return None
        answer = child.ask([place, *arguments])
        if answer.status != 0:
            said = "; ".join(word.strip() for word in answer.words[-2:] if word.strip())
            self.missed(what, f"{tool}: {said or f'exit status {answer.status}'}")
            return None
        return answer.out.decode("utf-8", "replace")

    def parsed(self, what: str, tool: str, text: str | None, parse: Callable[[str], Told]) -> Told | None:
        """What the tool's answer means; None, and `what` is noted, when it is not in its documented form."""
        if text is None:
            return None
        try:
            return parse(text)
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            self.missed(what, f"{tool}: its answer cannot be read ({type(error).__name__}: {error})")
            return None


# --- volumes ---------------------------------------------------------------------------------------------------------
#
# Logical volumes and the physical volumes that their extents are on, as lvs(8) and pvs(8) print them.


_FORM = ("--reportformat", "json", "--units", "b", "--nosuffix")
_SEGMENTS = (
    "lv_name,vg_name,lv_dm_path,lv_size,segtype,stripes,data_stripes,stripe_size,seg_size_pe,seg_pe_ranges,"
    "lv_read_ahead,vg_extent_size,data_percent,metadata_percent,pool_lv"
)
_PHYSICAL = "pv_name,vg_name,pe_start,pv_pe_count,pv_pe_alloc_count"


class _Answer(msgspec.Struct):
    """Numbers are strings; lvs adds what it logged."""

    report: list[dict[str, list[dict[str, str]]]]


class Segment(msgspec.Struct, frozen=True):
    """`extents`: how many of the volume. `legs`: (physical volume, extents on it); `stripe_size` in bytes, 0: none.

    `data_stripes`: those without the copies of raid10 and the parity of raid5; for raid1 lvs counts the copies.
    """

    kind: str
    stripes: int
    stripe_size: int
    extents: int
    legs: tuple[tuple[str, int], ...]
    data_stripes: int = 1


class Volume(msgspec.Struct, frozen=True):
    """`pool`: of a thin volume, the name of its pool. Percentages: of a pool; None elsewhere. Sizes in bytes."""

    name: str
    group: str
    path: str
    size: int
    extent_size: int
    read_ahead: str
    segments: tuple[Segment, ...]
    pool: str | None
    data_percent: float | None
    metadata_percent: float | None

    @property
    def extents(self) -> int:
        return sum(segment.extents for segment in self.segments)

    @property
    def legs(self) -> dict[str, int]:
        """Physical volume -> extents of this volume on it."""
        found: Counter[str] = Counter()
        for segment in self.segments:
            found.update(dict(segment.legs))
        return dict(found)


class PhysicalVolume(msgspec.Struct, frozen=True):
    """`start`: bytes before its first extent. `disks`: that it is on; empty where the kernel does not tell."""

    name: str
    group: str
    start: int
    extents: int
    used: int
    disks: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        return self.extents - self.used


class Volumes(msgspec.Struct, frozen=True):
    """All of this host."""

    logical: tuple[Volume, ...] = ()
    physical: tuple[PhysicalVolume, ...] = ()

    def at(self, path: str) -> Volume | None:
        """The volume of a device-mapper path."""
        return next((one for one in self.logical if one.path == path), None)

    def named(self, group: str, name: str) -> Volume | None:
        """One of a group; lvs writes the names of hidden ones in brackets."""
        fits = (one for one in self.logical if one.group == group and one.name.strip("[]") == name)
        return next(fits, None)

    def of_group(self, group: str) -> tuple[PhysicalVolume, ...]:
        return tuple(one for one in self.physical if one.group == group)


def read(asker: Asker) -> Volumes:
    """None of either where the tools give no answer, or one that is not theirs."""
    segments = asker.output("logical volumes", "lvs", "-a", *_FORM, "--segments", "-o", _SEGMENTS)
    physical = asker.output("physical volumes", "pvs", *_FORM, "-o", _PHYSICAL)
    return Volumes(
        asker.parsed("logical volumes", "lvs", segments, parse_segments) or (),
        asker.parsed("physical volumes", "pvs", physical, parse_physical) or (),
    )


def parse_segments(text: str) -> tuple[Volume, ...]:
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _rows(text, "seg"):
        rows.setdefault((row["vg_name"], row["lv_name"]), []).append(row)
    return tuple(map(_volume, rows.values()))


def parse_physical(text: str) -> tuple[PhysicalVolume, ...]:
    return tuple(
        PhysicalVolume(
            row["pv_name"],
            row["vg_name"],
            _whole(row["pe_start"]),
            _whole(row["pv_pe_count"]),
            _whole(row["pv_pe_alloc_count"]),
        )
        for row in _rows(text, "pv")
    )


def _rows(text: str, name: str) -> list[dict[str, str]]:
    return [row for one in msgspec.json.decode(text, type=_Answer).report for row in one[name]]


def _volume(rows: list[dict[str, str]]) -> Volume:
    first = rows[0]
    return Volume(
        name=first["lv_name"],
        group=first["vg_name"],
        path=first["lv_dm_path"],
        size=_whole(first["lv_size"]),
        extent_size=_whole(first["vg_extent_size"]),
        read_ahead=first["lv_read_ahead"],
        segments=tuple(map(_segment, rows)),
        pool=first["pool_lv"].strip("[]") or None,
        data_percent=_percent(first["data_percent"]),
        metadata_percent=_percent(first["metadata_percent"]),
    )


def _segment(row: dict[str, str]) -> Segment:
    return Segment(
        row["segtype"],
        _whole(row["stripes"]),
        _whole(row["stripe_size"]),
        _whole(row["seg_size_pe"]),
        tuple(_leg(words) for words in row["seg_pe_ranges"].split() if words.startswith("/")),
        _whole(row["data_stripes"]),
    )


def _leg(words: str) -> tuple[str, int]:
    """Of "/dev/sda:100-199"."""
    name, _, extents = words.rpartition(":")
    first, _, last = extents.partition("-")
    return name, int(last) - int(first) + 1


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _percent(text: str) -> float | None:
    """lvs writes them as the locale does."""
    return float(text.replace(",", ".")) if text else None


# --- filesystems -----------------------------------------------------------------------------------------------------
#
# What a file system was made with, and the space on it.


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
