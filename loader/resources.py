"""What of this host's memory and processors the process may use: the host's own, or less by its control groups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
CONNECTIONS = 4
_OWN = Path("/proc/self/cgroup")

# cgroups(7): version 2 has one hierarchy, version 1 one for each controller.
_MEMORY = {"": "memory.max", "memory": "memory.limit_in_bytes"}


def memory() -> int:
    """Bytes of RAM, at most what the control groups allow."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([host, *(int(text) for text in _limits(_MEMORY) if text.isdigit())])


def sorting_memory() -> int:
    """Bytes that a job may use to sort unless it is given a limit: a quarter of the memory."""
    return memory() // 4


def processors() -> int:
    """Processors that this process may run on, at most what the quotas of its control groups come to."""
    quotas = [_shares(text) for text in _limits({"": "cpu.max"})]
    old = zip(_limits({"cpu": "cpu.cfs_quota_us"}), _limits({"cpu": "cpu.cfs_period_us"}), strict=False)
    quotas += [_shares(f"{quota} {period}") for quota, period in old]
    own = len(os.sched_getaffinity(0))
    return max(1, min([own, *(quota for quota in quotas if quota)]))


def connections() -> int:
    """How many to a server unless told: each keeps one of its processors busy, and it has other clients."""
    return min(CONNECTIONS, processors())


def _shares(text: str) -> int:
    """Of "200000 100000" (microseconds of each 100000); 0: no limit."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return 0
    return max(1, int(words[0]) // int(words[1]))


def _limits(files: dict[str, str]) -> Iterator[str]:
    """What stands in these files of our control groups and of those above them, by controller."""
    for controllers, path in _groups():
        for controller in controllers.split(","):
            if controller in files:
                top = CGROUPS / controller
                group = top / path.lstrip("/")
                for place in (group, *group.parents):
                    if place == top or top in place.parents:
                        yield from _content(place / files[controller])


def _groups() -> list[tuple[str, str]]:
    """Controllers and path of each control group that we are in."""
    return [group for text in _content(_OWN) for group in re.findall(r"^\d+:([^:\n]*):(/.*)$", text, re.MULTILINE)]


def _content(path: Path) -> Iterator[str]:
    try:
        yield path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return
