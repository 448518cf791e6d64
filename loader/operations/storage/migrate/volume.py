"""The two volumes: what is mounted where, and mount and umount as commands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import join

import msgspec

from loader import child
from loader.errors import MigrationRefused
from loader.storage import mounts
from loader.storage.mounts import Mount

# Options that a line of fstab should keep when another volume comes into its place: they are no file system's own.
GENERAL = ("nodev", "nosuid", "noexec", "noatime", "nodiratime", "nofail", "noauto")


class Volume(msgspec.Struct, frozen=True):
    """A file system on a device. `uuid`: its own, "" where blkid tells none. `options`: for mount -o."""

    device: str
    uuid: str
    kind: str
    options: str

    @property
    def source(self) -> str:
        """As fstab should name it: names of disks change between boots, those of device-mapper do not."""
        stays = self.device.startswith("/dev/mapper/") or not self.uuid
        return self.device if stays else f"UUID={self.uuid}"

    def mounting(self, place: str) -> list[str]:
        return ["mount", "-t", self.kind, "-o", self.options, self.device, place]

    def is_at(self, place: str) -> bool:
        """A mounted device that cannot be read any more is known by its path."""
        found = mounts.mounted_at(Path(place))
        return found is not None and self._is(found.source, is_mounted=True)

    def _is(self, device: str, is_mounted: bool = False) -> bool:
        uuid = uuid_of(device)
        if os.path.realpath(device) == os.path.realpath(self.device):
            return uuid == self.uuid or not self.uuid or (is_mounted and not uuid)
        return bool(self.uuid) and uuid == self.uuid

    def mount(self, place: str) -> None:
        """Nothing to do where it is mounted already. Raises MigrationRefused, ToolFailed."""
        if not self.is_at(place):
            device = self.device if self._is(self.device) else _device_of(self.uuid)
            child.output([*self.mounting(place)[:-2], device, place])

    def unmount(self, place: str) -> None:
        if self.is_at(place):
            child.output(unmounting(place))


def unmounting(place: str) -> list[str]:
    return ["umount", place]


def told(commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(map(join, commands))


def of(mount: Mount, fstab: Path) -> Volume:
    """A mounted one, with the options that the next boot mounts it with."""
    line = mounts.fstab_of(mount.target, fstab)
    options = line.options if line else tuple(one for one in mount.options if one in GENERAL)
    if mount.kind == "btrfs" and not any(one.startswith("subvol") for one in options):
        options += (f"subvol={mount.root}",)  # without it, its default subvolume would be mounted
    return Volume(mount.source, uuid_of(mount.source), mount.kind, ",".join(options) or "defaults")


def with_options_of(new: Volume, old: Volume | None) -> Volume:
    """What protects the place today shall do so tomorrow; whether a boot mounts it depends on the place, too."""
    mine = [one for one in new.options.split(",") if one != "noauto"]
    more = [
        one for one in (old.options.split(",") if old else ()) if one in GENERAL and one not in mine
    ]
    return msgspec.structs.replace(new, options=",".join([*mine, *more]) or "defaults")


def uuid_of(device: str) -> str:
    """From the device itself, not from a cache."""
    answer = child.ask(["blkid", "-p", "-o", "value", "-s", "UUID", device])
    return answer.out.decode("ascii", "replace").strip() if answer.status == 0 else ""


def _device_of(uuid: str) -> str:
    answer = child.ask(["blkid", "-U", uuid])
    if answer.status != 0:
        advice = "Attach it (see lsblk -f), then run the same command again."
        raise MigrationRefused(
            path=f"UUID={uuid}", reason="no device has this file system", advice=advice
        )
    return answer.out.decode().strip()
