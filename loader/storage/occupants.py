"""Which processes keep a directory busy: by a file that they have open or mapped there, or because they work in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loader.storage import mapped


@dataclass(frozen=True)
class Occupant:
    """`writes`: it has a file there open for writing, or mapped. `how`: the rest of a sentence about it."""

    pid: int
    name: str
    how: str
    writes: bool

    def __str__(self) -> str:
        return f"{self.name or 'a process'} (process {self.pid}) {self.how}"


def occupants(top: Path) -> list[Occupant]:
    """By what /proc tells, this process left out; those of processes that may not be looked at are missing (root sees
    all but those of other PID namespaces)."""
    found = [_occupant(pid, str(top)) for pid in sorted(map(int, mapped.others()))]
    return [one for one in found if one is not None]


def _occupant(pid: int, top: str) -> Occupant | None:
    place = f"/proc/{pid}"
    try:
        opened = [
            name for name in os.listdir(f"{place}/fd") if _is_below(f"{place}/fd/{name}", top)
        ]
        writes = any(mapped.is_writable(str(pid), name) for name in opened) or _maps(place, top)
        stays = any(_is_below(f"{place}/{name}", top) for name in ("cwd", "root", "exe"))
    except OSError:  # it has ended, or is another account's
        return None
    if not (opened or writes or stays):
        return None
    how = "writes to it" if writes else "has a file of it open" if opened else "works in it"
    return Occupant(pid, mapped.command_name(pid), how, writes)


def _is_below(link: str, top: str) -> bool:
    try:
        target = os.readlink(link)
    except OSError:
        return False
    return target == top or target.startswith(f"{top}/")


def _maps(place: str, top: str) -> bool:
    return f" {top}/".encode() in Path(f"{place}/maps").read_bytes()
