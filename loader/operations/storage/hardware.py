"""The devices themselves: alignment, scheduler, write cache."""

from __future__ import annotations

from collections.abc import Iterator

from loader import units
from loader.operations.storage import commands
from loader.operations.storage.findings import Finding, Severity, Situation
from loader.storage.devices import Device
from loader.storage.volumes import PhysicalVolume

ALIGNED = 1 << 20  # bytes: where partitioning tools begin since about 2010
_LEAST = 4096


def findings(situation: Situation) -> Iterator[Finding]:
    facts = situation.facts
    physical = {one.name: one for one in facts.volumes.physical}
    found = [
        one
        for device in facts.devices
        for one in (*alignment(device, physical.get(device.path)), *_scheduler(device))
    ]
    yield from found
    if facts.devices and not any(one.rule == "alignment" for one in found):
        yield Finding(Severity.OK, "alignment", facts.devices[0].path, "aligned down to the disks")
    caching = [one.path for one in facts.devices if one.write_cache == "write back" and not one.on]
    if caching:
        yield Finding(
            Severity.OK,
            "write_cache",
            ", ".join(caching),
            "volatile write cache, which every commit makes the device write: barriers are needed",
        )


def alignment(device: Device, physical: PhysicalVolume | None) -> Iterator[Finding]:
    """`physical`: the physical volume that the device is; None if it is none."""
    sector = max(device.physical_sector, _LEAST)
    if device.alignment_offset > 0:
        what = f"its first sector lies {device.alignment_offset} bytes off"
        yield _misaligned(device.path, what, device)
    elif device.kind == "partition" and device.start % sector:
        yield _misaligned(device.path, f"begins at byte {device.start}", device)
    elif physical is not None:
        yield from _extents(device, physical)
    elif device.kind == "partition" and device.start % max(device.min_io, sector):
        what = f"begins at byte {device.start}, within a stripe of {units.size(device.min_io)}"
        yield _misaligned(device.path, what, device)


def _misaligned(path: str, what: str, device: Device) -> Finding:
    disk = device.on[0] if device.on else device.name
    return Finding(
        Severity.WARNING,
        "alignment",
        path,
        f"misaligned: {what}",
        "A page of the database then lies across two sectors or stripes: one read becomes two, and one write becomes "
        "two that each read before they write. Only a new partition mends it, with the data moved.",
        (
            "# once the partition is removed, with all that is on it:",
            f"echo start={ALIGNED >> 20}MiB | sfdisk --append /dev/{disk}",
        ),
        "sfdisk(8)",
    )


def _extents(device: Device, physical: PhysicalVolume) -> Iterator[Finding]:
    first, unit = device.start + physical.start, max(device.min_io, _LEAST)
    (disk,), group = commands.to_add(1), physical.group
    if first % unit:
        yield Finding(
            Severity.WARNING,
            "alignment",
            device.path,
            f"its first extent begins at byte {first} of the disk, within a stripe of {units.size(unit)}",
            "Every stripe of the logical volume then lies across two of the device. It is set when the physical volume "
            "is made, so its extents have to move to another one (pvmove does this while the volume is in use).",
            (
                f"# with another device of {units.size(device.size)} or more, made like this one:",
                f"pvcreate --dataalignment {unit // 1024}k {disk}",
                f"vgextend {group} {disk}",
                f"pvmove {device.path} {disk}",
                f"vgreduce {group} {device.path}",
            ),
            "pvcreate(8), --dataalignment",
        )


def _scheduler(device: Device) -> Iterator[Finding]:
    """Of disks; the other kinds pass requests on, and have none that counts."""
    if device.kind != "disk" or device.scheduler is None:
        return
    better = _better(device)
    if better is None or better not in device.schedulers:
        yield Finding(Severity.OK, "scheduler", device.path, device.scheduler)
        return
    kind = "an NVMe disk" if _is_nvme(device) else "a rotating disk" if device.rotational else "SSD"
    yield Finding(
        Severity.NOTE,
        "scheduler",
        device.path,
        f"scheduler {device.scheduler} on {kind}",
        "NVMe disks order requests themselves; on rotating disks, unordered requests cost seeks; bfq is made for "
        "interactive use and costs processor time.",
        (
            f"echo {better} > /sys/block/{device.name}/queue/scheduler",
            "# until the next boot; a rule of udev(7) sets it for good: "
            f'KERNEL=="{device.name}", ATTR{{queue/scheduler}}="{better}"',
        ),
        "kernel documentation, block/switching-sched",
    )


def _better(device: Device) -> str | None:
    if _is_nvme(device):
        return None if device.scheduler == "none" else "none"
    if device.rotational:
        return "mq-deadline" if device.scheduler == "none" else None
    return "mq-deadline" if device.scheduler == "bfq" else None


def _is_nvme(device: Device) -> bool:
    return device.name.startswith("nvme")
