"""The two volumes of a migration: their mounts, the mount and umount commands, and their lines in fstab."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from loader import child
from loader.errors import ConfigNotEditable, MigrationRefused
from loader.operations.storage.commands import fstab_word
from loader.storage import files, mounts
from loader.storage.mounts import Mount

# Mount options that every type of file system has. The new volume inherits them from the old one.
GENERAL = ("nodev", "nosuid", "noexec", "noatime", "nodiratime", "nofail", "noauto")


class Volume(msgspec.Struct, frozen=True):
    """A file system on a device. `uuid`: "" if blkid finds none. `options`: of mount -o."""

    device: str
    uuid: str
    kind: str
    options: str

    def mounting(self, path: str, device: str = "") -> list[str]:
        return ["mount", "-t", self.kind, "-o", self.options, device or self.device, path]

    def is_at(self, path: str) -> bool:
        """Returns whether the volume is mounted on `path`. Compares device paths if it cannot read a UUID."""
        mount = mounts.mounted_at(Path(path))
        return mount is not None and self._is(mount.source, is_mounted=True)

    def _is(self, device: str, is_mounted: bool = False) -> bool:
        uuid = uuid_of(device)
        if os.path.realpath(device) == os.path.realpath(self.device):
            return uuid == self.uuid or not self.uuid or (is_mounted and not uuid)
        return bool(self.uuid) and uuid == self.uuid

    def mount(self, path: str) -> None:
        """Mounts the volume on `path`, unless it is mounted there already. Raises MigrationRefused, ToolFailed."""
        if self.is_at(path):
            return
        device = self.device
        if not self._is(device):  # because the names of disks change between boots
            answer = child.run(["blkid", "-U", self.uuid])
            if answer.status != 0:
                advice = "Attach it (see lsblk -f), then run the same command again."
                reason = "no device has this file system"
                raise MigrationRefused(path=f"UUID={self.uuid}", reason=reason, advice=advice)
            device = answer.out.decode().strip()
        child.output(self.mounting(path, device))

    def unmount(self, path: str) -> None:
        if self.is_at(path):
            child.output(["umount", path])


def of(mount: Mount, fstab: Path) -> Volume:
    """Returns the volume of a mount, with the mount options that the next boot will use."""
    line = mounts.fstab_of(mount.target, fstab)
    options = line.options if line else tuple(option for option in mount.options if option in GENERAL)
    if mount.kind == "btrfs" and not any(option.startswith("subvol") for option in options):
        options += (f"subvol={mount.root}",)  # otherwise mount would use the default subvolume
    return Volume(mount.source, uuid_of(mount.source), mount.kind, ",".join(options) or "defaults")


def with_options_of(new: Volume, old: Volume | None) -> Volume:
    """Returns the new volume with its own options (except noauto) and the old volume's general options, which protect
    the directory."""
    options = [option for option in new.options.split(",") if option != "noauto"]
    more = [option for option in (old.options.split(",") if old else ()) if option in {*GENERAL} - {*options}]
    return msgspec.structs.replace(new, options=",".join([*options, *more]) or "defaults")


def uuid_of(device: str) -> str:
    """Returns the UUID of the device, or "". Reads the device (-p), because blkid's cache may be outdated."""
    answer = child.run(["blkid", "-p", "-o", "value", "-s", "UUID", device])
    return answer.out.decode("ascii", "replace").strip() if answer.status == 0 else ""


Lines = tuple[str, ...]


class Edit(msgspec.Struct, frozen=True):
    """Replaces the lines `before` of fstab by `after`. If `before` is empty, adds `after` at the end."""

    before: Lines
    after: Lines

    @property
    def left_out(self) -> Lines:
        """The comments that replace `after` in a rollback if the volume cannot be mounted. The lines `before` would
        make a boot wait for the volume."""
        comment, *rest = self.after
        mark = comment.partition(": ")[0]
        return (f"{mark}: kept, this volume could not be mounted when the migration was rolled back", *rest)


def edits(fstab: Path, path: str, other: str, new: Volume, day: str) -> tuple[Edit, ...]:
    """Returns edits that move the mount point of `new` from `other` to `path`, and turn the former lines into comments.
    The new line precedes lines that need the mount on `path`, because `mount -a` follows the order of the lines."""
    lines = _read(fstab)
    entries = [(lines[entry.number - 1], entry) for entry in mounts.entries("\n".join(lines))]
    # Names of disks may change at a boot, but names of device-mapper do not.
    source = new.device if new.device.startswith("/dev/mapper/") or not new.uuid else f"UUID={new.uuid}"
    line = " ".join((*map(fstab_word, (source, path)), new.kind, new.options, "0 2"))
    mark = f"# {day} ditseed storage migrate: "
    kept = [
        Edit((text,), (f"{mark}kept, the former volume of {path}", f"# {text}"))
        for text, entry in entries
        if entry.target == path
    ]
    is_below = partial(mounts.is_within, top=path)
    if kept:
        kept[-1] = Edit(kept[-1].before, (*kept[-1].after, line))
    else:
        # Lines that mount below `path`, or bind-mount a directory in it.
        dependents = [text for text, entry in entries if any(map(is_below, (entry.target, entry.source)))]
        before = tuple(dependents[:1])
        kept.append(Edit(before, (f"{mark}the new volume of {path}", line, *before)))
    moved = f"{mark}kept, this volume is mounted on {path} now"
    return (*kept, *(Edit((text,), (moved, f"# {text}")) for text, entry in entries if entry.target == other))


def of_volume(edits: Sequence[Edit], path: str) -> tuple[Edit, ...]:
    """Returns those edits that replace a line for the mount point `path`."""
    return tuple(edit for edit in edits if path in [entry.target for entry in mounts.entries("\n".join(edit.before))])


def apply(fstab: Path, edits: Sequence[Edit]) -> None:
    """Makes the edits that were not made before. Raises ConfigNotEditable, NotPermitted, NoSpace."""
    _replace(fstab, [(edit.before, edit.after) for edit in edits])


def undo(fstab: Path, edits: Sequence[Edit]) -> None:
    """Reverts what `apply` or `leave_out` changed."""
    lines = _read(fstab)
    is_out = {edit: _where(lines, edit.left_out) is not None for edit in edits}
    _replace(fstab, [(edit.left_out if is_out[edit] else edit.after, edit.before) for edit in edits])


def leave_out(fstab: Path, edits: Sequence[Edit]) -> None:
    """If a volume cannot be mounted: marks the comments of its lines, instead of restoring the lines."""
    lines = _read(fstab)
    _replace(fstab, [(edit.after, edit.left_out) for edit in edits if _where(lines, edit.after) is not None])


def difference(edits: Sequence[Edit], is_back: bool = False) -> Iterator[str]:
    minus, plus = ("+", "-") if is_back else ("-", "+")
    for edit in edits:
        yield from (f"{minus} {line}" for line in edit.before)
        yield from (f"{plus} {line}" for line in edit.after)


def _read(fstab: Path) -> list[str]:
    return files.read(fstab).decode("utf-8", "surrogateescape").splitlines()


def _replace(fstab: Path, changes: Sequence[tuple[Lines, Lines]]) -> None:
    """Replaces lines by others, unless that was done before. If findmnt refuses the new file, restores the old one."""
    before = files.read(fstab)
    lines = before.decode("utf-8", "surrogateescape").splitlines()
    for old, new in changes:
        start, has_new = _where(lines, old), _where(lines, new) is not None
        # Skips an edit that was made before. A longer `new` may contain the lines of `old`, so then only `new` decides.
        if has_new if len(new) > len(old) else start is None and (not new or has_new):
            continue
        if start is None:
            reason = f"it has been edited: this line is missing: {old[-1]}"
            advice = f"Write these lines into it by hand ({'; '.join(new or old)}), then run the same command again."
            raise ConfigNotEditable(path=fstab, reason=reason, advice=advice, lines=())
        lines[start : start + len(old)] = new
    after = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    if after == before:
        return

    def is_well() -> bool:
        return child.run(["findmnt", "--verify", "--tab-file", str(fstab)]).status == 0

    was_well = is_well()
    files.rewrite(fstab, before, after)
    if was_well and not is_well():
        files.rewrite(fstab, after, before)
        reason = "findmnt --verify refuses the new lines; the former ones were put back"
        advice = f"Run findmnt --verify --tab-file {fstab} to see why."
        raise ConfigNotEditable(path=fstab, reason=reason, advice=advice, lines=())
    if fstab == mounts.FSTAB and Path("/run/systemd/system").is_dir():
        child.output(["systemctl", "daemon-reload"])  # systemd generates its mount units from fstab


def _where(lines: Sequence[str], block: Lines) -> int | None:
    """Returns the index of the first line of `block` in `lines`, or None. Returns the end for an empty block."""
    if not block:
        return len(lines)
    starts = range(len(lines) - len(block) + 1)
    return next((n for n in starts if tuple(lines[n : n + len(block)]) == block), None)
