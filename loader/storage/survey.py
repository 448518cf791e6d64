"""Reads facts about the storage below a path (mount, file system, logical volumes, devices, space), and checks that a
disk is unused. Writes nothing. If a tool (lvs, pvs, tune2fs, ...) is absent or fails, its facts become Unseen."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from loader import child
from loader.errors import DiskInUse, UsageProblem
from loader.storage import files, held, mounts
from loader.storage.mounts import FstabEntry, Mount

SYS = Path("/sys")
_SECTOR = 512  # bytes; sysfs gives sizes and starts in this unit, whatever the sector size of the device
_DM_KINDS = {"LVM": "lvm", "CRYPT": "crypt", "mpath": "multipath"}
# Directories of administrators' programs, which the PATH of an ordinary user or of cron often lacks.
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
Parsed = TypeVar("Parsed")


class Unseen(msgspec.Struct, frozen=True):
    """A fact that could not be read, and the reason."""

    what: str
    why: str


class ToolRunner:
    """Runs tools. `unseen` collects the facts that they did not provide."""

    def __init__(self) -> None:
        self.unseen: list[Unseen] = []

    def output(self, fact: str, tool: str, *arguments: str) -> str | None:
        """Returns the tool's output. If the tool is missing or fails, returns None and adds `fact` to `unseen`."""
        program, why = shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_SBIN}"), f"{tool} is not installed"
        if program is not None:
            result = child.run([program, *arguments])
            if result.status == 0:
                return result.out.decode("utf-8", "replace")
            printed = "; ".join(line.strip() for line in result.stderr_lines[-2:] if line.strip())
            why = f"{tool}: {printed or f'exit status {result.status}'}"
        self.unseen.append(Unseen(fact, why))
        return None

    def rows(
        self, fact: str, parse: Callable[[str], tuple[Parsed, ...]], tool: str, *arguments: str
    ) -> tuple[Parsed, ...]:
        """Returns the parsed output. If the tool or the parser fails, returns () and adds `fact` to `unseen`."""
        text = self.output(fact, tool, *arguments)
        try:
            return () if text is None else parse(text)
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            self.unseen.append(Unseen(fact, f"{tool}: its output cannot be parsed ({type(error).__name__}: {error})"))
            return ()


# --- logical volumes and physical volumes ----------------------------------------------------------------------------

_FORM = ("--reportformat", "json", "--units", "b", "--nosuffix")
_SEGMENTS = (
    "lv_name,vg_name,lv_dm_path,lv_size,segtype,stripes,data_stripes,stripe_size,seg_size_pe,seg_pe_ranges,"
    "vg_extent_size,data_percent,metadata_percent,pool_lv"
)
_PHYSICAL = "pv_name,vg_name,pe_start,pv_pe_count,pv_pe_alloc_count"


class Segment(msgspec.Struct, frozen=True):
    """A segment of a logical volume. `legs`: physical volumes, and the number of extents on each. `stripe_size`: bytes,
    or 0. `data_stripes`: stripes without the copies of raid10 and the parity of raid5; for raid1, copies, as in lvs."""

    kind: str
    stripes: int
    stripe_size: int
    extents: int
    legs: tuple[tuple[str, int], ...]
    data_stripes: int = 1


class Volume(msgspec.Struct, frozen=True):
    """A logical volume. Sizes are in bytes. `pool`: pool of a thin volume. Only a thin pool has percentages."""

    name: str
    group: str
    path: str
    size: int
    extent_size: int
    segments: tuple[Segment, ...]
    pool: str | None
    data_percent: float | None
    metadata_percent: float | None

    @property
    def extents(self) -> int:
        return sum(segment.extents for segment in self.segments)

    @property
    def legs(self) -> dict[str, int]:
        """Maps each physical volume to the number of this volume's extents on it."""
        extents: Counter[str] = Counter()
        for segment in self.segments:
            extents.update(dict(segment.legs))
        return dict(extents)


class PhysicalVolume(msgspec.Struct, frozen=True):
    """`start`: bytes before the first extent. `disks`: paths of the disks below, if the kernel lists them."""

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
    """All logical and physical volumes of this host."""

    logical: tuple[Volume, ...] = ()
    physical: tuple[PhysicalVolume, ...] = ()

    def by_path(self, path: str) -> Volume | None:
        """Returns the logical volume with the device-mapper path `path`, or None."""
        return next((volume for volume in self.logical if volume.path == path), None)

    def named(self, group: str, name: str) -> Volume | None:
        """Returns a logical volume, or None. `name`: without the brackets that lvs prints around hidden volumes."""
        return next((each for each in self.logical if (each.group, each.name.strip("[]")) == (group, name)), None)

    def of_group(self, group: str) -> tuple[PhysicalVolume, ...]:
        return tuple(volume for volume in self.physical if volume.group == group)


def volumes(tools: ToolRunner) -> Volumes:
    """Returns the volumes of this host. Omits those of a tool (lvs, pvs) that fails or prints an unknown format."""
    columns = "-a", *_FORM, "--segments", "-o", _SEGMENTS
    logical = tools.rows("logical volumes", parse_segments, "lvs", *columns)
    return Volumes(logical, tools.rows("physical volumes", parse_physical, "pvs", *_FORM, "-o", _PHYSICAL))


def parse_segments(text: str) -> tuple[Volume, ...]:
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _rows(text, "seg"):
        rows.setdefault((row["vg_name"], row["lv_name"]), []).append(row)
    return tuple(
        Volume(
            name=name,
            group=group,
            path=segments[0]["lv_dm_path"],
            size=_whole(segments[0]["lv_size"]),
            extent_size=_whole(segments[0]["vg_extent_size"]),
            segments=tuple(map(_segment, segments)),
            pool=segments[0]["pool_lv"].strip("[]") or None,
            data_percent=_percent(segments[0]["data_percent"]),
            metadata_percent=_percent(segments[0]["metadata_percent"]),
        )
        for (group, name), segments in rows.items()
    )


def _segment(row: dict[str, str]) -> Segment:
    legs = []
    for words in row["seg_pe_ranges"].split():  # such as "/dev/sda:100-199"
        name, _, span = words.rpartition(":")
        first, _, last = span.partition("-")
        if name.startswith("/"):
            legs.append((name, int(last) - int(first) + 1))
    stripes, size, extents = (_whole(row[name]) for name in ("stripes", "stripe_size", "seg_size_pe"))
    return Segment(row["segtype"], stripes, size, extents, tuple(legs), _whole(row["data_stripes"]))


def parse_physical(text: str) -> tuple[PhysicalVolume, ...]:
    return tuple(
        PhysicalVolume(
            name=row["pv_name"],
            group=row["vg_name"],
            start=_whole(row["pe_start"]),
            extents=_whole(row["pv_pe_count"]),
            used=_whole(row["pv_pe_alloc_count"]),
            disks=tuple(device.path for device in stack(number_of(row["pv_name"])) if not device.on),
        )
        for row in _rows(text, "pv")
    )


def _rows(text: str, name: str) -> list[dict[str, str]]:
    """Returns the rows `name` of the JSON of lvs or pvs, in which numbers are strings. Ignores the log of lvs."""
    report = msgspec.json.decode(text, type=dict[str, list[dict[str, list[dict[str, str]]]]])["report"]
    return [row for part in report for row in part[name]]


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _percent(text: str) -> float | None:
    return float(text.replace(",", ".")) if text else None  # lvs uses the decimal separator of the locale


EXT = ("ext2", "ext3", "ext4")
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS, linux/fs.h
_NO_COW = 0x00800000


class Parameters(msgspec.Struct, frozen=True):
    """Parameters of mkfs. Sizes are in bytes; stripe sizes are 0 without stripes. xfs always has a journal."""

    block: int
    stripe_unit: int = 0
    stripe_width: int = 0
    journal: bool = True


class Space(msgspec.Struct, frozen=True):
    """Space of a file system in bytes. `free`: bytes that the current user may use. `block`: size of a block."""

    size: int
    free: int
    block: int


def parameters(mount: Mount, tools: ToolRunner) -> Parameters | None:
    """Returns None if the file system is neither xfs nor ext, or if the tool fails."""
    fact = f"parameters of the {mount.kind} file system"
    if mount.kind == "xfs":
        return of_xfs(tools.output(fact, "xfs_info", mount.target) or "")
    if mount.kind in EXT:
        return of_ext(tools.output(fact, "tune2fs", "-l", mount.source) or "")
    return None


def of_xfs(text: str) -> Parameters | None:
    """Parses the output of xfs_info(8), which gives the size of stripes in blocks."""
    data = re.search(r"^data .*?bsize=(\d+).*?sunit=(\d+)\s+swidth=(\d+)", text, re.M | re.S)
    if data is None:
        return None
    block, unit, width = map(int, data.groups())
    return Parameters(block, unit * block, width * block)


def of_ext(text: str) -> Parameters | None:
    """Parses the output of tune2fs(8), which counts stripes in blocks, and omits them if there are none."""
    numbers = dict(re.findall(r"^([A-Z][\w ]+):\s+(\d+)$", text, re.MULTILINE))
    if "Block size" not in numbers:
        return None
    block, stride, width = (int(numbers.get(name, 0)) for name in ("Block size", "RAID stride", "RAID stripe width"))
    features = re.search(r"^Filesystem features:.*", text, re.MULTILINE)
    journal = features is None or "has_journal" in features[0].split()
    return Parameters(block, stride * block, width * block, journal)


def is_without_cow(path: Path) -> bool:
    """Returns whether the file or directory has the attribute C of chattr(1)."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    with held.closing_descriptor(os.open(path, flags)) as descriptor, suppress(OSError):
        return bool(int.from_bytes(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)), "little") & _NO_COW)
    return False


class Device(msgspec.Struct, frozen=True):
    """A block device. Sizes are in bytes. `kind`: disk, partition, lvm, crypt, multipath, dm, loop, or md and a level.
    `min_io`, `opt_io`: at most one sector if the device reports none. `scheduler`, `write_cache`: None if it has none.
    `on`: names of the devices directly below. `file`: backing file of a loop device."""

    name: str
    path: str
    kind: str
    size: int
    start: int
    alignment_offset: int
    physical_sector: int
    min_io: int
    opt_io: int
    rotational: bool
    read_ahead: int
    scheduler: str | None
    write_cache: str | None
    on: tuple[str, ...]
    file: str | None = None
    read_only: bool = False


def stack(number: str | None, sys: Path = SYS) -> tuple[Device, ...]:
    """Returns the device `number` ("254:0") and all devices below it, each once, upper devices first."""
    top = sys / "dev/block" / (number or "none")
    directories = [top.resolve()] if top.exists() else []
    devices: dict[str, Device] = {}
    for directory in directories:  # the loop appends the directories of the devices below
        if directory.name not in devices:
            lower = [directory.parent]
            if not (directory / "partition").exists():
                lower = [link.resolve() for link in sorted(directory.glob("slaves/*"))]
            devices[directory.name] = _device(directory, [each.name for each in lower])
            directories += lower
    return tuple(devices.values())


def number_of(source: str) -> str | None:
    """Returns the number of the block device `source`, such as "254:0", or None if it is not a block device."""
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if status.st_rdev else None


def _device(directory: Path, on: list[str]) -> Device:
    """Reads the facts of a block device from its directory in sysfs."""
    dm, is_partition = _text(directory / "dm/name"), (directory / "partition").exists()
    kind = "loop" if (directory / "loop").exists() else "disk"
    if is_partition:
        kind = "partition"
    elif (directory / "dm").exists():
        kind = _DM_KINDS.get(_text(directory / "dm/uuid").partition("-")[0], "dm")
    elif (directory / "md").exists():
        kind = f"md {_text(directory / 'md/level')}"
    queue = (directory.parent if is_partition else directory) / "queue"
    scheduler = re.search(r"\[(.+?)\]", _text(queue / "scheduler"))  # in "none [mq-deadline]", mq-deadline is active
    return Device(
        name=directory.name,
        path=f"/dev/mapper/{dm}" if dm else f"/dev/{directory.name.replace('!', '/')}",
        kind=kind,
        size=_number(directory / "size") * _SECTOR,
        start=_number(directory / "start") * _SECTOR,
        alignment_offset=_number(directory / "alignment_offset"),
        physical_sector=_number(queue / "physical_block_size"),
        min_io=_number(queue / "minimum_io_size"),
        opt_io=_number(queue / "optimal_io_size"),
        rotational=_text(queue / "rotational") == "1",
        read_ahead=_number(queue / "read_ahead_kb") * 1024,
        scheduler=scheduler[1] if scheduler else None,
        write_cache=_text(queue / "write_cache") or None,
        on=tuple(on),
        file=_text(directory / "loop/backing_file") or None,
        read_only=_text(directory / "ro") == "1",
    )


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() else 0


def _text(path: Path) -> str:
    """Returns the text of a file in sysfs. "" if this kernel, or this kind of device, has no such file."""
    with suppress(OSError):
        return path.read_text(errors="surrogateescape").strip()
    return ""


class Facts(msgspec.Struct, frozen=True):
    """The storage below `path`. `devices`: upper devices first. `no_cow`: copy-on-write (btrfs) is off for the path."""

    path: str
    mount: Mount
    fstab: FstabEntry | None
    space: Space
    parameters: Parameters | None
    devices: tuple[Device, ...]
    volumes: Volumes
    no_cow: bool
    unseen: tuple[Unseen, ...]

    @property
    def top(self) -> Device | None:
        """The device that contains the file system, or None if it has no device."""
        return self.devices[0] if self.devices else None

    @property
    def volume(self) -> Volume | None:
        """The uppermost logical volume below the file system, or None."""
        volumes = (self.volumes.by_path(device.path) for device in self.devices if device.kind == "lvm")
        return next(filter(None, volumes), None)


def facts_of(path: Path) -> Facts:
    """Raises NoSuchPath, NotPermitted."""
    tools = ToolRunner()
    with files.explained(path):
        mount = mounts.mount_of(path)
        status = os.statvfs(path)
        no_cow = mount.kind == "btrfs" and is_without_cow(path)
    devices = devices_of(mount)
    return Facts(
        path=str(path),
        mount=mount,
        fstab=mounts.fstab_of(mount.target),
        space=Space(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize, status.f_bsize),
        parameters=parameters(mount, tools),
        devices=devices,
        volumes=volumes(tools) if any(device.kind == "lvm" for device in devices) else Volumes(),
        no_cow=no_cow,
        unseen=tuple(tools.unseen),
    )


def devices_of(mount: Mount) -> tuple[Device, ...]:
    """Returns the devices below a mount, upper devices first. A btrfs mount's number is not that of its device."""
    if not mount.device.startswith("0:"):
        return stack(mount.device)
    devices = stack(number_of(mount.source)) if mount.kind == "btrfs" else ()
    for group in SYS.glob("fs/btrfs/*/devices") if devices else ():
        if (group / devices[0].name).exists():
            for link in sorted(group.iterdir()):
                devices += stack(_text(link / "dev"))
            break
    return tuple({device.name: device for device in devices}.values())


def unused(path: str) -> tuple[Device, ...]:
    """Returns the device `path` and the devices below it. Raises DiskInUse if the device is used or has a signature;
    UsageProblem if `path` is not a block device; NoSuchPath, NotPermitted."""
    is_busy = False
    with files.explained(Path(path)):
        os.stat(path)
        number = number_of(path)
        devices = stack(number)
        if not devices:
            raise UsageProblem(reason=f"{path} is not a block device")
        try:  # O_EXCL fails if the device is mounted, swapped to, or below another device
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            is_busy = True
    tools = ToolRunner()
    signatures = tools.output("signatures", "wipefs", "--noheadings", "--output", "TYPE", path)  # writes nothing
    kinds = dict.fromkeys((signatures or "").split())
    reason = ""
    if target := mounts.on_device(str(number)):
        reason = f"is mounted on {target}"
    elif signatures is None:
        reason = f"cannot be searched for signatures ({'; '.join(unseen.why for unseen in tools.unseen)})"
    elif "LVM2_member" in kinds:
        reason = "is a physical volume of LVM already"
    elif kinds:
        reason = f"holds a signature ({', '.join(kinds)})"
    elif is_busy:
        reason = "is in use: mounted, swap space, or part of another device"
    if reason:
        raise DiskInUse(path=path, reason=reason)
    return devices
