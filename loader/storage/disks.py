"""Disks that are to be given away: what is on them, and who has them. Nothing is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec

from loader.errors import DiskInUse, UsageProblem
from loader.storage import devices, files, mounts
from loader.storage.asking import Asker
from loader.storage.devices import Device


def unused(path: str) -> tuple[Device, ...]:
    """The device and those below it, once it is seen that nothing uses it and no signature is on it.

    Raises DiskInUse, NoSuchPath, NotPermitted, UsageProblem.
    """
    with files.explained(Path(path)):
        os.stat(path)
    number = devices.number_of(path)
    found = devices.stack(number) if number else ()
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
