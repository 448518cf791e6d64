"""Block devices: what a file system stands on, from the logical volume down to the disks (sysfs), and disks that are to
be given away: what is on them, and who has them. Nothing is written."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from loader.errors import DiskInUse, UsageProblem
from loader.storage import files, mounts
from loader.storage.volumes import Asker

SYS = Path("/sys")
_SECTOR = 512  # bytes: the unit of sizes and starts in sysfs, whatever the device's sectors are
_DM_KINDS = {"LVM": "lvm", "CRYPT": "crypt", "mpath": "multipath"}


class Device(msgspec.Struct, frozen=True):
    """Sizes in bytes. `min_io` and `opt_io`: 0 or as small as a sector where the device states none.

    `kind`: disk, partition, lvm, crypt, multipath, dm, loop, or md and its level. `on`: names of those below it.
    `scheduler` and `write_cache`: None where it has none of its own. `file`: what a loop device shows.
    """

    name: str
    path: str
    kind: str
    size: int
    start: int
    alignment_offset: int
    logical_sector: int
    physical_sector: int
    min_io: int
    opt_io: int
    rotational: bool
    read_ahead: int
    scheduler: str | None
    schedulers: tuple[str, ...]
    write_cache: str | None
    on: tuple[str, ...]
    file: str | None = None
    read_only: bool = False


def stack(number: str, sys: Path = SYS) -> tuple[Device, ...]:
    """The device of that number ("254:0") and all that it stands on, the upper ones first, each once."""
    place = sys / "dev/block" / number
    return tuple(_down([place.resolve()], sys)) if place.exists() else ()


def number_of(source: str) -> str | None:
    """The number of a block device by its path: btrfs gives its mounts a number that no device has."""
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if status.st_rdev else None


def of_btrfs(name: str, sys: Path = SYS) -> tuple[str, ...]:
    """Numbers of all devices of the btrfs that `name` belongs to."""
    for group in sys.glob("fs/btrfs/*/devices"):
        if (group / name).exists():
            return tuple(_text(one / "dev") for one in sorted(group.iterdir()))
    return ()


def _down(places: list[Path], sys: Path) -> Iterator[Device]:
    met = set()
    while places:
        place, *places = places
        if place.name not in met:
            met.add(place.name)
            below = _below(place)
            yield _device(place, below)
            places += below


def _below(place: Path) -> list[Path]:
    if (place / "partition").exists():
        return [place.parent]
    return [one.resolve() for one in sorted(place.glob("slaves/*"))]


def _device(place: Path, below: list[Path]) -> Device:
    queue = (place.parent if (place / "partition").exists() else place) / "queue"
    offered, chosen = _schedulers(_text(queue / "scheduler"))
    dm = _text(place / "dm/name")
    return Device(
        name=place.name,
        path=f"/dev/mapper/{dm}" if dm else f"/dev/{place.name.replace('!', '/')}",
        kind=_kind(place),
        size=_number(place / "size") * _SECTOR,
        start=_number(place / "start") * _SECTOR,
        alignment_offset=_number(place / "alignment_offset"),
        logical_sector=_number(queue / "logical_block_size"),
        physical_sector=_number(queue / "physical_block_size"),
        min_io=_number(queue / "minimum_io_size"),
        opt_io=_number(queue / "optimal_io_size"),
        rotational=_text(queue / "rotational") == "1",
        read_ahead=_number(queue / "read_ahead_kb") * 1024,
        scheduler=chosen,
        schedulers=offered,
        write_cache=_text(queue / "write_cache") or None,
        on=tuple(one.name for one in below),
        file=_text(place / "loop/backing_file") or None,
        read_only=_text(place / "ro") == "1",
    )


def _kind(place: Path) -> str:
    if (place / "partition").exists():
        return "partition"
    if (place / "dm").exists():
        return _DM_KINDS.get(_text(place / "dm/uuid").partition("-")[0], "dm")
    if (place / "md").exists():
        return f"md {_text(place / 'md/level')}"
    return "loop" if (place / "loop").exists() else "disk"


def _schedulers(text: str) -> tuple[tuple[str, ...], str | None]:
    """Of "none [mq-deadline]": what it offers, and the one in use."""
    chosen = re.search(r"\[(.+?)\]", text)
    return tuple(re.findall(r"[\w-]+", text)), chosen[1] if chosen else None


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() else 0


def _text(path: Path) -> str:
    """Empty where the kernel or the kind of device has no such file."""
    try:
        return path.read_text(errors="surrogateescape").strip()
    except OSError:
        return ""


# --- disks -----------------------------------------------------------------------------------------------------------
#
# Disks that are to be given away: what is on them, and who has them. Nothing is written.


def unused(path: str) -> tuple[Device, ...]:
    """The device and those below it, once it is seen that nothing uses it and no signature is on it.

    Raises DiskInUse, NoSuchPath, NotPermitted, UsageProblem.
    """
    with files.explained(Path(path)):
        os.stat(path)
    number = number_of(path)
    found = stack(number) if number else ()
    if not found:
        raise UsageProblem(reason=f"{path} is not a block device")
    mounted = _mounted_on(str(number))
    if mounted:
        raise DiskInUse(path=path, reason=f"is mounted on {mounted}")
    held = _signatures(path)
    if held:
        raise DiskInUse(path=path, reason=_told(held))
    _require_free(path)
    return found


def _mounted_on(number: str) -> str | None:
    known = mounts.parse(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    return next((one.target for one in known.values() if one.device == number), None)


def _require_free(path: str) -> None:
    """The kernel lets nobody have a block device for itself that is mounted, swapped to, or below another one."""
    with files.explained(Path(path)):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            reason = "is in use: mounted, swap space, or part of another device"
            raise DiskInUse(path=path, reason=reason) from None


def _signatures(path: str) -> tuple[str, ...]:
    """Their kinds; wipefs without options only reads."""
    with files.explained(Path(path)):
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    asker = Asker()
    text = asker.output("signatures", "wipefs", "--json", path)
    found = asker.parsed("signatures", "wipefs", text, _parse)
    if found is None:
        why = "; ".join(one.why for one in asker.unseen)
        raise DiskInUse(path=path, reason=f"cannot be searched for signatures ({why})")
    return found


def _parse(text: str) -> tuple[str, ...]:
    if not text.strip():  # nothing at all is how some versions say it
        return ()
    told: Any = msgspec.json.decode(text, type=dict[str, list[dict[str, Any]]])
    return tuple(str(one["type"]) for one in told["signatures"])


def _told(kinds: tuple[str, ...]) -> str:
    if "LVM2_member" in kinds:
        return "is a physical volume of LVM already"
    return f"holds a signature ({', '.join(dict.fromkeys(kinds))})"
