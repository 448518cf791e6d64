"""Commands that `storage check` prints to fix a finding, and `storage plan` to create a volume."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from loader import units
from loader.operations.options import STRIPE
from loader.storage.survey import Device, PhysicalVolume, Volume, Volumes

PAGE = 4096  # bytes; LMDB 0.9 uses the page size of the processor
FEW_SECTORS = 32  # sectors of 512 bytes; readahead for a database that does not fit into memory
XFS_MINIMUM = 300 << 20  # bytes; mkfs.xfs refuses a smaller device


def lvcreate(group: str, name: str, extents: int, stripe_size: int, legs: Sequence[str], copies: int = 1) -> str:
    """Returns an lvcreate command for stripes of `stripe_size` bytes. Each leg or, if `copies` is 2, each pair of legs
    has one stripe. -y and --wipesignatures wipe old signatures; without them, lvcreate asks, and a script aborts."""
    stripes = len(legs) // copies
    kind = f"--type {'raid10' if stripes > 1 else 'raid1'} -m 1 " if copies > 1 else ""
    striped = f"-i {stripes} -I {stripe_size // 1024}k " if stripes > 1 else ""
    disks = " ".join(map(quote, legs))
    return f"lvcreate -y --wipesignatures y {kind}{striped}-l {extents} -n {quote(name)} {quote(group)} {disks}"


def _more_disks(volume: Volume, reason: str, extents: int, disks: Sequence[str]) -> tuple[str, str]:
    """Returns commands that add disks for `extents` extents to the group of `volume`."""
    least = units.size((extents + 1) * volume.extent_size)
    return f"# {reason}: add disks of {least} or more", f"vgextend {volume.group} {' '.join(disks)}"


def placeholders(count: int) -> list[str]:
    """Returns names that the user replaces with those of real disks."""
    return [f"/dev/DISK{number}" for number in range(1, count + 1)]


def add_to_fstab(source: str, target: str, kind: str, options: str = "defaults 0 2") -> str:
    """Returns a command that adds a line to fstab: printf, because some echos interpret the escapes of fstab(5)."""
    line = " ".join((*map(fstab_word, (source, target, kind)), options))
    return f"printf '%s\\n' {quote(line)} >>/etc/fstab"


def fstab_word(word: str) -> str:
    return word.replace("\\", r"\134").replace(" ", r"\040").replace("\t", r"\011")


def name_of(volume: Volume) -> str:
    return f"{volume.group}/{volume.name.strip('[]')}"


def enlarging(
    volumes: Volumes, volume: Volume, lack: int, options: str = "", data: Volume | None = None
) -> tuple[str, ...]:
    """Returns an lvextend command for at least `lack` bytes, after a vgextend if the group lacks free extents. `data`:
    the hidden volume with the data extents, if `volume` is a thin pool."""
    last = (data or volume).segments[-1]
    stripes = last.data_stripes if last.kind.startswith("raid") else last.stripes
    if last.kind == "raid1":
        stripes = 1
    elif last.kind == "striped":
        options += f"-i {stripes} "
    each = max(1, -(-lack // (volume.extent_size * stripes)))
    extend = f"lvextend {options}-l +{each * stripes} {name_of(volume)}"
    free = [physical.free for physical in volumes.of_group(volume.group)]
    roomy = sum(extents >= each for extents in free)
    if roomy >= last.stripes or (last.stripes == 1 and sum(free) >= each):
        return (extend,)
    disks = placeholders(last.stripes - roomy)
    return (*_more_disks(volume, f"{volume.group} lacks free extents", each, disks), extend)


def striping(volume: Volume, physical: Sequence[PhysicalVolume]) -> tuple[str, ...]:
    """Returns commands that create a striped volume as large as `volume`, after they add disks if necessary."""
    physical = on_own_disks(physical)
    for stripes in range(len(physical), 1, -1):
        each = -(-volume.extents // stripes)
        roomy = [leg.name for leg in physical if leg.free >= each][:stripes]
        if len(roomy) == stripes:
            return _striped(volume, each, roomy)
    stripes = max(2, len(physical))
    each, disks = -(-volume.extents // stripes), placeholders(stripes)
    reason = f"no {stripes} physical volumes of {volume.group} have enough free extents"
    return (*_more_disks(volume, reason, each, disks), *_striped(volume, each, disks))


def _striped(volume: Volume, each: int, legs: Sequence[str]) -> tuple[str, ...]:
    group, name, extents = volume.group, f"{volume.name.strip('[]')}_striped", len(legs) * each
    kind = "xfs" if extents * volume.extent_size >= XFS_MINIMUM else f"ext4 -b {PAGE}"
    return (lvcreate(group, name, extents, STRIPE, legs), f"mkfs.{kind} /dev/{group}/{name}")


def on_own_disks(physical: Sequence[PhysicalVolume]) -> list[PhysicalVolume]:
    """Returns physical volumes that share no disk. Prefers those with the most free extents."""
    disks: dict[str, PhysicalVolume] = {}
    for volume in sorted(physical, key=lambda each: -each.free):
        if disks.keys().isdisjoint(volume.disks):
            disks.update(dict.fromkeys(volume.disks or [volume.name], volume))
    return [volume for volume in physical if volume in disks.values()]


def on_one_disk(legs: Sequence[str], devices: Sequence[Device]) -> dict[str, list[str]]:
    """Maps each disk that holds several of the legs to these legs."""
    by_path = {device.path: device for device in devices}
    by_name = {device.name: device for device in devices}
    disks: dict[str, list[str]] = {}
    for leg in legs:
        below = by_path.get(leg)
        while below is not None and below.kind == "partition" and below.on:
            below = by_name.get(below.on[0])
        if below is not None:
            disks.setdefault(below.path, []).append(leg)
    return {disk: on for disk, on in disks.items() if len(on) > 1}
