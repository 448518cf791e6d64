"""All that is known of what a path stands on: mount, file system, logical volumes, devices, space."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from loader.storage import devices, files, mounts, volumes
from loader.storage import volumes as filesystems
from loader.storage.devices import Device
from loader.storage.mounts import FstabEntry, Mount
from loader.storage.volumes import Asker, Parameters, Space, Unseen, Volume, Volumes


class Facts(msgspec.Struct, frozen=True):
    """`devices`: the upper ones first; none of a file system without one. `no_cow`: of the path, on btrfs.

    `base`: of a bind mount, the mount that its directory is reached through, and `base_fstab` its line in /etc/fstab.
    """

    path: str
    mount: Mount
    fstab: FstabEntry | None
    space: Space
    parameters: Parameters | None
    devices: tuple[Device, ...]
    volumes: Volumes
    no_cow: bool
    unseen: tuple[Unseen, ...]
    base: Mount | None = None
    base_fstab: FstabEntry | None = None

    @property
    def top(self) -> Device | None:
        """The device that the file system is on."""
        return self.devices[0] if self.devices else None

    @property
    def volume(self) -> Volume | None:
        """The logical volume that the file system is on, or the upper one of those below."""
        found = (self.volumes.at(one.path) for one in self.devices if one.kind == "lvm")
        return next((volume for volume in found if volume), None)


def of(path: Path) -> Facts:
    """Raises NoSuchPath, NotPermitted."""
    asker = Asker()
    with files.explained(path):
        mount = mounts.mount_of(path)
        space = filesystems.space(path)
        no_cow = mount.kind == "btrfs" and filesystems.is_without_cow(path)
    found = devices_of(mount)
    base = mounts.base_of(mount) if mount.is_bind else None
    return Facts(
        path=str(path),
        mount=mount,
        fstab=mounts.fstab_of(mount.target),
        space=space,
        parameters=filesystems.parameters(mount, asker),
        devices=found,
        volumes=_volumes(asker) if any(one.kind == "lvm" for one in found) else Volumes(),
        no_cow=no_cow,
        unseen=asker.unseen,
        base=base,
        base_fstab=mounts.fstab_of(base.target) if base else None,
    )


def _volumes(asker: Asker) -> Volumes:
    found = volumes.read(asker)
    physical = tuple(replace(one, disks=_disks_of(one.name)) for one in found.physical)
    return Volumes(found.logical, physical)


def _disks_of(path: str) -> tuple[str, ...]:
    number = devices.number_of(path)
    return tuple(one.path for one in devices.stack(number) if not one.on) if number else ()


def devices_of(mount: Mount) -> tuple[Device, ...]:
    """The upper ones first; none of a file system without one."""
    if not mount.device.startswith("0:"):
        return devices.stack(mount.device)
    number = devices.number_of(mount.source) if mount.kind == "btrfs" else None
    first = devices.stack(number) if number else ()
    others = devices.of_btrfs(first[0].name) if first else ()
    all_of_them = (one for each in (number, *others) if each for one in devices.stack(each))
    return tuple({one.name: one for one in all_of_them}.values())
