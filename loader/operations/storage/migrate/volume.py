"""The two volumes: what is mounted where, and mount and umount as commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join

import msgspec

from loader import child
from loader.errors import ConfigNotEditable, MigrationRefused
from loader.operations.storage.commands import fstab_word
from loader.storage import files, mounts
from loader.storage.mounts import FstabEntry, Mount

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
    more = [one for one in (old.options.split(",") if old else ()) if one in GENERAL and one not in mine]
    return msgspec.structs.replace(new, options=",".join([*mine, *more]) or "defaults")


def uuid_of(device: str) -> str:
    """From the device itself, not from a cache."""
    answer = child.ask(["blkid", "-p", "-o", "value", "-s", "UUID", device])
    return answer.out.decode("ascii", "replace").strip() if answer.status == 0 else ""


def _device_of(uuid: str) -> str:
    answer = child.ask(["blkid", "-U", uuid])
    if answer.status != 0:
        advice = "Attach it (see lsblk -f), then run the same command again."
        raise MigrationRefused(path=f"UUID={uuid}", reason="no device has this file system", advice=advice)
    return answer.out.decode().strip()


# --- fstab -----------------------------------------------------------------------------------------------------------
#
# The lines of fstab: the new one, and the former ones kept as comments; and back.


class Edit(msgspec.Struct, frozen=True):
    """A line (None: the end of the file), and the lines that take its place."""

    before: str | None
    after: tuple[str, ...]


def edits(fstab: Path, place: str, other: str, new: Volume, day: str) -> tuple[Edit, ...]:
    """`place`: where the volume will be mounted; `other`: where it is now. The new line comes before those that need
    what is mounted on `place`: `mount -a` goes from line to line."""
    line = " ".join((*map(fstab_word, (new.source, place)), new.kind, new.options, "0 2"))
    mark = f"# {day} ditseed storage migrate: "
    former = _lines(fstab, place)
    found = [Edit(one, (f"{mark}kept, the former volume of {place}", f"# {one}")) for one in former[:-1]]
    if former:
        kept = (f"{mark}kept, the former volume of {place}", f"# {former[-1]}", line)
        found.append(Edit(former[-1], kept))
    else:
        before = next((text for text, entry in _entries(fstab) if _needs(entry, place)), None)
        rest = () if before is None else (before,)
        found.append(Edit(before, (f"{mark}the new volume of {place}", line, *rest)))
    moved = f"{mark}kept, this volume is mounted on {place} now"
    return (*found, *(Edit(one, (moved, f"# {one}")) for one in _lines(fstab, other)))


def of_volume(wanted: Sequence[Edit], place: str) -> tuple[Edit, ...]:
    """Those that take the volume's line of `place` out."""
    return tuple(one for one in wanted if any(line.target == place for line in mounts.entries(one.before or "")))


def _lines(fstab: Path, place: str) -> list[str]:
    return [text for text, entry in _entries(fstab) if entry.target == place]


def _entries(fstab: Path) -> list[tuple[str, FstabEntry]]:
    text = _text(fstab)
    lines = text.splitlines()
    return [(lines[one.number - 1], one) for one in mounts.entries(text)]


def _needs(entry: FstabEntry, place: str) -> bool:
    """Is it mounted below `place`, or a bind mount from there?"""
    return mounts.is_within(entry.target, place) or mounts.is_within(entry.source, place)


def _text(fstab: Path) -> str:
    return files.read(fstab).decode("utf-8", "surrogateescape")


def apply(fstab: Path, wanted: Sequence[Edit]) -> None:
    """Do those that are not done. Raises ConfigNotEditable, NotPermitted, NoSpace."""
    _replace(fstab, [((() if one.before is None else (one.before,)), one.after) for one in wanted])


def undo(fstab: Path, wanted: Sequence[Edit]) -> None:
    """Put back what `apply` or `leave_out` changed."""
    lines = _text(fstab).splitlines()
    done = [_left_out(one) if _where(lines, _left_out(one)) is not None else one.after for one in wanted]
    former = [() if one.before is None else (one.before,) for one in wanted]
    _replace(fstab, [*zip(done, former, strict=True)])


def leave_out(fstab: Path, wanted: Sequence[Edit]) -> None:
    """Instead of `undo`, of lines whose volume cannot be mounted any more: a boot would wait for it."""
    lines = _text(fstab).splitlines()
    applied = [one for one in wanted if _where(lines, one.after) is not None]
    _replace(fstab, [(one.after, _left_out(one)) for one in applied])


def _left_out(edit: Edit) -> tuple[str, ...]:
    comment, *rest = edit.after
    mark = comment.partition(": ")[0]
    return (f"{mark}: kept, this volume could not be mounted when the migration was rolled back", *rest)


def _replace(fstab: Path, changes: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]) -> None:
    before = _text(fstab)
    lines = before.splitlines()
    for old, new in changes:
        start = _where(lines, old)
        if _is_done(lines, old, new):
            continue
        if start is None:
            raise ConfigNotEditable(
                path=fstab,
                reason=f"it has been edited: this line is missing: {old[-1]}",
                advice=f"Write these lines into it by hand ({'; '.join(new or old)}), then run the same command again.",
                lines=(),
            )
        lines[start : start + len(old)] = new
    after = "".join(f"{line}\n" for line in lines)
    if after != before:
        _write(fstab, before, after)


def _is_done(lines: Sequence[str], old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    if len(new) > len(old):  # forward: the new lines contain the old one only as a comment
        return _where(lines, new) is not None
    return _where(lines, old) is None and (not new or _where(lines, new) is not None)


def _where(lines: Sequence[str], block: tuple[str, ...]) -> int | None:
    if not block:
        return len(lines)
    starts = range(len(lines) - len(block) + 1)
    return next((n for n in starts if tuple(lines[n : n + len(block)]) == block), None)


def _write(fstab: Path, before: str, after: str) -> None:
    well = _is_well(fstab)
    old, new = (text.encode("utf-8", "surrogateescape") for text in (before, after))
    files.rewrite(fstab, old, new)
    if well and not _is_well(fstab):
        files.rewrite(fstab, new, old)
        raise ConfigNotEditable(
            path=fstab,
            reason="findmnt --verify refuses the new lines; the former ones were put back",
            advice=f"Run findmnt --verify --tab-file {fstab} to see why.",
            lines=(),
        )
    if fstab == mounts.FSTAB and Path("/run/systemd/system").is_dir():
        child.output(["systemctl", "daemon-reload"])  # it makes its mount units from fstab


def _is_well(fstab: Path) -> bool:
    return child.ask(["findmnt", "--verify", "--tab-file", str(fstab)]).status == 0


def difference(wanted: Sequence[Edit]) -> Iterator[str]:
    for one in wanted:
        if one.before is not None:
            yield f"- {one.before}"
        yield from (f"+ {line}" for line in one.after)
